//! Pods: Contrail's virtual machines.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, ContainerPort, Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use vrouter_objects::{Port, ServiceProtocol};

use super::field;
use super::network_wish::NetworkWish;
use crate::Family;
use crate::problem::Findings;

/// The annotation by which a Pod asks for addresses of its own.
pub const ADDRESSES_ANNOTATION: &str = "vrouter.dev/ip-addresses";
/// The annotation by which Contrail's users do, in the network that they ask for.
const CUSTOM_ADDRESSES_ANNOTATION: &str = "net.juniper.contrail.podnetwork.ip";

/// The annotation by which the kubelet says that a Pod mirrors a static one, which has this UID.
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// What the model keeps of a Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRecord {
    /// Its UID, empty where the source gives none.
    pub uid: String,
    /// When it was made, where the source says so: the older claim on an address wins.
    pub created: Option<Time>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The node it is to run on, once there is one.
    pub node: Option<String>,
    /// Whether it uses the node's own network stack. Such a pod has no interface of its own.
    pub host_network: bool,
    /// Whether it has succeeded or failed: then it owns no address any more.
    pub finished: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// What its Ready condition says.
    pub readiness: Readiness,
    /// Its addresses according to its status.
    pub stated_addresses: Vec<IpAddr>,
    /// The network it asks for.
    pub network: NetworkWish,
    /// The addresses it asks for.
    pub wish: AddressWish,
    /// Its containers' named ports, in order.
    pub ports: Vec<NamedPort>,
}

/// What a Pod's Ready condition says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// It is ready.
    Ready,
    /// It is not.
    Unready,
    /// It has no status at all, as in a hand-written manifest: it is ready as soon as it is attached.
    Unstated,
}

/// Which addresses a Pod asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressWish {
    /// Any that are free.
    Any,
    /// These.
    These(Vec<IpAddr>),
    /// Something that cannot be read. It gets no address, as a random one would not be what was asked for.
    Malformed(String),
}

/// A container port with a name, which a Service's targetPort can refer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPort {
    /// The name.
    pub name: String,
    /// The protocol; a name is looked up per protocol.
    pub protocol: ServiceProtocol,
    /// The number.
    pub port: Port,
}

impl PodRecord {
    /// Reads a Pod of a namespace.
    pub fn read(namespace: &str, pod: &Pod, findings: &mut Findings) -> Self {
        let metadata = &pod.metadata;
        let spec = pod.spec.as_ref();
        let status = pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref());
        Self {
            uid: uid(pod),
            created: metadata.creation_timestamp.clone(),
            labels: metadata.labels.clone().unwrap_or_default(),
            node: spec.and_then(|spec| spec.node_name.clone()).filter(|node| !node.is_empty()),
            host_network: spec.and_then(|spec| spec.host_network).unwrap_or(false),
            finished: matches!(phase, Some("Succeeded" | "Failed")),
            terminating: metadata.deletion_timestamp.is_some(),
            readiness: status.map_or(Readiness::Unstated, readiness),
            stated_addresses: status.map(|status| stated_addresses(status, findings)).unwrap_or_default(),
            network: NetworkWish::read(namespace, metadata.annotations.as_ref(), findings),
            wish: wish(pod, findings),
            ports: spec.map(|spec| named_ports(spec, findings)).unwrap_or_default(),
        }
    }

    /// Whether it has, or will have, an interface of its own.
    pub fn has_interface(&self) -> bool {
        !self.host_network && !self.finished
    }

    /// The addresses it asks for.
    pub fn wished_addresses(&self) -> &[IpAddr] {
        match &self.wish {
            AddressWish::These(addresses) if self.has_interface() => addresses,
            _ => &[],
        }
    }

    /// The number of the port that this name means in this pod.
    pub fn named_port(&self, name: &str, protocol: ServiceProtocol) -> Option<Port> {
        self.ports.iter().find(|port| port.name == name && port.protocol == protocol).map(|port| port.port)
    }
}

/// The UID that the pod's node knows. The object of a static pod is only a mirror, with a UID of its own.
fn uid(pod: &Pod) -> String {
    let mirrored = pod.metadata.annotations.as_ref().and_then(|all| all.get(MIRROR_ANNOTATION));
    mirrored.or(pod.metadata.uid.as_ref()).cloned().unwrap_or_default()
}

fn readiness(status: &PodStatus) -> Readiness {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    match conditions.iter().find(|condition| condition.type_ == "Ready") {
        Some(condition) if condition.status == "True" => Readiness::Ready,
        Some(_) => Readiness::Unready,
        None if status.phase.is_none() && conditions.is_empty() => Readiness::Unstated,
        None => Readiness::Unready,
    }
}

fn stated_addresses(status: &PodStatus, findings: &mut Findings) -> Vec<IpAddr> {
    let listed = status.pod_ips.as_deref().unwrap_or_default();
    let single = status.pod_ip.iter().filter(|_| listed.is_empty());
    let fields = single
        .map(|text| ("status.podIP".to_owned(), text))
        .chain(listed.iter().enumerate().map(|(i, entry)| (format!("status.podIPs[{i}].ip"), &entry.ip)));
    fields
        .filter(|(_, text)| !text.is_empty())
        .filter_map(|(field, text)| findings.check(field, field::endpoint_address(text)))
        .collect()
}

fn wish(pod: &Pod, findings: &mut Findings) -> AddressWish {
    let annotation = |name| Some((name, pod.metadata.annotations.as_ref()?.get(name)?));
    let asked = annotation(ADDRESSES_ANNOTATION).or_else(|| annotation(CUSTOM_ADDRESSES_ANNOTATION));
    let Some((name, text)) = asked else { return AddressWish::Any };
    match read_wish(text) {
        Ok(addresses) => AddressWish::These(addresses),
        Err(message) => {
            findings.add(format!("metadata.annotations[{name}]"), &message);
            AddressWish::Malformed(message)
        }
    }
}

fn read_wish(text: &str) -> Result<Vec<IpAddr>, String> {
    let mut addresses: Vec<IpAddr> = Vec::new();
    for part in text.split(',') {
        let address = field::endpoint_address(part)?;
        let family = Family::from(address);
        if let Some(other) = addresses.iter().find(|&&other| Family::from(other) == family) {
            return Err(format!("{other} and {address} are both {family}: at most one address per family"));
        }
        addresses.push(address);
    }
    Ok(addresses)
}

/// Ports of the containers that run as long as the pod does: the ordinary ones and restartable init containers.
fn named_ports(spec: &PodSpec, findings: &mut Findings) -> Vec<NamedPort> {
    let restartable = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
    let init = spec.init_containers.iter().flatten().filter(restartable);
    let containers = spec.containers.iter().map(|container| ("containers", container));
    let mut ports = Vec::new();
    for (list, container) in containers.chain(init.map(|container| ("initContainers", container))) {
        for (i, port) in container.ports.iter().flatten().enumerate() {
            let field = format!("spec.{list}[{}].ports[{i}]", container.name);
            ports.extend(named_port(port, &field, findings));
        }
    }
    ports
}

fn named_port(port: &ContainerPort, field: &str, findings: &mut Findings) -> Option<NamedPort> {
    let number = findings.check(format!("{field}.containerPort"), Port::new(port.container_port.into()))?;
    let protocol = findings.check(format!("{field}.protocol"), field::protocol(port.protocol.as_deref()))?;
    Some(NamedPort { name: port.name.clone()?, protocol, port: number })
}
