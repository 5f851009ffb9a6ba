//! The established path: TCP segments through a ClusterIP, NATed, per packet, by how many connections there are.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use vrouter_benches::{BURST, Established, refill};

fn established(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("established-nat");
    group.throughput(Throughput::Elements(BURST as u64));
    for connections in [1, 1_000, 100_000] {
        let mut bench = Established::new(connections);
        let originals: Vec<_> = (0..256).map(|seed| bench.burst(seed)).collect();
        let mut burst = bench.burst(0);
        let now = bench.cluster.now;
        let node = &mut bench.cluster.nodes[0];
        node.process_burst(now, &mut burst);
        assert!(burst.frames.iter().all(|frame| frame.egress.is_some()), "every packet is forwarded");
        let mut next = 0;
        group.bench_function(BenchmarkId::from_parameter(connections), |bencher| {
            bencher.iter(|| {
                refill(&mut burst, &originals[next % originals.len()]);
                next += 1;
                node.process_burst(now, &mut burst);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, established);
criterion_main!(benches);
