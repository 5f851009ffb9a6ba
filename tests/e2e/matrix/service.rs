//! Every kind of Service.

use serde_json::{Value, json};
use vrouter_tests::manifest::{
    Endpoints, ServicePort, of_app, on_host_network, server_pod, service, with_spec,
};

pub const NODES: [&str; 2] = ["n1", "n2"];
/// Where clients go.
pub const PORT: u16 = 8080;
/// What the members listen on: no other server of a node does.
const TARGET: u16 = 8090;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    Cluster,
    Local,
}

impl Policy {
    /// As the API has it.
    const fn word(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Local => "Local",
        }
    }
}

/// Where a Service's members are. Processes are pods on the host network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Members {
    Nobody,
    PodOn(&'static str),
    PodsOnBoth,
    ProcessOn(&'static str),
}

/// A Service with every kind of frontend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    pub members: Members,
    /// `internalTrafficPolicy`.
    pub internal: Policy,
    /// `externalTrafficPolicy`.
    pub external: Policy,
    /// Of all Services the how manieth it is, from 0.
    number: usize,
}

const POLICIES: [Policy; 2] = [Policy::Cluster, Policy::Local];
pub const MEMBERS: [Members; 6] = [
    Members::Nobody,
    Members::PodOn("n1"),
    Members::PodOn("n2"),
    Members::PodsOnBoth,
    Members::ProcessOn("n1"),
    Members::ProcessOn("n2"),
];

impl Members {
    /// Their names, and where each of them runs.
    pub fn pods(self) -> Vec<(String, &'static str)> {
        match self {
            Self::Nobody => vec![],
            Self::PodOn(node) => vec![(format!("only-{node}"), node)],
            Self::PodsOnBoth => NODES.map(|node| (format!("both-{node}"), node)).into(),
            Self::ProcessOn(node) => vec![(format!("host-{node}"), node)],
        }
    }

    /// The label they have in common.
    fn app(self) -> String {
        match self {
            Self::Nobody => "nobody".to_owned(),
            Self::PodOn(node) => format!("only-{node}"),
            Self::PodsOnBoth => "both".to_owned(),
            Self::ProcessOn(node) => format!("host-{node}"),
        }
    }

    pub fn objects(self) -> Vec<Value> {
        let pod = |(name, node): (String, &str)| {
            let pod = of_app(&self.app(), server_pod(&name, node, &[("TCP", TARGET), ("UDP", TARGET)]));
            if let Self::ProcessOn(_) = self { on_host_network(pod) } else { pod }
        };
        self.pods().into_iter().map(pod).collect()
    }
}

impl Service {
    pub fn all() -> Vec<Self> {
        let mut services = Vec::new();
        for members in MEMBERS {
            for internal in POLICIES {
                for external in POLICIES {
                    services.push(Self { members, internal, external, number: services.len() });
                }
            }
        }
        services
    }

    pub fn name(self) -> String {
        let Self { members, internal, external, .. } = self;
        format!("{}-{}-{}", members.app(), internal.word(), external.word()).to_lowercase()
    }

    /// An external address of each family, which no other Service has.
    pub fn external_ips(self) -> [String; 2] {
        [format!("172.30.254.{}", 100 + self.number), format!("fd00:30:254::{:x}", 0x100 + self.number)]
    }

    pub fn object(self) -> Value {
        let ports = ["TCP", "UDP"].map(|protocol| ServicePort { protocol, port: PORT, target: TARGET });
        let spec = json!({
            "type": "LoadBalancer",
            "externalIPs": self.external_ips(),
            "internalTrafficPolicy": self.internal.word(),
            "externalTrafficPolicy": self.external.word(),
        });
        with_spec(service(&self.name(), Endpoints::OfApp(&self.members.app()), &ports), spec)
    }
}
