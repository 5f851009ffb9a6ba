//! Packets and a ledger for this crate's tests.

use etherparse::{
    IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header, Ipv6Extensions, Ipv6Header, PacketBuilder, TcpHeader,
};
use vrouter_forward::frame::{Frame, Ingress, MAX_FRAME, PortId, SegmentKind, Segmentation};
use vrouter_forward::offload::{Cut, SegmentChecksum};
use vrouter_objects::DropReason;

use crate::ledger::Ledger;

/// The four kinds of packet that offloads know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp4,
    Tcp6,
    Udp4,
    Udp6,
}

impl Transport {
    pub const ALL: [Self; 4] = [Self::Tcp4, Self::Tcp6, Self::Udp4, Self::Udp6];

    pub fn kind(self) -> SegmentKind {
        match self {
            Self::Tcp4 | Self::Tcp6 => SegmentKind::Tcp,
            Self::Udp4 | Self::Udp6 => SegmentKind::Udp,
        }
    }

    fn ip(self, index: usize) -> IpHeaders {
        match self {
            Self::Tcp4 | Self::Udp4 => {
                let mut header = Ipv4Header::new(0, 64, IpNumber(0), [10, 0, 0, 1], [10, 0, 0, 2]).unwrap();
                header.identification = 100 + index as u16;
                header.dont_fragment = true;
                IpHeaders::Ipv4(header, Ipv4Extensions::default())
            }
            Self::Tcp6 | Self::Udp6 => {
                let mut header = Ipv6Header { hop_limit: 64, ..Ipv6Header::default() };
                (header.source[0], header.source[15]) = (0xfd, 1);
                (header.destination[0], header.destination[15]) = (0xfd, 2);
                IpHeaders::Ipv6(header, Ipv6Extensions::default())
            }
        }
    }
}

/// Packet `index` of a stream of packets with `len` bytes of payload, complete.
pub(crate) fn packet(transport: Transport, index: usize, len: usize) -> Vec<u8> {
    packet_from(40_000, transport, index, len)
}

/// The same from another source port: another flow.
pub(crate) fn packet_from(source_port: u16, transport: Transport, index: usize, len: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..len).map(|at| (at * 7 + at / 251 + index) as u8).collect();
    let ip = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]).ip(transport.ip(index));
    let mut frame = Vec::new();
    match transport.kind() {
        SegmentKind::Tcp => {
            let mut header = TcpHeader::new(source_port, 5001, (1_000 + index * len) as u32, 500);
            header.ack = true;
            ip.tcp_header(header).write(&mut frame, &payload)
        }
        SegmentKind::Udp => ip.udp(source_port, 5001).write(&mut frame, &payload),
    }
    .unwrap();
    frame
}

/// A frame with these bytes, in a buffer of the size that workers use.
pub(crate) fn frame_of(bytes: &[u8]) -> Frame {
    let mut frame = Frame::with_capacity(MAX_FRAME);
    frame.set(bytes);
    frame.ingress = Ingress::Port(PortId(1));
    frame
}

/// The packet as a sender leaves it that computes no checksum.
pub(crate) fn leave_checksum(packet: &[u8]) -> Frame {
    let whole = frame_of(packet);
    let kind = Transport::ALL.map(Transport::kind).into_iter();
    let cut = kind
        .filter_map(|kind| Cut::of(packet, Segmentation { kind, size: 65_000.try_into().unwrap() }))
        .next()
        .unwrap();
    let mut frame = frame_of(&[]);
    cut.copy_segment(&whole, 0, SegmentChecksum::Partial, &mut frame);
    frame
}

/// A super-frame of `len` bytes of payload, as a sender leaves it, to be cut into segments of `size`.
pub(crate) fn super_frame(transport: Transport, len: usize, size: u16) -> Frame {
    let mut frame = leave_checksum(&packet(transport, 0, len));
    frame.offload.segmentation =
        Some(Segmentation { kind: transport.kind(), size: size.try_into().unwrap() });
    frame
}

/// A ledger that remembers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub refused: Vec<DropReason>,
    pub lost: Vec<DropReason>,
    pub sent_whole: usize,
    pub cut: Vec<usize>,
    pub gathered: Vec<usize>,
}

impl Ledger for Recorded {
    fn refused(&mut self, reason: DropReason) {
        self.refused.push(reason);
    }

    fn lost(&mut self, _: &Frame, reason: DropReason) {
        self.lost.push(reason);
    }

    fn sent_whole(&mut self) {
        self.sent_whole += 1;
    }

    fn cut(&mut self, packets: usize) {
        self.cut.push(packets);
    }

    fn gathered(&mut self, packets: usize) {
        self.gathered.push(packets);
    }
}
