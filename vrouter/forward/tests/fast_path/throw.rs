//! Frames of established connections, nearly all of them with nothing unusual, and the rest with one thing
//! that is.

use std::net::IpAddr;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use vrouter_forward::Family;
use vrouter_forward::frame::{Checksum, Frame, Ingress, MAX_FRAME, Offload, SegmentKind, Segmentation};
use vrouter_forward::sim::PacketBuilder;
use vrouter_objects::MacAddress;

use crate::support::{ACK, FIN, RST, SYN, leave_checksum};

const PSH: u8 = 8;
const ETHERNET: usize = 14;

/// One direction of a conversation: where its packets come in, and what they bear.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    pub family: Family,
    pub ingress: Ingress,
    /// The sender's, and its router's.
    pub macs: (MacAddress, MacAddress),
    pub from: IpAddr,
    pub to: IpAddr,
    pub ports: (u16, u16),
}

/// One frame on one of the ways.
#[derive(Debug, Clone)]
pub struct Throw {
    way: usize,
    kind: SegmentKind,
    flags: u8,
    hops: u8,
    payload: usize,
    may_fragment: bool,
    checksum: Stated,
    segment_size: Option<u16>,
    oddity: Option<Oddity>,
    buffer: Buffer,
}

/// What is said about the checksum.
#[derive(Debug, Clone, Copy)]
enum Stated {
    Nothing,
    Valid,
    Partial,
    /// It is zero.
    Zero,
    /// It is this, right or wrong.
    Is(u16),
}

/// What is unusual about a frame.
#[derive(Debug, Clone)]
enum Oddity {
    Tag(u16),
    IpOptionsOrExtension,
    TcpOptions,
    FirstFragment,
    /// Bytes behind the packet.
    Padding(usize),
    /// It ends early; in its buffer stands the rest.
    Cut(Index),
    /// Another source MAC address.
    Sender(MacAddress),
    /// Another destination MAC address.
    Router(MacAddress),
    Source(Index),
    MulticastDestination,
    /// The length that UDP states is wrong by so much.
    UdpLength(i16),
    /// The TCP header is so many words long.
    DataOffset(u8),
    /// A byte of the headers is another.
    Byte(Index, u8),
}

/// What a frame stands in.
#[derive(Debug, Clone, Copy)]
enum Buffer {
    /// One that another frame was in before.
    Used,
    /// One that it fills.
    Small,
}

pub fn any_throw() -> impl Strategy<Value = Throw> {
    let flags = prop_oneof![
        8 => select(vec![ACK, ACK | PSH, ACK | 0x40 | 0x80]),
        1 => select(vec![SYN, SYN | ACK, FIN | ACK, RST, RST | ACK]),
        1 => any::<u8>(),
    ];
    let hops = prop_oneof![8 => Just(64), 2 => 0..4_u8, 1 => Just(255)];
    // The MTU of ports and tunnels alike is 1450.
    let payload = prop_oneof![6 => 0..200_usize, 3 => 1370..1430_usize, 1 => 1450..9000_usize];
    let checksum = prop_oneof![
        5 => Just(Stated::Nothing),
        2 => Just(Stated::Valid),
        2 => Just(Stated::Partial),
        1 => Just(Stated::Zero),
        1 => any::<u16>().prop_map(Stated::Is),
    ];
    let segment_size = prop_oneof![1 => 1..100_u16, 3 => 1380..1430_u16];
    (
        (any::<usize>(), select(vec![SegmentKind::Tcp, SegmentKind::Udp]), flags, hops, payload),
        (any::<bool>(), checksum, prop::option::weighted(0.2, segment_size)),
        (prop::option::weighted(0.3, any_oddity()), select(vec![Buffer::Used, Buffer::Small])),
    )
        .prop_map(|((way, kind, flags, hops, payload), (may_fragment, checksum, segment_size), rest)| {
            let (oddity, buffer) = rest;
            Throw { way, kind, flags, hops, payload, may_fragment, checksum, segment_size, oddity, buffer }
        })
}

fn any_oddity() -> impl Strategy<Value = Oddity> {
    let macs = select(vec![MacAddress::BROADCAST, MacAddress([1, 0, 0x5e, 0, 0, 1]), MacAddress([2; 6])]);
    prop_oneof![
        select(vec![0, 0xe000, 7]).prop_map(Oddity::Tag),
        Just(Oddity::IpOptionsOrExtension),
        Just(Oddity::TcpOptions),
        Just(Oddity::FirstFragment),
        (1..80_usize).prop_map(Oddity::Padding),
        any::<Index>().prop_map(Oddity::Cut),
        macs.clone().prop_map(Oddity::Sender),
        macs.prop_map(Oddity::Router),
        any::<Index>().prop_map(Oddity::Source),
        Just(Oddity::MulticastDestination),
        (-20..20_i16).prop_map(Oddity::UdpLength),
        (0..16_u8).prop_map(Oddity::DataOffset),
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Oddity::Byte(at, byte)),
    ]
}

impl Way {
    /// Another source address, of some other way.
    fn another_source(&self, ways: &[Self], other: Index) -> IpAddr {
        let others: Vec<_> = ways.iter().filter(|way| way.family == self.family).collect();
        others[other.index(others.len())].from
    }

    fn group(&self) -> IpAddr {
        let group = if self.family == Family::V4 { "239.1.1.1" } else { "ff02::1" };
        group.parse().expect("a literal address")
    }

    fn transport(&self) -> usize {
        ETHERNET + if self.family == Family::V4 { 20 } else { 40 }
    }
}

impl Throw {
    /// A small segment of the connection on this way.
    pub fn segment(way: usize, flags: u8) -> Self {
        Self {
            way,
            kind: SegmentKind::Tcp,
            flags,
            hops: 64,
            payload: 0,
            may_fragment: false,
            checksum: Stated::Nothing,
            segment_size: None,
            oddity: None,
            buffer: Buffer::Used,
        }
    }

    /// A small datagram.
    pub fn datagram(way: usize) -> Self {
        Self { kind: SegmentKind::Udp, payload: 10, ..Self::segment(way, 0) }
    }

    /// The frame, in a buffer of its own.
    pub fn frame(&self, ways: &[Way]) -> Frame {
        let way = &ways[self.way % ways.len()];
        let mut bytes = self.packet(way, ways);
        let offload = self.offload(way, &mut bytes);
        let len = self.spoil(way, &mut bytes);
        let mut frame = self.buffer.take(&bytes, len, way.ingress);
        frame.offload = offload;
        if let (Some(Oddity::Tag(_)), Checksum::Partial { start, offset }) = (&self.oddity, offload.checksum)
        {
            frame.offload.checksum = Checksum::Partial { start: start + 4, offset };
        }
        frame
    }

    /// What its sender meant it to be.
    fn packet(&self, way: &Way, ways: &[Way]) -> Vec<u8> {
        let from = match self.oddity {
            Some(Oddity::Source(other)) => way.another_source(ways, other),
            _ => way.from,
        };
        let to = if let Some(Oddity::MulticastDestination) = self.oddity { way.group() } else { way.to };
        let (sender, router) = match self.oddity {
            Some(Oddity::Sender(mac)) => (mac, way.macs.1),
            Some(Oddity::Router(mac)) => (way.macs.0, mac),
            _ => way.macs,
        };
        let options: &[u8] = if let Some(Oddity::TcpOptions) = self.oddity {
            &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]
        } else {
            &[]
        };
        let packet = PacketBuilder::new(from, to).macs(sender, router).hops(self.hops);
        let packet = if self.may_fragment { packet } else { packet.dont_fragment() };
        let packet = match (&self.oddity, way.family) {
            (Some(Oddity::IpOptionsOrExtension), Family::V4) => packet.ip_options(&[1, 1, 1, 0]),
            (Some(Oddity::IpOptionsOrExtension), Family::V6) => packet.extension(60, &[0; 8]),
            _ => packet,
        };
        let packet = match self.kind {
            SegmentKind::Tcp => packet.tcp_segment(way.ports.0, way.ports.1, self.flags, 1, 2, options),
            SegmentKind::Udp => packet.udp(way.ports.0, way.ports.1),
        };
        let packet = packet.payload(&vec![0x5a; self.payload]);
        match self.oddity {
            Some(Oddity::FirstFragment) => packet.build_fragments(64).swap_remove(0),
            _ => packet.build(),
        }
    }

    fn offload(&self, way: &Way, bytes: &mut [u8]) -> Offload {
        let field = way.transport() + if self.kind == SegmentKind::Tcp { 16 } else { 6 };
        let (is_super_frame, size) = (self.segment_size.is_some(), self.segment_size.unwrap_or(1));
        let checksum = match self.checksum {
            // A super-frame always has one.
            _ if is_super_frame => leave_checksum(bytes, self.kind),
            Stated::Partial => leave_checksum(bytes, self.kind),
            Stated::Nothing => Checksum::Unverified,
            Stated::Valid => Checksum::Valid,
            Stated::Zero => {
                bytes[field..field + 2].fill(0);
                Checksum::Unverified
            }
            Stated::Is(checksum) => {
                bytes[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
                Checksum::Unverified
            }
        };
        let size = size.try_into().expect("no segment is empty");
        let segmentation = is_super_frame.then_some(Segmentation { kind: self.kind, size });
        Offload { checksum, segmentation }
    }

    /// Does to the finished frame what its sender did not mean, and returns where it ends.
    fn spoil(&self, way: &Way, bytes: &mut Vec<u8>) -> usize {
        let transport = way.transport();
        match self.oddity {
            Some(Oddity::Tag(tag)) => {
                let [high, low] = tag.to_be_bytes();
                bytes.splice(12..12, [0x81, 0, high, low]);
            }
            Some(Oddity::Padding(count)) => bytes.resize(bytes.len() + count, 0xee),
            Some(Oddity::Cut(at)) => return at.index(bytes.len()),
            Some(Oddity::UdpLength(by)) if self.kind == SegmentKind::Udp => {
                let len = u16::from_be_bytes([bytes[transport + 4], bytes[transport + 5]]);
                bytes[transport + 4..transport + 6]
                    .copy_from_slice(&len.wrapping_add_signed(by).to_be_bytes());
            }
            Some(Oddity::DataOffset(words)) if self.kind == SegmentKind::Tcp => {
                bytes[transport + 12] = words << 4
            }
            Some(Oddity::Byte(at, byte)) => {
                let at = at.index(bytes.len().min(transport + 20));
                bytes[at] = byte;
            }
            _ => {}
        }
        bytes.len()
    }
}

impl Buffer {
    /// A frame of the first `len` bytes; where there is room, the others stand behind it.
    fn take(self, bytes: &[u8], len: usize, ingress: Ingress) -> Frame {
        match (self, ingress) {
            (Self::Small, _) => {
                let mut frame = Frame::with_capacity(len);
                frame.set(&bytes[..len]);
                frame.ingress = ingress;
                frame
            }
            (Self::Used, _) => {
                let mut frame = Frame::with_capacity(MAX_FRAME.min(bytes.len() + 256));
                // An outer header stood before what comes out of a tunnel.
                let outer = if let Ingress::Tunnel { .. } = ingress { 50 } else { 0 };
                frame.set(&[&[0xaa; 50][..outer], bytes].concat());
                frame.take_front(outer);
                frame.truncate(len);
                frame.ingress = ingress;
                frame
            }
        }
    }
}
