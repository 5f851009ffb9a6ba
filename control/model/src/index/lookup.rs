//! Questions that the index answers without looking at everything.

use std::collections::BTreeSet;
use std::net::IpAddr;

use vrouter_objects::{VmiId, VrfId};

use super::pods::labels;
use super::{Attached, Attachment, Index};
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
    /// The network it is in.
    pub vrf: VrfId,
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

    /// The pods that ask for an address of an address space.
    pub fn pods_wishing_in(
        &self,
        space: VrfId,
        address: IpAddr,
    ) -> impl Iterator<Item = (&NamespacedName, &PodRecord)> {
        self.pods_wishing(address).filter(move |(name, pod)| {
            self.wanted_network(name, pod).is_ok_and(|wanted| wanted.space == space)
        })
    }

    /// The services that ask for a cluster address.
    pub fn services_requesting(&self, address: IpAddr) -> impl Iterator<Item = &NamespacedName> {
        self.requested.get(&address)
    }

    /// The attachment of a pod, the latest where there are several.
    pub fn attachment(&self, name: &NamespacedName, pod: &PodRecord) -> Option<&Attached> {
        self.attached_as(name, pod).next()
    }

    /// The attachments of a pod, the latest first. Those of an earlier pod of its name are none of them.
    pub fn attached_as(&self, name: &NamespacedName, pod: &PodRecord) -> impl Iterator<Item = &Attached> {
        let of_pod = self.attachments.of_pod(name).into_iter();
        of_pod.filter(|attached| same_uid(&attached.attachment.uid, &pod.uid))
    }

    /// Whether the pod of an attachment is still to run where it is attached.
    pub fn expects(&self, attached: &Attached) -> bool {
        self.pods.get(&attached.attachment.pod).is_some_and(|pod| {
            pod.node.as_ref() == Some(&attached.node)
                && !pod.finished
                && same_uid(&attached.attachment.uid, &pod.uid)
        })
    }

    /// The addresses at which a pod can be reached now, in whatever network: its interface's, or its node's.
    pub fn reachable_addresses(&self, name: &NamespacedName, pod: &PodRecord) -> Vec<IpAddr> {
        if pod.host_network && !pod.finished {
            let node = pod.node.as_ref().and_then(|node| self.nodes.get(node));
            return node.map(|node| node.addresses.clone()).unwrap_or_default();
        }
        self.place(name, pod).map(|place| place.addresses).unwrap_or_default()
    }

    /// Whose an address of an address space is: the pod that is attached with it, or else the one whose status states it.
    pub fn owner(&self, space: VrfId, address: IpAddr) -> Option<Owner<'_>> {
        let is_of_space = |owner: &Owner<'_>| self.networks.space(owner.vrf) == space;
        let attached = self.attached_with(address).find(is_of_space);
        attached.or_else(|| {
            let stated = self.stated_with(address).filter(|(_, owner)| is_of_space(owner));
            stated.max_by_key(|(record, owner)| (record.created.clone(), owner.pod)).map(|(_, owner)| owner)
        })
    }

    /// The address spaces in which an address is a pod's, or was promised to one.
    pub fn spaces_of(&self, address: IpAddr) -> BTreeSet<VrfId> {
        let attached = self.attached_with(address).map(|owner| owner.vrf);
        let stated = self.stated_with(address).map(|(_, owner)| owner.vrf);
        let wishing = self.pods_wishing(address);
        let wishing = wishing.filter_map(|(name, pod)| Some(self.wanted_network(name, pod).ok()?.vrf));
        let spaces = attached.chain(stated).chain(wishing).map(|vrf| self.networks.space(vrf));
        spaces.chain(self.picked.spaces(address)).collect()
    }

    /// Those that are attached with an address, the latest first. Pods that have finished own nothing.
    fn attached_with(&self, address: IpAddr) -> impl Iterator<Item = Owner<'_>> {
        let attached = self.attachments.holding(address).into_iter();
        attached.filter_map(|Attached { node, attachment, .. }| {
            let pod = self.pods.get(&attachment.pod);
            let has_finished = pod.is_some_and(|pod| pod.finished && same_uid(&attachment.uid, &pod.uid));
            let Attachment { pod, vmi, vrf, .. } = attachment;
            (!has_finished).then_some(Owner { pod, node, vmi: Some(*vmi), vrf: *vrf })
        })
    }

    /// Those whose status states an address.
    fn stated_with(&self, address: IpAddr) -> impl Iterator<Item = (&PodRecord, Owner<'_>)> {
        let stated = self.stated.get(&address).filter_map(|name| self.pods.get_key_value(name));
        stated.filter_map(|(pod, record)| {
            let vrf = self.place(pod, record)?.vrf;
            Some((record, Owner { pod, node: record.node.as_deref()?, vmi: None, vrf }))
        })
    }
}

/// Whether both are of one pod: a source without UIDs goes by the name alone.
pub fn same_uid(one: &str, other: &str) -> bool {
    one.is_empty() || other.is_empty() || one == other
}
