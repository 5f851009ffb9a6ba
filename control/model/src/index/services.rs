//! Services in the index.

use super::networks::Asker;
use super::{Index, Label};
use crate::NamespacedName;
use crate::kube::ServiceRecord;

impl Index {
    pub(super) fn put_service(&mut self, name: &NamespacedName, record: Option<ServiceRecord>) {
        if self.services.get(name) == record.as_ref() {
            return;
        }
        let wish =
            |record: Option<&ServiceRecord>| record.map(|record| record.network.clone()).unwrap_or_default();
        self.note_wish(Asker::Service(name.clone()), &wish(self.services.get(name)), &wish(record.as_ref()));
        if let Some(old) = self.services.remove(name) {
            if let Some(label) = first_label(name, &old) {
                self.selectors.remove(&label, name);
            }
            for address in old.given_addresses() {
                self.requested.remove(&address, name);
            }
        }
        if let Some(new) = record {
            if let Some(label) = first_label(name, &new) {
                self.selectors.insert(label, name.clone());
            }
            for address in new.given_addresses() {
                self.requested.insert(address, name.clone());
            }
            self.services.insert(name.clone(), new);
        }
        self.dirty.services.insert(name.clone());
    }
}

/// One label that every pod of the service has: enough to find the service by a pod's labels.
fn first_label(name: &NamespacedName, record: &ServiceRecord) -> Option<Label> {
    let (key, value) = record.selector.first_key_value()?;
    Some((name.namespace.clone(), key.clone(), value.clone()))
}
