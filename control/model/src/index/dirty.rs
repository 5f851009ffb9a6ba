//! What must be looked at again.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::NamespacedName;

/// The units of work whose inputs changed. Nothing else is recomputed.
#[derive(Debug, Default)]
pub struct Dirty {
    /// Nodes: their router, blocks and block routes.
    pub nodes: BTreeSet<String>,
    /// Pods: their bindings.
    pub pods: BTreeSet<NamespacedName>,
    /// Pod addresses: their owners and host routes.
    pub addresses: BTreeSet<IpAddr>,
    /// Services: their load balancers.
    pub services: BTreeSet<NamespacedName>,
}

impl Dirty {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.pods.is_empty() && self.addresses.is_empty() && self.services.is_empty()
    }
}
