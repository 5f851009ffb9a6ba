//! Parsing: what kind of packet it is, and where its headers are.

use std::hint::black_box;
use std::net::IpAddr;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use vrouter_forward::parse::parse;
use vrouter_forward::sim::PacketBuilder;

const ACK: u8 = 0x10;

fn v4() -> PacketBuilder {
    PacketBuilder::new(IpAddr::from([10, 244, 1, 2]), IpAddr::from([10, 96, 0, 10]))
}

fn v6() -> PacketBuilder {
    let address = |last| IpAddr::from([0xfd00, 0x10, 0x244, 1, 0, 0, 0, last]);
    PacketBuilder::new(address(2), address(3))
}

/// A destination options header and a routing header with nothing left to do.
fn extended() -> PacketBuilder {
    v6().extension(60, &[0, 0, 1, 4, 0, 0, 0, 0]).extension(43, &[0, 0, 0, 0, 0, 0, 0, 0])
}

fn packets() -> Vec<(&'static str, Vec<u8>)> {
    let payload = [0; 64];
    vec![
        ("ipv4-tcp", v4().tcp(40_000, 80, ACK).payload(&payload).build()),
        ("ipv4-udp", v4().udp(40_000, 53).payload(&payload).build()),
        ("ipv4-options-tcp", v4().ip_options(&[1, 1, 1, 0]).tcp(40_000, 80, ACK).payload(&payload).build()),
        ("ipv4-later-fragment", v4().udp(40_000, 53).payload(&payload).build_fragments(32).remove(1)),
        ("ipv6-tcp", v6().tcp(40_000, 80, ACK).payload(&payload).build()),
        ("ipv6-extensions-tcp", extended().tcp(40_000, 80, ACK).payload(&payload).build()),
    ]
}

fn headers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parse");
    group.throughput(Throughput::Elements(1));
    for (name, packet) in packets() {
        assert!(parse(&packet).is_ok(), "{name}");
        group.bench_function(name, |bencher| bencher.iter(|| parse(black_box(&packet))));
    }
    group.finish();
}

criterion_group!(benches, headers);
criterion_main!(benches);
