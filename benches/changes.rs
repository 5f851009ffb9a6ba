//! Changes to the tables: what one costs the agent, and what many cost the packets of flows that they do not concern.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use vrouter_benches::{DEFAULT_SLOTS, Direction, Established, Layout, Round, Site};
use vrouter_objects::Object;

const SERVICES: usize = 10_000;
const MEMBERS: usize = 10;
const BURST: usize = 64;
/// Fifty changes a second.
const PAUSE: Duration = Duration::from_millis(20);

fn layout() -> Layout {
    Layout { members: MEMBERS, ..Layout::new(SERVICES, DEFAULT_SLOTS) }
}

/// Changes of one endpoint each: it joins one service after the other, and then leaves one after the other. It is the
/// member of no flow.
struct Changes<'a> {
    site: &'a Site,
    turn: usize,
}

impl<'a> Changes<'a> {
    fn new(site: &'a Site) -> Self {
        Self { site, turn: 0 }
    }

    /// The next service that changes, as it will be.
    fn next(&mut self) -> Object {
        // A stride that has no factor in common with the number of services: neighbours do not follow each other.
        let service = self.turn * 7_919 % SERVICES;
        let joined = 1 - self.turn / SERVICES % 2;
        self.turn += 1;
        self.site.service(service, MEMBERS + joined)
    }
}

/// From the change of a service's endpoints until workers find the new snapshot. The old one is freed within.
fn publish(criterion: &mut Criterion) {
    let site = Site::new(layout());
    let mut changes = Changes::new(&site);
    criterion.bench_function("changes/publish", |bencher| {
        bencher.iter_batched(|| changes.next(), |service| site.router.put([service]), BatchSize::SmallInput);
    });
}

/// Ends the changes when it goes, also where what is measured panics: the scope waits for their thread.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `measured` while another thread publishes change after change.
fn while_changing<T>(site: &Site, measured: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut changes = Changes::new(site);
            while !is_over.load(Ordering::Relaxed) {
                site.router.put([changes.next()]);
                thread::sleep(PAUSE);
            }
        });
        let _ending = Ending(&is_over);
        measured()
    })
}

/// Established flows, without changes and with fifty a second.
fn established(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("changes/established");
    group.throughput(Throughput::Elements(1));
    for flows in [1_000, 100_000] {
        let bench = Established::new(layout(), flows / 2);
        let mut lane = bench.site.router.lane(0);
        let mut traffic = bench.traffic(Direction::Both, 0, 1);
        let mut round = Round::new(&traffic, BURST);
        let mut measure = |id| {
            group.bench_function(id, |bencher| {
                bencher.iter_custom(|packets| round.time(packets, &mut traffic, &mut lane));
            });
        };
        measure(BenchmarkId::new("none", flows));
        while_changing(&bench.site, || measure(BenchmarkId::new("50-per-second", flows)));
        round.check();
    }
    group.finish();
}

criterion_group!(benches, publish, established);
criterion_main!(benches);
