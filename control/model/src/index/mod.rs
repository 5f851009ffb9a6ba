//! The index: every record by name, what refers to what, and what must be looked at again.

mod attachments;
mod dirty;
mod endpoints;
mod lookup;
mod namespaces;
mod networks;
mod nodes;
mod pods;
mod policies;
mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use crate::allocate::PodAddresses;
use crate::kube::{self, EndpointSet, Kind, KubeObject, NamespaceRecord, NodeRecord, ObjectRef, PodRecord};
use crate::kube::{
    PolicyRecord, RouterRecord, ServiceRecord, SliceRecord, SubnetRecord, VirtualNetworkRecord,
};
use crate::multimap::Multimap;
use crate::network::NetworkSet;
use crate::policy::anchor::Anchored;
use crate::problem::{Finding, Findings};
use crate::{Family, NamespacedName, Problem};

pub use attachments::{Attached, Attachment, AttachmentChange, Attachments};
pub use dirty::Dirty;
pub use lookup::{Owner, same_uid};

/// Where an object came from, for messages: a file, or an API object's address.
pub type Origin = Arc<str>;

/// One label of one namespace.
type Label = (String, String, String);

/// The mirror of the sources, with a single writer.
#[derive(Debug, Default)]
pub struct Index {
    pub namespaces: BTreeMap<String, NamespaceRecord>,
    pub nodes: BTreeMap<String, NodeRecord>,
    pub pods: BTreeMap<NamespacedName, PodRecord>,
    pub services: BTreeMap<NamespacedName, ServiceRecord>,
    pub slices: BTreeMap<NamespacedName, SliceRecord>,
    pub endpoints: BTreeMap<NamespacedName, Vec<EndpointSet>>,
    pub virtual_networks: BTreeMap<NamespacedName, VirtualNetworkRecord>,
    pub subnets: BTreeMap<NamespacedName, SubnetRecord>,
    /// VirtualNetworkRouters.
    pub routers: BTreeMap<NamespacedName, RouterRecord>,
    pub attachments: Attachments,
    /// The networks, as they were last worked out.
    pub networks: NetworkSet,
    /// Addresses picked for pods.
    pub picked: PodAddresses,
    /// The family of all tunnels: what most nodes can have, or else IPv4.
    pub underlay: Option<Family>,
    pub policies: BTreeMap<ObjectRef, PolicyRecord>,
    /// What changed and was not looked at since.
    pub dirty: Dirty,
    sources: BTreeMap<ObjectRef, Source>,
    slices_of: Multimap<NamespacedName, NamespacedName>,
    /// Services by the first label of their selector.
    selectors: Multimap<Label, NamespacedName>,
    pods_by_label: Multimap<Label, NamespacedName>,
    pods_on: Multimap<String, NamespacedName>,
    /// Nodes by the addresses that they state.
    node_addresses: Multimap<IpAddr, String>,
    /// Pods with an interface by the addresses that their status states.
    stated: Multimap<IpAddr, NamespacedName>,
    /// Pods by the addresses they ask for.
    wished: Multimap<IpAddr, NamespacedName>,
    /// Services by the cluster addresses they ask for.
    requested: Multimap<IpAddr, NamespacedName>,
    /// Who asks for a network by its name.
    askers: Multimap<NamespacedName, networks::Asker>,
    policy_anchors: Anchored<ObjectRef>,
    /// Policies that mean nodes by their labels.
    policies_with_nodes: BTreeSet<ObjectRef>,
}

/// Where an object came from and what is wrong in it.
#[derive(Debug)]
struct Source {
    origin: Origin,
    findings: Vec<Finding>,
}

impl Index {
    /// An index that knows nothing yet but what was attached when the controller last ran.
    pub fn new(attachments: Attachments, networks: NetworkSet, picked: PodAddresses) -> Self {
        let mut index = Self { attachments, networks, picked, ..Self::default() };
        index.dirty.networks = true;
        index.dirty.pods.extend(index.picked.pods().cloned());
        index.dirty.addresses.extend(index.picked.addresses());
        for attached in index.attachments.iter() {
            index.dirty.pods.insert(attached.attachment.pod.clone());
            index.dirty.addresses.extend(&attached.attachment.addresses);
        }
        index
    }

    /// Records an object in place of the one of its name.
    pub fn apply(&mut self, object: &KubeObject, origin: Origin) {
        let reference = object.reference();
        let name = reference.namespaced_name();
        let mut findings = Findings::default();
        match object {
            KubeObject::Namespace(object) => {
                self.put_namespace(&reference.name, Some(NamespaceRecord::read(object, &mut findings)));
            }
            KubeObject::Node(object) => {
                self.put_node(&reference.name, Some(NodeRecord::read(object, &mut findings)));
            }
            KubeObject::Pod(object) => {
                self.put_pod(&name, Some(PodRecord::read(&name.namespace, object, &mut findings)));
            }
            KubeObject::Service(object) => {
                self.put_service(&name, Some(ServiceRecord::read(&name.namespace, object, &mut findings)));
            }
            KubeObject::EndpointSlice(object) => {
                let record = SliceRecord::read(&reference.namespace, object, &mut findings);
                self.put_slice(&name, Some(record));
            }
            KubeObject::Endpoints(object) => {
                let sets = kube::read_endpoints(&reference.namespace, object, &mut findings);
                self.put_endpoints(&name, Some(sets));
            }
            KubeObject::NetworkPolicy(object) => {
                let record = kube::read_network_policy(&reference.namespace, object, &mut findings);
                self.put_policy(&reference, Some(record));
            }
            KubeObject::ClusterNetworkPolicy(object) => {
                self.put_policy(
                    &reference,
                    Some(kube::read_cluster_network_policy(&object.spec, &mut findings)),
                );
            }
            KubeObject::VirtualNetwork(object) => {
                let record = VirtualNetworkRecord::read(&name.namespace, object, &mut findings);
                self.put_virtual_network(&name, Some(record));
            }
            KubeObject::Subnet(object) => {
                self.put_subnet(&name, Some(SubnetRecord::read(&name, object, &mut findings)));
            }
            KubeObject::VirtualNetworkRouter(object) => {
                self.put_router(&name, Some(RouterRecord::read(object, &mut findings)));
            }
        }
        self.sources.insert(reference, Source { origin, findings: findings.into_vec() });
    }

    /// Forgets an object.
    pub fn delete(&mut self, reference: &ObjectRef) {
        let name = reference.namespaced_name();
        match reference.kind {
            Kind::Namespace => self.put_namespace(&reference.name, None),
            Kind::Node => self.put_node(&reference.name, None),
            Kind::Pod => self.put_pod(&name, None),
            Kind::Service => self.put_service(&name, None),
            Kind::EndpointSlice => self.put_slice(&name, None),
            Kind::Endpoints => self.put_endpoints(&name, None),
            Kind::NetworkPolicy | Kind::ClusterNetworkPolicy => self.put_policy(reference, None),
            Kind::VirtualNetwork => self.put_virtual_network(&name, None),
            Kind::Subnet => self.put_subnet(&name, None),
            Kind::VirtualNetworkRouter => self.put_router(&name, None),
        }
        self.sources.remove(reference);
    }

    /// Makes these the only objects of a kind. Those that stay are never missing in between.
    pub fn reset(&mut self, kind: Kind, objects: &[(Arc<KubeObject>, Origin)]) {
        let listed: BTreeSet<ObjectRef> = objects.iter().map(|(object, _)| object.reference()).collect();
        let gone: Vec<ObjectRef> = self
            .sources
            .keys()
            .filter(|known| known.kind == kind && !listed.contains(known))
            .cloned()
            .collect();
        for reference in gone {
            self.delete(&reference);
        }
        for (object, origin) in objects {
            self.apply(object, origin.clone());
        }
    }

    /// Where an object came from; empty where it is not known.
    pub fn origin(&self, reference: &ObjectRef) -> String {
        self.sources.get(reference).map(|source| source.origin.to_string()).unwrap_or_default()
    }

    /// What is wrong inside single objects.
    pub fn problems(&self) -> impl Iterator<Item = Problem> {
        self.sources.iter().flat_map(|(reference, source)| source.problems(reference))
    }

    /// What is wrong inside one object.
    pub fn problems_in(&self, reference: &ObjectRef) -> impl Iterator<Item = Problem> {
        let known = self.sources.get_key_value(reference);
        known.into_iter().flat_map(|(reference, source)| source.problems(reference))
    }
}

impl Source {
    fn problems(&self, reference: &ObjectRef) -> impl Iterator<Item = Problem> {
        self.findings.iter().map(move |finding| Problem {
            source: self.origin.to_string(),
            object: reference.to_string(),
            field: finding.field.clone(),
            message: finding.message.clone(),
        })
    }
}
