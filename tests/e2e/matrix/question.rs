//! Who asks whom, and what is right, in plain words of the Kubernetes API and the router's design.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, anyhow};
use vrouter_tests::lab::Family;
use vrouter_tests::report::{Replies, Reply};
use vrouter_tests::status::{LabStatus, Service as ServiceStatus};

use super::service::{Members, NODES, PORT, Policy, Service};
use crate::load::Protocol;

/// So many questions, in both protocols and families each, that a member which none of them reaches gets none.
const TRIES: u64 = 6;
/// Milliseconds for what must be answered, however busy the machine is.
const PATIENCE: u64 = 5000;
/// For what may remain without an answer.
const LITTLE_PATIENCE: u64 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    PodOn(&'static str),
    ProcessOn(&'static str),
    Outside,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frontend {
    ClusterIp,
    LoadBalancer,
    ExternalIp,
    NodePortAt(&'static str),
}

pub const CLIENTS: [Client; 5] = [
    Client::PodOn("n1"),
    Client::PodOn("n2"),
    Client::ProcessOn("n1"),
    Client::ProcessOn("n2"),
    Client::Outside,
];
const FRONTENDS: [Frontend; 5] = [
    Frontend::ClusterIp,
    Frontend::LoadBalancer,
    Frontend::ExternalIp,
    Frontend::NodePortAt("n1"),
    Frontend::NodePortAt("n2"),
];

/// The pod on a node that is a client and no member.
pub fn idle(node: &str) -> String {
    format!("idle-{node}")
}

/// One combination.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    service: Service,
    client: Client,
    frontend: Frontend,
    family: Family,
    protocol: Protocol,
}

impl Question {
    /// All that a client can ask.
    pub fn of(client: Client) -> Vec<Self> {
        let mut questions = Vec::new();
        for service in Service::all() {
            for frontend in FRONTENDS {
                // Nothing outside leads to a cluster's own addresses.
                if (client, frontend) == (Client::Outside, Frontend::ClusterIp) {
                    continue;
                }
                for family in Family::BOTH {
                    for protocol in Protocol::BOTH {
                        questions.push(Self { service, client, frontend, family, protocol });
                    }
                }
            }
        }
        questions
    }

    /// The nodes that may be the one that chooses the member. Outside, every node is a way to an external address. For a pod
    /// its own node has the node ports of all; what a process sends to another node's address goes there as it is.
    fn entries(&self) -> Vec<&'static str> {
        match (self.client, self.frontend) {
            (Client::Outside | Client::ProcessOn(_), Frontend::NodePortAt(node)) => vec![node],
            (Client::PodOn(node) | Client::ProcessOn(node), _) => vec![node],
            (Client::Outside, _) => NODES.into(),
        }
    }

    /// `internalTrafficPolicy` is the cluster address's. `externalTrafficPolicy` is for who comes from outside the node that
    /// chooses, and another node does; pods and nodes that use an external address or a node port have the whole cluster.
    fn policy(&self, entry: &str) -> Policy {
        match (self.frontend, self.client) {
            (Frontend::ClusterIp, _) => self.service.internal,
            (_, Client::Outside) => self.service.external,
            (_, Client::ProcessOn(node)) if node != entry => self.service.external,
            (_, Client::PodOn(_) | Client::ProcessOn(_)) => Policy::Cluster,
        }
    }

    /// What is right where this node chooses the member.
    fn expected_by(&self, world: &World, entry: &'static str) -> Result<Replies> {
        let pods = self.service.members.pods();
        if pods.is_empty() {
            return Ok([Reply::Refused].into());
        }
        let client = match (self.client, self.service.members) {
            // Its node's kernel would answer past the router.
            (Client::Outside | Client::ProcessOn(_), Members::ProcessOn(_)) => Client::ProcessOn(entry),
            (client, _) => client,
        };
        let client = world.address(client, self.family)?;
        let takes = |node: &str| self.policy(entry) == Policy::Cluster || node == entry;
        let takers = pods.into_iter().filter(|(_, node)| takes(node));
        let replies: Replies = takers.map(|(pod, _)| Reply::Answered { pod, client }).collect();
        Ok(if replies.is_empty() { [Reply::Silent].into() } else { replies })
    }

    /// What is right, by every node that may choose.
    pub fn expected(&self, world: &World) -> Result<Vec<Replies>> {
        self.entries().into_iter().map(|entry| self.expected_by(world, entry)).collect()
    }

    fn target(&self, world: &World) -> Result<SocketAddr> {
        let service = world.service(&self.service.name())?;
        let (addresses, port) = match self.frontend {
            Frontend::ClusterIp => (service.cluster_ips.clone(), PORT),
            Frontend::LoadBalancer => (service.ingress_ips.clone(), PORT),
            Frontend::ExternalIp => {
                let addresses = self.service.external_ips().map(|address| address.parse());
                (addresses.into_iter().collect::<Result<_, _>>()?, PORT)
            }
            Frontend::NodePortAt(node) => {
                let mut ports = service.ports.iter();
                let port = ports.find(|port| port.protocol.eq_ignore_ascii_case(self.protocol.word()));
                let port = port.and_then(|port| port.node_port).context("no node port")?;
                (vec![world.address(Client::ProcessOn(node), self.family)?], port.try_into()?)
            }
        };
        let address = self.family.pick(&addresses).with_context(|| format!("{self}: no address"))?;
        Ok(SocketAddr::new(address, port))
    }

    /// As the probe takes it: where it is asked, and how often and long.
    pub fn line(&self, world: &World, expected: &Replies) -> Result<String> {
        let target = self.target(world)?;
        let patience = if expected.contains(&Reply::Silent) { LITTLE_PATIENCE } else { PATIENCE };
        let is_answered = expected.iter().any(|reply| matches!(reply, Reply::Answered { .. }));
        let count = if is_answered { TRIES } else { 1 };
        let protocol = self.protocol.word();
        Ok(format!("{target} --protocol {protocol} --count {count} --patience {patience}"))
    }

    /// The combination without protocol and family.
    pub fn subject(&self) -> String {
        format!("{:?} to {:?} of {}", self.client, self.frontend, self.service.name())
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {:?} {:?}", self.subject(), self.protocol, self.family)
    }
}

/// The lab as it was when its objects were in place.
pub struct World(pub LabStatus);

impl World {
    pub fn address(&self, client: Client, family: Family) -> Result<IpAddr> {
        let addresses = match client {
            Client::PodOn(node) => self.0.pods.iter().find(|pod| pod.name == idle(node)).map(|pod| &pod.ips),
            Client::ProcessOn(name) => {
                self.0.nodes.iter().find(|node| node.name == name).map(|node| &node.addresses)
            }
            Client::Outside => Some(&self.0.client.addresses),
        };
        let address = addresses.and_then(|addresses| family.pick(addresses));
        address.ok_or_else(|| anyhow!("{client:?} has no {family:?} address"))
    }

    fn service(&self, name: &str) -> Result<&ServiceStatus> {
        let found = self.0.services.iter().find(|service| service.name == name);
        found.ok_or_else(|| anyhow!("no service {name}"))
    }
}
