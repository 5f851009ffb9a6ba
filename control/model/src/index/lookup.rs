//! Questions that the index answers without looking at everything.

use std::net::IpAddr;

use vrouter_objects::{VmiId, VrfId};

use super::pods::labels;
use super::{Attached, Index};
use crate::NamespacedName;
use crate::kube::PodRecord;

/// Whose an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner<'a> {
    /// The pod.
    pub pod: &'a NamespacedName,
    /// The node it is on.
    pub node: &'a str,
    /// Its interface, where its node reports interfaces.
    pub vmi: Option<VmiId>,
}

impl Index {
    /// The services whose endpoints are derived and whose selector the pod's labels meet.
    pub fn services_selecting<'a>(
        &'a self,
        name: &'a NamespacedName,
        pod: &'a PodRecord,
    ) -> impl Iterator<Item = &'a NamespacedName> {
        labels(name, pod).flat_map(|label| self.selectors.get(&label).collect::<Vec<_>>()).filter(|service| {
            self.services.get(service).is_some_and(|record| {
                record.selector.iter().all(|(key, value)| pod.labels.get(key) == Some(value))
            }) && self.written_endpoints(service).is_none()
        })
    }

    /// The pods that a service selects; none where it has no selector.
    pub fn pods_selected<'a>(
        &'a self,
        service: &NamespacedName,
    ) -> impl Iterator<Item = (&'a NamespacedName, &'a PodRecord)> {
        let selector = self.services.get(service).map(|record| &record.selector);
        let first = selector.and_then(|selector| selector.first_key_value());
        let label = first.map(|(key, value)| (service.namespace.clone(), key.clone(), value.clone()));
        let candidates = label.into_iter().flat_map(|label| self.pods_by_label.get(&label));
        candidates.filter_map(|name| self.pods.get_key_value(name)).filter(move |(_, pod)| {
            selector.is_some_and(|selector| {
                selector.iter().all(|(key, value)| pod.labels.get(key) == Some(value))
            })
        })
    }

    /// The pods that are to run on a node.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &NamespacedName> {
        self.pods_on.get(node)
    }

    /// The pods that ask for an address.
    pub fn pods_wishing(&self, address: IpAddr) -> impl Iterator<Item = (&NamespacedName, &PodRecord)> {
        self.wished.get(&address).filter_map(|name| self.pods.get_key_value(name))
    }

    /// The services that ask for a cluster address.
    pub fn services_requesting(&self, address: IpAddr) -> impl Iterator<Item = &NamespacedName> {
        self.requested.get(&address)
    }

    /// The attachment of a pod to a network, the latest where there are several.
    pub fn attachment(&self, vrf: VrfId, name: &NamespacedName, pod: &PodRecord) -> Option<&Attached> {
        let of_pod = self.attachments.of_pod(name).into_iter();
        of_pod
            .filter(|attached| attached.attachment.vrf == vrf)
            .find(|attached| same_uid(&attached.attachment.uid, &pod.uid))
    }

    /// Whether the pod of an attachment is still to run where it is attached.
    pub fn expects(&self, attached: &Attached) -> bool {
        self.pods.get(&attached.attachment.pod).is_some_and(|pod| {
            pod.node.as_ref() == Some(&attached.node)
                && !pod.finished
                && same_uid(&attached.attachment.uid, &pod.uid)
        })
    }

    /// The addresses at which a pod can be reached now.
    pub fn pod_addresses(&self, vrf: VrfId, name: &NamespacedName, pod: &PodRecord) -> Vec<IpAddr> {
        if pod.finished {
            return Vec::new();
        }
        if pod.host_network {
            let node = pod.node.as_ref().and_then(|node| self.nodes.get(node));
            return node.map(|node| node.addresses.clone()).unwrap_or_default();
        }
        match self.attachment(vrf, name, pod) {
            Some(attached) => attached.attachment.addresses.clone(),
            None => pod.stated_addresses.clone(),
        }
    }

    /// Whose an address is: the pod that is attached with it, or else the one whose status states it.
    pub fn owner(&self, vrf: VrfId, address: IpAddr) -> Option<Owner<'_>> {
        let attached = self.attachments.holding(vrf, address).into_iter();
        let attached =
            attached.map(|attached| (&attached.node, &attached.attachment)).find(|(_, attachment)| {
                let pod = self.pods.get(&attachment.pod);
                !pod.is_some_and(|pod| pod.finished && same_uid(&attachment.uid, &pod.uid))
            });
        if let Some((node, attachment)) = attached {
            return Some(Owner { pod: &attachment.pod, node, vmi: Some(attachment.vmi) });
        }
        let stated = self.stated.get(&address).filter_map(|name| self.pods.get_key_value(name));
        stated
            .filter_map(|(pod, record)| {
                Some((record, Owner { pod, node: record.node.as_deref()?, vmi: None }))
            })
            .max_by_key(|(record, owner)| (record.created.clone(), owner.pod))
            .map(|(_, owner)| owner)
    }
}

/// Whether both are of one pod: a source without UIDs goes by the name alone.
fn same_uid(one: &str, other: &str) -> bool {
    one.is_empty() || other.is_empty() || one == other
}
