//! The packets that are sent, and what is read of those that come out.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, bail};
use etherparse::{IpNumber, LaxNetSlice, LaxSlicedPacket, TransportSlice};
use vrouter_forward::sim::PacketBuilder;

/// Control bits of TCP.
pub const SYN: u8 = 0x02;
/// An answer to [`SYN`].
pub const SYN_ACK: u8 = 0x12;
/// In the middle of a connection.
pub const ACK: u8 = 0x10;
/// Nobody here knows the connection.
pub const RST: u8 = 0x04;

/// Bytes of a datagram that is sent in fragments, and of each of these.
const LARGE: usize = 2000;
const PIECE: usize = 800;
/// A chunk that opens an association (RFC 9260): type, flags, length; tag, window, streams, first number.
const SCTP_INIT: [u8; 20] = [1, 0, 0, 20, 0, 0, 0, 7, 0, 0, 0xfa, 0, 0, 1, 0, 1, 0, 0, 0, 7];

/// A packet, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Whom it is from. An echo has its identifier as port, at both ends.
    pub source: SocketAddr,
    /// Whom it is for.
    pub destination: SocketAddr,
    /// What it is.
    pub kind: Kind,
}

/// What a packet is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// TCP, with these control bits.
    Tcp(u8),
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
    /// A ping.
    EchoRequest,
    /// The answer to one.
    EchoReply,
    /// An ICMP error about another packet.
    Error(Box<Segment>),
    /// A later fragment of a datagram.
    Fragment,
}

/// How a datagram is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// In one packet.
    Whole,
    /// In fragments.
    Fragments,
    /// In fragments, the last one first.
    Backwards,
}

impl Segment {
    /// What its receiver answers.
    pub fn answer(&self) -> Self {
        let kind = match &self.kind {
            Kind::Tcp(flags) if flags & SYN != 0 => Kind::Tcp(SYN_ACK),
            Kind::Tcp(_) => Kind::Tcp(ACK),
            Kind::EchoRequest => Kind::EchoReply,
            Kind::EchoReply => Kind::EchoRequest,
            other => other.clone(),
        };
        Self { source: self.destination, destination: self.source, kind }
    }

    /// What its sender sends next.
    pub fn next(&self) -> Self {
        let kind = match &self.kind {
            Kind::Tcp(_) => Kind::Tcp(ACK),
            other => other.clone(),
        };
        Self { kind, ..self.clone() }
    }

    /// Its receiver's complaint that nobody takes it.
    pub fn complaint(&self) -> Self {
        let quoted = Box::new(self.clone());
        let end = |socket: SocketAddr| SocketAddr::new(socket.ip(), 0);
        Self { source: end(self.destination), destination: end(self.source), kind: Kind::Error(quoted) }
    }

    /// Its frames.
    pub fn frames(&self, shape: Shape) -> Vec<Vec<u8>> {
        match shape {
            Shape::Whole => vec![self.builder().build()],
            Shape::Fragments => self.builder().payload(&[7; LARGE]).build_fragments(PIECE),
            Shape::Backwards => {
                self.builder().payload(&[7; LARGE]).build_fragments(PIECE).into_iter().rev().collect()
            }
        }
    }

    fn builder(&self) -> PacketBuilder {
        let (from, to) = (self.source.port(), self.destination.port());
        let builder = PacketBuilder::new(self.source.ip(), self.destination.ip()).identification(from.max(1));
        let [high, low] = from.to_be_bytes();
        let is_v4 = self.source.is_ipv4();
        match &self.kind {
            Kind::Tcp(flags) => builder.tcp(from, to, *flags),
            Kind::Udp | Kind::Fragment => builder.udp(from, to).payload(b"policy"),
            Kind::Sctp => builder.sctp(from, to).payload(&SCTP_INIT),
            Kind::EchoRequest => builder.icmp(if is_v4 { 8 } else { 128 }, 0, [high, low, 0, 1]),
            Kind::EchoReply => builder.icmp(if is_v4 { 0 } else { 129 }, 0, [high, low, 0, 1]),
            Kind::Error(quoted) => {
                let (kind, code) = if is_v4 { (3, 3) } else { (1, 4) };
                builder.icmp(kind, code, [0; 4]).payload(&quoted.builder().build_ip())
            }
        }
    }

    /// Reads an Ethernet frame.
    pub fn read(frame: &[u8]) -> Result<Self> {
        let packet = LaxSlicedPacket::from_ethernet(frame).context("no frame")?;
        Self::of(&packet).with_context(|| format!("{frame:02x?}"))
    }

    fn of(packet: &LaxSlicedPacket) -> Result<Self> {
        let (source, destination, number, payload, is_first) = network(packet)?;
        let segment = |kind, ports: (u16, u16)| Self {
            source: SocketAddr::new(source, ports.0),
            destination: SocketAddr::new(destination, ports.1),
            kind,
        };
        if !is_first {
            return Ok(segment(Kind::Fragment, (0, 0)));
        }
        let quoted = |payload| {
            let quoted = LaxSlicedPacket::from_ip(payload).context("an error without a packet")?;
            Ok(segment(Kind::Error(Box::new(Self::of(&quoted)?)), (0, 0)))
        };
        let echo = |kind, bytes: [u8; 4]| {
            let id = u16::from_be_bytes([bytes[0], bytes[1]]);
            Ok(segment(kind, (id, id)))
        };
        match packet.transport.as_ref() {
            Some(TransportSlice::Tcp(tcp)) => {
                let flags = tcp.slice()[13];
                Ok(segment(Kind::Tcp(flags), (tcp.source_port(), tcp.destination_port())))
            }
            Some(TransportSlice::Udp(udp)) => {
                Ok(segment(Kind::Udp, (udp.source_port(), udp.destination_port())))
            }
            Some(TransportSlice::Icmpv4(icmp)) => match icmp.type_u8() {
                8 => echo(Kind::EchoRequest, icmp.bytes5to8()),
                0 => echo(Kind::EchoReply, icmp.bytes5to8()),
                3 | 11 => quoted(icmp.payload()),
                other => bail!("ICMP of type {other}"),
            },
            Some(TransportSlice::Icmpv6(icmp)) => match icmp.type_u8() {
                128 => echo(Kind::EchoRequest, icmp.bytes5to8()),
                129 => echo(Kind::EchoReply, icmp.bytes5to8()),
                1..=4 => quoted(icmp.payload()),
                other => bail!("ICMPv6 of type {other}"),
            },
            Some(TransportSlice::Igmp(_)) | None => match (number, payload) {
                // All that a fragment or a quotation may have of them.
                (IpNumber::SCTP, [a, b, c, d, ..]) => {
                    Ok(segment(Kind::Sctp, (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]))))
                }
                (IpNumber::UDP, [a, b, c, d, ..]) => {
                    Ok(segment(Kind::Udp, (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]))))
                }
                (number, _) => bail!("nothing known: protocol {number:?}"),
            },
        }
    }
}

type Network<'a> = (IpAddr, IpAddr, IpNumber, &'a [u8], bool);

/// The addresses of a packet, the protocol it carries, what it carries, and whether that begins with a header.
fn network<'a>(packet: &'a LaxSlicedPacket) -> Result<Network<'a>> {
    match packet.net.as_ref().context("no IP packet")? {
        LaxNetSlice::Ipv4(ip) => {
            let (header, payload) = (ip.header(), ip.payload());
            let is_first = header.fragments_offset().value() == 0;
            let (source, destination) = (header.source_addr(), header.destination_addr());
            Ok((source.into(), destination.into(), payload.ip_number, payload.payload, is_first))
        }
        LaxNetSlice::Ipv6(ip) => {
            let (header, payload) = (ip.header(), ip.payload());
            let later = ip.extensions().clone().into_iter().any(|extension| match extension {
                etherparse::Ipv6ExtensionSlice::Fragment(fragment) => fragment.fragment_offset().value() > 0,
                _ => false,
            });
            let (source, destination) = (header.source_addr(), header.destination_addr());
            Ok((source.into(), destination.into(), payload.ip_number, payload.payload, !later))
        }
        LaxNetSlice::Arp(_) => bail!("ARP"),
    }
}
