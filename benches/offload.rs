//! Super-frames: cut into segments where an egress cannot take them, and gathered where segments come in.

use std::net::IpAddr;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use vrouter_forward::frame::{Frame, Ingress, MAX_FRAME, Offload, PortId};
use vrouter_forward::offload::{Cut, Run, SegmentChecksum, recognise};
use vrouter_forward::sim::PacketBuilder;

/// Payload of a segment that fits a tunnel over an Ethernet.
const SEGMENT: usize = 1_398;
/// As many as a super-frame is gathered from at most: 64,000 bytes.
const SEGMENTS: usize = 45;
const ACK: u8 = 0x10;
const TIMESTAMPS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1];

/// One kind of traffic.
struct Kind {
    name: &'static str,
    segments: Vec<Vec<u8>>,
}

fn packet(number: usize) -> PacketBuilder {
    PacketBuilder::new(IpAddr::from([10, 244, 1, 2]), IpAddr::from([10, 244, 2, 3]))
        .identification(number as u16)
        .payload(&[number as u8; SEGMENT])
}

fn kinds() -> [Kind; 2] {
    let tcp = |number: usize| {
        let sequence = (number * SEGMENT) as u32;
        packet(number).tcp_segment(40_000, 80, ACK, sequence, 1, &TIMESTAMPS).build()
    };
    let udp = |number: usize| packet(number).udp(40_000, 53).build();
    [
        Kind { name: "tcp", segments: (0..SEGMENTS).map(tcp).collect() },
        Kind { name: "udp", segments: (0..SEGMENTS).map(udp).collect() },
    ]
}

/// Gathers segments into `whole`, as they are when they come out of a tunnel: nothing is known of their checksums.
fn gather(segments: &[Vec<u8>], whole: &mut Frame) {
    let (first, others) = segments.split_first().expect("there are segments");
    whole.reset();
    whole.set(first);
    let mut run = Run::begin(first, &recognise(first)).expect("others can follow it");
    for next in others {
        let is_taken = run.accept(whole.bytes(), next, &Offload::default());
        assert!(is_taken && whole.append(&next[run.header_len()..]), "all are of one run");
    }
    whole.offload = run.write_headers(whole.bytes_mut());
}

fn super_frame(kind: &Kind) -> Frame {
    let mut whole = Frame::with_capacity(MAX_FRAME);
    whole.ingress = Ingress::Port(PortId(1));
    gather(&kind.segments, &mut whole);
    whole
}

fn cut_of(whole: &Frame) -> Cut {
    let segmentation = whole.offload.segmentation.expect("it is a super-frame");
    Cut::of(whole.bytes(), segmentation).expect("it can be cut")
}

/// Headers only, payload sent from where it lies: as for a tunnel.
fn split_headers(group: &mut BenchmarkGroup<'_, WallTime>, kind: &Kind, whole: &Frame) {
    let mut headers = vec![0; cut_of(whole).header_len() * SEGMENTS];
    group.bench_function(format!("split-headers/{}", kind.name), |bencher| {
        bencher.iter(|| {
            let cut = cut_of(whole);
            for (index, headers) in headers.chunks_exact_mut(cut.header_len()).enumerate() {
                cut.write_headers(whole.bytes(), index, SegmentChecksum::Full, headers);
            }
        });
    });
}

/// Every segment a frame of its own: as for an egress without offloads.
fn split_frames(group: &mut BenchmarkGroup<'_, WallTime>, kind: &Kind, whole: &Frame) {
    let mut segments: Vec<_> =
        (0..SEGMENTS).map(|_| Frame::from_bytes(&kind.segments[0], whole.ingress)).collect();
    group.bench_function(format!("split-frames/{}", kind.name), |bencher| {
        bencher.iter(|| {
            let cut = cut_of(whole);
            for (index, segment) in segments.iter_mut().enumerate() {
                cut.copy_segment(whole, index, SegmentChecksum::Full, segment);
            }
        });
    });
}

/// Segments to a super-frame, their checksums verified on the way: as out of a tunnel.
fn merge(group: &mut BenchmarkGroup<'_, WallTime>, kind: &Kind) {
    let mut whole = Frame::with_capacity(MAX_FRAME);
    group.bench_function(format!("merge/{}", kind.name), |bencher| {
        bencher.iter(|| gather(&kind.segments, &mut whole));
    });
    assert_ne!(whole.offload, Offload::default(), "it became a super-frame");
}

fn super_frames(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("offload");
    group.throughput(Throughput::Bytes((SEGMENT * SEGMENTS) as u64));
    for kind in kinds() {
        let whole = super_frame(&kind);
        split_headers(&mut group, &kind, &whole);
        split_frames(&mut group, &kind, &whole);
        merge(&mut group, &kind);
    }
    group.finish();
}

criterion_group!(benches, super_frames);
criterion_main!(benches);
