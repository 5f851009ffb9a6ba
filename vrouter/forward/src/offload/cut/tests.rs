use super::*;
use crate::offload::testing::{
    Segment, cut, leave_checksum, read_back, super_frame, with_extension, with_ipv4_option,
};

fn flags(frame: &Frame) -> u8 {
    frame.bytes()[Layout::of(frame.bytes()).unwrap().transport() + TCP_FLAGS]
}

#[test]
fn the_segments_are_what_the_sender_would_have_sent() {
    for segment in Segment::all() {
        let whole = segment.clone().payload(3_500);
        let frame = super_frame(&whole, 1_000);
        let segments = cut(frame.bytes(), &frame.offload, SegmentChecksum::Full);
        let expected: Vec<_> = whole
            .payload
            .chunks(1_000)
            .enumerate()
            .map(|(index, payload)| {
                let part = segment.clone().with(|part| {
                    part.payload = payload.to_vec();
                    part.id += index as u16;
                    part.sequence += 1_000 * index as u32;
                });
                part.build()
            })
            .collect();
        assert_eq!(segments.iter().map(Frame::bytes).collect::<Vec<_>>(), expected);
        for (segment, payload) in segments.iter().zip(whole.payload.chunks(1_000)) {
            assert_eq!(read_back(segment.bytes()), payload);
            assert_eq!(segment.offload, Offload { checksum: Checksum::Valid, segmentation: None });
        }
    }
}

#[test]
fn a_checksum_left_partial_is_the_seed_of_that_segment() {
    for segment in Segment::all() {
        let frame = super_frame(&segment.payload(2_500), 1_000);
        let full = cut(frame.bytes(), &frame.offload, SegmentChecksum::Full);
        let partial = cut(frame.bytes(), &frame.offload, SegmentChecksum::Partial);
        for (full, partial) in full.iter().zip(&partial) {
            let expected = leave_checksum(full.bytes());
            assert_eq!(partial.bytes(), expected.bytes());
            assert_eq!(partial.offload, expected.offload);
        }
    }
}

#[test]
fn flags_belong_to_the_first_or_the_last() {
    const ACK: u8 = 0x10;
    let whole = Segment::tcp4().payload(300).with(|whole| whole.flags = 0x80 | 0x40 | ACK | 0x08 | 0x01);
    let frame = super_frame(&whole, 100);
    let segments = cut(frame.bytes(), &frame.offload, SegmentChecksum::Full);
    let seen: Vec<_> = segments.iter().map(flags).collect();
    // ECE stays on all of them: it says something about the other direction.
    assert_eq!(seen, [0x80 | 0x40 | ACK, 0x40 | ACK, 0x40 | ACK | 0x08 | 0x01]);
}

#[test]
fn numbers_wrap_around() {
    let whole = Segment::tcp4().payload(300).with(|whole| {
        whole.sequence = u32::MAX - 50;
        whole.id = u16::MAX;
    });
    let frame = super_frame(&whole, 100);
    let segments = cut(frame.bytes(), &frame.offload, SegmentChecksum::Full);
    let numbers: Vec<_> =
        segments.iter().map(|part| (read_u16(part.bytes(), 18), read_u32(part.bytes(), 38))).collect();
    assert_eq!(numbers, [(u16::MAX, u32::MAX - 50), (0, 49), (1, 149)]);
}

#[test]
fn options_and_extension_headers_go_with_every_segment() {
    let tcp4 = with_ipv4_option(&Segment::tcp4().payload(250).build());
    let udp6 = with_extension(&Segment::udp6().payload(250).build());
    for (bytes, kind) in [(tcp4, SegmentKind::Tcp), (udp6, SegmentKind::Udp)] {
        let layout = Layout::of(&bytes).unwrap();
        let offload = Offload {
            checksum: leave_checksum(&bytes).offload.checksum,
            segmentation: Some(Segmentation { kind, size: 100.try_into().unwrap() }),
        };
        let segments = cut(&bytes, &offload, SegmentChecksum::Full);
        let mut payload = Vec::new();
        for segment in &segments {
            assert_eq!(Layout::of(segment.bytes()).unwrap().payload(), layout.payload());
            payload.extend(read_back(segment.bytes()));
        }
        assert_eq!(payload, bytes[layout.payload()..]);
    }
}

#[test]
fn offl_9_a_whole_super_frame_gets_its_ip_checksum_and_seed() {
    for segment in Segment::all() {
        let expected = super_frame(&segment.payload(2_500), 1_000);
        let mut spoilt = expected.bytes().to_vec();
        let cut = Cut::of(&spoilt, expected.offload.segmentation.unwrap()).unwrap();
        write_u16(&mut spoilt, cut.layout.transport() + cut.layout.checksum_offset(), 0);
        if cut.family() == Family::V4 {
            write_u16(&mut spoilt, 24, 0);
        }
        cut.write_whole_checksums(&mut spoilt);
        assert_eq!(spoilt, expected.bytes());
    }
}

#[test]
fn offl_10_gso_size_is_payload_per_segment() {
    for (payload, count) in [(1, 1), (1_397, 1), (1_398, 1), (1_399, 2), (2_796, 2), (2_797, 3)] {
        let frame = super_frame(&Segment::tcp4().payload(payload), 1_398);
        let cut = Cut::of(frame.bytes(), frame.offload.segmentation.unwrap()).unwrap();
        assert_eq!(cut.count(), count, "{payload} bytes of payload");
    }
}

#[test]
fn offl_13_datagram_boundaries_are_kept() {
    let frame = super_frame(&Segment::udp4().payload(5_000), 1_000);
    let segments = cut(frame.bytes(), &frame.offload, SegmentChecksum::Full);
    assert_eq!(segments.iter().map(|part| read_back(part.bytes()).len()).collect::<Vec<_>>(), [1_000; 5]);
}

#[test]
fn offl_14_the_segment_is_what_fits_a_link_not_the_super_frame() {
    let frame = super_frame(&Segment::tcp4().payload(20_000), 1_398);
    let cut = Cut::of(frame.bytes(), frame.offload.segmentation.unwrap()).unwrap();
    assert_eq!(cut.frame_len(), 14 + 20 + 32 + 1_398);
    let short = super_frame(&Segment::tcp4().payload(700), 1_398);
    let cut = Cut::of(short.bytes(), short.offload.segmentation.unwrap()).unwrap();
    assert_eq!(cut.frame_len(), 14 + 20 + 32 + 700);
}

#[test]
fn offl_15_only_its_own_transport_cuts_a_packet() {
    for (segment, kind) in [(Segment::udp4(), SegmentKind::Tcp), (Segment::tcp6(), SegmentKind::Udp)] {
        let frame = segment.payload(500).build();
        assert_eq!(Cut::of(&frame, Segmentation { kind, size: 100.try_into().unwrap() }), None);
    }
}

#[test]
fn a_trailer_is_in_no_segment() {
    let mut frame = super_frame(&Segment::udp4().payload(150), 100);
    frame.extend(9).unwrap().fill(0xaa);
    let segments = cut(frame.bytes(), &frame.offload, SegmentChecksum::Full);
    assert_eq!(segments.iter().map(|part| read_back(part.bytes()).len()).collect::<Vec<_>>(), [100, 50]);
}
