//! EndpointSlices and the older Endpoints: who answers for a Service.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset, Endpoints, ObjectReference};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointHints, EndpointSlice};
use vrouter_objects::{Port, ServiceProtocol};

use super::field;
use crate::problem::Findings;
use crate::{Family, NamespacedName};

/// The label by which a slice belongs to a Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// What the model keeps of an EndpointSlice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceRecord {
    /// The Service it belongs to; `None`: to something else.
    pub service: Option<NamespacedName>,
    /// Its endpoints.
    pub set: EndpointSet,
}

/// Endpoints that all have the same ports: an EndpointSlice, or one subset of an Endpoints object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointSet {
    /// The ports. One without a number gives no backend.
    pub ports: Vec<SetPort>,
    /// The endpoints.
    pub endpoints: Vec<SetEndpoint>,
}

/// One port of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetPort {
    /// The Service port it belongs to, by name; empty for the only one.
    pub name: String,
    /// Its protocol.
    pub protocol: ServiceProtocol,
    /// The endpoints' own port.
    pub port: Port,
}

/// One endpoint of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetEndpoint {
    /// Its address.
    pub address: IpAddr,
    /// What it may be given.
    pub condition: Condition,
    /// The pod behind it, where one is named.
    pub pod: Option<NamespacedName>,
    /// The name of the Node object it is on, where one is named.
    pub node: Option<String>,
    /// For whom it is meant.
    pub hints: Hints,
}

/// For whom an endpoint is meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hints {
    /// Zones.
    pub zones: Vec<String>,
    /// Names of Node objects.
    pub nodes: Vec<String>,
}

/// The API has no more hints of a kind than these, and no longer zones.
const MAX_HINTS: usize = 8;
/// The longest name of a zone: it is a label's value.
const MAX_ZONE: usize = 63;

/// An endpoint's conditions, weighed; the better one is less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// Takes flows.
    Ready,
    /// Terminating but serving: takes flows as a last resort.
    Serving,
    /// Takes no new flows.
    Unready,
}

impl Condition {
    /// Weighs the three conditions of the EndpointSlice API with its defaults. `ready` counts as it was published, also
    /// where `serving` contradicts it.
    pub fn weigh(conditions: &EndpointConditions) -> Self {
        let ready = conditions.ready.unwrap_or(true);
        let serving = conditions.serving.unwrap_or(true);
        let terminating = conditions.terminating.unwrap_or(false);
        if ready {
            Self::Ready
        } else if serving && terminating {
            Self::Serving
        } else {
            Self::Unready
        }
    }
}

impl SliceRecord {
    /// Reads an EndpointSlice.
    pub fn read(namespace: &str, slice: &EndpointSlice, findings: &mut Findings) -> Self {
        let service = slice.metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE_NAME));
        let family = findings.check("addressType", slice.address_type.parse::<Family>());
        let mut ports = Vec::new();
        for (i, entry) in slice.ports.iter().flatten().enumerate() {
            let (name, protocol) = (entry.name.as_deref(), entry.protocol.as_deref());
            ports.extend(port(&format!("ports[{i}]"), name, protocol, entry.port, findings));
        }
        let mut endpoints = Vec::new();
        if let Some(family) = family {
            for (i, entry) in slice.endpoints.iter().flatten().enumerate() {
                endpoints.extend(endpoint(&format!("endpoints[{i}]"), family, namespace, entry, findings));
            }
        }
        Self {
            service: service.map(|name| NamespacedName::new(namespace, name)),
            set: EndpointSet { ports, endpoints },
        }
    }
}

/// Reads an Endpoints object: one set per subset.
pub fn read_endpoints(namespace: &str, object: &Endpoints, findings: &mut Findings) -> Vec<EndpointSet> {
    let subsets = object.subsets.iter().flatten().enumerate();
    subsets.map(|(i, subset)| read_subset(&format!("subsets[{i}]"), namespace, subset, findings)).collect()
}

fn read_subset(
    field: &str,
    namespace: &str,
    subset: &EndpointSubset,
    findings: &mut Findings,
) -> EndpointSet {
    let mut ports = Vec::new();
    for (i, entry) in subset.ports.iter().flatten().enumerate() {
        let (name, protocol) = (entry.name.as_deref(), entry.protocol.as_deref());
        ports.extend(port(&format!("{field}.ports[{i}]"), name, protocol, Some(entry.port), findings));
    }
    let mut endpoints = Vec::new();
    let mut take = |list: &Option<Vec<EndpointAddress>>, name: &str, condition| {
        for (i, entry) in list.iter().flatten().enumerate() {
            let address =
                findings.check(format!("{field}.{name}[{i}].ip"), field::endpoint_address(&entry.ip));
            endpoints.extend(address.map(|address| SetEndpoint {
                address,
                condition,
                pod: pod(namespace, entry.target_ref.as_ref()),
                node: entry.node_name.clone().filter(|node| !node.is_empty()),
                hints: Hints::default(),
            }));
        }
    };
    take(&subset.addresses, "addresses", Condition::Ready);
    take(&subset.not_ready_addresses, "notReadyAddresses", Condition::Unready);
    EndpointSet { ports, endpoints }
}

/// A port without a number is no fault: the pods of this set lack the named port.
fn port(
    field: &str,
    name: Option<&str>,
    protocol: Option<&str>,
    number: Option<i32>,
    findings: &mut Findings,
) -> Option<SetPort> {
    let port = findings.check(format!("{field}.port"), Port::new(number?.into()));
    let protocol = findings.check(format!("{field}.protocol"), field::protocol(protocol));
    Some(SetPort { name: name.unwrap_or_default().to_owned(), protocol: protocol?, port: port? })
}

/// The addresses of one endpoint are interchangeable; the first one is used, as kube-proxy does.
fn endpoint(
    field: &str,
    family: Family,
    namespace: &str,
    entry: &Endpoint,
    findings: &mut Findings,
) -> Option<SetEndpoint> {
    let field = format!("{field}.addresses[0]");
    let Some(text) = entry.addresses.first() else {
        findings.add(field, "an endpoint needs an address");
        return None;
    };
    let address = findings.check(&field, field::endpoint_address(text))?;
    if Family::from(address) != family {
        findings.add(field, format!("{address} is no address of the slice's addressType {family}"));
        return None;
    }
    Some(SetEndpoint {
        address,
        condition: entry.conditions.as_ref().map_or(Condition::Ready, Condition::weigh),
        pod: pod(namespace, entry.target_ref.as_ref()),
        node: entry.node_name.clone().filter(|node| !node.is_empty()),
        hints: entry.hints.as_ref().map(Hints::read).unwrap_or_default(),
    })
}

impl Hints {
    fn read(hints: &EndpointHints) -> Self {
        let zones = hints.for_zones.iter().flatten().map(|zone| &zone.name);
        let zones = zones.filter(|zone| (1..=MAX_ZONE).contains(&zone.len()));
        let nodes = hints.for_nodes.iter().flatten().map(|node| &node.name);
        Self {
            zones: zones.take(MAX_HINTS).cloned().collect(),
            nodes: nodes.take(MAX_HINTS).cloned().collect(),
        }
    }
}

fn pod(namespace: &str, target: Option<&ObjectReference>) -> Option<NamespacedName> {
    let target = target.filter(|target| target.kind.as_deref() == Some("Pod"))?;
    let namespace = target.namespace.as_deref().unwrap_or(namespace);
    Some(NamespacedName::new(namespace, target.name.as_deref()?))
}
