//! The established path: TCP segments of 64 bytes through a ClusterIP, translated on their way there and back, each of a
//! random flow. Times are per packet.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use vrouter_benches::{DEFAULT_SLOTS, Direction, Established, Layout, Place, Round, Target};
use vrouter_forward::Family;

const SERVICES: usize = 1_000;
/// Where the number of flows is not the question.
const FLOWS: usize = 1_000;
const BURST: usize = 64;

fn layout() -> Layout {
    Layout::new(SERVICES, DEFAULT_SLOTS)
}

fn measure(
    criterion: &mut Criterion,
    id: BenchmarkId,
    bench: &Established,
    direction: Direction,
    burst: usize,
) {
    let mut group = criterion.benchmark_group("established");
    group.throughput(Throughput::Elements(1));
    let mut lane = bench.site.router.lane(0);
    let mut traffic = bench.traffic(direction, 0, 1);
    let mut round = Round::new(&traffic, burst);
    group.bench_function(id, |bencher| {
        bencher.iter_custom(|packets| round.time(packets, &mut traffic, &mut lane));
    });
    round.check();
    group.finish();
}

/// By how many flows the packets are of, and how many packets come together.
fn flows(criterion: &mut Criterion) {
    for flows in [1, 1_000, 100_000, 1_000_000_usize] {
        let bench = Established::new(layout(), flows.div_ceil(2));
        let direction = if flows == 1 { Direction::Forward } else { Direction::Both };
        for burst in [1, 64, 256] {
            let id = BenchmarkId::new(format!("flows/{flows}/burst"), burst);
            measure(criterion, id, &bench, direction, burst);
        }
    }
}

/// By how many services there are.
fn services(criterion: &mut Criterion) {
    for services in [10, 10_000] {
        let bench = Established::new(Layout { services, ..layout() }, FLOWS / 2);
        measure(criterion, BenchmarkId::new("services", services), &bench, Direction::Both, BURST);
    }
}

/// The other family, no translation, and both sides of a tunnel (`tunnel` has what `io` does to the packets there).
fn variants(criterion: &mut Criterion) {
    let ipv6 = Established::new(Layout { family: Family::V6, ..layout() }, FLOWS / 2);
    measure(criterion, BenchmarkId::new("ipv6", FLOWS), &ipv6, Direction::Both, BURST);
    let plain = Established::new(Layout { target: Target::Members, ..layout() }, FLOWS / 2);
    measure(criterion, BenchmarkId::new("plain", FLOWS), &plain, Direction::Both, BURST);
    let cross = Established::new(Layout { place: Place::Cross, ..layout() }, FLOWS / 2);
    measure(criterion, BenchmarkId::new("to-tunnel", FLOWS), &cross, Direction::Forward, BURST);
    measure(criterion, BenchmarkId::new("from-tunnel", FLOWS), &cross, Direction::Reply, BURST);
}

criterion_group!(benches, flows, services, variants);
criterion_main!(benches);
