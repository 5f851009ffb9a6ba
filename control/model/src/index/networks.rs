//! Networks in the index, and who is in which.

use std::collections::BTreeMap;
use std::net::IpAddr;

use vrouter_objects::VrfId;

use super::{Attached, Index};
use crate::NamespacedName;
use crate::kube::{
    Kind, NamespaceRecord, NetworkWish, ObjectRef, PodRecord, RouterRecord, ServiceRecord, SubnetRecord,
    VirtualNetworkRecord,
};
use crate::network::{Misplaced, NetworkFault, PodPlace, ServiceNetworks, VirtualNetwork};

/// Who asks for a network by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asker {
    /// A whole namespace.
    Namespace(String),
    /// A pod.
    Pod(NamespacedName),
    /// A service.
    Service(NamespacedName),
}

impl Index {
    pub(super) fn put_virtual_network(
        &mut self,
        name: &NamespacedName,
        record: Option<VirtualNetworkRecord>,
    ) {
        self.dirty.networks |= put(&mut self.virtual_networks, name, record);
    }

    pub(super) fn put_subnet(&mut self, name: &NamespacedName, record: Option<SubnetRecord>) {
        self.dirty.networks |= put(&mut self.subnets, name, record);
    }

    pub(super) fn put_router(&mut self, name: &NamespacedName, record: Option<RouterRecord>) {
        self.dirty.networks |= put(&mut self.routers, name, record);
    }

    /// A namespace is now this, or gone.
    pub(super) fn note_namespace(
        &mut self,
        name: &str,
        old: Option<&NamespaceRecord>,
        new: Option<&NamespaceRecord>,
    ) {
        let isolation = |record: Option<&NamespaceRecord>| record.map(|record| record.isolation.clone());
        let network = |record: Option<&NamespaceRecord>| Some(record?.network.clone());
        let labels = |record: Option<&NamespaceRecord>| record.map(|record| record.labels.clone());
        let is_isolated = |record: Option<&NamespaceRecord>| record.is_some_and(NamespaceRecord::is_isolated);
        let asks_for_others = network(old).unwrap_or_default() != network(new).unwrap_or_default();
        if asks_for_others {
            let wish = |record: Option<&NamespaceRecord>| network(record).unwrap_or_default();
            self.note_wish(Asker::Namespace(name.to_owned()), &wish(old), &wish(new));
        }
        let is_in_others = asks_for_others || is_isolated(old) != is_isolated(new);
        // Routers select namespaces by their labels.
        let may_be_joined = !self.routers.is_empty() && labels(old) != labels(new);
        self.dirty.networks |= is_in_others || may_be_joined || isolation(old) != isolation(new);
        if is_in_others {
            self.touch_tenants(name);
        }
    }

    /// Somebody asks for another network than before.
    pub(super) fn note_wish(&mut self, asker: Asker, old: &NetworkWish, new: &NetworkWish) {
        if let Some(network) = old.name() {
            self.askers.remove(network, &asker);
        }
        if let Some(network) = new.name() {
            self.askers.insert(network.clone(), asker);
        }
    }

    /// Something else is found under a network's name than before, or it is connected with others.
    pub fn touch_network(&mut self, name: &NamespacedName) {
        let askers: Vec<Asker> = self.askers.get(name).cloned().collect();
        for asker in askers {
            match asker {
                Asker::Namespace(namespace) => self.touch_tenants(&namespace),
                Asker::Pod(pod) => self.touch_placement(&pod),
                Asker::Service(service) => drop(self.dirty.services.insert(service)),
            }
        }
        if let Some(namespace) = self.networks.isolated_in(name).map(str::to_owned) {
            self.touch_tenants(&namespace);
        }
        if self.networks.of_cluster().is_ok_and(|cluster| cluster.name == *name) {
            let pods: Vec<_> = self.pods.keys().cloned().collect();
            pods.iter().for_each(|pod| self.touch_placement(pod));
        }
    }

    /// What is attached in a network must be looked at again: the network is gone or other than it was.
    pub fn touch_attached(&mut self, vrf: VrfId) {
        let attached = self.attachments.in_network(vrf);
        let attached: Vec<_> = attached.map(|attached| attached.attachment.clone()).collect();
        attached.iter().for_each(|attachment| self.touch_attachment(attachment));
    }

    /// An address may be another pod's than before.
    pub fn touch_address(&mut self, address: IpAddr) {
        self.dirty.addresses.insert(address);
        self.dirty.pods.extend(self.wished.get(&address).cloned());
    }

    /// All that is in a namespace may be in another network than before.
    fn touch_tenants(&mut self, namespace: &str) {
        let pods: Vec<_> = self.pods_in(namespace).cloned().collect();
        pods.iter().for_each(|pod| self.touch_placement(pod));
        let first = NamespacedName::new(namespace, "");
        let services = self.services.range(&first..).map(|(name, _)| name);
        let services = services.take_while(|name| name.namespace == first.namespace);
        self.dirty.services.extend(services.cloned());
    }

    /// A pod may be in another network than before, and with it its addresses.
    fn touch_placement(&mut self, name: &NamespacedName) {
        self.touch_pod(name);
        if let Some(record) = self.pods.get(name).cloned() {
            self.touch_claims(name, &record);
        }
    }

    /// The network that a pod is to be in.
    pub fn wanted_network(
        &self,
        name: &NamespacedName,
        pod: &PodRecord,
    ) -> Result<&VirtualNetwork, Misplaced> {
        self.network_for((Kind::Pod, name), &pod.network)
    }

    /// Where a pod is: in the network that it is attached to, or else in the one that it is to be in. `None`: it has no
    /// interface, or there is no such network.
    pub fn place(&self, name: &NamespacedName, pod: &PodRecord) -> Option<PodPlace> {
        if !pod.has_interface() {
            return None;
        }
        match self.attachment(name, pod) {
            Some(attached) => Some(self.attached_at(attached)),
            None => {
                let (vrf, addresses) =
                    (self.wanted_network(name, pod).ok()?.vrf, pod.stated_addresses.clone());
                Some(PodPlace { vrf, space: self.networks.space(vrf), addresses })
            }
        }
    }

    /// Where a pod is with all its interfaces: while its sandbox is made anew it may have the old one and the new one.
    pub fn places(&self, name: &NamespacedName, pod: &PodRecord) -> Vec<PodPlace> {
        let mut places: Vec<PodPlace> = self.place(name, pod).into_iter().collect();
        if !places.is_empty() {
            let older = self.attached_as(name, pod).skip(1);
            places.extend(older.map(|attached| self.attached_at(attached)));
        }
        places
    }

    fn attached_at(&self, Attached { attachment, .. }: &Attached) -> PodPlace {
        let (vrf, addresses) = (attachment.vrf, attachment.addresses.clone());
        PodPlace { vrf, space: self.networks.space(vrf), addresses }
    }

    /// The networks of a service.
    pub fn service_networks(
        &self,
        name: &NamespacedName,
        service: &ServiceRecord,
    ) -> Result<ServiceNetworks, Misplaced> {
        let network = self.network_for((Kind::Service, name), &service.network)?;
        let services = network.pods().map_or(network.vrf, |pods| pods.services);
        Ok(ServiceNetworks { pods: network.vrf, services, space: self.networks.space(services) })
    }

    /// The pod that an address of an address space was picked for, attached or not.
    pub fn picked_for(&self, space: VrfId, address: IpAddr) -> Option<(&NamespacedName, &PodRecord)> {
        self.pods.get_key_value(self.picked.holder(space, address)?)
    }

    fn network_for(
        &self,
        (kind, name): (Kind, &NamespacedName),
        own: &NetworkWish,
    ) -> Result<&VirtualNetwork, Misplaced> {
        let record = self.namespaces.get(&name.namespace);
        let of_namespace =
            || ObjectRef { kind: Kind::Namespace, namespace: String::new(), name: name.namespace.clone() };
        let own_reference = || ObjectRef { kind, namespace: name.namespace.clone(), name: name.name.clone() };
        let inherited = record.map(|record| &record.network);
        match (own, inherited) {
            (NetworkWish::Inherited, Some(wish)) => self.named(wish, &name.namespace, of_namespace),
            (wish, _) => self.named(wish, &name.namespace, own_reference),
        }
    }

    fn named(
        &self,
        wish: &NetworkWish,
        namespace: &str,
        asker: impl FnOnce() -> ObjectRef,
    ) -> Result<&VirtualNetwork, Misplaced> {
        let found = match wish {
            NetworkWish::Inherited => self.networks.of_namespace(namespace),
            NetworkWish::Named(name) => self.networks.pods_named(name),
            NetworkWish::Malformed(message) => Err(NetworkFault::Malformed(message.clone())),
        };
        found.map_err(|fault| Misplaced { asker: Box::new(asker()), fault })
    }
}

/// Whether it is another record than before.
fn put<R: PartialEq>(
    records: &mut BTreeMap<NamespacedName, R>,
    name: &NamespacedName,
    record: Option<R>,
) -> bool {
    if records.get(name) == record.as_ref() {
        return false;
    }
    match record {
        Some(record) => records.insert(name.clone(), record),
        None => records.remove(name),
    };
    true
}
