//! A cluster as the administrator sees it: who is there, and which policies.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use k8s_openapi::api::networking::v1::NetworkPolicy;
use vrouter_tests::lab::Family;

use crate::text::ClusterPolicySpec;

/// Labels of anything.
pub type Labels = BTreeMap<String, String>;

/// The label that every namespace bears, with its name.
pub const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Everything that decides who may talk to whom.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// The nodes, by number; they are called `n1` and so on.
    pub nodes: BTreeMap<usize, Node>,
    /// The namespaces. One that no Namespace object declares is there when something is in it.
    pub namespaces: BTreeMap<String, Namespace>,
    /// The pods.
    pub pods: BTreeMap<Name, Pod>,
    /// The services.
    pub services: BTreeMap<Name, Service>,
    /// The namespaces' policies.
    pub policies: BTreeMap<Name, NetworkPolicy>,
    /// The administrator's policies, by name.
    pub cluster_policies: BTreeMap<String, ClusterPolicySpec>,
}

/// A name in a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// A node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Node {
    /// Its labels.
    pub labels: Labels,
}

/// A declared namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct Namespace {
    /// The labels that its object has; it bears one more, with its name.
    pub labels: Labels,
    /// Whether it has networks of its own.
    pub isolation: Isolation,
}

/// Whether a namespace has networks of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// It shares the cluster's.
    Shared,
    /// By the label.
    ByLabel,
    /// By the annotation.
    ByAnnotation,
}

/// A pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Pod {
    /// The number of its node.
    pub node: usize,
    /// Its labels.
    pub labels: Labels,
    /// Its ports that have a name.
    pub ports: Vec<NamedPort>,
    /// Its addresses, at most one of each family; those of its node where it uses the node's network.
    pub addresses: Vec<IpAddr>,
    /// How far it is.
    pub phase: Phase,
    /// Whether its status says its addresses, as a kubelet's does.
    pub status: Status,
}

/// A port of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedPort {
    /// Its name.
    pub name: String,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its number.
    pub number: u16,
}

/// How far a pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It runs in a network of its own.
    Running,
    /// It runs, and is being deleted.
    Terminating,
    /// It has succeeded or failed: its address is anybody's.
    Finished,
    /// It runs in its node's network.
    OnHost,
}

/// Whether a pod's status says its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It does.
    Stated,
    /// It does not yet.
    Silent,
}

/// A service with one port, and the pods behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    /// Its cluster address of each family.
    pub addresses: Vec<IpAddr>,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its port.
    pub port: u16,
    /// Its port at the nodes' addresses.
    pub node_port: u16,
    /// Its pods, with the port that each serves it at.
    pub endpoints: BTreeMap<Name, u16>,
}

/// What policies can tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl World {
    /// The labels of a namespace.
    pub fn namespace_labels(&self, name: &str) -> Labels {
        let mut labels = self.namespaces.get(name).map(|it| it.labels.clone()).unwrap_or_default();
        labels.insert(NAME_LABEL.to_owned(), name.to_owned());
        labels
    }

    /// Whether a namespace has networks of its own.
    pub fn is_isolated(&self, namespace: &str) -> bool {
        self.namespaces.get(namespace).is_some_and(|it| it.isolation != Isolation::Shared)
    }

    /// The pods that have interfaces.
    pub fn attached(&self) -> impl Iterator<Item = (&Name, &Pod)> {
        self.pods.iter().filter(|(_, pod)| pod.is_attached())
    }

    /// The pods behind a service that take new connections in this family, each with its address and port.
    pub fn members(&self, service: &Service, family: Family) -> Vec<(Name, IpAddr, u16)> {
        let member = |(name, port): (&Name, &u16)| {
            let pod = self.pods.get(name).filter(|pod| pod.is_serving())?;
            Some((name.clone(), family.pick(&pod.addresses)?, *port))
        };
        service.endpoints.iter().filter_map(member).collect()
    }
}

impl Pod {
    /// Whether it has an interface of its own.
    pub fn is_attached(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Terminating)
    }

    /// Whether it takes new connections of a service.
    pub fn is_serving(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::OnHost)
    }
}

impl Name {
    /// A name in a namespace.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Sctp];

    /// The name that the Kubernetes API gives it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The name of the node with this number.
pub fn node_name(number: usize) -> String {
    format!("n{number}")
}

/// An address's family.
pub fn family_of(address: IpAddr) -> Family {
    if address.is_ipv4() { Family::V4 } else { Family::V6 }
}
