//! EndpointSlices and Endpoints in the index.

use super::Index;
use crate::NamespacedName;
use crate::kube::{EndpointSet, SliceRecord};

impl Index {
    pub(super) fn put_slice(&mut self, name: &NamespacedName, record: Option<SliceRecord>) {
        if self.slices.get(name) == record.as_ref() {
            return;
        }
        if let Some(service) = self.slices.remove(name).and_then(|old| old.service) {
            self.slices_of.remove(&service, name);
            self.dirty.services.insert(service);
        }
        if let Some(new) = record {
            if let Some(service) = &new.service {
                self.slices_of.insert(service.clone(), name.clone());
                self.dirty.services.insert(service.clone());
            }
            self.slices.insert(name.clone(), new);
        }
    }

    pub(super) fn put_endpoints(&mut self, name: &NamespacedName, sets: Option<Vec<EndpointSet>>) {
        if self.endpoints.get(name) == sets.as_ref() {
            return;
        }
        match sets {
            Some(sets) => self.endpoints.insert(name.clone(), sets),
            None => self.endpoints.remove(name),
        };
        self.dirty.services.insert(name.clone());
    }

    /// The endpoints that somebody wrote for a service: its slices, or else its Endpoints object. `None`: nobody did.
    pub fn written_endpoints(&self, service: &NamespacedName) -> Option<Vec<&EndpointSet>> {
        let slices: Vec<_> =
            self.slices_of.get(service).filter_map(|name| Some(&self.slices.get(name)?.set)).collect();
        if slices.is_empty() { Some(self.endpoints.get(service)?.iter().collect()) } else { Some(slices) }
    }
}
