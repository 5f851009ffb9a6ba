//! Cluster addresses: given by the Service itself, or picked for it.

use std::collections::BTreeMap;

use ipnet::IpNet;
use vrouter_objects::VrfId;

use super::FloatingIps;
use super::floating_ips::FloatingIpAllocation;
use super::spaced::SpacedAddress;
use super::turn::in_turn;
use crate::NamespacedName;
use crate::family::{self, Family};

/// The lower part of a service prefix is left to Services that name their address, at most so many addresses, as
/// Kubernetes does: so a picked address is rarely one that a manifest names.
const STATIC_BAND: u128 = 256;

impl FloatingIps {
    /// Gives an address that the Service names itself. `false`: it is another's, or ids are used up.
    pub fn claim(&mut self, address: SpacedAddress, service: &NamespacedName) -> bool {
        match self.holder(address) {
            Some(holder) => holder == service,
            None => self.give(address, service).is_some(),
        }
    }

    /// Picks a free address of an address space out of a prefix. A freed one is picked again only after all others.
    pub fn pick(&mut self, space: VrfId, prefix: IpNet, service: &NamespacedName) -> Option<SpacedAddress> {
        let family = Family::from(prefix);
        let (first, last) = (family::number(prefix.network()) + 1, last_usable(prefix));
        if last < first {
            return None;
        }
        let band = STATIC_BAND.min((last - first) / 16);
        let spaced = |number| SpacedAddress { space, address: family::address(family, number) };
        let free = |number: &u128| !self.by_address.contains_key(&spaced(*number));
        let mut numbers = in_turn(first..=last, band, self.last_picked(space, prefix));
        let address = spaced(numbers.find(free)?);
        self.give(address, service)?;
        let is_last =
            |picked: &SpacedAddress| picked.space == space && Family::from(picked.address) == family;
        self.given.last_picked.retain(|picked| !is_last(picked));
        self.given.last_picked.push(address);
        Some(address)
    }

    /// Takes an address back, with the listeners and members on it.
    pub fn release(&mut self, address: SpacedAddress) {
        if let Some(floating_ip) = self.by_address.remove(&address) {
            self.by_service.remove(&floating_ip.service, &address);
            self.changed.insert(address);
        }
    }

    fn give(&mut self, address: SpacedAddress, service: &NamespacedName) -> Option<()> {
        let id = self.given.ids.next()?;
        let allocation = FloatingIpAllocation { id, service: service.clone(), listeners: BTreeMap::new() };
        self.by_address.insert(address, allocation);
        self.by_service.insert(service.clone(), address);
        self.changed.insert(address);
        Some(())
    }

    fn last_picked(&self, space: VrfId, prefix: IpNet) -> Option<u128> {
        let mut of_prefix = self.given.last_picked.iter();
        let last = of_prefix.find(|picked| picked.space == space && prefix.contains(&picked.address))?;
        Some(family::number(last.address))
    }
}

/// The last address of a prefix that can be given; IPv4 has a broadcast address after it.
fn last_usable(prefix: IpNet) -> u128 {
    let last = family::number(prefix.broadcast());
    match Family::from(prefix) {
        Family::V4 => last.saturating_sub(1),
        Family::V6 => last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pick(state: &mut FloatingIps, prefix: &str, name: &str) -> Option<String> {
        let service = NamespacedName::new("default", name);
        let picked = state.pick(space(2), prefix.parse().unwrap(), &service);
        picked.map(|picked| picked.address.to_string())
    }

    fn space(number: u32) -> VrfId {
        VrfId::new(number).unwrap()
    }

    #[test]
    fn picked_above_the_static_band_and_freed_ones_last() {
        let mut state = FloatingIps::default();
        assert_eq!(pick(&mut state, "10.96.0.0/12", "a").unwrap(), "10.96.1.1");
        assert_eq!(pick(&mut state, "10.96.0.0/12", "b").unwrap(), "10.96.1.2");
        state.release("2/10.96.1.1".parse().unwrap());
        assert_eq!(pick(&mut state, "10.96.0.0/12", "c").unwrap(), "10.96.1.3");
        assert_eq!(pick(&mut state, "fd00:10:96::/108", "a").unwrap(), "fd00:10:96::101");
    }

    #[test]
    fn each_address_space_has_all_addresses() {
        let (mut state, service) = (FloatingIps::default(), NamespacedName::new("default", "a"));
        let mut pick = |number| state.pick(space(number), "10.96.0.0/12".parse().unwrap(), &service).unwrap();
        let picked = [2, 5, 5, 2].map(|number| pick(number).to_string());
        assert_eq!(picked, ["2/10.96.1.1", "5/10.96.1.1", "5/10.96.1.2", "2/10.96.1.2"]);
        // As states were saved when there was one.
        assert_eq!(
            "10.96.1.1".parse(),
            Ok(SpacedAddress { space: space(2), address: "10.96.1.1".parse().unwrap() })
        );
    }

    #[test]
    fn every_address_of_a_small_prefix_is_given_once() {
        let mut state = FloatingIps::default();
        let mut picked: Vec<_> =
            (0..6).map(|i| pick(&mut state, "10.0.0.0/29", &format!("s{i}")).unwrap()).collect();
        picked.sort();
        assert_eq!(picked, ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]);
        assert_eq!(pick(&mut state, "10.0.0.0/29", "late"), None);
        state.release("2/10.0.0.3".parse().unwrap());
        assert_eq!(pick(&mut state, "10.0.0.0/29", "late").unwrap(), "10.0.0.3");
    }
}
