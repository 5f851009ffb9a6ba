//! Who may talk to whom: a plain reading of what Kubernetes says of NetworkPolicy and ClusterNetworkPolicy.
//!
//! It is slow, keeps nothing, looks at whole objects each time, and shares no code with what the controller does.
//!
//! * NetworkPolicy: the reference of `networking.k8s.io/v1` and the concept page "Network Policies".
//! * ClusterNetworkPolicy: the reference of `policy.networking.k8s.io/v1alpha2`.

mod block;
mod cluster_policy;
mod network_policy;
mod selector;

use std::net::IpAddr;

use crate::world::{Name, Pod, Protocol, World};

pub use cluster_policy::{
    Action, ClusterPolicySpec, DestinationPort, NamespacedPods, Peer, PortRange, ProtocolMatch,
    ProtocolPorts, Rule, Subject, Tier,
};

/// One end of a connection.
#[derive(Debug, Clone, Copy)]
pub enum Party<'a> {
    /// A pod with an interface of its own.
    Pod(&'a Name, &'a Pod, IpAddr),
    /// A process of the node with this number, or a pod that uses the node's network.
    Node(usize, IpAddr),
    /// Somebody who is not of the cluster.
    Outside(IpAddr),
}

/// What is spoken, and the port of whoever is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// Something with ports.
    Ports(Protocol, u16),
    /// ICMP or ICMPv6.
    Icmp,
}

/// Who wants to talk to whom, services translated.
#[derive(Debug, Clone, Copy)]
pub struct Connection<'a> {
    /// Who begins.
    pub from: Party<'a>,
    /// Who is spoken to.
    pub to: Party<'a>,
    /// What is spoken.
    pub traffic: Traffic,
}

/// What policy says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It may be.
    Allowed,
    /// The policies of the pod that begins do not allow it.
    EgressDenied,
    /// The policies of the pod that is spoken to do not allow it.
    IngressDenied,
}

/// Which way a policy looks, from the pod that it selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To the pod.
    Ingress,
    /// From the pod.
    Egress,
}

/// A connection as the policies of one of its pods see it.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The whole cluster.
    pub world: &'a World,
    /// Which way.
    pub direction: Direction,
    /// The pod that policies select.
    pub pod: (&'a Name, &'a Pod),
    /// The other end.
    pub peer: Party<'a>,
    /// What is spoken.
    pub traffic: Traffic,
}

/// Whether a connection may be.
pub fn judge(world: &World, connection: &Connection) -> Verdict {
    let Connection { from, to, traffic } = *connection;
    // "A pod cannot block access to itself", and "traffic to and from the node where a Pod is running is always allowed".
    if from.is_same_pod(to) || from.is_on(to) || to.is_on(from) {
        return Verdict::Allowed;
    }
    let allows = |party, peer, direction| match party {
        Party::Pod(name, pod, _) => View { world, direction, pod: (name, pod), peer, traffic }.is_allowed(),
        Party::Node(..) | Party::Outside(_) => true,
    };
    // "Both the egress policy on the source pod and the ingress policy on the destination pod need to allow the traffic."
    if !allows(from, to, Direction::Egress) {
        Verdict::EgressDenied
    } else if !allows(to, from, Direction::Ingress) {
        Verdict::IngressDenied
    } else {
        Verdict::Allowed
    }
}

impl View<'_> {
    /// Tier by tier, until one has decided; "the default kubernetes policy is applied" where none has.
    fn is_allowed(&self) -> bool {
        cluster_policy::decision(self, Tier::Admin)
            .or_else(|| network_policy::decision(self))
            .or_else(|| cluster_policy::decision(self, Tier::Baseline))
            .unwrap_or(true)
    }

    /// Whether the pod that is spoken to has a port of this name, and of this protocol if one is meant, and it is the one
    /// that is spoken to.
    fn is_named_port(&self, name: &str, meant: Option<Protocol>) -> bool {
        let server = match (self.direction, self.peer) {
            (Direction::Ingress, _) => self.pod.1,
            (Direction::Egress, Party::Pod(_, pod, _)) => pod,
            (Direction::Egress, Party::Node(..) | Party::Outside(_)) => return false,
        };
        server.ports.iter().any(|port| {
            let is_meant = meant.is_none_or(|protocol| protocol == port.protocol);
            port.name == name && is_meant && self.traffic == Traffic::Ports(port.protocol, port.number)
        })
    }
}

impl<'a> Party<'a> {
    /// Its address.
    pub fn address(self) -> IpAddr {
        match self {
            Self::Pod(_, _, address) | Self::Node(_, address) | Self::Outside(address) => address,
        }
    }

    fn is_same_pod(self, other: Party) -> bool {
        matches!((self, other), (Self::Pod(one, ..), Party::Pod(two, ..)) if one == two)
    }

    /// Whether it is a pod of this node.
    fn is_on(self, node: Party) -> bool {
        matches!((self, node), (Self::Pod(_, pod, _), Party::Node(number, _)) if pod.node == number)
    }
}
