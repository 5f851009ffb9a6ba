//! Addresses picked for pods of networks whose addresses no node leases.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use vrouter_objects::VrfId;

use super::given;
use super::spaced::SpacedAddress;
use super::turn::in_turn;
use crate::NamespacedName;
use crate::family::{self, Family};
use crate::network::NetworkSubnet;

/// What was picked for pods.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Saved", into = "Saved")]
pub struct PodAddresses {
    last: Vec<SpacedAddress>,
    by_pod: BTreeMap<NamespacedName, PickedAddresses>,
    by_address: Holders,
    /// Pods for which something changed since changes were last taken.
    changed: BTreeSet<NamespacedName>,
}

/// What was picked for one pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PickedAddresses {
    /// The pod's UID: another pod of its name may come before this one is gone.
    pub uid: String,
    /// Whose addresses these are.
    #[serde(with = "given")]
    pub space: VrfId,
    /// The addresses, at most one per family.
    pub addresses: Vec<IpAddr>,
}

/// The part of it that is saved.
#[derive(Serialize, Deserialize)]
struct Saved {
    /// Where the search for a free address goes on, per address space and family.
    last: Vec<SpacedAddress>,
    by_pod: BTreeMap<NamespacedName, PickedAddresses>,
}

/// What of it changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PodAddressChanges {
    last: Vec<SpacedAddress>,
    /// Each pod with what is picked for it now; nothing: it has none any more.
    pods: Vec<(NamespacedName, Option<PickedAddresses>)>,
}

impl PodAddresses {
    /// The pods for which something was picked.
    pub fn pods(&self) -> impl Iterator<Item = &NamespacedName> {
        self.by_pod.keys()
    }

    /// All addresses that were picked, each once.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.by_address.keys().copied()
    }

    /// The addresses that were picked for a pod.
    pub fn addresses_of(&self, pod: &NamespacedName) -> &[IpAddr] {
        self.by_pod.get(pod).map(|picked| picked.addresses.as_slice()).unwrap_or_default()
    }

    /// What was picked for a pod.
    pub fn get(&self, pod: &NamespacedName) -> Option<&PickedAddresses> {
        self.by_pod.get(pod)
    }

    /// The pod that an address was picked for.
    pub fn holder(&self, space: VrfId, address: IpAddr) -> Option<&NamespacedName> {
        self.by_address.get(&address)?.get(&space)
    }

    /// The pods that an address was picked for, each in an address space of its own.
    pub fn holders(&self, address: IpAddr) -> impl Iterator<Item = &NamespacedName> {
        self.by_address.get(&address).into_iter().flat_map(BTreeMap::values)
    }

    /// The address spaces in which an address was picked for a pod.
    pub fn spaces(&self, address: IpAddr) -> impl Iterator<Item = VrfId> {
        self.by_address.get(&address).into_iter().flat_map(|spaces| spaces.keys().copied())
    }

    /// Has these picked for a pod from now on; `None`: nothing.
    pub fn put(&mut self, pod: &NamespacedName, picked: Option<PickedAddresses>) {
        if self.by_pod.get(pod) == picked.as_ref() {
            return;
        }
        self.changed.insert(pod.clone());
        if let Some(old) = self.by_pod.remove(pod) {
            old.addresses.iter().for_each(|address| self.forget(*address, old.space));
        }
        if let Some(new) = picked {
            note(&mut self.by_address, pod, &new);
            self.by_pod.insert(pod.clone(), new);
        }
    }

    /// A free address of a subnet, looked for on from the last one that was picked: a freed one is found again only after all
    /// others.
    pub fn find_free(
        &self,
        space: VrfId,
        subnet: &NetworkSubnet,
        is_free: impl Fn(IpAddr) -> bool,
    ) -> Option<IpAddr> {
        let family = Family::from(subnet.prefix);
        let is_of_family = |last: &SpacedAddress| last.space == space && Family::from(last.address) == family;
        let last = self.last.iter().find(|last| is_of_family(last)).map(|last| family::number(last.address));
        let whole = [(subnet.prefix.network(), subnet.prefix.broadcast())];
        let ranges = if subnet.ranges.is_empty() { &whole[..] } else { &subnet.ranges };
        let numbers = ranges.iter().flat_map(|(from, to)| {
            let range = family::number(*from)..=family::number(*to);
            let last = last.filter(|last| range.contains(last));
            in_turn(range, 0, last)
        });
        let mut addresses = numbers.map(|number| family::address(family, number));
        addresses.find(|&address| subnet.may_be_picked(address) && is_free(address))
    }

    /// The next search goes on from here.
    pub fn note_last(&mut self, space: VrfId, address: IpAddr) {
        let is_same =
            |last: &SpacedAddress| last.space == space && last.address.is_ipv4() == address.is_ipv4();
        self.last.retain(|last| !is_same(last));
        self.last.push(SpacedAddress { space, address });
    }

    /// What changed since this was last asked; `None`: nothing did.
    pub fn take_changes(&mut self) -> Option<PodAddressChanges> {
        let changed = std::mem::take(&mut self.changed);
        if changed.is_empty() {
            return None;
        }
        let pods = changed.into_iter().map(|pod| (pod.clone(), self.by_pod.get(&pod).cloned()));
        Some(PodAddressChanges { last: self.last.clone(), pods: pods.collect() })
    }

    /// Whether something changed since changes were last taken.
    pub fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Makes a change that was taken from the state after this one.
    pub(super) fn replay(&mut self, changes: PodAddressChanges) {
        self.last = changes.last;
        for (pod, picked) in changes.pods {
            self.put(&pod, picked);
        }
        self.changed.clear();
    }

    fn forget(&mut self, address: IpAddr, space: VrfId) {
        if let Some(holders) = self.by_address.get_mut(&address) {
            holders.remove(&space);
            if holders.is_empty() {
                self.by_address.remove(&address);
            }
        }
    }

    /// Whether the state agrees with itself.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut holders = BTreeMap::new();
        for (pod, picked) in &self.by_pod {
            for address in picked.spaced() {
                if let Some(other) = holders.insert(address, pod) {
                    return Err(format!("pods {other} and {pod} both have {address}"));
                }
            }
        }
        Ok(())
    }
}

impl PickedAddresses {
    fn spaced(&self) -> impl Iterator<Item = SpacedAddress> {
        self.addresses.iter().map(|&address| SpacedAddress { space: self.space, address })
    }
}

/// Pods by what was picked for them.
type Holders = BTreeMap<IpAddr, BTreeMap<VrfId, NamespacedName>>;

fn note(holders: &mut Holders, pod: &NamespacedName, picked: &PickedAddresses) {
    for address in &picked.addresses {
        holders.entry(*address).or_default().insert(picked.space, pod.clone());
    }
}

impl From<Saved> for PodAddresses {
    fn from(Saved { last, by_pod }: Saved) -> Self {
        let mut by_address = BTreeMap::new();
        for (pod, picked) in &by_pod {
            note(&mut by_address, pod, picked);
        }
        Self { last, by_pod, by_address, changed: BTreeSet::new() }
    }
}

impl From<PodAddresses> for Saved {
    fn from(PodAddresses { last, by_pod, .. }: PodAddresses) -> Self {
        Self { last, by_pod }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pick(addresses: &mut PodAddresses, subnet: &NetworkSubnet, taken: &[&str]) -> Option<String> {
        let (space, is_free) =
            (VrfId::new(4).unwrap(), |address: IpAddr| !taken.contains(&address.to_string().as_str()));
        let picked = addresses.find_free(space, subnet, is_free)?;
        addresses.note_last(space, picked);
        Some(picked.to_string())
    }

    fn subnet_of(prefix: &str) -> NetworkSubnet {
        NetworkSubnet::of_pods(NamespacedName::new("a", "subnet"), prefix.parse().unwrap())
    }

    #[test]
    fn all_but_the_gateway_and_the_ends_and_freed_ones_last() {
        let subnet = subnet_of("10.0.0.0/29");
        let mut addresses = PodAddresses::default();
        let mut picked: Vec<String> = Vec::new();
        while let Some(next) = {
            let taken: Vec<&str> = picked.iter().map(String::as_str).collect();
            pick(&mut addresses, &subnet, &taken)
        } {
            picked.push(next);
        }
        assert_eq!(picked, ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]);
        assert_eq!(pick(&mut addresses, &subnet, &[]).unwrap(), "10.0.0.2", "round it goes");
        assert_eq!(pick(&mut addresses, &subnet, &[]).unwrap(), "10.0.0.3");
        let v6 = NetworkSubnet { gateway: "fd00::9".parse().ok(), ..subnet_of("fd00::/64") };
        assert_eq!(pick(&mut addresses, &v6, &[]).unwrap(), "fd00::1");
    }

    #[test]
    fn ranges_are_kept_to() {
        let mut subnet = subnet_of("10.0.0.0/24");
        let range = |from: &str, to: &str| (from.parse().unwrap(), to.parse().unwrap());
        subnet.ranges = vec![range("10.0.0.1", "10.0.0.2"), range("10.0.0.200", "10.0.0.200")];
        let mut addresses = PodAddresses::default();
        assert_eq!(pick(&mut addresses, &subnet, &[]).unwrap(), "10.0.0.2");
        assert_eq!(pick(&mut addresses, &subnet, &["10.0.0.2"]).unwrap(), "10.0.0.200");
        assert_eq!(pick(&mut addresses, &subnet, &["10.0.0.2", "10.0.0.200"]), None);
    }
}
