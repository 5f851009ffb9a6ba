//! Who is at the other ends of the tunnels.

use std::net::IpAddr;

use vrouter_objects::MacAddress;

/// The other tunnel ends: the MAC address that inner frames from them bear, and the address they are at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peers(Box<[([u8; 6], IpAddr)]>);

impl Peers {
    /// Where the tunnel end with this MAC address is.
    pub(super) fn address_of(&self, mac: &[u8; 6]) -> Option<IpAddr> {
        let place = self.0.binary_search_by_key(mac, |(mac, _)| *mac).ok()?;
        Some(self.0[place].1)
    }
}

impl FromIterator<(MacAddress, IpAddr)> for Peers {
    /// Of two with one MAC address, one counts.
    fn from_iter<T: IntoIterator<Item = (MacAddress, IpAddr)>>(peers: T) -> Self {
        let mut peers: Vec<_> = peers.into_iter().map(|(mac, address)| (mac.0, address)).collect();
        peers.sort_unstable();
        peers.dedup_by_key(|(mac, _)| *mac);
        Self(peers.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_found_by_its_mac_address() {
        let number = |number: u32| (MacAddress::local(0x56, number), IpAddr::from(number.to_be_bytes()));
        let peers: Peers = [7, 300, 2, 300, 90_000].map(number).into_iter().collect();
        for known in [2, 7, 300, 90_000].map(number) {
            assert_eq!(peers.address_of(&known.0.0), Some(known.1));
        }
        assert_eq!(peers.address_of(&number(3).0.0), None);
        assert_eq!(Peers::default().address_of(&number(2).0.0), None);
    }
}
