//! Where the parts of a TCP or UDP packet lie in its frame.

use crate::address::Family;
use crate::frame::SegmentKind;
use crate::parse::{Fragment, Packet, Parsed, Transport, parse};

/// Where the parts of an unfragmented TCP or UDP packet lie in its frame. All of them lie within the frame it
/// was read from, and within any frame with the same headers that is at least as long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    family: Family,
    kind: SegmentKind,
    network: usize,
    transport: usize,
    payload: usize,
    end: usize,
}

pub(super) const ETHERNET_LEN: usize = 14;
const IPV4_LEN: usize = 20;
pub(super) const IPV6_LEN: usize = 40;
const UDP_LEN: usize = 8;

// Where the fields lie, from the start of their header, that differ between the packets of a super-frame.
pub(super) const IPV4_LENGTH: usize = 2;
pub(super) const IPV4_ID: usize = 4;
pub(super) const IPV4_FLAGS: usize = 6;
pub(super) const IPV4_CHECKSUM: usize = 10;
pub(super) const IPV6_LENGTH: usize = 4;
pub(super) const TCP_SEQUENCE: usize = 4;
pub(super) const TCP_FLAGS: usize = 13;
const TCP_CHECKSUM: usize = 16;
pub(super) const UDP_LENGTH: usize = 4;
pub(super) const UDP_CHECKSUM: usize = 6;

impl Layout {
    /// The layout of this frame's packet. `None` if it is not a well-formed, unfragmented TCP or UDP packet.
    pub fn of(frame: &[u8]) -> Option<Self> {
        match parse(frame) {
            Ok(Parsed::Ip(packet)) => Self::of_packet(&packet),
            _ => None,
        }
    }

    fn of_packet(packet: &Packet) -> Option<Self> {
        let (kind, header_len) = match packet.header {
            Transport::Tcp { header_len, .. } => (SegmentKind::Tcp, usize::from(header_len)),
            Transport::Udp { .. } => (SegmentKind::Udp, UDP_LEN),
            _ => return None,
        };
        let transport = usize::from(packet.transport);
        (packet.fragment == Fragment::Whole).then_some(Self {
            family: packet.family,
            kind,
            network: usize::from(packet.ip),
            transport,
            payload: transport + header_len,
            end: packet.end as usize,
        })
    }

    /// The layout of a packet with the same headers that fills a frame of this length; `None` if it would have
    /// no payload.
    pub(super) fn of_whole(&self, frame_len: usize) -> Option<Self> {
        (frame_len > self.payload).then_some(Self { end: frame_len, ..*self })
    }

    /// Its IP version.
    pub const fn family(&self) -> Family {
        self.family
    }

    /// Its transport protocol.
    pub const fn kind(&self) -> SegmentKind {
        self.kind
    }

    /// Where the IP header begins.
    pub const fn network(&self) -> usize {
        self.network
    }

    /// Where the TCP or UDP header begins.
    pub const fn transport(&self) -> usize {
        self.transport
    }

    /// Where the payload begins: the length of all headers.
    pub const fn payload(&self) -> usize {
        self.payload
    }

    /// Where the packet ends, which may be before the frame does.
    pub const fn end(&self) -> usize {
        self.end
    }

    /// How many bytes of payload there are.
    pub const fn payload_len(&self) -> usize {
        self.end - self.payload
    }

    /// Where the checksum lies within the transport header.
    pub const fn checksum_offset(&self) -> usize {
        match self.kind {
            SegmentKind::Tcp => TCP_CHECKSUM,
            SegmentKind::Udp => UDP_CHECKSUM,
        }
    }

    /// Whether nothing stands between the Ethernet, IP and transport headers: no 802.1Q tag, no IPv4 options,
    /// no IPv6 extension headers.
    pub(super) const fn is_plain(&self) -> bool {
        let ip_len = match self.family {
            Family::V4 => IPV4_LEN,
            Family::V6 => IPV6_LEN,
        };
        self.network == ETHERNET_LEN && self.transport == self.network + ip_len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::testing::{Segment, with_extension, with_ipv4_option};

    #[test]
    fn every_kind_of_header_is_found() {
        let tcp6 = Segment::tcp6().payload(100).build();
        let udp4 = Segment::udp4().payload(100).build();
        let table = [
            (Segment::tcp4().payload(100).build(), Family::V4, SegmentKind::Tcp, 34, 66),
            (tcp6.clone(), Family::V6, SegmentKind::Tcp, 54, 86),
            (udp4.clone(), Family::V4, SegmentKind::Udp, 34, 42),
            (Segment::udp6().payload(100).build(), Family::V6, SegmentKind::Udp, 54, 62),
            (with_ipv4_option(&udp4), Family::V4, SegmentKind::Udp, 38, 46),
            (with_extension(&tcp6), Family::V6, SegmentKind::Tcp, 62, 94),
        ];
        for (frame, family, kind, transport, payload) in table {
            let layout = Layout::of(&frame).unwrap();
            assert_eq!((layout.family(), layout.kind()), (family, kind));
            assert_eq!((layout.transport(), layout.payload()), (transport, payload));
            assert_eq!((layout.end(), layout.payload_len()), (frame.len(), 100));
        }
    }

    #[test]
    fn a_frame_cut_short_anywhere_has_no_layout() {
        for frame in
            [Segment::tcp4().payload(10).build(), with_extension(&Segment::udp6().payload(10).build())]
        {
            for len in 0..frame.len() {
                assert_eq!(Layout::of(&frame[..len]), None, "{len} of {} bytes", frame.len());
            }
        }
    }

    #[test]
    fn a_trailer_is_no_payload() {
        let mut frame = Segment::udp4().payload(4).build();
        frame.resize(60, 0xaa);
        assert_eq!(Layout::of(&frame).unwrap().payload_len(), 4);
    }
}
