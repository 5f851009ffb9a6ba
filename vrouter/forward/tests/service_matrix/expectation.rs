//! What is right, in plain words of the Kubernetes API and the router's design.

use vrouter_objects::{DropReason, MemberState, TrafficPolicy};

use crate::case::{Case, Client, Frontend, Member, Place, Ranges};

/// What comes of a client's connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// They reach these members, all of them.
    Reaches(Vec<Sighting>),
    /// The client is told that nobody is there: by RST, or port unreachable.
    Rejected(DropReason),
    /// Nobody is told anything.
    Dropped(DropReason),
}

/// What a member sees of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting {
    pub member: Place,
    pub source: Source,
    pub exit: Exit,
}

/// Whom a connection comes from, as its member sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The client, by its own port.
    Client,
    /// The pods' gateway, by the client's port.
    Gateway,
    /// The first address of the block of the node where it entered, by the client's port.
    Block,
    /// The node where it entered, by a port of the router's.
    Node,
}

/// Where a connection's packets leave the routers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By the port of the pod of this node.
    Pod(usize),
    /// By this node's `vhost0`.
    Host(usize),
    /// By the tunnel from this node to the one that has no vRouter.
    KernelNode(usize),
}

/// Where a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Pod,
    Node,
    Outside,
}

/// What is to come of a case.
pub fn expect(case: &Case<'_>) -> Outcome {
    if case.frontend == Frontend::NodePortAtLoadBalancerIp {
        // Node ports are at nodes' addresses only, and a service's address leads nowhere but to its ports.
        return Outcome::Rejected(DropReason::NoService);
    }
    if !is_within_ranges(case) {
        return Outcome::Dropped(DropReason::SourceRange);
    }
    let members = &case.service.members;
    let takers = match policy(case) {
        TrafficPolicy::Cluster => usable(members.iter()),
        TrafficPolicy::Local => usable(members.iter().filter(|member| is_on(member.place, case.entry))),
    };
    if !takers.is_empty() {
        Outcome::Reaches(takers.into_iter().map(|member| sighting(case, member)).collect())
    } else if usable(members.iter()).is_empty() {
        Outcome::Rejected(DropReason::NoMembers)
    } else {
        Outcome::Dropped(DropReason::NoMembers)
    }
}

fn side(client: Client) -> Side {
    match client {
        Client::Pod | Client::Member(Place::Pod(_) | Place::PodOfKernelNode) => Side::Pod,
        Client::Node | Client::Member(Place::Host(_)) => Side::Node,
        Client::Outside | Client::Member(Place::Outside) => Side::Outside,
    }
}

/// `loadBalancerSourceRanges` guard the load balancer's addresses, for everybody, and nothing else.
fn is_within_ranges(case: &Case<'_>) -> bool {
    case.frontend != Frontend::LoadBalancerIp
        || match case.service.ranges {
            Ranges::None => true,
            Ranges::OfInsiders => side(case.client) != Side::Outside,
            Ranges::OfOutsiders => side(case.client) == Side::Outside,
        }
}

/// `internalTrafficPolicy` is the cluster address's. `externalTrafficPolicy` is for who comes from outside; pods and
/// nodes that use an external address or a node port have the whole cluster.
fn policy(case: &Case<'_>) -> TrafficPolicy {
    match (case.frontend, side(case.client)) {
        (Frontend::ClusterIp, _) => case.service.internal_policy,
        (_, Side::Outside) => case.service.external_policy,
        (_, Side::Pod | Side::Node) => TrafficPolicy::Cluster,
    }
}

fn is_on(place: Place, node: usize) -> bool {
    match place {
        Place::Pod(on) | Place::Host(on) => on == node,
        Place::PodOfKernelNode | Place::Outside => false,
    }
}

/// The ready ones, or where there are none those that still serve while they terminate.
fn usable<'a>(scope: impl Iterator<Item = &'a Member> + Clone) -> Vec<Place> {
    let in_state = |state| -> Vec<Place> {
        scope.clone().filter(|member| member.state == state).map(|member| member.place).collect()
    };
    let ready = in_state(MemberState::Ready);
    if ready.is_empty() { in_state(MemberState::Serving) } else { ready }
}

/// The client's own address reaches every pod, and from pods every node. A pod that reaches itself sees its gateway, or
/// it would answer itself. Whoever would answer past the router sees an address that leads back to it: a pod of the
/// kernel's one of the node's block, everybody else the node's.
fn sighting(case: &Case<'_>, member: Place) -> Sighting {
    let (source, exit) = match (side(case.client), member) {
        (Side::Pod, Place::Pod(node)) if case.client == Client::Member(member) => {
            (Source::Gateway, Exit::Pod(node))
        }
        (_, Place::Pod(node)) => (Source::Client, Exit::Pod(node)),
        (Side::Pod, Place::Host(node)) => (Source::Client, Exit::Host(node)),
        (Side::Pod, Place::PodOfKernelNode) => (Source::Client, Exit::KernelNode(case.entry)),
        (_, Place::PodOfKernelNode) => (Source::Block, Exit::KernelNode(case.entry)),
        // The node's stack knows the way to other nodes, and beyond.
        (_, Place::Host(_) | Place::Outside) => (Source::Node, Exit::Host(case.entry)),
    };
    Sighting { member, source, exit }
}
