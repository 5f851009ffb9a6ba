//! The two address families.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// IPv4 or IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }

    /// How many bits an address has.
    pub const fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

impl From<IpAddr> for Family {
    fn from(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

impl From<IpNet> for Family {
    fn from(prefix: IpNet) -> Self {
        prefix.addr().into()
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

impl FromStr for Family {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "IPv4" => Ok(Self::V4),
            "IPv6" => Ok(Self::V6),
            other => Err(format!("\"{other}\" is neither IPv4 nor IPv6")),
        }
    }
}

/// An address as a number, for counting through a prefix.
pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The address of this family with this number; bits beyond the family's are cut off.
pub fn address(family: Family, number: u128) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4((number as u32).into()),
        Family::V6 => IpAddr::V6(number.into()),
    }
}

/// Whether an address can be one interface's, and others than those on its link have a way to it.
pub fn is_routed(address: IpAddr) -> bool {
    let is_of_its_link = match address {
        IpAddr::V4(address) => address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !is_of_its_link && !address.is_unspecified() && !address.is_loopback() && !address.is_multicast()
}

/// The prefix that holds just this address.
pub fn host_prefix(address: IpAddr) -> IpNet {
    IpNet::from(address)
}
