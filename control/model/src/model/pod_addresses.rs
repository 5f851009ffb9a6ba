//! Settling the addresses of pods in networks whose addresses no node leases.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use vrouter_objects::VrfId;

use super::Model;
use crate::NamespacedName;
use crate::allocate::PickedAddresses;
use crate::index::same_uid;
use crate::kube::{AddressWish, PodRecord};
use crate::network::{Misplaced, Tenancy, VirtualNetwork};

/// Subnets in which nothing is free.
type Exhausted = BTreeSet<(VrfId, IpNet)>;

impl Model {
    /// Picks addresses for these pods, and for those that wait for one; takes back what is not wanted any more.
    pub(super) fn settle_pod_addresses(&mut self, pods: &mut BTreeSet<NamespacedName>) {
        pods.append(&mut self.waiting_pods);
        for pod in &*pods {
            let kept = self.kept(pod);
            self.put_picked(pod, kept);
        }
        let mut exhausted = Exhausted::new();
        for pod in &*pods {
            self.pick_pod_addresses(pod, &mut exhausted);
        }
    }

    /// What of that which was picked for a pod stays its own.
    fn kept(&self, name: &NamespacedName) -> Option<PickedAddresses> {
        let mut picked = self.index.picked.get(name)?.clone();
        let pod = self.index.pods.get(name).filter(|pod| pod.has_interface())?;
        if !same_uid(&picked.uid, &pod.uid) {
            return None;
        }
        match self.picks_from(name, pod) {
            // A network that comes back finds its pods as they were.
            Err(_) => Some(picked),
            Ok(None) => None,
            Ok(Some(network)) if network.space != picked.space => None,
            Ok(Some(network)) => {
                picked.addresses.retain(|address| {
                    network.check(*address).is_ok() && self.is_nobodys(network.space, *address, name)
                });
                Some(picked)
            }
        }
    }

    fn pick_pod_addresses(&mut self, name: &NamespacedName, exhausted: &mut Exhausted) {
        let Some(pod) = self.index.pods.get(name) else { return };
        let Ok(Some(network)) = self.picks_from(name, pod) else { return };
        let network = network.clone();
        let (space, uid) = (network.space, pod.uid.clone());
        let kept = self.index.picked.get(name).map(|picked| picked.addresses.clone()).unwrap_or_default();
        let mut addresses = Vec::new();
        for subnet in &network.subnets {
            let held = kept.iter().copied().find(|address| subnet.prefix.contains(address));
            let held = held.or_else(|| self.attached_address(name, &network, subnet.prefix));
            let place = (space, subnet.prefix);
            let free = || {
                let is_free = |address| self.may_be_picked(space, address, name);
                let is_hopeless = exhausted.contains(&place);
                if is_hopeless { None } else { self.index.picked.find_free(space, subnet, is_free) }
            };
            match held.or_else(free) {
                Some(address) => {
                    if held.is_none() {
                        self.index.picked.note_last(space, address);
                    }
                    addresses.push(address);
                }
                None => {
                    exhausted.insert(place);
                    self.waiting_pods.insert(name.clone());
                }
            }
        }
        self.put_picked(name, Some(PickedAddresses { uid, space, addresses }));
    }

    /// The network out of which addresses are picked for a pod, if any are.
    fn picks_from(
        &self,
        name: &NamespacedName,
        pod: &PodRecord,
    ) -> Result<Option<&VirtualNetwork>, Misplaced> {
        let network = self.index.wanted_network(name, pod)?;
        let is_due = pod.has_interface() && pod.node.is_some() && pod.wish == AddressWish::Any;
        Ok(Some(network).filter(|network| is_due && network.tenancy() == Some(Tenancy::Custom)))
    }

    /// The address that the pod has already, as its node says.
    fn attached_address(
        &self,
        name: &NamespacedName,
        network: &VirtualNetwork,
        prefix: IpNet,
    ) -> Option<IpAddr> {
        let attachment = &self.index.attachment(name, self.index.pods.get(name)?)?.attachment;
        let mut usable = attachment.addresses.iter().copied().filter(|address| {
            prefix.contains(address)
                && network.check(*address).is_ok()
                && self.index.picked.holder(network.space, *address).is_none_or(|holder| holder == name)
                && self.is_nobodys(network.space, *address, name)
        });
        usable.next().filter(|_| attachment.vrf == network.vrf)
    }

    /// Whether nobody but this pod, as it is now, has an address or asks for it.
    fn may_be_picked(&self, space: VrfId, address: IpAddr, name: &NamespacedName) -> bool {
        self.index.picked.holder(space, address).is_none()
            && self.is_nobodys(space, address, name)
            && self.index.pods_wishing_in(space, address).next().is_none()
    }

    fn is_nobodys(&self, space: VrfId, address: IpAddr, name: &NamespacedName) -> bool {
        let uid = self.index.pods.get(name).map(|pod| pod.uid.as_str()).unwrap_or_default();
        let own_interface = |vmi| {
            let mut of_pod = self.index.attachments.of_pod(name).into_iter();
            of_pod.any(|attached| attached.attachment.vmi == vmi && same_uid(&attached.attachment.uid, uid))
        };
        self.index
            .owner(space, address)
            .is_none_or(|owner| owner.pod == name && owner.vmi.is_none_or(own_interface))
    }

    /// Whoever asks for an address that is picked or given back may lose or win it.
    fn put_picked(&mut self, name: &NamespacedName, picked: Option<PickedAddresses>) {
        let addresses = |picked: Option<&PickedAddresses>| -> BTreeSet<IpAddr> {
            picked.into_iter().flat_map(|picked| picked.addresses.iter().copied()).collect()
        };
        let (old, new) = (addresses(self.index.picked.get(name)), addresses(picked.as_ref()));
        self.index.picked.put(name, picked);
        for address in old.symmetric_difference(&new) {
            self.index.touch_address(*address);
        }
    }
}
