//! TCP, UDP, SCTP and ICMP, as far as forwarding needs them.

use vrouter_objects::{DropReason, IpProtocol};

use super::{Fragment, IcmpKind, read_u16};
use crate::address::Family;

/// A transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP (RFC 9293).
    Tcp {
        /// Source port.
        source: u16,
        /// Destination port.
        destination: u16,
        /// The control bits.
        flags: TcpFlags,
        /// Bytes of header with options.
        header_len: u8,
    },
    /// UDP (RFC 768).
    Udp {
        /// Source port; 0 is "none".
        source: u16,
        /// Destination port.
        destination: u16,
    },
    /// SCTP (RFC 9260).
    Sctp {
        /// Source port.
        source: u16,
        /// Destination port.
        destination: u16,
    },
    /// ICMP or ICMPv6.
    Icmp {
        /// What it says.
        kind: IcmpKind,
    },
    /// A later fragment, or a protocol without ports.
    None,
}

/// TCP's control bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpFlags(pub u8);

impl Transport {
    /// How many bytes of header a segment of it begins with; zero of what is not cut in segments.
    pub(crate) const fn header_len(&self) -> usize {
        match self {
            Self::Tcp { header_len, .. } => *header_len as usize,
            Self::Udp { .. } => UDP_HEADER,
            Self::Sctp { .. } | Self::Icmp { .. } | Self::None => 0,
        }
    }
}

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// The receiver's application is to have the data at once.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement field counts.
    pub const ACK: u8 = 0x10;
    /// Congestion window reduced (RFC 3168).
    pub const CWR: u8 = 0x80;

    /// Whether any of these bits is set.
    pub const fn any(self, bits: u8) -> bool {
        self.0 & bits != 0
    }

    /// Whether it opens a connection: SYN without ACK.
    pub const fn is_opening(self) -> bool {
        self.0 & (Self::SYN | Self::ACK) == Self::SYN
    }

    /// Whether a sender that keeps to the standard can have sent these.
    pub(super) const fn is_possible(self) -> bool {
        let ending = self.0 & (Self::FIN | Self::RST);
        let syn = self.0 & Self::SYN != 0;
        !(syn && ending != 0) && (syn || self.0 & (Self::ACK | Self::RST) != 0)
    }
}

/// Bytes of a TCP header without options.
pub(super) const TCP_HEADER: usize = 20;
/// Bytes of a UDP header.
pub(super) const UDP_HEADER: usize = 8;
const SCTP_HEADER: usize = 12;

/// Parses the header at the start of `payload`, the IP packet's payload.
pub(super) fn parse(
    payload: &[u8],
    protocol: IpProtocol,
    family: Family,
    fragment: Fragment,
) -> Result<Transport, DropReason> {
    match (protocol, family) {
        (IpProtocol::TCP, _) => tcp(payload),
        (IpProtocol::UDP, _) => udp(payload, fragment),
        (IpProtocol::SCTP, _) => sctp(payload),
        (IpProtocol::ICMP, Family::V4) | (IpProtocol::ICMPV6, Family::V6) => {
            IcmpKind::parse(payload, family).map(|kind| Transport::Icmp { kind })
        }
        // Each ICMP belongs to its own family; the other's is not even an unknown protocol.
        (IpProtocol::ICMP | IpProtocol::ICMPV6, _) => Err(DropReason::InvalidTransport),
        _ => Ok(Transport::None),
    }
}

fn tcp(payload: &[u8]) -> Result<Transport, DropReason> {
    if payload.len() < TCP_HEADER {
        return Err(DropReason::InvalidTransport);
    }
    let header_len = usize::from(payload[12] >> 4) * 4;
    let flags = TcpFlags(payload[13]);
    let (source, destination) = (read_u16(payload, 0), read_u16(payload, 2));
    let lengths_ok = header_len >= TCP_HEADER && header_len <= payload.len();
    if !lengths_ok || !flags.is_possible() || source == 0 || destination == 0 {
        return Err(DropReason::InvalidTransport);
    }
    Ok(Transport::Tcp { source, destination, flags, header_len: header_len as u8 })
}

fn udp(payload: &[u8], fragment: Fragment) -> Result<Transport, DropReason> {
    if payload.len() < UDP_HEADER {
        return Err(DropReason::InvalidTransport);
    }
    let len = usize::from(read_u16(payload, 4));
    let fits = len <= payload.len() || fragment != Fragment::Whole;
    let destination = read_u16(payload, 2);
    if len < UDP_HEADER || !fits || destination == 0 {
        return Err(DropReason::InvalidTransport);
    }
    Ok(Transport::Udp { source: read_u16(payload, 0), destination })
}

fn sctp(payload: &[u8]) -> Result<Transport, DropReason> {
    let (source, destination) = match payload.len() {
        SCTP_HEADER.. => (read_u16(payload, 0), read_u16(payload, 2)),
        _ => return Err(DropReason::InvalidTransport),
    };
    if source == 0 || destination == 0 {
        return Err(DropReason::InvalidTransport);
    }
    Ok(Transport::Sctp { source, destination })
}
