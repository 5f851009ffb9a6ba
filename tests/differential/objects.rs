//! The Kubernetes objects of one run, and how they are printed.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeSpec, NodeStatus, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use vrouter_tests::lab::Family;

use crate::place::{Machine, OTHERS, OWN};

/// The namespace of all services.
pub const NAMESPACE: &str = "default";
/// The label by which a slice belongs to a Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label by which a Service says that another proxy serves it.
pub const OTHER_PROXY: &str = "service.kubernetes.io/service-proxy-name";
/// The label that a node's zone is in.
pub const ZONE: &str = "topology.kubernetes.io/zone";

/// What the API server would hold.
#[derive(Debug, Clone)]
pub struct Objects {
    /// The nodes, the own one first.
    pub nodes: Vec<Node>,
    /// The services.
    pub services: Vec<Service>,
    /// The slices of all of them.
    pub slices: Vec<EndpointSlice>,
}

impl Objects {
    /// The nodes, and these services with their slices.
    pub fn new(services: Vec<Service>, slices: Vec<EndpointSlice>) -> Self {
        let nodes = [OWN].into_iter().chain(OTHERS).map(node).collect();
        Self { nodes, services, slices }
    }

    /// A service with its slices alone, for messages.
    pub fn only(&self, service: &str) -> Self {
        let mut only = self.clone();
        only.nodes.clear();
        only.services.retain(|it| it.metadata.name.as_deref() == Some(service));
        only.slices.retain(|slice| service_of(slice) == Some(service));
        only
    }
}

impl fmt::Display for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn line(f: &mut fmt::Formatter<'_>, object: &impl serde::Serialize) -> fmt::Result {
            let text = serde_json::to_string(object).map_err(|_| fmt::Error)?;
            writeln!(f, "{text}")
        }
        self.nodes.iter().try_for_each(|object| line(f, object))?;
        self.services.iter().try_for_each(|object| line(f, object))?;
        self.slices.iter().try_for_each(|object| line(f, object))
    }
}

/// The name of the Service that a slice belongs to.
pub fn service_of(slice: &EndpointSlice) -> Option<&str> {
    slice.metadata.labels.as_ref()?.get(SERVICE_NAME).map(String::as_str)
}

/// Metadata in the namespace of all, with this label where one is given.
pub fn metadata(name: &str, label: Option<(&str, &str)>) -> ObjectMeta {
    let labels = label.map(|(key, value)| BTreeMap::from([(key.to_owned(), value.to_owned())]));
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(NAMESPACE.to_owned()),
        labels,
        ..ObjectMeta::default()
    }
}

fn node(machine: Machine) -> Node {
    let mut metadata = metadata(&machine.name(), Some((ZONE, machine.zone)));
    metadata.namespace = None;
    let pod_cidrs = Family::BOTH.map(|family| machine.block(family)).to_vec();
    let address = |address: std::net::IpAddr| NodeAddress {
        address: address.to_string(),
        type_: "InternalIP".to_owned(),
    };
    let addresses = Family::BOTH.into_iter().flat_map(|family| machine.addresses(family)).map(address);
    Node {
        metadata,
        spec: Some(NodeSpec {
            pod_cidr: pod_cidrs.first().cloned(),
            pod_cidrs: Some(pod_cidrs),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus { addresses: Some(addresses.collect()), ..NodeStatus::default() }),
    }
}
