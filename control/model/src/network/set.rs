//! All networks there are, and the ways between them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use vrouter_objects::VrfId;

use super::{NetworkFault, NetworkRole, POD_NETWORK, PodNetwork, Tenancy, VirtualNetwork};
use crate::NamespacedName;
use crate::allocate::NetworkIds;
use crate::config::ModelConfig;
use crate::multimap::Multimap;

/// The networks of the cluster. It is made anew as a whole when a network changes.
#[derive(Debug, Clone, Default)]
pub struct NetworkSet {
    by_vrf: BTreeMap<VrfId, VirtualNetwork>,
    by_name: BTreeMap<NamespacedName, VrfId>,
    /// The cluster's own networks, which every node holds.
    of_cluster: BTreeSet<VrfId>,
    /// What the pod networks of isolated namespaces are called.
    isolated: BTreeMap<String, NamespacedName>,
    /// Networks that somebody wrote and that cannot be, with the reason.
    unusable: BTreeMap<NamespacedName, String>,
    /// Networks that were, and may still have interfaces in them, with their address spaces.
    gone: BTreeMap<VrfId, (NamespacedName, VrfId)>,
    /// Pod networks that are connected, each pair both ways.
    peers: Multimap<VrfId, VrfId>,
}

impl NetworkSet {
    /// The cluster's own networks, before it is known what others there are. All that ever were are remembered.
    pub fn new(config: &ModelConfig, ids: &NetworkIds) -> Self {
        let mut set = Self::default();
        config.networks().into_iter().for_each(|network| set.insert(network.clone()));
        set.remember_gone(ids);
        set
    }

    /// Adds a network.
    pub(super) fn insert(&mut self, network: VirtualNetwork) {
        let is_of_cluster = matches!(
            network.role,
            NetworkRole::Pods(PodNetwork { tenancy: Tenancy::Cluster, .. })
                | NetworkRole::Services(Tenancy::Cluster)
                | NetworkRole::Fabric
                | NetworkRole::LinkLocal
        );
        if is_of_cluster {
            self.of_cluster.insert(network.vrf);
        }
        self.by_name.insert(network.name.clone(), network.vrf);
        self.by_vrf.insert(network.vrf, network);
    }

    /// Notes that a network cannot be.
    pub(super) fn refuse(&mut self, name: NamespacedName, reason: String) {
        self.unusable.insert(name, reason);
    }

    /// Notes that a namespace has a pod network of its own, whether that can be used or not.
    pub(super) fn isolate(&mut self, namespace: &str) -> NamespacedName {
        let name = NamespacedName::new(namespace, POD_NETWORK);
        self.isolated.insert(namespace.to_owned(), name.clone());
        name
    }

    /// Notes which networks there were that are not there any more.
    pub(super) fn remember_gone(&mut self, ids: &NetworkIds) {
        let gone = ids.iter().filter(|(_, given)| !self.by_vrf.contains_key(&given.vrf));
        self.gone = gone.map(|(name, given)| (given.vrf, (name.clone(), given.space))).collect();
    }

    /// Connects two pod networks.
    pub(super) fn connect(&mut self, one: VrfId, other: VrfId) {
        self.peers.insert(one, other);
        self.peers.insert(other, one);
    }

    /// All networks.
    pub fn iter(&self) -> impl Iterator<Item = &VirtualNetwork> {
        self.by_vrf.values()
    }

    /// The network with this VRF.
    pub fn get(&self, vrf: VrfId) -> Option<&VirtualNetwork> {
        self.by_vrf.get(&vrf)
    }

    /// The network with this name.
    pub fn named(&self, name: &NamespacedName) -> Result<&VirtualNetwork, NetworkFault> {
        let found = self.by_name.get(name).and_then(|vrf| self.get(*vrf));
        found.ok_or_else(|| match self.unusable.get(name) {
            Some(reason) => NetworkFault::Unusable(name.clone(), reason.clone()),
            None => NetworkFault::Unknown(name.clone()),
        })
    }

    /// The pod network with this name.
    pub fn pods_named(&self, name: &NamespacedName) -> Result<&VirtualNetwork, NetworkFault> {
        let network = self.named(name)?;
        if network.pods().is_some() { Ok(network) } else { Err(NetworkFault::NotForPods(name.clone())) }
    }

    /// The cluster's own pod network.
    pub fn of_cluster(&self) -> Result<&VirtualNetwork, NetworkFault> {
        let mut own = self.of_cluster.iter().filter_map(|vrf| self.get(*vrf));
        let pods = own.find(|network| network.pods().is_some());
        pods.ok_or_else(|| NetworkFault::Unknown(NamespacedName::new("default", POD_NETWORK)))
    }

    /// Whether an address is of the link-local network.
    pub fn is_link_local(&self, address: IpAddr) -> bool {
        let mut own = self.of_cluster.iter().filter_map(|vrf| self.get(*vrf));
        own.any(|network| network.role == NetworkRole::LinkLocal && network.contains(address))
    }

    /// The pod network of whoever in a namespace asks for no other.
    pub fn of_namespace(&self, namespace: &str) -> Result<&VirtualNetwork, NetworkFault> {
        match self.isolated.get(namespace) {
            Some(name) => self.named(name),
            None => self.of_cluster(),
        }
    }

    /// The namespace whose own pod network this is.
    pub fn isolated_in(&self, name: &NamespacedName) -> Option<&str> {
        self.isolated
            .get_key_value(&name.namespace)
            .filter(|(_, own)| *own == name)
            .map(|(ns, _)| ns.as_str())
    }

    /// Whether there is such a network, or was one that may still have interfaces in it.
    pub fn is_known(&self, vrf: VrfId) -> bool {
        self.by_vrf.contains_key(&vrf) || self.gone.contains_key(&vrf)
    }

    /// What a network is called, also one that is gone.
    pub fn name(&self, vrf: VrfId) -> Option<&NamespacedName> {
        let present = self.get(vrf).map(|network| &network.name);
        present.or_else(|| self.gone.get(&vrf).map(|(name, _)| name))
    }

    /// Whose addresses a network has, also one that is gone.
    pub fn space(&self, vrf: VrfId) -> VrfId {
        let present = self.get(vrf).map(|network| network.space);
        present.or_else(|| self.gone.get(&vrf).map(|(_, space)| *space)).unwrap_or(vrf)
    }

    /// The pod networks that a pod network is connected with.
    pub fn peers(&self, vrf: VrfId) -> impl Iterator<Item = &VirtualNetwork> {
        self.peers.get(&vrf).filter_map(|peer| self.get(*peer))
    }

    /// Whether two pod networks are connected.
    pub fn are_peers(&self, one: VrfId, other: VrfId) -> bool {
        self.peers.contains(&one, &other)
    }

    /// The networks that are new, gone or other than they were, or connected with others.
    pub fn changed_since(&self, before: &Self) -> BTreeSet<VrfId> {
        let all = self.by_vrf.keys().chain(before.by_vrf.keys());
        all.copied()
            .filter(|&vrf| self.get(vrf) != before.get(vrf) || self.has_other_peers(before, vrf))
            .collect()
    }

    /// The names under which something else is found than before.
    pub fn names_changed_since(&self, before: &Self) -> BTreeSet<NamespacedName> {
        let present = self.by_name.keys().chain(before.by_name.keys());
        let names = present.chain(self.unusable.keys()).chain(before.unusable.keys());
        names.filter(|name| self.named(name) != before.named(name)).cloned().collect()
    }

    /// Whether a network is connected with others than before, or these are other than they were: it leads to their subnets.
    fn has_other_peers(&self, before: &Self, vrf: VrfId) -> bool {
        !self.peers(vrf).eq(before.peers(vrf))
    }
}
