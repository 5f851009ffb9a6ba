//! The checksums of IP, TCP and UDP.

use vrouter_arch::checksum::{add, sum};
use vrouter_objects::IpProtocol;

use super::layout::{IPV4_CHECKSUM, IPV4_LENGTH, IPV6_LEN, IPV6_LENGTH, Layout, UDP_CHECKSUM};
use crate::address::Family;
use crate::checksum::{self, header_checksum, udp_checksum};
use crate::frame::{Checksum, Frame, SegmentKind};
use crate::parse::{read_u16, write_u16};
use crate::rewrite::address_fields;

/// Completes a partial checksum in place; other frames stay as they are.
///
/// The checksum field holds the sum over the pseudo-header, so the sum over everything from the transport
/// header on is the whole sum. A super-frame's checksums belong to its segments: they are completed as it is
/// cut, see [`Cut`](super::Cut).
pub fn finish_checksum(frame: &mut Frame) {
    let Checksum::Partial { start, offset } = frame.offload.checksum else { return };
    if frame.offload.segmentation.is_some() {
        return;
    }
    let Some(covered) = frame.bytes_mut().get_mut(usize::from(start)..) else { return };
    let checksum = !sum(covered);
    let offset = usize::from(offset);
    // Only UDP's checksum lies there, and only to UDP zero means that there is none.
    let checksum = if offset == UDP_CHECKSUM { udp_checksum(checksum) } else { checksum };
    let Some(field) = covered.get_mut(offset..offset + 2) else { return };
    field.copy_from_slice(&checksum.to_be_bytes());
    frame.offload.checksum = Checksum::Valid;
}

/// Whether the packet's transport checksum is right. A UDP checksum of zero is not: there is none.
pub fn has_valid_checksum(frame: &[u8], layout: &Layout) -> bool {
    let field = read_u16(frame, layout.transport() + layout.checksum_offset());
    if layout.kind() == SegmentKind::Udp && field == 0 {
        return false;
    }
    let covered = &frame[layout.transport()..layout.end()];
    add(pseudo_header_sum(frame, layout, covered.len()), sum(covered)) == 0xffff
}

/// The sum over the pseudo-header of a packet with these headers and this many bytes of transport header and
/// payload.
pub(super) fn pseudo_header_sum(headers: &[u8], layout: &Layout, transport_len: usize) -> u16 {
    let (source_at, destination_at, len) = address_fields(layout.family());
    let address = |at: usize| &headers[layout.network() + at..layout.network() + at + len];
    let protocol = match layout.kind() {
        SegmentKind::Tcp => IpProtocol::TCP,
        SegmentKind::Udp => IpProtocol::UDP,
    };
    checksum::pseudo_header_sum(address(source_at), address(destination_at), protocol.0, transport_len)
}

/// Whether the IP header's own checksum is right; IPv6 has none.
pub(super) fn has_valid_ip_header(frame: &[u8], layout: &Layout) -> bool {
    match layout.family() {
        Family::V4 => sum(&frame[layout.network()..layout.transport()]) == 0xffff,
        Family::V6 => true,
    }
}

/// Whether the IP header says that the packet ends where the layout does.
pub(super) fn has_ip_length(frame: &[u8], layout: &Layout) -> bool {
    let network = layout.network();
    let (field, counted_from) = match layout.family() {
        Family::V4 => (network + IPV4_LENGTH, network),
        Family::V6 => (network + IPV6_LENGTH, network + IPV6_LEN),
    };
    counted_from + usize::from(read_u16(frame, field)) == layout.end()
}

/// Writes the length of an IP packet whose transport header and payload have `transport_len` bytes, and its
/// header's checksum.
pub(super) fn write_ip_length(headers: &mut [u8], layout: &Layout, transport_len: usize) {
    let network = layout.network();
    match layout.family() {
        Family::V4 => {
            write_u16(headers, network + IPV4_LENGTH, (layout.transport() - network + transport_len) as u16);
            write_u16(headers, network + IPV4_CHECKSUM, 0);
            let checksum = header_checksum(&headers[network..layout.transport()]);
            write_u16(headers, network + IPV4_CHECKSUM, checksum);
        }
        Family::V6 => {
            let extensions_len = layout.transport() - network - IPV6_LEN;
            write_u16(headers, network + IPV6_LENGTH, (extensions_len + transport_len) as u16);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::testing::{Segment, frame_of, leave_checksum};

    fn finished(bytes: &[u8]) -> Frame {
        let mut frame = leave_checksum(bytes);
        finish_checksum(&mut frame);
        frame
    }

    #[test]
    fn a_finished_checksum_is_what_the_sender_would_have_written() {
        for segment in [Segment::tcp4(), Segment::tcp6(), Segment::udp4(), Segment::udp6()] {
            for payload in [0, 1, 2, 7, 100, 1399] {
                let whole = segment.clone().payload(payload).build();
                let frame = finished(&whole);
                assert_eq!(frame.bytes(), whole);
                assert_eq!(frame.offload.checksum, Checksum::Valid);
                assert!(has_valid_checksum(frame.bytes(), &Layout::of(&whole).unwrap()));
            }
        }
    }

    #[test]
    fn offl_3_a_udp_checksum_of_zero_is_sent_as_ffff() {
        for segment in [Segment::udp4(), Segment::udp6()] {
            let mut whole = segment.payload(2).build();
            let layout = Layout::of(&whole).unwrap();
            let field = layout.transport() + layout.checksum_offset();
            // What the checksum is without a payload is the payload that brings it to zero.
            write_u16(&mut whole, layout.payload(), 0);
            let without = read_u16(finished(&whole).bytes(), field);
            write_u16(&mut whole, layout.payload(), without);
            let frame = finished(&whole);
            assert_eq!(read_u16(frame.bytes(), field), 0xffff);
            assert!(has_valid_checksum(frame.bytes(), &layout));
        }
    }

    #[test]
    fn a_checksum_outside_the_frame_is_left_alone() {
        for (start, offset) in [(34, 5000), (5000, 6), (u16::MAX, u16::MAX)] {
            let bytes = Segment::udp4().payload(10).build();
            let mut frame = frame_of(&bytes);
            frame.offload.checksum = Checksum::Partial { start, offset };
            finish_checksum(&mut frame);
            assert_eq!(frame.bytes(), bytes);
        }
    }

    #[test]
    fn a_wrong_checksum_and_none_are_not_valid() {
        let mut frame = Segment::udp4().payload(10).build();
        let layout = Layout::of(&frame).unwrap();
        assert!(has_valid_checksum(&frame, &layout));
        frame[layout.payload()] ^= 1;
        assert!(!has_valid_checksum(&frame, &layout));
        write_u16(&mut frame, layout.transport() + 6, 0);
        assert!(!has_valid_checksum(&frame, &layout));
    }
}
