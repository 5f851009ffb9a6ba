//! Nodes in the index.

use std::net::IpAddr;

use super::Index;
use crate::Family;
use crate::kube::{NodeKind, NodeRecord};

impl Index {
    pub(super) fn put_node(&mut self, name: &str, record: Option<NodeRecord>) {
        if self.nodes.get(name) == record.as_ref() {
            return;
        }
        self.touch_node_addresses(name);
        for (address, _) in self.nodes.remove(name).iter().flat_map(|old| &old.all_addresses) {
            self.node_addresses.remove(address, name);
        }
        if let Some(new) = record {
            for (address, _) in &new.all_addresses {
                self.node_addresses.insert(*address, name.to_owned());
            }
            self.nodes.insert(name.to_owned(), new);
            self.touch_node_addresses(name);
        }
        self.touch_node(name);
        self.find_underlay();
        self.dirty.policies.extend(self.policies_with_nodes.iter().cloned());
    }

    /// Where tunnels to a node end, if they can reach it.
    pub fn vtep(&self, name: &str) -> Option<IpAddr> {
        let record = self.nodes.get(name).filter(|record| record.kind != NodeKind::Unknown)?;
        let fits = |address: IpAddr| {
            Some(Family::from(address)) == self.underlay && self.node_at(address) == Some(name)
        };
        record.vteps.iter().copied().find(|&address| fits(address))
    }

    /// The node that has an address: of several that state it the first by name. A link-local one is no node's.
    pub fn node_at(&self, address: IpAddr) -> Option<&str> {
        if self.networks.is_link_local(address) {
            return None;
        }
        self.node_addresses.get(&address).next().map(String::as_str)
    }

    /// The addresses at which a node itself is reached.
    pub fn own_addresses(&self, name: &str) -> Vec<IpAddr> {
        let stated = self.nodes.get(name).into_iter().flat_map(|record| &record.all_addresses);
        stated.map(|(address, _)| *address).filter(|address| self.node_at(*address) == Some(name)).collect()
    }

    /// Whoever else states the node's addresses may win or lose one.
    fn touch_node_addresses(&mut self, name: &str) {
        let addresses = self.nodes.get(name).into_iter().flat_map(|record| &record.all_addresses);
        let sharing = addresses.flat_map(|(address, _)| self.node_addresses.get(address));
        let others: Vec<String> = sharing.filter(|other| *other != name).cloned().collect();
        others.iter().for_each(|other| self.touch_node(other));
    }

    /// One family per cluster carries the tunnels. Most nodes decide: a single odd one cuts off nobody but itself.
    fn find_underlay(&mut self) {
        let addresses = || self.nodes.values().flat_map(|record| &record.vteps);
        let count = |family| addresses().filter(|&&address| Family::from(address) == family).count();
        let underlay = match (count(Family::V4), count(Family::V6)) {
            (0, 0) => None,
            (v4, v6) if v4 >= v6 => Some(Family::V4),
            _ => Some(Family::V6),
        };
        if std::mem::replace(&mut self.underlay, underlay) != underlay {
            let all: Vec<String> = self.nodes.keys().cloned().collect();
            all.iter().for_each(|name| self.touch_node(name));
        }
    }

    /// The node, its addresses or its blocks changed: so may everything that is on it.
    pub fn touch_node(&mut self, name: &str) {
        self.dirty.nodes.insert(name.to_owned());
        self.touch_pods_on(name);
    }

    /// What is on the node must be looked at again.
    pub fn touch_pods_on(&mut self, name: &str) {
        let pods: Vec<_> = self.pods_on.get(name).cloned().collect();
        for pod in pods {
            let record = &self.pods[&pod];
            let promised = record.wished_addresses().iter().chain(self.picked.addresses_of(&pod));
            self.dirty.addresses.extend(record.stated_addresses.iter().chain(promised));
            if record.host_network {
                self.touch_pod(&pod);
            } else {
                self.dirty.pods.insert(pod);
            }
        }
        for attached in self.attachments.on_node(name) {
            self.dirty.addresses.extend(&attached.attachment.addresses);
        }
    }
}
