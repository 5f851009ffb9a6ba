//! Where a packet is to go, but for policy.

use std::net::{IpAddr, SocketAddr};

use vrouter_tests::lab::Family;

use crate::fleet::Place;
use crate::objects::node_address;
use crate::text::{Connection, Party, Traffic, Verdict, judge};
use crate::wire::{Kind, SYN, Segment, Shape};
use crate::world::{Name, Phase, Protocol, World, family_of};

/// The least source port that probes have.
const FIRST_PORT: u16 = 2000;

/// The first packet of a connection.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// Its number, by which later steps name it; it gives its source port.
    pub id: u16,
    /// Who sends it.
    pub from: Origin,
    /// Whom it is for.
    pub to: Target,
    /// In which family.
    pub family: Family,
    /// By what.
    pub transport: Transport,
    /// How.
    pub shape: Shape,
}

/// Who sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A pod.
    Pod(Name),
    /// A process of a node.
    Node(usize),
    /// Somebody outside.
    Outside {
        /// Who.
        address: IpAddr,
        /// The node that the packets come in at.
        entry: usize,
    },
}

/// Whom a packet is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A pod's own address.
    Pod(Name, u16),
    /// A service's cluster address.
    Cluster(Name),
    /// A service's port of this node.
    NodePort(Name, usize),
    /// A process of a node.
    Node(usize, u16),
    /// Somebody outside.
    Outside(IpAddr, u16),
}

/// What is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Something with ports.
    Ports(Protocol),
    /// A ping.
    Echo,
}

/// An end of a connection, services translated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// A pod with an interface.
    Pod(Name),
    /// A process of a node.
    Node(usize),
    /// Somebody outside.
    Outside,
}

/// A connection, services translated, by names: it may outlive what they name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Who begins.
    pub from: (End, IpAddr),
    /// Whom the policies of the other end see. Where a node speaks for a pod of a network that is not known there, that is the
    /// node's address; but it is not the node that speaks, so that nothing is allowed for its sake.
    pub seen_from: (End, IpAddr),
    /// Who is spoken to.
    pub to: (End, SocketAddr),
    /// What is spoken.
    pub transport: Transport,
    /// The node at which packets for the outside leave.
    pub exit: usize,
}

/// Where a packet may go, but for policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// To one of these.
    Links(Vec<Link>),
    /// Nowhere: the networks have no way to each other.
    Nowhere,
    /// There is no such packet in this world.
    Void,
}

impl Probe {
    /// The packet, if who sends it and whom it is for are there.
    pub fn segment(&self, world: &World) -> Option<Segment> {
        let source = SocketAddr::new(self.from.address(world, self.family)?, FIRST_PORT + self.id);
        let destination = self.to.socket(world, self.family)?;
        let (destination, kind) = match self.transport {
            Transport::Ports(Protocol::Tcp) => (destination, Kind::Tcp(SYN)),
            Transport::Ports(Protocol::Udp) => (destination, Kind::Udp),
            Transport::Ports(Protocol::Sctp) => (destination, Kind::Sctp),
            Transport::Echo => (SocketAddr::new(destination.ip(), source.port()), Kind::EchoRequest),
        };
        Some(Segment { source, destination, kind })
    }

    /// Where it is sent.
    pub fn place(&self) -> Place {
        match &self.from {
            Origin::Pod(name) => Place::Pod(name.clone()),
            Origin::Node(node) | Origin::Outside { entry: node, .. } => Place::Host(*node),
        }
    }

    /// Where it may go.
    pub fn reach(&self, world: &World) -> Reach {
        let Some(segment) = self.segment(world) else { return Reach::Void };
        match self.ends(world, segment.destination) {
            None => Reach::Void,
            Some(ends) if ends.is_empty() => Reach::Nowhere,
            Some(ends) => {
                let links = ends.into_iter().map(|end| self.link(world, segment.source.ip(), end));
                Reach::Links(links.collect())
            }
        }
    }

    fn link(&self, world: &World, source: IpAddr, to: (End, SocketAddr)) -> Link {
        let (from, exit) = match &self.from {
            Origin::Pod(name) => (End::Pod(name.clone()), world.pods[name].node),
            Origin::Node(node) => (End::Node(*node), *node),
            Origin::Outside { entry, .. } => (End::Outside, *entry),
        };
        let seen_from = match (network(world, &from), network(world, &to.0)) {
            // An isolated network is known in the cluster's, and no other in it.
            (Some(one), Some(other)) if one != other && !other.is_empty() => {
                (End::Outside, node_address(exit, self.family))
            }
            _ => (from.clone(), source),
        };
        Link { from: (from, source), seen_from, to, transport: self.transport, exit }
    }

    /// Whom it may be for at last; empty: nobody that it reaches.
    fn ends(&self, world: &World, destination: SocketAddr) -> Option<Vec<(End, SocketAddr)>> {
        match &self.to {
            Target::Pod(name, _) => {
                let end = End::Pod(name.clone());
                if self.from == Origin::Pod(name.clone()) {
                    // What a pod sends to its own address never leaves it.
                    return None;
                }
                let reaches = match &self.from {
                    Origin::Pod(from) => network(world, &End::Pod(from.clone())) == network(world, &end),
                    Origin::Node(_) => true,
                    // Nobody says whether the world may speak to isolated pods by their own addresses.
                    Origin::Outside { .. } if world.is_isolated(&name.namespace) => return None,
                    Origin::Outside { .. } => true,
                };
                Some(if reaches { vec![(end, destination)] } else { Vec::new() })
            }
            Target::Cluster(service) => {
                let home = namespace_network(world, &service.namespace);
                let reaches = match &self.from {
                    Origin::Pod(from) => home.is_empty() || home == namespace_network(world, &from.namespace),
                    Origin::Node(_) => home.is_empty(),
                    Origin::Outside { .. } => return None,
                };
                if reaches { self.members(world, service) } else { Some(Vec::new()) }
            }
            Target::NodePort(service, _) => match &self.from {
                Origin::Node(_) => None,
                Origin::Pod(_) | Origin::Outside { .. } => self.members(world, service),
            },
            Target::Node(node, _) => {
                matches!(self.from, Origin::Pod(_)).then(|| vec![(End::Node(*node), destination)])
            }
            Target::Outside(..) => {
                matches!(self.from, Origin::Pod(_)).then(|| vec![(End::Outside, destination)])
            }
        }
    }

    fn members(&self, world: &World, service: &Name) -> Option<Vec<(End, SocketAddr)>> {
        let service = world.services.get(service)?;
        let end = |(name, address, port): (Name, IpAddr, u16)| {
            let pod = &world.pods[&name];
            let end = if pod.phase == Phase::OnHost { End::Node(pod.node) } else { End::Pod(name) };
            (end, SocketAddr::new(address, port))
        };
        let members: Vec<_> = world.members(service, self.family).into_iter().map(end).collect();
        // What becomes of services without members is another test's matter.
        (!members.is_empty() && self.transport == Transport::Ports(service.protocol)).then_some(members)
    }
}

impl Origin {
    fn address(&self, world: &World, family: Family) -> Option<IpAddr> {
        match self {
            Self::Pod(name) => {
                let pod = world.pods.get(name).filter(|pod| pod.is_attached())?;
                family.pick(&pod.addresses)
            }
            Self::Node(node) => Some(node_address(*node, family)),
            Self::Outside { address, .. } => (family_of(*address) == family).then_some(*address),
        }
    }
}

impl Target {
    fn socket(&self, world: &World, family: Family) -> Option<SocketAddr> {
        let (address, port) = match self {
            Self::Pod(name, port) => {
                let pod = world.pods.get(name).filter(|pod| pod.is_attached())?;
                (family.pick(&pod.addresses)?, *port)
            }
            Self::Cluster(name) => {
                let service = world.services.get(name)?;
                (family.pick(&service.addresses)?, service.port)
            }
            Self::NodePort(name, node) => {
                let service = world.services.get(name)?;
                family.pick(&service.addresses)?;
                (node_address(*node, family), service.node_port)
            }
            Self::Node(node, port) => (node_address(*node, family), *port),
            Self::Outside(address, port) => (*address, *port),
        };
        (family_of(address) == family).then(|| SocketAddr::new(address, port))
    }
}

impl Link {
    /// What policy says of it now; `None`: one of its ends is gone.
    pub fn verdict(&self, world: &World) -> Option<Verdict> {
        let traffic = match self.transport {
            Transport::Ports(protocol) => Traffic::Ports(protocol, self.to.1.port()),
            Transport::Echo => Traffic::Icmp,
        };
        let to = party(world, &self.to.0, self.to.1.ip())?;
        let verdict = |(end, address): &(End, IpAddr)| {
            let from = party(world, end, *address)?;
            Some(judge(world, &Connection { from, to, traffic }))
        };
        let (as_sent, as_seen) = (verdict(&self.from)?, verdict(&self.seen_from)?);
        // Either end's policies judge by what that end sees.
        Some(match (as_sent, as_seen) {
            (Verdict::EgressDenied, _) => Verdict::EgressDenied,
            (_, Verdict::IngressDenied) => Verdict::IngressDenied,
            _ => Verdict::Allowed,
        })
    }

    /// Whether its packets arrive there. What is to another node may leave by the stack of the one that it came in at.
    pub fn arrives_at(&self, place: &Place) -> bool {
        match (&self.to.0, place) {
            (End::Pod(name), Place::Pod(other)) => name == other,
            (End::Node(node), Place::Host(other)) => node == other || self.exit == *other,
            (End::Outside, Place::Host(other)) => self.exit == *other,
            _ => false,
        }
    }

    /// The node whose policies decide in this direction.
    pub fn node_of(&self, world: &World, verdict: Verdict) -> Option<usize> {
        let end = match verdict {
            Verdict::Allowed => return None,
            Verdict::EgressDenied => &self.from.0,
            Verdict::IngressDenied => &self.to.0,
        };
        match end {
            End::Pod(name) => world.pods.get(name).map(|pod| pod.node),
            End::Node(_) | End::Outside => None,
        }
    }
}

fn party<'a>(world: &'a World, end: &'a End, address: IpAddr) -> Option<Party<'a>> {
    match end {
        End::Pod(name) => {
            let pod = world.pods.get(name).filter(|pod| pod.is_attached())?;
            pod.addresses.contains(&address).then_some(Party::Pod(name, pod, address))
        }
        End::Node(node) => Some(Party::Node(*node, address)),
        End::Outside => Some(Party::Outside(address)),
    }
}

/// The network that a pod is in; `None`: it is no pod.
fn network<'a>(world: &World, end: &'a End) -> Option<&'a str> {
    match end {
        End::Pod(name) => Some(namespace_network(world, &name.namespace)),
        End::Node(_) | End::Outside => None,
    }
}

/// The name of the network of a namespace's pods, empty for the cluster's.
fn namespace_network<'a>(world: &World, namespace: &'a str) -> &'a str {
    if world.is_isolated(namespace) { namespace } else { "" }
}
