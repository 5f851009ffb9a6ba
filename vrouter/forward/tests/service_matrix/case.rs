//! The axes, and all the cases they span.

use std::fmt;

use vrouter_objects::{MemberState, TrafficPolicy};

/// As many as a case can tell apart: one that is here, one that is there, and one where nobody is.
pub const NODES: usize = 3;

const POLICIES: [TrafficPolicy; 2] = [TrafficPolicy::Cluster, TrafficPolicy::Local];
const STATES: [MemberState; 3] = [MemberState::Ready, MemberState::Serving, MemberState::Leaving];

/// Where a member is. The last of our nodes has none: a client enters at a member's node, at another's, or where nobody
/// is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A pod on this node.
    Pod(usize),
    /// A process, or a pod on the host network, of this node.
    Host(usize),
    /// A pod on a node where no vRouter is, but the kernel at the tunnel's end.
    PodOfKernelNode,
    /// Beyond the cluster.
    Outside,
}

const PLACES: [Place; 6] =
    [Place::Pod(0), Place::Pod(1), Place::Host(0), Place::Host(1), Place::PodOfKernelNode, Place::Outside];

/// An endpoint. No two members of a service are in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    pub place: Place,
    pub state: MemberState,
}

/// `loadBalancerSourceRanges`. Each kind of client is within one of the two sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranges {
    None,
    /// The pods and the nodes.
    OfInsiders,
    /// Everybody who is beyond the cluster.
    OfOutsiders,
}

/// `sessionAffinity`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Affinity {
    None,
    ClientIp,
}

/// A Service with everything that may lead to it.
#[derive(Debug, Clone)]
pub struct Service {
    pub members: Vec<Member>,
    pub internal_policy: TrafficPolicy,
    pub external_policy: TrafficPolicy,
    pub ranges: Ranges,
    pub affinity: Affinity,
}

/// What the client speaks to. Here is the node where its packets enter the cluster; another is the one after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Frontend {
    ClusterIp,
    NodePortHere,
    NodePortOfAnother,
    ExternalIp,
    LoadBalancerIp,
    /// An external IP that is this node's address.
    ExternalIpOfNodeHere,
    /// An external IP that is another node's address.
    ExternalIpOfAnother,
    /// The node port, at an address that is no node's.
    NodePortAtLoadBalancerIp,
}

const FRONTENDS: [Frontend; 8] = [
    Frontend::ClusterIp,
    Frontend::NodePortHere,
    Frontend::NodePortOfAnother,
    Frontend::ExternalIp,
    Frontend::LoadBalancerIp,
    Frontend::ExternalIpOfNodeHere,
    Frontend::ExternalIpOfAnother,
    Frontend::NodePortAtLoadBalancerIp,
];

/// Who speaks, at or through the node where it enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    /// A pod that is no member.
    Pod,
    /// A process of the node.
    Node,
    /// Somebody beyond the cluster.
    Outside,
    /// The member of this place, a pod or beyond the cluster. (One of the host network speaks as [`Client::Node`].)
    Member(Place),
}

/// One client at one frontend of one service.
#[derive(Debug, Clone)]
pub struct Case<'a> {
    pub service: &'a Service,
    pub frontend: Frontend,
    pub client: Client,
    /// The node where the client's packets enter the cluster, and are translated.
    pub entry: usize,
}

impl Frontend {
    /// The node whose address it is, for who enters at this one.
    pub fn node(self, entry: usize) -> Option<usize> {
        match self {
            Self::NodePortHere | Self::ExternalIpOfNodeHere => Some(entry),
            Self::NodePortOfAnother | Self::ExternalIpOfAnother => Some((entry + 1) % NODES),
            Self::ClusterIp | Self::ExternalIp | Self::LoadBalancerIp | Self::NodePortAtLoadBalancerIp => {
                None
            }
        }
    }
}

impl Service {
    /// Every client that can enter at a node, at every frontend.
    pub fn cases(&self, entry: usize) -> impl Iterator<Item = Case<'_>> {
        let itself = self.members.iter().map(|member| member.place).filter(move |place| match place {
            Place::Pod(node) => *node == entry,
            Place::Host(_) | Place::PodOfKernelNode => false,
            Place::Outside => true,
        });
        let clients = [Client::Pod, Client::Node, Client::Outside].into_iter();
        clients
            .chain(itself.map(Client::Member))
            .flat_map(move |client| FRONTENDS.map(|frontend| Case { service: self, frontend, client, entry }))
    }
}

/// Every service.
pub fn services() -> impl Iterator<Item = Service> {
    pools().into_iter().flat_map(|members| variants(&members))
}

fn variants(members: &[Member]) -> Vec<Service> {
    let mut services = Vec::new();
    for internal_policy in POLICIES {
        for external_policy in POLICIES {
            for ranges in [Ranges::None, Ranges::OfInsiders, Ranges::OfOutsiders] {
                for affinity in [Affinity::None, Affinity::ClientIp] {
                    let members = members.to_vec();
                    services.push(Service { members, internal_policy, external_policy, ranges, affinity });
                }
            }
        }
    }
    services
}

/// Nobody; somebody alone, in every state; somebody everywhere, the pods of each node and the others in every state.
fn pools() -> Vec<Vec<Member>> {
    let mut pools = vec![Vec::new()];
    for place in PLACES {
        for state in STATES {
            pools.push(vec![Member { place, state }]);
        }
    }
    for here in STATES {
        for there in STATES {
            for others in STATES {
                pools.push(everywhere([here, there, others, others, others, others]));
            }
        }
    }
    pools
}

fn everywhere(states: [MemberState; PLACES.len()]) -> Vec<Member> {
    PLACES.into_iter().zip(states).map(|(place, state)| Member { place, state }).collect()
}

impl fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Service { members, internal_policy, external_policy, ranges, affinity } = self.service;
        write!(f, "{:?} at node {} to {:?} of [", self.client, self.entry, self.frontend)?;
        for (number, Member { place, state }) in members.iter().enumerate() {
            write!(f, "{}{place:?} {state:?}", if number == 0 { "" } else { ", " })?;
        }
        write!(f, "], internal {internal_policy:?}, external {external_policy:?}, ")?;
        write!(f, "ranges {ranges:?}, affinity {affinity:?}")
    }
}
