//! A prefix in the form that comparing with it costs least.

use vrouter_objects::IpNet;

use crate::address::{Address, Family};

/// A prefix as a value and the bits of it that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MaskedPrefix {
    pub(crate) value: u128,
    pub(crate) mask: u128,
}

impl MaskedPrefix {
    pub(super) fn new(prefix: IpNet) -> Self {
        let width = if prefix.addr().is_ipv4() { 32 } else { 128 };
        let mask = u128::MAX.checked_shl(width - u32::from(prefix.prefix_len())).unwrap_or(0);
        Self { value: Address::from(prefix.addr()).bits() & mask, mask }
    }

    /// Whether an address lies in it.
    #[inline(always)]
    pub(crate) fn contains(&self, address: Address) -> bool {
        address.bits() & self.mask == self.value
    }

    pub(super) fn family(&self) -> Family {
        Address::from_bits(self.value).family()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn holds_the_addresses_that_the_prefix_does() {
        for text in ["10.244.0.0/16", "0.0.0.0/0", "10.1.2.3/32", "fd00:10:244::/48", "::/0", "fd00::1/128"] {
            let prefix: IpNet = text.parse().unwrap();
            let masked = MaskedPrefix::new(prefix);
            for address in
                ["10.244.0.1", "10.245.0.1", "10.1.2.3", "fd00:10:244::7", "fd00::1", "2001:db8::1"]
            {
                let ip: IpAddr = address.parse().unwrap();
                // All IPv4 addresses lie in ::/0 as they are held.
                let same_family = ip.is_ipv4() == prefix.addr().is_ipv4();
                if same_family {
                    assert_eq!(masked.contains(ip.into()), prefix.contains(&ip), "{address} in {text}");
                }
            }
        }
    }
}
