//! Pods in the index.

use super::networks::Asker;
use super::{Index, Label};
use crate::NamespacedName;
use crate::kube::PodRecord;

impl Index {
    pub(super) fn put_pod(&mut self, name: &NamespacedName, record: Option<PodRecord>) {
        if self.pods.get(name) == record.as_ref() {
            return;
        }
        let wish =
            |record: Option<&PodRecord>| record.map(|record| record.network.clone()).unwrap_or_default();
        self.note_wish(Asker::Pod(name.clone()), &wish(self.pods.get(name)), &wish(record.as_ref()));
        // Services that select it by its old labels, then those that do by its new ones.
        self.touch_pod(name);
        let old = self.pods.remove(name);
        if old.as_ref().map(claims) != record.as_ref().map(claims) {
            old.iter().chain(&record).for_each(|record| self.touch_claims(name, record));
        }
        if let Some(old) = old {
            self.unlink_pod(name, &old);
        }
        if let Some(new) = record {
            self.link_pod(name, &new);
            self.pods.insert(name.clone(), new);
            self.touch_pod(name);
        }
    }

    /// The pod, or what is attached of it, changed: so may its binding and the services whose endpoint it is.
    pub(super) fn touch_pod(&mut self, name: &NamespacedName) {
        self.dirty.pods.insert(name.clone());
        if let Some(record) = self.pods.get(name) {
            let derived: Vec<_> = self.services_selecting(name, record).cloned().collect();
            self.dirty.services.extend(derived);
        }
    }

    /// Whoever else claims the pod's addresses may win or lose one.
    pub(super) fn touch_claims(&mut self, name: &NamespacedName, record: &PodRecord) {
        let attached = self.attachments.of_pod(name).into_iter();
        let attached = attached.flat_map(|attached| &attached.attachment.addresses);
        let stated = record.stated_addresses.iter().chain(record.wished_addresses());
        for address in stated.chain(attached).chain(self.picked.addresses_of(name)) {
            self.dirty.addresses.insert(*address);
            self.dirty.pods.extend(self.wished.get(address).cloned());
        }
    }

    fn link_pod(&mut self, name: &NamespacedName, record: &PodRecord) {
        for label in labels(name, record) {
            self.pods_by_label.insert(label, name.clone());
        }
        if let Some(node) = &record.node {
            self.pods_on.insert(node.clone(), name.clone());
        }
        if record.has_interface() {
            for &address in &record.stated_addresses {
                self.stated.insert(address, name.clone());
            }
        }
        for &address in record.wished_addresses() {
            self.wished.insert(address, name.clone());
        }
    }

    fn unlink_pod(&mut self, name: &NamespacedName, record: &PodRecord) {
        for label in labels(name, record) {
            self.pods_by_label.remove(&label, name);
        }
        if let Some(node) = &record.node {
            self.pods_on.remove(node, name);
        }
        for address in &record.stated_addresses {
            self.stated.remove(address, name);
        }
        for address in record.wished_addresses() {
            self.wished.remove(address, name);
        }
    }
}

/// What decides whose an address is.
fn claims(record: &PodRecord) -> impl PartialEq {
    let PodRecord { uid, created, node, finished, stated_addresses, .. } = record;
    let wished = record.wished_addresses().to_vec();
    let addresses = (record.has_interface(), stated_addresses.clone(), wished, record.network.clone());
    (uid.clone(), created.clone(), node.clone(), *finished, addresses)
}

pub(super) fn labels<'a>(name: &'a NamespacedName, record: &'a PodRecord) -> impl Iterator<Item = Label> {
    record.labels.iter().map(|(key, value)| (name.namespace.clone(), key.clone(), value.clone()))
}
