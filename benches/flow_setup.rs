//! Flow setup: the first packet of a TCP connection through a ClusterIP, resolved, and both its flows installed. Times
//! are per connection.
//!
//! The table is in a steady state: between the measured parts the flows grow too old, and their slots are taken again.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use vrouter_benches::{DEFAULT_SLOTS, Layout, Newcomers, Place, Round, Site};
use vrouter_forward::Family;

const BURST: usize = 64;

fn measure(criterion: &mut Criterion, id: BenchmarkId, layout: Layout, burst: usize) {
    let mut group = criterion.benchmark_group("flow-setup");
    group.throughput(Throughput::Elements(1));
    let site = Site::new(layout);
    let mut lane = site.router.lane(0);
    let mut traffic = Newcomers::new(&site);
    let mut round = Round::new(&traffic, burst);
    group.bench_function(id, |bencher| {
        bencher.iter_custom(|connections| round.time(connections, &mut traffic, &mut lane));
    });
    round.check();
    group.finish();
}

fn flow_setup(criterion: &mut Criterion) {
    let layout = Layout::new(1_000, DEFAULT_SLOTS);
    for members in [1, 3, 10] {
        measure(criterion, BenchmarkId::new("members", members), Layout { members, ..layout }, BURST);
    }
    measure(criterion, BenchmarkId::new("burst", 1), Layout { members: 3, ..layout }, 1);
    let ipv6 = Layout { family: Family::V6, members: 3, ..layout };
    measure(criterion, BenchmarkId::new("ipv6", 3), ipv6, BURST);
    let cross = Layout { place: Place::Cross, members: 3, ..layout };
    measure(criterion, BenchmarkId::new("to-tunnel", 3), cross, BURST);
}

criterion_group!(benches, flow_setup);
criterion_main!(benches);
