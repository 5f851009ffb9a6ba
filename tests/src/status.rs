//! What the lab and `vrctl` say, as far as the tests look at it.

use std::net::IpAddr;

use serde::Deserialize;

/// `lab status -o json`.
#[derive(Debug, Clone, Deserialize)]
pub struct LabStatus {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// A client outside.
    pub client: Outside,
    /// Another one.
    pub client2: Outside,
    /// A host beyond the nodes' own network.
    pub internet: Outside,
    /// The pods.
    pub pods: Vec<Pod>,
    /// The Services.
    pub services: Vec<Service>,
}

/// A node.
#[derive(Debug, Clone, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// The end of its tunnels.
    pub address: IpAddr,
    /// All its addresses, IPv4 first.
    pub addresses: Vec<IpAddr>,
}

/// Somebody outside the cluster.
#[derive(Debug, Clone, Deserialize)]
pub struct Outside {
    /// Its addresses, IPv4 first.
    pub addresses: Vec<IpAddr>,
}

/// A pod.
#[derive(Debug, Clone, Deserialize)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Where it runs.
    pub node: String,
    /// Its addresses, IPv4 first.
    pub ips: Vec<IpAddr>,
    /// How far it has come.
    pub phase: String,
}

/// A Service.
#[derive(Debug, Clone, Deserialize)]
pub struct Service {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its addresses, IPv4 first.
    #[serde(rename = "clusterIPs")]
    pub cluster_ips: Vec<IpAddr>,
    /// Its load balancer's addresses, IPv4 first.
    #[serde(rename = "ingressIPs")]
    pub ingress_ips: Vec<IpAddr>,
    /// Its ports.
    pub ports: Vec<ServicePort>,
    /// Where nodes tell whether they have members of their own.
    #[serde(rename = "healthCheckNodePort")]
    pub health_check_node_port: Option<u64>,
}

/// A port of a Service, with whatever numbers somebody wrote.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// The port.
    pub port: u64,
    /// Its protocol.
    pub protocol: String,
    /// The port at every node that leads to the same members.
    pub node_port: Option<u64>,
}

/// `vrctl status -o json` of a node.
#[derive(Debug, Clone, Deserialize)]
pub struct NodeStatus {
    /// Whether its controller is there.
    pub controller_connected: bool,
    /// The version it forwards by.
    pub applied_version: u64,
    /// Over what it holds.
    pub digest: String,
    /// What it would not take.
    pub refusals: Vec<serde_json::Value>,
    /// Flow directions.
    pub flows: u64,
    /// Its counters.
    pub packets: Packets,
}

/// A node's counters.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Packets {
    /// Frames read.
    pub received: u64,
    /// Of those, frames passed on.
    pub forwarded: u64,
    /// Frames a local service took.
    pub consumed: u64,
    /// Frames dropped.
    pub dropped: u64,
    /// Fragments that wait.
    pub held: u64,
    /// Super-frames that left whole.
    pub super_frames_sent: u64,
    /// Segments cut out of super-frames.
    pub segments_cut: u64,
}

/// `vrctl status -o json` of the controller.
#[derive(Debug, Clone, Deserialize)]
pub struct ControllerStatus {
    /// What could not be used.
    pub problems: Vec<Problem>,
}

/// Something that the controller could not use.
#[derive(Debug, Clone, Deserialize)]
pub struct Problem {
    /// The file.
    pub source: String,
    /// Kind and name.
    pub object: String,
    /// The field.
    pub field: String,
    /// What is wrong.
    pub message: String,
}

/// `vrctl drops -o json`.
#[derive(Debug, Clone, Deserialize)]
pub struct Drops {
    /// By reason; only those that occurred.
    pub reasons: Vec<DropCount>,
}

/// How often one reason occurred.
#[derive(Debug, Clone, Deserialize)]
pub struct DropCount {
    /// Its name.
    pub reason: String,
    /// How many packets.
    pub packets: u64,
}

impl Drops {
    /// How often this reason occurred.
    pub fn of(&self, reason: &str) -> u64 {
        self.reasons.iter().find(|count| count.reason == reason).map_or(0, |count| count.packets)
    }
}

/// A line of `vrctl policies -o json`.
#[derive(Debug, Clone, Deserialize)]
pub struct PolicyInBrief {
    /// Its kind and name; none: the node does not hold it.
    pub name: Option<String>,
    /// New flows that it let go on.
    pub flows: u64,
    /// Packets that were dropped for it.
    pub dropped: u64,
}

/// A line of `vrctl vif -o json`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Interface {
    /// Its number.
    pub vmi: u32,
    /// Its pod, as namespace/name.
    pub name: String,
    /// Its MAC address.
    pub mac: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// By which its node reaches it, and nobody else: IPv4 first.
    pub link_local: Vec<IpAddr>,
    /// Its MTU.
    pub mtu: u32,
    /// The flows it began.
    pub flows: u32,
    /// The sandbox it belongs to.
    pub container_id: String,
}

/// A line of `vrctl fip -o json`.
#[derive(Debug, Clone, Deserialize)]
pub struct FloatingIp {
    /// The Service.
    pub name: String,
    /// Its address.
    pub address: IpAddr,
    /// Its ports.
    pub listeners: Vec<Listener>,
}

/// A port of a floating IP.
#[derive(Debug, Clone, Deserialize)]
pub struct Listener {
    /// The port.
    pub port: u16,
    /// Its protocol.
    pub protocol: String,
    /// Who serves it.
    pub members: Vec<Member>,
}

/// Who serves a port.
#[derive(Debug, Clone, Deserialize)]
pub struct Member {
    /// Its address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
}
