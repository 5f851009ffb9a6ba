//! The two families, each with a gateway of its own on `vhost0`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use rtnetlink::IpVersion;
use rtnetlink::packet_route::AddressFamily;

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// The family of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// Those that this kernel speaks.
    pub(super) fn spoken() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|family| match family {
            Self::V4 => true,
            Self::V6 => Path::new("/proc/sys/net/ipv6").exists(),
        })
    }

    /// The router as the node's own stack sees it: the neighbour on `vhost0` that everything goes to. The address means
    /// something on that link alone.
    pub(super) const fn gateway(self) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::new(169, 254, 1, 1)),
            Self::V6 => IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1)),
        }
    }

    /// As netlink calls it in messages.
    pub(super) fn number(self) -> AddressFamily {
        match self {
            Self::V4 => AddressFamily::Inet,
            Self::V6 => AddressFamily::Inet6,
        }
    }

    /// As netlink calls it in requests.
    pub(super) fn version(self) -> IpVersion {
        match self {
            Self::V4 => IpVersion::V4,
            Self::V6 => IpVersion::V6,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}
