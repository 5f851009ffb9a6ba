//! Nodes in the index.

use std::net::IpAddr;

use super::Index;
use crate::Family;
use crate::kube::{NodeKind, NodeRecord};

impl Index {
    pub(super) fn put_node(&mut self, name: &str, record: Option<NodeRecord>) {
        let old = match record {
            Some(record) if self.nodes.get(name) == Some(&record) => return,
            Some(record) => self.nodes.insert(name.to_owned(), record),
            None => self.nodes.remove(name),
        };
        if old.is_some() || self.nodes.contains_key(name) {
            self.touch_node(name);
            self.find_underlay();
        }
    }

    /// Where tunnels to a node end, if they can reach it.
    pub fn vtep(&self, name: &str) -> Option<IpAddr> {
        let record = self.nodes.get(name).filter(|record| record.kind != NodeKind::Unknown)?;
        record.vteps.iter().copied().find(|&address| Some(Family::from(address)) == self.underlay)
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
            self.dirty.addresses.extend(record.stated_addresses.iter().chain(record.wished_addresses()));
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
