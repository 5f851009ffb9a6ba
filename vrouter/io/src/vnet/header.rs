//! The virtio-net header that stands before every frame on a TAP or a packet socket, read and written.
//!
//! Its ten bytes are in the machine's own byte order. What is read comes from whoever can write to the interface, so
//! nothing in it is believed: every offset must lie within the frame, and the segmentation fit what the frame is.

use std::num::NonZeroU16;

use vrouter_forward::Family;
use vrouter_forward::frame::{Checksum, Offload, SegmentKind, Segmentation};
use vrouter_forward::offload::{Layout, MAX_SEGMENTS};
use vrouter_forward::parse::parse;

/// Bytes of header before the frame.
pub(crate) const HEADER_LEN: usize = 10;

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the checksum is partial.
const NEEDS_CHECKSUM: u8 = 1;
/// `VIRTIO_NET_HDR_F_DATA_VALID`: the checksum was verified.
const DATA_VALID: u8 = 2;

const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Beside a TCP type: the sender uses ECN, so that CWR may be set. Cutting treats CWR rightly in any case.
const GSO_ECN: u8 = 0x80;

/// TCP segments of fewer bytes only come as few as they are: no sender keeps to so small ones for long (Linux's
/// `TCP_MIN_SND_MSS`, of which options take their part).
const SMALL_TCP_SEGMENT: u16 = 48;
/// The most datagrams that a UDP sender can leave to be cut (Linux's `UDP_MAX_SEGMENTS`).
pub(crate) const MAX_DATAGRAMS: usize = 128;

/// The header, field by field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct VnetHeader {
    flags: u8,
    gso_type: u8,
    header_len: u16,
    gso_size: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

/// The header does not fit the frame behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InvalidHeader;

impl VnetHeader {
    pub(crate) fn from_bytes(bytes: &[u8; HEADER_LEN]) -> Self {
        let [flags, gso_type, fields @ ..] = *bytes;
        let (fields, _) = fields.as_chunks::<2>();
        Self {
            flags,
            gso_type,
            header_len: u16::from_ne_bytes(fields[0]),
            gso_size: u16::from_ne_bytes(fields[1]),
            checksum_start: u16::from_ne_bytes(fields[2]),
            checksum_offset: u16::from_ne_bytes(fields[3]),
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; HEADER_LEN] {
        let [a, b] = self.header_len.to_ne_bytes();
        let [c, d] = self.gso_size.to_ne_bytes();
        let [e, f] = self.checksum_start.to_ne_bytes();
        let [g, h] = self.checksum_offset.to_ne_bytes();
        [self.flags, self.gso_type, a, b, c, d, e, f, g, h]
    }

    /// What a received frame's header says, if it can be true.
    ///
    /// A checksum is completed where the header says, at the very end, when nobody looks any more at what it
    /// overwrites: so it must be the packet's own checksum and nothing else.
    pub(crate) fn decode(&self, frame: &[u8]) -> Result<Offload, InvalidHeader> {
        if self.flags & NEEDS_CHECKSUM == 0 {
            let checksum = if self.flags & DATA_VALID == 0 { Checksum::Unverified } else { Checksum::Valid };
            let is_plain = self.gso_type == GSO_NONE;
            return if is_plain { Ok(Offload { checksum, segmentation: None }) } else { Err(InvalidHeader) };
        }
        let Some(layout) = Layout::of(frame) else {
            // What cannot be parsed is dropped for that, further on, with the very reason.
            return if parse(frame).is_err() { Ok(Offload::default()) } else { Err(InvalidHeader) };
        };
        let (start, offset) = (self.checksum_start, self.checksum_offset);
        if (usize::from(start), usize::from(offset)) != (layout.transport(), layout.checksum_offset()) {
            return Err(InvalidHeader);
        }
        let segmentation = self.decode_segmentation(&layout)?;
        Ok(Offload { checksum: Checksum::Partial { start, offset }, segmentation })
    }

    fn decode_segmentation(&self, layout: &Layout) -> Result<Option<Segmentation>, InvalidHeader> {
        let (kind, family) = match self.gso_type & !GSO_ECN {
            GSO_NONE => return Ok(None),
            GSO_TCPV4 => (SegmentKind::Tcp, Family::V4),
            GSO_TCPV6 => (SegmentKind::Tcp, Family::V6),
            GSO_UDP_L4 => (SegmentKind::Udp, layout.family()),
            _ => return Err(InvalidHeader),
        };
        let size = NonZeroU16::new(self.gso_size).ok_or(InvalidHeader)?;
        let segmentation = Segmentation { kind, size };
        let count = layout.payload_len().div_ceil(size.get().into());
        let is_fitting = (kind, family) == (layout.kind(), layout.family())
            && usize::from(self.header_len) <= layout.end();
        if !is_fitting || count > most_segments(segmentation) {
            return Err(InvalidHeader);
        }
        Ok((count > 1).then_some(segmentation))
    }

    /// Whether the kernel is told of a super-frame.
    #[cfg(test)]
    pub(crate) fn is_super_frame(&self) -> bool {
        self.gso_type != GSO_NONE
    }

    /// The header of one packet.
    pub(crate) fn of_packet(checksum: Checksum) -> Self {
        match checksum {
            Checksum::Unverified => Self::default(),
            Checksum::Valid => Self { flags: DATA_VALID, ..Self::default() },
            Checksum::Partial { start, offset } => Self {
                flags: NEEDS_CHECKSUM,
                checksum_start: start,
                checksum_offset: offset,
                ..Self::default()
            },
        }
    }

    /// The header of a super-frame of this IP version, with so many bytes of headers.
    pub(crate) fn of_super_frame(
        checksum: Checksum,
        segmentation: Segmentation,
        family: Family,
        header_len: usize,
    ) -> Self {
        let gso_type = match (segmentation.kind, family) {
            (SegmentKind::Tcp, Family::V4) => GSO_TCPV4,
            (SegmentKind::Tcp, Family::V6) => GSO_TCPV6,
            (SegmentKind::Udp, _) => GSO_UDP_L4,
        };
        let gso_size = segmentation.size.get();
        Self { gso_type, gso_size, header_len: header_len as u16, ..Self::of_packet(checksum) }
    }
}

/// How many packets one frame may become, so that little work for a sender does not make much for everyone else.
fn most_segments(segmentation: Segmentation) -> usize {
    match segmentation.kind {
        SegmentKind::Tcp if segmentation.size.get() < SMALL_TCP_SEGMENT => MAX_SEGMENTS,
        SegmentKind::Tcp => usize::MAX,
        SegmentKind::Udp => MAX_DATAGRAMS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Transport, leave_checksum, packet, super_frame};
    use vrouter_forward::frame::Frame;
    use vrouter_forward::offload::{Cut, finish_checksum};

    fn announced(frame: &Frame) -> VnetHeader {
        let segmentation = frame.offload.segmentation.unwrap();
        let cut = Cut::of(frame.bytes(), segmentation).unwrap();
        VnetHeader::of_super_frame(frame.offload.checksum, segmentation, cut.family(), cut.header_len())
    }

    fn tcp_header() -> VnetHeader {
        VnetHeader {
            flags: NEEDS_CHECKSUM,
            gso_type: GSO_TCPV4,
            header_len: 54,
            gso_size: 100,
            checksum_start: 34,
            checksum_offset: 16,
        }
    }

    #[test]
    fn the_bytes_are_as_linux_lays_them_out() {
        let header = VnetHeader {
            flags: 1,
            gso_type: 5,
            header_len: 0x0102,
            gso_size: 0x0304,
            checksum_start: 0x0506,
            checksum_offset: 0x0708,
        };
        let bytes = header.to_bytes();
        assert_eq!(bytes[..2], [1, 5]);
        assert_eq!(bytes[2..4], 0x0102_u16.to_ne_bytes());
        assert_eq!(bytes[8..10], 0x0708_u16.to_ne_bytes());
        assert_eq!(VnetHeader::from_bytes(&bytes), header);
    }

    #[test]
    fn what_is_written_reads_back() {
        for transport in Transport::ALL {
            let plain = leave_checksum(&packet(transport, 0, 1_000));
            let header = VnetHeader::of_packet(plain.offload.checksum);
            assert_eq!(header.decode(plain.bytes()), Ok(plain.offload), "{transport:?}");
            let whole = super_frame(transport, 1_000, 100);
            let header = announced(&whole);
            assert_eq!(header.decode(whole.bytes()), Ok(whole.offload), "{transport:?}");
        }
    }

    #[test]
    fn a_header_that_cannot_be_true_is_refused() {
        let frame = packet(Transport::Tcp4, 0, 1_000);
        let ok = tcp_header();
        assert!(ok.decode(&frame).is_ok());
        let plain = VnetHeader { gso_type: GSO_NONE, ..ok };
        let table = [
            (
                "checksum over the IP header too",
                VnetHeader { checksum_start: 14, checksum_offset: 36, ..plain },
            ),
            (
                "checksum in place of the destination",
                VnetHeader { checksum_offset: 0, checksum_start: 30, ..plain },
            ),
            ("checksum in place of the ports", VnetHeader { checksum_offset: 2, ..plain }),
            ("checksum behind the frame", VnetHeader { checksum_start: 2_000, ..plain }),
            (
                "offsets that overflow",
                VnetHeader { checksum_start: u16::MAX, checksum_offset: u16::MAX, ..plain },
            ),
            ("no segment size", VnetHeader { gso_size: 0, ..ok }),
            ("segmentation without checksum", VnetHeader { flags: 0, ..ok }),
            ("checksum not at the transport header", VnetHeader { checksum_start: 30, ..ok }),
            ("UDP's checksum offset", VnetHeader { checksum_offset: 6, ..ok }),
            ("header longer than the frame", VnetHeader { header_len: 2_000, ..ok }),
            ("UDP fragmentation offload", VnetHeader { gso_type: 3, ..ok }),
            ("unknown type", VnetHeader { gso_type: 77, ..ok }),
            ("the other IP version", VnetHeader { gso_type: GSO_TCPV6, ..ok }),
        ];
        for (problem, header) in table {
            assert_eq!(header.decode(&frame), Err(InvalidHeader), "{problem}");
        }
    }

    #[test]
    fn what_cannot_be_parsed_is_left_to_the_parser() {
        let frame = packet(Transport::Tcp4, 0, 200);
        for len in 0..frame.len() {
            assert_eq!(tcp_header().decode(&frame[..len]), Ok(Offload::default()), "{len} bytes");
        }
    }

    #[test]
    fn only_tcp_and_udp_packets_have_partial_checksums() {
        let mut fragment = packet(Transport::Udp4, 0, 200);
        fragment[20] = 0x20;
        let mut sctp = packet(Transport::Udp4, 0, 200);
        sctp[23] = 132;
        for frame in [fragment, sctp] {
            let header = VnetHeader { checksum_offset: 6, gso_type: GSO_NONE, ..tcp_header() };
            assert_eq!(header.decode(&frame), Err(InvalidHeader));
        }
    }

    #[test]
    fn offl_10_a_payload_of_one_segment_is_no_super_frame() {
        for (payload, is_super_frame) in [(99, false), (100, false), (101, true)] {
            let frame = packet(Transport::Tcp4, 0, payload);
            assert_eq!(tcp_header().decode(&frame).unwrap().segmentation.is_some(), is_super_frame);
        }
    }

    #[test]
    fn a_frame_becomes_only_so_many_packets() {
        let table = [
            (Transport::Tcp4, 60_000, 1, false),
            (Transport::Tcp6, 60_000, 47, false),
            (Transport::Tcp6, 60_000, 48, true),
            (Transport::Tcp4, 60_000, 1_400, true),
            // A peer that takes tiny segments, at the start of a connection.
            (Transport::Tcp4, 64 * 36, 36, true),
            (Transport::Tcp4, 64 * 36 + 1, 36, false),
            (Transport::Udp4, 128, 1, true),
            (Transport::Udp4, 129, 1, false),
            (Transport::Udp6, 128 * 500, 500, true),
            (Transport::Udp6, 128 * 500 + 1, 500, false),
        ];
        for (transport, payload, size, is_taken) in table {
            let frame = super_frame(transport, payload, size);
            let decoded = announced(&frame).decode(frame.bytes());
            let expected = if is_taken { Ok(frame.offload) } else { Err(InvalidHeader) };
            assert_eq!(decoded, expected, "{transport:?}: {payload} bytes in segments of {size}");
        }
    }

    #[test]
    fn offl_12_flag_and_seed_travel_together() {
        let mut frame = leave_checksum(&packet(Transport::Udp4, 0, 300));
        let header = VnetHeader::of_packet(frame.offload.checksum);
        assert_eq!((header.flags, header.checksum_start, header.checksum_offset), (NEEDS_CHECKSUM, 34, 6));
        finish_checksum(&mut frame);
        assert_eq!(frame.bytes(), packet(Transport::Udp4, 0, 300));
        let header = VnetHeader::of_packet(frame.offload.checksum);
        assert_eq!(header, VnetHeader { flags: DATA_VALID, ..VnetHeader::default() });
    }

    #[test]
    fn offl_15_the_type_is_that_of_the_packet() {
        let types = Transport::ALL.map(|transport| announced(&super_frame(transport, 1_000, 100)).gso_type);
        assert_eq!(types, [GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, GSO_UDP_L4]);
        let udp = packet(Transport::Udp4, 0, 1_000);
        for checksum_offset in [6, 16] {
            let as_tcp = VnetHeader { checksum_offset, ..tcp_header() };
            assert_eq!(as_tcp.decode(&udp), Err(InvalidHeader));
        }
    }
}
