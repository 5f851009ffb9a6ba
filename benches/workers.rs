//! One worker, and two at once on two threads, each with half of the flows. Times are per packet of all workers together,
//! so twice the throughput is half the time: what workers share per packet would show here. It needs two idle cores.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use vrouter_benches::{DEFAULT_SLOTS, Direction, Established, Layout, Round};

const SERVICES: usize = 1_000;
const BURST: usize = 64;

/// How long so many packets take, shared among so many workers.
fn time(bench: &Established, workers: usize, packets: u64) -> Duration {
    let share = packets.div_ceil(workers as u64);
    let start = Barrier::new(workers);
    let work = |worker: usize| {
        let mut lane = bench.site.router.lane(worker);
        let mut traffic = bench.traffic(Direction::Both, worker, workers);
        let mut round = Round::new(&traffic, BURST);
        round.take(&mut traffic, &mut lane);
        start.wait();
        round.time(share, &mut traffic, &mut lane)
    };
    let slowest = thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|worker| scope.spawn(move || work(worker))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no worker panics")).max()
    });
    slowest.unwrap_or_default()
}

fn scaling(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("workers");
    group.throughput(Throughput::Elements(1));
    for flows in [1_000, 100_000] {
        let layout = Layout { workers: 2, ..Layout::new(SERVICES, DEFAULT_SLOTS) };
        let bench = Established::new(layout, flows / 2);
        for workers in [1, 2] {
            let id = BenchmarkId::new(format!("flows/{flows}"), workers);
            group.bench_function(id, |bencher| bencher.iter_custom(|packets| time(&bench, workers, packets)));
        }
    }
    group.finish();
}

criterion_group!(benches, scaling);
criterion_main!(benches);
