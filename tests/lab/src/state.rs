//! What the lab remembers between commands.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use clap::ValueEnum;
use ipnet::{Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

use crate::netns::Netns;
use crate::object::{Name, ObjectKey};
use crate::process::Process;
use crate::workload::{Template, Workload};

/// The whole of it, one JSON file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct State {
    /// The worker threads each vRouter is told to use; `None`: its own default.
    pub workers: Option<u16>,
    /// How each vRouter's packets get into tunnels; `None`: as it does by default.
    #[serde(default)]
    pub vxlan: Option<Vxlan>,
    /// The controller's process, while it is to run.
    pub controller: Option<Process>,
    /// The nodes, in order.
    pub nodes: Vec<Node>,
    /// The workloads.
    #[serde(with = "pairs")]
    pub workloads: BTreeMap<ObjectKey, Workload>,
    /// The pods, in the order they were made.
    pub pods: Vec<Pod>,
    /// Which file each object came from.
    #[serde(with = "pairs")]
    pub sources: BTreeMap<ObjectKey, String>,
}

/// How a vRouter's packets get into tunnels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Vxlan {
    /// By UDP sockets of its own.
    Sockets,
    /// Through the kernel's vxlan devices.
    Device,
}

impl Vxlan {
    /// As the vRouter's option says it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sockets => "sockets",
            Self::Device => "device",
        }
    }
}

impl State {
    /// The node with this name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// The pod with this name.
    pub fn pod(&self, name: &Name) -> Option<&Pod> {
        self.pods.iter().find(|pod| &pod.name == name)
    }

    /// The pod with this name.
    pub fn pod_mut(&mut self, name: &Name) -> Option<&mut Pod> {
        self.pods.iter_mut().find(|pod| &pod.name == name)
    }

    /// The pods of a workload, oldest first.
    pub fn pods_of<'a>(&'a self, workload: &'a ObjectKey) -> impl Iterator<Item = &'a Pod> {
        self.pods
            .iter()
            .filter(move |pod| pod.owner.as_ref().is_some_and(|owner| &owner.workload == workload))
    }
}

/// A node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Node {
    /// `n1` and on; `k1` and on for kernel nodes.
    pub name: String,
    /// Its network.
    pub netns: Netns,
    /// Its underlay address.
    pub ipv4: Ipv4Addr,
    /// Its other underlay address.
    pub ipv6: Ipv6Addr,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What forwards there.
    pub data_path: DataPath,
}

impl Node {
    /// Its address for people and tunnels.
    pub fn address(&self) -> IpAddr {
        self.ipv4.into()
    }
}

/// What forwards on a node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum DataPath {
    /// Our own process, while it is to run.
    VRouter(Option<Process>),
    /// Linux routing and a `vxlan` device.
    Kernel(KernelBlocks),
}

/// What a kernel node's Node object tells.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KernelBlocks {
    /// The pods' addresses.
    pub ipv4: Ipv4Net,
    /// The pods' addresses.
    pub ipv6: Ipv6Net,
    /// The `vxlan` device's MAC.
    pub mac: String,
}

/// A pod.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Pod {
    /// Its name.
    pub name: Name,
    /// Its uid.
    pub uid: String,
    /// What the container runtime would call it.
    pub container_id: String,
    /// The workload that wants it.
    pub owner: Option<Owner>,
    /// The node it was placed on.
    pub node: String,
    /// Where its processes run: a namespace of its own, or its node's.
    pub netns: Netns,
    /// Metadata and spec as given.
    pub template: Template,
    /// When it was made.
    pub created: String,
    /// Its addresses, IPv4 first.
    pub addresses: Vec<IpAddr>,
    /// Its processes.
    pub processes: Vec<Process>,
    /// How far it has come.
    pub phase: Phase,
    /// What a readiness probe would say, set by `ready`.
    pub readiness: Readiness,
}

/// Who wants a pod, and by which template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The workload.
    pub workload: ObjectKey,
    /// The revision of its template.
    pub revision: String,
}

/// How far a pod has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Placed, not yet started.
    Pending,
    /// Its ports are open.
    Running,
    /// Told to stop at this time.
    Terminating(String),
    /// It could not be started.
    Failed,
}

/// What a pod's readiness is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Readiness {
    /// It takes traffic.
    Ready,
    /// It does not.
    NotReady,
}

/// JSON has no maps with keys other than strings; these are written as lists of pairs.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(map)
    }

    pub fn deserialize<'de, K, V, D>(from: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(from)?.into_iter().collect())
    }
}
