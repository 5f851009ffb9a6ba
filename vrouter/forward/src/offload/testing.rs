//! Packets for this module's tests, built and read back by etherparse.

use etherparse::{
    IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header, Ipv6Extensions, Ipv6Header, PacketBuilder, SlicedPacket,
    TcpHeader, TcpOptionElement, TransportSlice,
};

use super::checksum::pseudo_header_sum;
use super::{Cut, Layout, SegmentChecksum};
use crate::address::Family;
use crate::frame::{Checksum, Frame, Ingress, Offload, PortId, SegmentKind, Segmentation};
use crate::parse::write_u16;

/// A TCP or UDP packet to be built; every field that a run must agree in can be set.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub kind: SegmentKind,
    pub family: Family,
    pub source_port: u16,
    pub payload: Vec<u8>,
    pub id: u16,
    pub may_fragment: bool,
    pub ttl: u8,
    pub traffic_class: u8,
    pub sequence: u32,
    pub acknowledgement: u32,
    pub window: u16,
    pub timestamp: u32,
    pub flags: u8,
}

impl Segment {
    fn new(kind: SegmentKind, family: Family) -> Self {
        Self {
            kind,
            family,
            source_port: 40_000,
            payload: Vec::new(),
            id: 100,
            may_fragment: false,
            ttl: 64,
            traffic_class: 0,
            sequence: 1_000,
            acknowledgement: 7,
            window: 500,
            timestamp: 1,
            flags: 0x10,
        }
    }

    pub fn tcp4() -> Self {
        Self::new(SegmentKind::Tcp, Family::V4)
    }

    pub fn tcp6() -> Self {
        Self::new(SegmentKind::Tcp, Family::V6)
    }

    pub fn udp4() -> Self {
        Self::new(SegmentKind::Udp, Family::V4)
    }

    pub fn udp6() -> Self {
        Self::new(SegmentKind::Udp, Family::V6)
    }

    pub fn all() -> [Self; 4] {
        [Self::tcp4(), Self::tcp6(), Self::udp4(), Self::udp6()]
    }

    /// With so many bytes of payload, all different from their neighbours.
    pub fn payload(mut self, len: usize) -> Self {
        self.payload = (0..len).map(|at| (at * 7 + at / 251) as u8).collect();
        self
    }

    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub fn build(&self) -> Vec<u8> {
        let ip = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]).ip(self.ip());
        let mut frame = Vec::new();
        match self.kind {
            SegmentKind::Tcp => ip.tcp_header(self.tcp()).write(&mut frame, &self.payload),
            SegmentKind::Udp => ip.udp(self.source_port, 5001).write(&mut frame, &self.payload),
        }
        .unwrap();
        frame
    }

    fn ip(&self) -> IpHeaders {
        match self.family {
            Family::V4 => {
                let (source, destination) = ([10, 0, 0, 1], [10, 0, 0, 2]);
                let mut header = Ipv4Header::new(0, self.ttl, IpNumber(0), source, destination).unwrap();
                header.identification = self.id;
                header.dont_fragment = !self.may_fragment;
                header.dscp = (self.traffic_class >> 2).try_into().unwrap();
                header.ecn = (self.traffic_class & 3).try_into().unwrap();
                IpHeaders::Ipv4(header, Ipv4Extensions::default())
            }
            Family::V6 => {
                let mut header = Ipv6Header { hop_limit: self.ttl, ..Ipv6Header::default() };
                header.traffic_class = self.traffic_class;
                header.source = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
                header.destination = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
                IpHeaders::Ipv6(header, Ipv6Extensions::default())
            }
        }
    }

    fn tcp(&self) -> TcpHeader {
        let mut header = TcpHeader::new(self.source_port, 5001, self.sequence, self.window);
        header.acknowledgment_number = self.acknowledgement;
        header.fin = self.flags & 0x01 != 0;
        header.syn = self.flags & 0x02 != 0;
        header.rst = self.flags & 0x04 != 0;
        header.psh = self.flags & 0x08 != 0;
        header.ack = self.flags & 0x10 != 0;
        header.urg = self.flags & 0x20 != 0;
        header.ece = self.flags & 0x40 != 0;
        header.cwr = self.flags & 0x80 != 0;
        let timestamp = TcpOptionElement::Timestamp(self.timestamp, 9);
        header.set_options(&[TcpOptionElement::Noop, TcpOptionElement::Noop, timestamp]).unwrap();
        header
    }
}

/// The frame with a 4-byte IPv4 option.
pub(crate) fn with_ipv4_option(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame.splice(34..34, [1, 1, 1, 1]);
    frame[14] = 0x46;
    let total_len = (frame.len() - 14) as u16;
    write_u16(&mut frame, 16, total_len);
    write_u16(&mut frame, 24, 0);
    let checksum = !vrouter_arch::checksum::sum(&frame[14..38]);
    write_u16(&mut frame, 24, checksum);
    frame
}

/// The frame with an IPv6 destination-options header of 8 bytes.
pub(crate) fn with_extension(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let next = std::mem::replace(&mut frame[20], 60);
    frame.splice(54..54, [next, 0, 1, 4, 0, 0, 0, 0]);
    let payload_len = (frame.len() - 54) as u16;
    write_u16(&mut frame, 18, payload_len);
    frame
}

/// A frame with these bytes.
pub(crate) fn frame_of(bytes: &[u8]) -> Frame {
    Frame::from_bytes(bytes, Ingress::Port(PortId(1)))
}

/// The frame as a sender leaves it that computes no checksum.
pub(crate) fn leave_checksum(bytes: &[u8]) -> Frame {
    let mut frame = frame_of(bytes);
    let layout = Layout::of(bytes).unwrap();
    let (start, offset) = (layout.transport(), layout.checksum_offset());
    let seed = pseudo_header_sum(bytes, &layout, layout.end() - start);
    write_u16(frame.bytes_mut(), start + offset, seed);
    frame.offload.checksum = Checksum::Partial { start: start as u16, offset: offset as u16 };
    frame
}

/// A super-frame, as a sender leaves it, of segments of `size` bytes.
pub(crate) fn super_frame(segment: &Segment, size: u16) -> Frame {
    let mut frame = leave_checksum(&segment.build());
    frame.offload.segmentation = Some(Segmentation { kind: segment.kind, size: size.try_into().unwrap() });
    frame
}

/// The packets it is cut into.
pub(crate) fn cut(frame: &[u8], offload: &Offload, checksum: SegmentChecksum) -> Vec<Frame> {
    let mut whole = frame_of(frame);
    whole.offload = *offload;
    let cut = Cut::of(frame, offload.segmentation.unwrap()).unwrap();
    let segment = |index| {
        let mut segment = Frame::with_capacity(frame.len());
        cut.copy_segment(&whole, index, checksum, &mut segment);
        segment
    };
    (0..cut.count()).map(segment).collect()
}

/// Asserts that an independent reader finds lengths and checksums right, and returns the payload.
pub(crate) fn read_back(frame: &[u8]) -> Vec<u8> {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let ip = packet.net.as_ref().unwrap();
    if let Some(ipv4) = ip.ipv4_ref() {
        let header = ipv4.header().to_header();
        assert_eq!(header.header_checksum, header.calc_header_checksum());
    }
    let payload = ip.ip_payload_ref().unwrap();
    assert_eq!(payload.payload.as_ptr_range().end, frame.as_ptr_range().end);
    let (checksum, expected, payload) = match packet.transport.as_ref().unwrap() {
        TransportSlice::Tcp(tcp) => {
            let header = tcp.to_header();
            let expected = match (ip.ipv4_ref(), ip.ipv6_ref()) {
                (Some(ip), _) => header.calc_checksum_ipv4(&ip.header().to_header(), tcp.payload()),
                (_, Some(ip)) => header.calc_checksum_ipv6(&ip.header().to_header(), tcp.payload()),
                _ => unreachable!("an IP packet is IPv4 or IPv6"),
            };
            (header.checksum, expected, tcp.payload())
        }
        TransportSlice::Udp(udp) => {
            let header = udp.to_header();
            assert_eq!(usize::from(header.length), 8 + udp.payload().len());
            let expected = match (ip.ipv4_ref(), ip.ipv6_ref()) {
                (Some(ip), _) => header.calc_checksum_ipv4(&ip.header().to_header(), udp.payload()),
                (_, Some(ip)) => header.calc_checksum_ipv6(&ip.header().to_header(), udp.payload()),
                _ => unreachable!("an IP packet is IPv4 or IPv6"),
            };
            (header.checksum, expected, udp.payload())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(checksum, expected.unwrap());
    payload.to_vec()
}
