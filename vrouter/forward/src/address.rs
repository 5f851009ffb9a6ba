//! IP addresses as the tables hold them: 128 bits, IPv4 as IPv4-mapped IPv6 (RFC 4291 section 2.5.5.2).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IPv4 or IPv6 address in one fixed-size form, so that every table treats both families alike. A packet
/// that itself bears an IPv4-mapped IPv6 address is dropped by the parser, so the two cannot be mixed up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(u128);

/// The family of an address or packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

const V4_MAPPED: u128 = 0xffff << 32;

impl Address {
    /// 0.0.0.0.
    pub const V4_UNSPECIFIED: Self = Self(V4_MAPPED);

    /// The IPv4 address with these octets.
    pub const fn v4(octets: [u8; 4]) -> Self {
        Self(V4_MAPPED | u32::from_be_bytes(octets) as u128)
    }

    /// The IPv6 address with these octets.
    pub fn v6(octets: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(octets))
    }

    /// The address as a number, IPv4 mapped.
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// The address with these bits, IPv4 mapped.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// Its family.
    pub const fn family(self) -> Family {
        if self.0 >> 32 == 0xffff { Family::V4 } else { Family::V6 }
    }

    /// The low 32 bits in network order: an IPv4 address's octets.
    pub const fn v4_octets(self) -> [u8; 4] {
        (self.0 as u32).to_be_bytes()
    }

    /// All 128 bits in network order.
    pub const fn v6_octets(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Whether a unicast packet may bear it as its destination: for IPv4 neither "this network", nor
    /// loopback, nor multicast or above; for IPv6 neither unspecified, nor loopback, nor multicast.
    #[inline]
    pub const fn is_unicast(self) -> bool {
        match self.family() {
            Family::V4 => !matches!((self.0 >> 24) as u8, 0 | 127 | 224..),
            Family::V6 => self.0 > 1 && (self.0 >> 120) as u8 != 0xff,
        }
    }

    /// Whether it means something on one link only (RFC 3927, RFC 4291 section 2.5.6).
    pub(crate) const fn is_link_local(self) -> bool {
        match self.family() {
            Family::V4 => (self.0 >> 16) as u16 == 0xa9fe,
            Family::V6 => (self.0 >> 118) == 0x3fa,
        }
    }

    /// Whether it is a multicast address, or IPv4's limited broadcast.
    #[inline]
    pub const fn is_multicast(self) -> bool {
        match self.family() {
            Family::V4 => matches!((self.0 >> 24) as u8, 224..=239) || self.0 as u32 == u32::MAX,
            Family::V6 => (self.0 >> 120) as u8 == 0xff,
        }
    }
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::v4(address.octets()),
            IpAddr::V6(address) => Self::v6(address.octets()),
        }
    }
}

impl From<Address> for IpAddr {
    fn from(address: Address) -> Self {
        match address.family() {
            Family::V4 => IpAddr::V4(Ipv4Addr::from(address.v4_octets())),
            Family::V6 => IpAddr::V6(Ipv6Addr::from(address.v6_octets())),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        IpAddr::from(*self).fmt(f)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
