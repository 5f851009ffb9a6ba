//! Nodes: Contrail's virtual routers.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use serde::Deserialize;
use vrouter_objects::MacAddress;

use super::field;
use crate::Family;
use crate::problem::Findings;

/// The annotation that holds a kernel node's VTEP MAC, as flannel writes it.
pub const BACKEND_DATA: &str = "flannel.alpha.coreos.com/backend-data";
/// The annotation that holds a kernel node's VTEP address, as flannel writes it.
const PUBLIC_IP: &str = "flannel.alpha.coreos.com/public-ip";
/// The label that names a node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// What the model keeps of a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its UID, empty where the source gives none.
    pub uid: String,
    /// Its underlay addresses, at most one per family: its host-network pods have these.
    pub addresses: Vec<IpAddr>,
    /// Where tunnels to it may end, at most one address per family.
    pub vteps: Vec<IpAddr>,
    /// Every address at which the node itself is reached, in order, each with its field.
    pub all_addresses: Vec<(IpAddr, String)>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its zone, empty where it has none.
    pub zone: String,
    /// The blocks of pod addresses its object gives it.
    pub pod_prefixes: Vec<(String, IpNet)>,
    /// Who forwards there.
    pub kind: NodeKind,
}

/// Who forwards on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// One of ours.
    Vrouter,
    /// The kernel, with a `vxlan` device.
    Kernel {
        /// The device's MAC.
        mac: MacAddress,
        /// Its VNI, where the object says it.
        vni: Option<u32>,
    },
    /// Nobody knows, as what the object says of it cannot be read: the node is left alone.
    Unknown,
}

/// The part of flannel's backend data that matters here.
#[derive(Deserialize)]
struct BackendData {
    #[serde(rename = "VtepMAC")]
    vtep_mac: String,
    #[serde(rename = "VNI")]
    vni: Option<u32>,
}

impl NodeRecord {
    /// Reads a Node.
    pub fn read(node: &Node, findings: &mut Findings) -> Self {
        let stated = stated_addresses(node, findings);
        let addresses = underlay_addresses(&stated);
        let kind = kind(node, findings);
        let public_ip = public_ip(node, findings);
        let vteps = public_ip.map_or_else(|| addresses.clone(), |address| vec![address]);
        let all_addresses = all_addresses(&stated, public_ip);
        if vteps.is_empty() {
            findings.add("status.addresses", "no usable InternalIP, so no tunnel can reach this node");
        }
        let uid = node.metadata.uid.clone().unwrap_or_default();
        let labels = node.metadata.labels.clone().unwrap_or_default();
        let zone = labels.get(ZONE).cloned().unwrap_or_default();
        let pod_prefixes = pod_prefixes(node, findings);
        Self { uid, addresses, vteps, all_addresses, labels, zone, pod_prefixes, kind }
    }
}

fn annotation<'a>(node: &'a Node, name: &str) -> Option<&'a str> {
    node.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// One of a node's addresses, as its status states it.
struct StatedAddress {
    field: String,
    address: IpAddr,
    is_internal: bool,
}

fn stated_addresses(node: &Node, findings: &mut Findings) -> Vec<StatedAddress> {
    let listed = node.status.as_ref().and_then(|status| status.addresses.as_deref()).unwrap_or_default();
    let mut stated = Vec::new();
    for (i, entry) in listed.iter().enumerate() {
        let is_internal = entry.type_ == "InternalIP";
        if !is_internal && entry.type_ != "ExternalIP" {
            continue;
        }
        let field = format!("status.addresses[{i}].address");
        if let Some(address) = findings.check(&field, field::endpoint_address(&entry.address)) {
            stated.push(StatedAddress { field, address, is_internal });
        }
    }
    stated
}

/// The first internal address of each family.
fn underlay_addresses(stated: &[StatedAddress]) -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in stated.iter().filter(|stated| stated.is_internal).map(|stated| stated.address) {
        if !addresses.iter().any(|&other| Family::from(other) == Family::from(address)) {
            addresses.push(address);
        }
    }
    addresses
}

fn all_addresses(stated: &[StatedAddress], public_ip: Option<IpAddr>) -> Vec<(IpAddr, String)> {
    let public_ip = public_ip.map(|address| (address, format!("metadata.annotations[{PUBLIC_IP}]")));
    let stated = stated.iter().map(|stated| (stated.address, stated.field.clone()));
    let mut all: Vec<_> = stated.chain(public_ip).collect();
    all.sort();
    all.dedup_by_key(|(address, _)| *address);
    all
}

fn kind(node: &Node, findings: &mut Findings) -> NodeKind {
    let Some(text) = annotation(node, BACKEND_DATA) else { return NodeKind::Vrouter };
    let kind = serde_json::from_str::<BackendData>(text)
        .map_err(|error| format!("not flannel's VXLAN data: {error}"))
        .and_then(|BackendData { vtep_mac, vni }| {
            let mac = vtep_mac.parse().map_err(|error| format!("VtepMAC: {error}"))?;
            Ok(NodeKind::Kernel { mac, vni })
        });
    findings.check(format!("metadata.annotations[{BACKEND_DATA}]"), kind).unwrap_or(NodeKind::Unknown)
}

fn public_ip(node: &Node, findings: &mut Findings) -> Option<IpAddr> {
    let text = annotation(node, PUBLIC_IP)?;
    findings.check(format!("metadata.annotations[{PUBLIC_IP}]"), field::endpoint_address(text))
}

fn pod_prefixes(node: &Node, findings: &mut Findings) -> Vec<(String, IpNet)> {
    let Some(spec) = &node.spec else { return Vec::new() };
    let listed = spec.pod_cidrs.as_deref().unwrap_or_default();
    let single = spec.pod_cidr.iter().filter(|_| listed.is_empty());
    let fields = single
        .map(|text| ("spec.podCIDR".to_owned(), text))
        .chain(listed.iter().enumerate().map(|(i, text)| (format!("spec.podCIDRs[{i}]"), text)));
    let mut prefixes: Vec<(String, IpNet)> = Vec::new();
    for (field, text) in fields.filter(|(_, text)| !text.is_empty()) {
        let Some(prefix) = findings.check(&field, field::prefix(text)) else { continue };
        match prefixes.iter().find(|(_, other)| Family::from(*other) == Family::from(prefix)) {
            Some((_, other)) => {
                findings.add(field, format!("{prefix}: the node has {other} of this family already"))
            }
            None => prefixes.push((field, prefix)),
        }
    }
    prefixes
}
