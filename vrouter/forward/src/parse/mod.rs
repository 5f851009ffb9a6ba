//! The second stage: one pass over a frame's headers, offsets only.

mod bytes;
mod ethernet;
mod head;
mod icmp;
mod ipv4;
mod ipv6;
mod plain;
mod transport;

pub(crate) use bytes::{read_u16, read_u32, write_u16, write_u32};
pub(crate) use ethernet::{HEADER_LEN as ETHERNET_HEADER, ethertype};
pub(crate) use head::{Head, get_word, put_double, put_word};
pub use icmp::{EchoRole, IcmpKind, IcmpTypes};
pub(crate) use icmp::{Quoted, parse_quoted};
pub(crate) use plain::{PlainHeaders, PlainIp, PlainV4, PlainV6, plain_family, plain_ports};
pub use transport::{TcpFlags, Transport};

use vrouter_objects::{DropReason, IpProtocol};

use crate::address::{Address, Family};

/// What a frame turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// An ARP packet whose body begins at this offset.
    Arp {
        /// Offset of the ARP packet from the start of the frame.
        offset: u16,
    },
    /// An IPv4 or IPv6 packet.
    Ip(Packet),
}

/// The headers of an IP packet, as offsets from the start of its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Its IP version.
    pub family: Family,
    /// Offset of the IP header.
    pub ip: u16,
    /// Offset of the transport header; of a later fragment, of its payload.
    pub transport: u16,
    /// Where the IP packet ends. What follows in the frame is Ethernet padding.
    pub end: u32,
    /// Source address.
    pub source: Address,
    /// Destination address.
    pub destination: Address,
    /// The protocol behind the last extension header.
    pub protocol: IpProtocol,
    /// Its place in a fragmented datagram.
    pub fragment: Fragment,
    /// The transport header, as far as forwarding needs it.
    pub header: Transport,
}

/// A packet's place in a fragmented datagram. An IPv6 atomic fragment (RFC 6946) is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fragment {
    /// Not fragmented.
    Whole,
    /// The first fragment, which has the transport header.
    First {
        /// The datagram's identification.
        id: u32,
    },
    /// Any other: no transport header.
    Later {
        /// The datagram's identification.
        id: u32,
    },
}

impl Packet {
    /// Source and destination port as a flow is keyed by them. ICMP echo has its identifier in both places,
    /// so that request and reply are each other's reverse; what has no ports has zeroes.
    pub const fn ports(&self) -> (u16, u16) {
        match self.header {
            Transport::Tcp { source, destination, .. }
            | Transport::Udp { source, destination }
            | Transport::Sctp { source, destination } => (source, destination),
            Transport::Icmp { kind: IcmpKind::Echo { id, .. } } => (id, id),
            _ => (0, 0),
        }
    }

    /// How many bytes the IP header with its options or extension headers has.
    pub const fn ip_header_len(&self) -> usize {
        (self.transport - self.ip) as usize
    }

    /// The packet's length from its IP header on.
    pub const fn ip_len(&self) -> usize {
        self.end as usize - self.ip as usize
    }
}

/// Parses a frame.
pub fn parse(frame: &[u8]) -> Result<Parsed, DropReason> {
    let (ethertype, offset) = ethernet::parse(frame)?;
    match ethertype {
        ethernet::IPV4 => ipv4::parse(frame, offset).map(Parsed::Ip),
        ethernet::IPV6 => ipv6::parse(frame, offset).map(Parsed::Ip),
        ethernet::ARP => Ok(Parsed::Arp { offset: offset as u16 }),
        _ => Err(DropReason::UnknownEtherType),
    }
}

/// Source and destination that no packet on a unicast router's way may have (RFC 1812 section 5.3.7). A destination may
/// be multicast here: local services answer some of those.
#[inline]
fn check_addresses(source: Address, destination: Address) -> Result<(), DropReason> {
    let source_unspecified = source.bits() == 0 || source == Address::V4_UNSPECIFIED;
    let source_ok = source.is_unicast() || source_unspecified;
    let destination_ok = destination.is_unicast() || destination.is_multicast();
    if source_ok && destination_ok { Ok(()) } else { Err(DropReason::InvalidAddress) }
}

#[cfg(test)]
mod tests;
