//! IP protocols.

use std::fmt;
use std::str::FromStr;

use crate::ObjectError;

/// An IP protocol number (IPv4 `protocol`, IPv6 `next header` after the extension headers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpProtocol(pub u8);

impl IpProtocol {
    /// ICMP for IPv4.
    pub const ICMP: Self = Self(1);
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);
    /// ICMP for IPv6.
    pub const ICMPV6: Self = Self(58);
    /// SCTP.
    pub const SCTP: Self = Self(132);
}

impl fmt::Display for IpProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ICMP => f.write_str("ICMP"),
            Self::TCP => f.write_str("TCP"),
            Self::UDP => f.write_str("UDP"),
            Self::ICMPV6 => f.write_str("ICMPv6"),
            Self::SCTP => f.write_str("SCTP"),
            Self(number) => write!(f, "{number}"),
        }
    }
}

/// A protocol that a Kubernetes Service port can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServiceProtocol {
    /// TCP, the default.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl From<ServiceProtocol> for IpProtocol {
    fn from(protocol: ServiceProtocol) -> Self {
        match protocol {
            ServiceProtocol::Tcp => Self::TCP,
            ServiceProtocol::Udp => Self::UDP,
            ServiceProtocol::Sctp => Self::SCTP,
        }
    }
}

impl fmt::Display for ServiceProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        })
    }
}

impl FromStr for ServiceProtocol {
    type Err = ObjectError;

    fn from_str(text: &str) -> Result<Self, ObjectError> {
        match text {
            "TCP" => Ok(Self::Tcp),
            "UDP" => Ok(Self::Udp),
            "SCTP" => Ok(Self::Sctp),
            other => Err(ObjectError::Protocol(other.to_owned())),
        }
    }
}
