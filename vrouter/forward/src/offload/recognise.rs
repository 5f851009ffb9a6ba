//! Finding out what a packet's sender left undone, where no offload header says it: out of a tunnel.
//!
//! On a wire nothing is left undone. But a sender on the same machine may have left it to hardware that never
//! came by: a veth, or a virtual machine's interface, delivers what the sender's kernel put together, and a
//! UDP socket is told nothing of it.

use std::num::NonZeroU16;

use vrouter_arch::checksum::{add, sum};

use super::checksum::pseudo_header_sum;
use super::layout::Layout;
use crate::frame::{Checksum, Offload, SegmentKind, Segmentation};
use crate::parse::read_u16;

/// A super-frame's segments were to be of this size, as far as is known. To TCP any size is right; this one
/// fits every link that IPv6 may use, with all headers. So a single packet that was never to be cut may as
/// well be taken for a super-frame: it does no harm, whereas a super-frame taken for a packet fits no link,
/// however often it is sent again.
const ASSUMED_SIZE: NonZeroU16 = NonZeroU16::new(1180).unwrap();

/// The offload of a frame that comes without an offload header. Its checksum is valid; or partial, if it is
/// just the pseudo-header's sum; otherwise nothing is known of it.
pub fn recognise(frame: &[u8]) -> Offload {
    let Some(layout) = Layout::of(frame) else { return Offload::default() };
    let checksum = recognise_checksum(frame, &layout);
    let is_super_frame = layout.kind() == SegmentKind::Tcp
        && matches!(checksum, Checksum::Partial { .. })
        && layout.payload_len() > usize::from(ASSUMED_SIZE.get());
    let segmentation = Segmentation { kind: layout.kind(), size: ASSUMED_SIZE };
    Offload { checksum, segmentation: is_super_frame.then_some(segmentation) }
}

fn recognise_checksum(frame: &[u8], layout: &Layout) -> Checksum {
    let (start, offset) = (layout.transport(), layout.checksum_offset());
    let field = read_u16(frame, start + offset);
    let covered = &frame[start..layout.end()];
    let seed = pseudo_header_sum(frame, layout, covered.len());
    if layout.kind() == SegmentKind::Udp && field == 0 {
        Checksum::Unverified
    } else if field == seed {
        // By chance it may be valid too. Then completing it changes nothing.
        Checksum::Partial { start: start as u16, offset: offset as u16 }
    } else if add(seed, sum(covered)) == 0xffff {
        Checksum::Valid
    } else {
        Checksum::Unverified
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::testing::{Segment, leave_checksum};
    use crate::offload::{finish_checksum, has_valid_checksum};
    use crate::parse::write_u16;

    #[test]
    fn a_checksum_is_recognised_for_what_it_is() {
        for segment in Segment::all() {
            let whole = segment.payload(100).build();
            assert_eq!(recognise(&whole), Offload { checksum: Checksum::Valid, segmentation: None });
            let partial = leave_checksum(&whole);
            assert_eq!(recognise(partial.bytes()), partial.offload);
            let mut bad = whole;
            *bad.last_mut().unwrap() ^= 1;
            assert_eq!(recognise(&bad), Offload::default());
        }
        let mut none = Segment::udp4().payload(100).build();
        write_u16(&mut none, 40, 0);
        assert_eq!(recognise(&none), Offload::default());
        assert_eq!(recognise(&[0; 60]), Offload::default());
    }

    #[test]
    fn a_partial_checksum_that_happens_to_be_valid_is_partial_and_stays_as_it_is() {
        for segment in Segment::all() {
            let mut frame = leave_checksum(&segment.payload(20_000).build());
            let layout = Layout::of(frame.bytes()).unwrap();
            // The payload that brings the sum to what the checksum says.
            write_u16(frame.bytes_mut(), layout.payload(), 0);
            let covered = layout.transport()..layout.end();
            let seed = pseudo_header_sum(frame.bytes(), &layout, covered.len());
            let missing = !add(seed, sum(&frame.bytes()[covered]));
            write_u16(frame.bytes_mut(), layout.payload(), missing);
            assert!(has_valid_checksum(frame.bytes(), &layout));
            assert_eq!(recognise(frame.bytes()).checksum, frame.offload.checksum);
            let before = frame.bytes().to_vec();
            finish_checksum(&mut frame);
            assert_eq!(frame.bytes(), before);
        }
    }

    #[test]
    fn a_super_frame_is_recognised_by_being_long_and_incomplete() {
        for segment in Segment::all() {
            let is_tcp = segment.kind == SegmentKind::Tcp;
            for (payload, is_long) in [(1_180, false), (1_181, true), (20_000, true)] {
                let whole = segment.clone().payload(payload).build();
                assert_eq!(recognise(&whole).segmentation, None);
                let seen = recognise(leave_checksum(&whole).bytes()).segmentation;
                assert_eq!(seen.is_some(), is_long && is_tcp);
            }
        }
    }
}
