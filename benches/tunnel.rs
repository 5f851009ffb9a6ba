//! What a packet costs at a tunnel besides its way through the router (`established`: `to-tunnel`, `from-tunnel`) and the
//! eight bytes of VXLAN header: on the way in, finishing a checksum that a pod left undone; on the way out, finding out
//! whether the sender left one undone.

use std::hint::black_box;
use std::net::IpAddr;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use vrouter_forward::frame::{Checksum, Frame, Ingress, PortId};
use vrouter_forward::offload::{finish_checksum, recognise};
use vrouter_forward::sim::PacketBuilder;

const ACK: u8 = 0x10;
/// Where an IPv4 packet's TCP header begins, and its checksum in it.
const PARTIAL: Checksum = Checksum::Partial { start: 34, offset: 16 };
const PAYLOADS: [usize; 3] = [0, 64, 1_398];

fn packet(payload: usize) -> Frame {
    let packet = PacketBuilder::new(IpAddr::from([10, 244, 1, 2]), IpAddr::from([10, 244, 2, 3]));
    let bytes = packet.tcp(40_000, 80, ACK).payload(&vec![7; payload]).build();
    Frame::from_bytes(&bytes, Ingress::Port(PortId(1)))
}

fn entry(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tunnel/finish-checksum");
    for payload in PAYLOADS {
        let mut frame = packet(payload);
        group.throughput(Throughput::Bytes(frame.len() as u64));
        group.bench_function(BenchmarkId::from_parameter(payload), |bencher| {
            bencher.iter(|| {
                frame.offload.checksum = PARTIAL;
                finish_checksum(black_box(&mut frame));
            });
        });
    }
    group.finish();
}

fn exit(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tunnel/recognise");
    for payload in PAYLOADS {
        let frame = packet(payload);
        group.throughput(Throughput::Bytes(frame.len() as u64));
        group.bench_function(BenchmarkId::from_parameter(payload), |bencher| {
            bencher.iter(|| recognise(black_box(frame.bytes())));
        });
    }
    group.finish();
}

criterion_group!(benches, entry, exit);
criterion_main!(benches);
