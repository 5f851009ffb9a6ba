//! Settling networks: which ones there are, with which numbers, and the ways between them.

use super::Model;
use crate::network::{Resolved, Resolver};
use crate::problem::FindingsBook;
use crate::tables::{self, Unit};

impl Model {
    pub(super) fn settle_networks(&mut self) -> usize {
        if !std::mem::take(&mut self.index.dirty.networks) {
            return 0;
        }
        let ids = self.network_ids.clone();
        let resolver = Resolver {
            config: &self.config,
            namespaces: &self.index.namespaces,
            networks: &self.index.virtual_networks,
            subnets: &self.index.subnets,
            routers: &self.index.routers,
        };
        let Resolved { set, findings } = resolver.resolve(&mut self.network_ids);
        self.network_ids_changed |= self.network_ids != ids;
        self.network_findings = FindingsBook::default();
        findings.into_iter().for_each(|(subject, found)| self.network_findings.replace(subject, found));
        let before = std::mem::replace(&mut self.index.networks, set);
        for name in self.index.networks.names_changed_since(&before) {
            self.index.touch_network(&name);
        }
        let changed = self.index.networks.changed_since(&before);
        for &vrf in &changed {
            let networks = &self.index.networks;
            let network = networks.get(vrf);
            let placed = network.map(|network| tables::network_objects(&self.config, networks, network));
            self.tables.replace(Unit::Network(vrf), placed.unwrap_or_default());
            if let Some(name) = network.map(|network| network.name.clone()) {
                self.index.touch_network(&name);
            }
            self.index.touch_attached(vrf);
        }
        changed.len()
    }
}
