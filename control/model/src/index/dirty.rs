//! What must be looked at again.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::NamespacedName;
use crate::kube::ObjectRef;

/// The units of work whose inputs changed. Nothing else is recomputed.
#[derive(Debug, Default)]
pub struct Dirty {
    /// The networks: which ones there are, and which of them are connected.
    pub networks: bool,
    /// Nodes: their router, blocks and block routes.
    pub nodes: BTreeSet<String>,
    /// Pods: their bindings.
    pub pods: BTreeSet<NamespacedName>,
    /// Pod addresses: their owners and host routes.
    pub addresses: BTreeSet<IpAddr>,
    /// Services: their load balancers.
    pub services: BTreeSet<NamespacedName>,
    /// Policies: their rules.
    pub policies: BTreeSet<ObjectRef>,
    /// Pods: the peer sets they are in.
    pub peers: BTreeSet<NamespacedName>,
}

impl Dirty {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        let Self { networks, nodes, pods, addresses, services, policies, peers } = self;
        !networks
            && nodes.is_empty()
            && pods.is_empty()
            && addresses.is_empty()
            && services.is_empty()
            && policies.is_empty()
            && peers.is_empty()
    }
}
