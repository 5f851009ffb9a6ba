//! Ethernet addresses.

use std::fmt;
use std::str::FromStr;

use crate::ObjectError;

/// A 48-bit Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// The broadcast address.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// The address every pod sees its gateway at, on every node alike: the virtual router address that
    /// Contrail's vRouter uses too (RFC 5798 section 7.3, VRID 0).
    pub const GATEWAY: Self = Self([0x00, 0x00, 0x5e, 0x00, 0x01, 0x00]);

    /// A locally administered unicast address that carries 32 bits of identity below a one-byte `kind`.
    pub const fn local(kind: u8, identity: u32) -> Self {
        let [a, b, c, d] = identity.to_be_bytes();
        Self([0x02, kind, a, b, c, d])
    }

    /// Whether the group bit is set: broadcast and multicast.
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for MacAddress {
    type Err = ObjectError;

    fn from_str(text: &str) -> Result<Self, ObjectError> {
        let bad = || ObjectError::Mac(text.to_owned());
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            let part = parts.next().ok_or_else(bad)?;
            if part.is_empty() || part.len() > 2 {
                return Err(bad());
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| bad())?;
        }
        parts.next().is_none().then_some(Self(octets)).ok_or_else(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let mac: MacAddress = "02:aa:00:00:00:01".parse().unwrap();
        assert_eq!(mac.to_string(), "02:aa:00:00:00:01");
        for bad in ["", "02:aa:00:00:00", "02:aa:00:00:00:01:02", "02:aa:00:00:00:zz", "2aa::1"] {
            assert!(bad.parse::<MacAddress>().is_err(), "{bad}");
        }
    }
}
