//! The Internet checksum's sum, by size: an IPv4 header, small packets, full ones, a jumbo frame, a super-frame.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use vrouter_arch::checksum::sum;

const SIZES: [usize; 8] = [20, 64, 128, 256, 576, 1_448, 8_948, 65_535];

fn by_size(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("checksum");
    for size in SIZES {
        let bytes: Vec<u8> = (0..size).map(|at| (at * 7 + at / 251) as u8).collect();
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
            bencher.iter(|| sum(black_box(&bytes)));
        });
    }
    group.finish();
}

criterion_group!(benches, by_size);
criterion_main!(benches);
