//! The packets that ask, and what is read of those that come out. Each bears a number, by which it is known again.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Result, bail};
use etherparse::{IpNumber, LaxNetSlice, LaxSlicedPacket, PacketBuilder, TransportSlice};
use vrouter_tests::crc32c::crc32c;

use crate::place::Client;

const HOPS: u8 = 64;
/// An SCTP packet that opens an association: common header and INIT chunk (RFC 9260).
const SCTP_INIT: usize = 12 + 20;

/// A transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Sctp];

    /// By the name the Kubernetes API gives it.
    pub fn named(name: Option<&str>) -> Self {
        match name {
            Some("UDP") => Self::Udp,
            Some("SCTP") => Self::Sctp,
            _ => Self::Tcp,
        }
    }
}

/// A packet to be sent: the first of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// Who sends it.
    pub client: Client,
    /// Its protocol.
    pub protocol: Protocol,
    /// Whom it is from.
    pub source: SocketAddr,
    /// Whom it is for.
    pub destination: SocketAddr,
}

impl Probe {
    /// The IP packet, with this number.
    pub fn packet(&self, number: u32) -> Result<Vec<u8>> {
        let (from, to) = (self.source.port(), self.destination.port());
        let ip = match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                PacketBuilder::ipv4(source.octets(), destination.octets(), HOPS)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                PacketBuilder::ipv6(source.octets(), destination.octets(), HOPS)
            }
            _ => bail!("{self:?} is of two families"),
        };
        let mut packet = Vec::new();
        match self.protocol {
            Protocol::Tcp => ip.tcp(from, to, number, 64_240).syn().write(&mut packet, &[])?,
            Protocol::Udp => ip.udp(from, to).write(&mut packet, &number.to_be_bytes())?,
            Protocol::Sctp => ip.write(&mut packet, IpNumber::SCTP, &sctp_init(from, to, number))?,
        }
        Ok(packet)
    }
}

/// The number is the initiate tag.
fn sctp_init(from: u16, to: u16, number: u32) -> [u8; SCTP_INIT] {
    let mut packet = [0; SCTP_INIT];
    packet[0..2].copy_from_slice(&from.to_be_bytes());
    packet[2..4].copy_from_slice(&to.to_be_bytes());
    // An INIT chunk of 20 bytes; its tag, window, numbers of streams and first TSN.
    packet[12..16].copy_from_slice(&[1, 0, 0, 20]);
    packet[16..20].copy_from_slice(&number.to_be_bytes());
    packet[20..24].copy_from_slice(&64_000_u32.to_be_bytes());
    packet[24..28].copy_from_slice(&[0, 1, 0, 1]);
    packet[28..32].copy_from_slice(&number.to_be_bytes());
    let checksum = crc32c(&packet);
    packet[8..12].copy_from_slice(&checksum.to_le_bytes());
    packet
}

/// A packet that came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The number of the packet that was sent.
    pub number: u32,
    /// Whom this one is for.
    pub to: IpAddr,
    /// What it is.
    pub kind: SeenKind,
}

/// What a packet that came out is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeenKind {
    /// The packet itself, or what became of it.
    Itself {
        /// Whom it is from now.
        source: SocketAddr,
        /// Whom it is for now.
        destination: SocketAddr,
    },
    /// A reset in answer to it.
    Reset,
    /// An ICMP error about it, of this type and code.
    Error(u8, u8),
}

impl Seen {
    /// Reads an IP packet; `None`: it has nothing to do with any that was sent.
    pub fn read(packet: &[u8]) -> Option<Self> {
        let packet = LaxSlicedPacket::from_ip(packet).ok()?;
        let (source, to, protocol, payload) = network(&packet)?;
        let error = |kind, code, quoted| {
            let about = Self::read(quoted)?;
            Some(Self { to, kind: SeenKind::Error(kind, code), ..about })
        };
        let itself = |number, from, port| {
            let (source, destination) = (SocketAddr::new(source, from), SocketAddr::new(to, port));
            Self { number, to, kind: SeenKind::Itself { source, destination } }
        };
        match packet.transport.as_ref() {
            Some(TransportSlice::Tcp(tcp)) if tcp.rst() => {
                let number = tcp.acknowledgment_number().wrapping_sub(1);
                Some(Self { number, to, kind: SeenKind::Reset })
            }
            Some(TransportSlice::Tcp(tcp)) => {
                Some(itself(tcp.sequence_number(), tcp.source_port(), tcp.destination_port()))
            }
            Some(TransportSlice::Udp(udp)) => {
                let number = u32::from_be_bytes(*udp.payload().first_chunk()?);
                Some(itself(number, udp.source_port(), udp.destination_port()))
            }
            // Destination unreachable, and nothing else: redirects quote packets too.
            Some(TransportSlice::Icmpv4(icmp)) if icmp.type_u8() == 3 => {
                error(icmp.type_u8(), icmp.code_u8(), icmp.payload())
            }
            Some(TransportSlice::Icmpv6(icmp)) if icmp.type_u8() == 1 => {
                error(icmp.type_u8(), icmp.code_u8(), icmp.payload())
            }
            None if protocol == IpNumber::SCTP => {
                let init: &[u8; SCTP_INIT] = payload.first_chunk()?;
                let port = |at: usize| u16::from_be_bytes([init[at], init[at + 1]]);
                let number = u32::from_be_bytes([init[16], init[17], init[18], init[19]]);
                Some(itself(number, port(0), port(2)))
            }
            _ => None,
        }
    }
}

/// The addresses of a packet, the protocol it carries, and what it carries.
fn network<'a>(packet: &LaxSlicedPacket<'a>) -> Option<(IpAddr, IpAddr, IpNumber, &'a [u8])> {
    match packet.net.as_ref()? {
        LaxNetSlice::Ipv4(ip) => {
            let (header, payload) = (ip.header(), ip.payload());
            let (source, to) = (header.source_addr(), header.destination_addr());
            Some((source.into(), to.into(), payload.ip_number, payload.payload))
        }
        LaxNetSlice::Ipv6(ip) => {
            let (header, payload) = (ip.header(), ip.payload());
            let (source, to) = (header.source_addr(), header.destination_addr());
            Some((source.into(), to.into(), payload.ip_number, payload.payload))
        }
        LaxNetSlice::Arp(_) => None,
    }
}
