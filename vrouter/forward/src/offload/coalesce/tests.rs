use super::*;
use crate::checksum::header_checksum;
use crate::frame::Frame;
use crate::offload::testing::{
    Segment, cut, frame_of, leave_checksum, read_back, with_extension, with_ipv4_option,
};
use crate::offload::{SegmentChecksum, finish_checksum};

/// Packet `index` of a stream of packets of `len` bytes.
fn part(segment: &Segment, index: usize, len: usize) -> Segment {
    segment.clone().payload(len).with(|part| {
        part.id = part.id.wrapping_add(index as u16);
        part.sequence = part.sequence.wrapping_add((index * len) as u32);
    })
}

/// Gathers as many of the frames as one run takes; returns the super-frame.
fn gather(frames: &[Frame]) -> (Run, Vec<u8>, Offload) {
    let first = frames[0].bytes();
    let mut run = Run::begin(first, &frames[0].offload).unwrap();
    let mut merged = first.to_vec();
    for next in &frames[1..] {
        if !run.accept(first, next.bytes(), &next.offload) {
            break;
        }
        merged.extend_from_slice(&next.bytes()[run.header_len()..]);
    }
    let offload = run.write_headers(&mut merged);
    (run, merged, offload)
}

/// Whether these two become one.
fn merges(first: &[u8], next: &[u8]) -> bool {
    let (first, next) = (frame_of(first), frame_of(next));
    Run::begin(first.bytes(), &first.offload)
        .is_some_and(|mut run| run.accept(first.bytes(), next.bytes(), &next.offload))
}

#[test]
fn cutting_a_gathered_run_gives_the_packets_back() {
    for segment in Segment::all() {
        let mut frames: Vec<_> =
            (0..5).map(|index| frame_of(&part(&segment, index, 1_000).build())).collect();
        let last = part(&segment, 5, 1_000).with(|last| {
            last.payload.truncate(300);
            if last.kind == SegmentKind::Tcp {
                last.flags |= TcpFlags::PSH;
            }
        });
        frames.push(frame_of(&last.build()));
        let (run, merged, offload) = gather(&frames);
        assert_eq!(run.count(), 6);
        let segments = cut(&merged, &offload, SegmentChecksum::Full);
        let bytes = |frames: &[Frame]| frames.iter().map(|frame| frame.bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(bytes(&segments), bytes(&frames));
    }
}

/// The packet with its checksums put right, as if its headers were where this layout says, whatever they say themselves.
fn with_checksums(packet: &[u8], layout: &Layout) -> Vec<u8> {
    let mut frame = frame_of(packet);
    let (network, transport) = (layout.network(), layout.transport());
    let bytes = frame.bytes_mut();
    if layout.family() == Family::V4 {
        write_u16(bytes, network + 10, 0);
        let checksum = header_checksum(&bytes[network..transport]);
        write_u16(bytes, network + 10, checksum);
    }
    let (start, offset) = (transport as u16, layout.checksum_offset() as u16);
    let seed = pseudo_header_sum(bytes, layout, layout.end() - transport);
    write_u16(bytes, transport + layout.checksum_offset(), seed);
    frame.offload.checksum = Checksum::Partial { start, offset };
    finish_checksum(&mut frame);
    frame.bytes().to_vec()
}

/// The next packet is not parsed, so whatever bit of its headers is another, it is given back or not taken.
#[test]
fn no_bit_of_a_header_is_lost() {
    for segment in Segment::all() {
        // Where it may not be fragmented, an IPv4 id means nothing.
        let segment = segment.with(|segment| segment.may_fragment = true);
        let [first, next] = [0, 1].map(|index| part(&segment, index, 100).build());
        let layout = Layout::of(&next).unwrap();
        let mut merged_with = 0;
        for bit in 0..layout.payload() * 8 {
            let mut other = next.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            let frames = [first.clone(), with_checksums(&other, &layout)].map(|packet| frame_of(&packet));
            let (run, merged, offload) = gather(&frames);
            if run.count() == 2 {
                let packets = cut(&merged, &offload, SegmentChecksum::Full);
                assert!(packets.iter().map(Frame::bytes).eq(frames.iter().map(Frame::bytes)), "bit {bit}");
                merged_with += 1;
            }
        }
        // Those of the checksums were put right again; the others are one bit of TCP's, to push.
        assert!((16..=33).contains(&merged_with), "{:?} {:?}: {merged_with}", segment.kind, segment.family);
    }
}

#[test]
fn offl_9_a_gathered_frame_has_an_ip_checksum_and_the_seed() {
    for segment in Segment::all() {
        let frames: Vec<_> =
            (0..3).map(|index| leave_checksum(&part(&segment, index, 500).build())).collect();
        let (_, merged, offload) = gather(&frames);
        let whole = segment.clone().payload(0).with(|whole| {
            whole.payload = (0..3).flat_map(|index| part(&segment, index, 500).payload).collect();
        });
        let expected = leave_checksum(&whole.build());
        assert_eq!(merged, expected.bytes());
        assert_eq!(offload.checksum, expected.offload.checksum);
    }
}

#[test]
fn offl_4_zero_checksum_udp_is_never_gathered_and_never_bad() {
    let datagram = |index| {
        let mut frame = part(&Segment::udp4(), index, 100).build();
        write_u16(&mut frame, 40, 0);
        frame
    };
    assert!(Run::begin(&datagram(0), &Offload::default()).is_none());
    assert!(!merges(&part(&Segment::udp4(), 0, 100).build(), &datagram(1)));
}

#[test]
fn offl_5_a_bad_checksum_keeps_a_packet_out_of_a_run() {
    for segment in Segment::all() {
        let good = |index| part(&segment, index, 100).build();
        let bad = |index| {
            let mut frame = good(index);
            *frame.last_mut().unwrap() ^= 1;
            frame
        };
        assert!(merges(&good(0), &good(1)));
        assert!(!merges(&bad(0), &good(1)));
        assert!(!merges(&good(0), &bad(1)));
    }
    let mut bad_ip_header = part(&Segment::tcp4(), 1, 100).build();
    bad_ip_header[24] ^= 1;
    assert!(!merges(&part(&Segment::tcp4(), 0, 100).build(), &bad_ip_header));
}

#[test]
fn offl_6_packets_that_differ_in_any_field_are_not_gathered() {
    type Change = fn(&mut Segment);
    let differences: [(&str, Change); 10] = [
        ("ttl", |next| next.ttl -= 1),
        ("dscp", |next| next.traffic_class = 0x10),
        ("ecn", |next| next.traffic_class = 0x03),
        ("source port", |next| next.source_port += 1),
        ("sequence", |next| next.sequence += 1),
        ("repeated sequence", |next| next.sequence -= 100),
        ("acknowledgement", |next| next.acknowledgement += 1),
        ("window", |next| next.window += 1),
        ("flags", |next| next.flags |= 0x40),
        ("length", |next| next.payload.push(0)),
    ];
    for segment in Segment::all() {
        let first = part(&segment, 0, 100).build();
        assert!(merges(&first, &part(&segment, 1, 100).build()));
        for (field, change) in differences {
            let next = part(&segment, 1, 100).with(change).build();
            if next != part(&segment, 1, 100).build() {
                assert!(!merges(&first, &next), "{:?} {:?} {field}", segment.kind, segment.family);
            }
        }
    }
    let versions = (part(&Segment::tcp4(), 0, 100).build(), part(&Segment::tcp6(), 1, 100).build());
    assert!(!merges(&versions.0, &versions.1));
    let transports = (part(&Segment::udp4(), 0, 100).build(), part(&Segment::tcp4(), 1, 100).build());
    assert!(!merges(&transports.0, &transports.1));
}

#[test]
fn offl_6_ids_grow_by_one_or_mean_nothing() {
    let udp = |id, may_fragment| {
        let packet = Segment::udp4().payload(100);
        packet.with(|packet| (packet.id, packet.may_fragment) = (id, may_fragment)).build()
    };
    let table = [
        (false, [100, 101, 102], 3),
        (false, [100, 100, 100], 3),
        (false, [u16::MAX, 0, 1], 3),
        (false, [100, 101, 101], 2),
        (false, [100, 100, 101], 2),
        (false, [100, 102, 104], 1),
        (true, [100, 101, 102], 3),
        (true, [100, 100, 100], 1),
    ];
    for (may_fragment, ids, count) in table {
        let frames = ids.map(|id| frame_of(&udp(id, may_fragment)));
        assert_eq!(gather(&frames).0.count(), count, "ids {ids:?}");
    }
    assert!(!merges(&udp(100, false), &udp(101, true)), "DF differs");
}

#[test]
fn offl_7_options_and_extension_headers_are_never_lost() {
    for segment in [Segment::tcp4(), Segment::udp4()] {
        let [first, next] = [0, 1].map(|index| with_ipv4_option(&part(&segment, index, 100).build()));
        assert!(!merges(&first, &next));
    }
    for segment in [Segment::tcp6(), Segment::udp6()] {
        let [first, next] = [0, 1].map(|index| with_extension(&part(&segment, index, 100).build()));
        assert!(!merges(&first, &next));
    }
    for segment in [Segment::tcp4(), Segment::tcp6()] {
        let next = part(&segment, 1, 100).with(|next| next.timestamp += 1).build();
        assert!(!merges(&part(&segment, 0, 100).build(), &next));
    }
}

#[test]
fn fragments_tags_and_trailers_are_left_alone() {
    let plain = Segment::udp4().payload(100).build();
    let mut first_fragment = plain.clone();
    first_fragment[20] = 0x20;
    let mut with_trailer = plain.clone();
    with_trailer.push(0);
    let mut tagged = plain.clone();
    tagged.splice(12..12, [0x81, 0, 0, 0]);
    let mut short_udp_length = plain.clone();
    short_udp_length[39] -= 1;
    for frame in [first_fragment, with_trailer, tagged, short_udp_length] {
        assert!(Run::begin(&frame, &Offload::default()).is_none());
    }
}

#[test]
fn a_packet_that_does_not_fill_its_frame_continues_no_run() {
    for segment in Segment::all() {
        let [first, next] = [0, 1].map(|index| part(&segment, index, 100).build());
        let shorter = part(&segment, 1, 100).with(|next| next.payload.truncate(98)).build();
        // It would have room, and its zeroes change no sum.
        let trailed = [&shorter[..], &[0, 0]].concat();
        assert!(merges(&first, &shorter));
        for other in [&trailed[..], &next[..next.len() - 1], &next[..next.len() - 100], &[]] {
            assert!(!merges(&first, other), "{:?} {:?}, {} bytes", segment.kind, segment.family, other.len());
        }
    }
}

#[test]
fn only_plain_data_begins_or_continues_a_run() {
    // FIN, SYN, RST, URG, ECE, CWR, each with ACK.
    for flags in [0x11, 0x12, 0x14, 0x30, 0x50, 0x90] {
        let special = part(&Segment::tcp4(), 1, 100).with(|segment| segment.flags = flags).build();
        assert!(Run::begin(&special, &Offload::default()).is_none(), "flags {flags:#x}");
        assert!(!merges(&part(&Segment::tcp4(), 0, 100).build(), &special), "flags {flags:#x}");
    }
    let acknowledgement = part(&Segment::tcp4(), 0, 0).build();
    assert!(Run::begin(&acknowledgement, &Offload::default()).is_none());
}

#[test]
fn a_shorter_or_pushed_packet_is_the_last() {
    for segment in Segment::all() {
        let mut frames: Vec<_> = (0..4).map(|index| frame_of(&part(&segment, index, 100).build())).collect();
        let shorter = part(&segment, 1, 100).with(|part| part.payload.truncate(99));
        frames[1] = frame_of(&shorter.build());
        assert_eq!(gather(&frames).0.count(), 2);
    }
    let tcp = Segment::tcp6();
    let mut frames: Vec<_> = (0..4).map(|index| frame_of(&part(&tcp, index, 100).build())).collect();
    frames[1] = frame_of(&part(&tcp, 1, 100).with(|part| part.flags |= TcpFlags::PSH).build());
    let (run, merged, _) = gather(&frames);
    assert_eq!((run.count(), merged[54 + TCP_FLAGS]), (2, TcpFlags::ACK | TcpFlags::PSH));
    assert!(Run::begin(frames[1].bytes(), &Offload::default()).is_none());
}

#[test]
fn a_run_has_bounds() {
    for segment in Segment::all() {
        let gathered = |len| {
            let frames: Vec<_> =
                (0..100).map(|index| frame_of(&part(&segment, index, len).build())).collect();
            gather(&frames)
        };
        assert_eq!(gathered(10).0.count(), MAX_SEGMENTS);
        let (run, merged, _) = gathered(1_400);
        assert!(merged.len() <= MAX_GATHERED && merged.len() + 1_400 > MAX_GATHERED, "{}", run.count());
    }
}

#[test]
fn a_super_frame_is_no_part_of_another() {
    let bytes = part(&Segment::tcp4(), 0, 1_000).build();
    let mut frame = leave_checksum(&bytes);
    frame.offload.segmentation = Some(Segmentation { kind: SegmentKind::Tcp, size: 100.try_into().unwrap() });
    assert!(Run::begin(frame.bytes(), &frame.offload).is_none());
}

#[test]
fn payload_arrives_in_order() {
    let frames: Vec<_> = (0..3).map(|index| frame_of(&part(&Segment::tcp6(), index, 333).build())).collect();
    let (_, merged, offload) = gather(&frames);
    let received: Vec<_> = cut(&merged, &offload, SegmentChecksum::Full)
        .iter()
        .flat_map(|segment| read_back(segment.bytes()))
        .collect();
    let sent: Vec<_> = (0..3).flat_map(|index| part(&Segment::tcp6(), index, 333).payload).collect();
    assert_eq!(received, sent);
}
