//! ICMP (RFC 792) and ICMPv6 (RFC 4443), and the packets their errors quote.

use vrouter_objects::{DropReason, IpProtocol};

use super::ipv6::Chain;
use super::{Fragment, read_u16, read_u32};
use crate::address::{Address, Family};

const HEADER: usize = 8;

/// What an ICMP message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IcmpKind {
    /// Echo request or reply.
    Echo {
        /// Which of the two.
        role: EchoRole,
        /// The identifier, which stands in for ports.
        id: u16,
    },
    /// An error about the packet that it quotes behind its 8-byte header.
    Error,
    /// Neighbour discovery (RFC 4861): link-local, never forwarded.
    Neighbour,
    /// Multicast listener discovery (RFC 3810): a host tells the routers of its link which groups it wants.
    Membership,
    /// Anything else.
    Other,
}

/// The two halves of a ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EchoRole {
    /// The question.
    Request,
    /// The answer.
    Reply,
}

/// The ICMP type and code numbers of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpTypes {
    /// Echo request.
    pub echo_request: u8,
    /// Echo reply.
    pub echo_reply: u8,
    /// Port unreachable: type and code.
    pub port_unreachable: (u8, u8),
    /// No route to the destination: type and code.
    pub no_route: (u8, u8),
    /// Time exceeded in transit: type and code.
    pub time_exceeded: (u8, u8),
    /// Packet too big: type and code.
    pub too_big: (u8, u8),
}

impl IcmpTypes {
    /// The numbers of this family.
    pub const fn of(family: Family) -> Self {
        match family {
            Family::V4 => Self {
                echo_request: 8,
                echo_reply: 0,
                port_unreachable: (3, 3),
                no_route: (3, 0),
                time_exceeded: (11, 0),
                too_big: (3, 4),
            },
            Family::V6 => Self {
                echo_request: 128,
                echo_reply: 129,
                port_unreachable: (1, 4),
                no_route: (1, 0),
                time_exceeded: (3, 0),
                too_big: (2, 0),
            },
        }
    }
}

impl IcmpKind {
    pub(super) fn parse(payload: &[u8], family: Family) -> Result<Self, DropReason> {
        if payload.len() < HEADER {
            return Err(DropReason::InvalidTransport);
        }
        let types = IcmpTypes::of(family);
        let number = payload[0];
        Ok(if number == types.echo_request {
            Self::Echo { role: EchoRole::Request, id: read_u16(payload, 4) }
        } else if number == types.echo_reply {
            Self::Echo { role: EchoRole::Reply, id: read_u16(payload, 4) }
        } else if Self::is_error(number, family) {
            Self::Error
        } else if family == Family::V6 && (133..=137).contains(&number) {
            Self::Neighbour
        } else if family == Family::V6 && matches!(number, 130..=132 | 143) {
            Self::Membership
        } else {
            Self::Other
        })
    }

    fn is_error(number: u8, family: Family) -> bool {
        match family {
            // Unreachable, source quench, redirect, time exceeded, parameter problem.
            Family::V4 => matches!(number, 3 | 4 | 5 | 11 | 12),
            Family::V6 => number < 128,
        }
    }
}

/// The packet that an ICMP error quotes: at least its IP header and eight bytes more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quoted {
    /// Offset of the quoted IP header from the start of the frame.
    pub ip: usize,
    /// Offset of the quoted transport header.
    pub transport: usize,
    /// Where it was sent from.
    pub source: Address,
    /// Where it was sent to.
    pub destination: Address,
    /// Its protocol.
    pub protocol: IpProtocol,
    /// Its ports, as a flow is keyed by them.
    pub ports: (u16, u16),
}

/// Parses the packet quoted from `offset` on, which may be cut short after its first eight transport bytes.
pub fn parse_quoted(frame: &[u8], offset: usize, family: Family) -> Result<Quoted, DropReason> {
    let invalid = DropReason::InvalidTransport;
    let packet = frame.get(offset..).ok_or(invalid)?;
    let (protocol, header_len, source, destination) = match family {
        Family::V4 => quoted_v4(packet),
        Family::V6 => quoted_v6(packet),
    }
    .ok_or(invalid)?;
    let transport = packet.get(header_len..).filter(|rest| rest.len() >= 8).ok_or(invalid)?;
    let ports = match protocol {
        IpProtocol::TCP | IpProtocol::UDP | IpProtocol::SCTP => {
            (read_u16(transport, 0), read_u16(transport, 2))
        }
        IpProtocol::ICMP | IpProtocol::ICMPV6 => (read_u16(transport, 4), read_u16(transport, 4)),
        _ => (0, 0),
    };
    Ok(Quoted { ip: offset, transport: offset + header_len, source, destination, protocol, ports })
}

type QuotedHeader = (IpProtocol, usize, Address, Address);

fn quoted_v4(packet: &[u8]) -> Option<QuotedHeader> {
    let header = packet.get(..20)?;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let first = read_u16(header, 6) & 0x1fff == 0;
    if header[0] >> 4 != 4 || header_len < 20 || !first {
        return None;
    }
    let address = |offset| Address::v4(read_u32(header, offset).to_be_bytes());
    Some((IpProtocol(header[9]), header_len, address(12), address(16)))
}

fn quoted_v6(packet: &[u8]) -> Option<QuotedHeader> {
    let header = packet.get(..40)?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let address = |offset: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[offset..offset + 16]);
        Address::v6(octets)
    };
    let chain = Chain::walk(packet, 40, header[6]).ok()?;
    let later = matches!(chain.fragment, Fragment::Later { .. });
    (!later).then_some((chain.protocol, chain.transport, address(8), address(24)))
}
