//! Who reaches whom, and in whose name: said by who is in which network, which networks know each other, and what is
//! published. There are no routes here.

use std::net::IpAddr;

use vrouter_forward::Family;
use vrouter_objects::Vni;

use crate::support::{
    CLUSTER_PODS, Kind, MEMBER_PORT, SERVICE_PORT, SERVICES, node_address, outside, prefixes,
};
use crate::topology::Topology;
use crate::world::{Place, World, cluster_ip, external_ip, node_port};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    Pod(usize),
    /// A process of this node.
    Node(usize),
    /// Somebody whose packets come to this node.
    Outside(usize),
}

/// Whom it may be that a packet reaches, and as what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting {
    pub place: Place,
    pub source: IpAddr,
    pub destination: IpAddr,
    /// Of what has ports.
    pub port: u16,
    /// What marks the packet where it goes from node to node.
    pub vni: Vni,
}

/// What is said to an address: to a port, or a ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    To(u16),
    Ping,
}

/// The nodes and all that is beyond them are in this network.
const FABRIC_VNI: u32 = 3;

impl Sender {
    pub fn node(self, topology: &Topology) -> usize {
        match self {
            Self::Pod(pod) => topology.pods[pod].node,
            Self::Node(node) | Self::Outside(node) => node,
        }
    }

    pub fn address(self, world: &World, family: Family) -> IpAddr {
        match self {
            Self::Pod(pod) => world.address(pod, family),
            Self::Node(node) => node_address(node, family),
            Self::Outside(_) => outside(family),
        }
    }

    pub fn place(self) -> Place {
        match self {
            Self::Pod(pod) => Place::Pod(pod),
            Self::Node(node) | Self::Outside(node) => Place::Host(node),
        }
    }

    /// The pod network that it is in.
    fn network(self, topology: &Topology) -> Option<usize> {
        match self {
            Self::Pod(pod) => Some(topology.pods[pod].network),
            Self::Node(_) | Self::Outside(_) => None,
        }
    }
}

/// Everybody whom a packet may reach: one of them, or nobody where there are none.
pub fn reaches(world: &World, sender: Sender, family: Family, to: IpAddr, said: Said) -> Vec<Sighting> {
    let topology = &world.topology;
    let home = sender.network(topology);
    let view = View { world, sender, family };
    if let Said::To(port) = said
        && let Some(service) = view.service_at(home, to, port)
    {
        return topology.services[service].members.iter().map(|member| view.at_member(*member)).collect();
    }
    if let Some(pod) = view.pod_at(home, to) {
        // No pod's packet to itself is the router's affair.
        return if sender == Sender::Pod(pod) { Vec::new() } else { vec![view.at_pod(pod, said)] };
    }
    match home {
        Some(home) if !view.is_claimed(home, to) => vec![view.beyond(home, to, said)],
        // What a node sends to nobody of the cluster does not come by us.
        _ => Vec::new(),
    }
}

struct View<'a> {
    world: &'a World,
    sender: Sender,
    family: Family,
}

impl View<'_> {
    fn topology(&self) -> &Topology {
        &self.world.topology
    }

    fn kind(&self, network: usize) -> Kind {
        self.topology().networks[network].kind
    }

    /// The service that is at this port of an address, as a network sees it.
    fn service_at(&self, home: Option<usize>, to: IpAddr, port: u16) -> Option<usize> {
        let topology = self.topology();
        (0..topology.services.len()).find(|service| {
            let is_seen = self.sees_cluster_ips(home, topology.services[*service].network);
            let by_cluster_ip =
                is_seen && (to, port) == (cluster_ip(topology, *service, self.family), SERVICE_PORT);
            let by_node_port = self.node_with(to).is_some() && port == node_port(*service);
            let by_external_ip = (to, port) == (external_ip(*service, self.family), SERVICE_PORT);
            by_cluster_ip || by_node_port || by_external_ip
        })
    }

    /// A custom network sees its own; an isolated namespace its own and the cluster's; all others the cluster's.
    fn sees_cluster_ips(&self, home: Option<usize>, of: usize) -> bool {
        let is_own = home == Some(of);
        let is_custom = home.is_some_and(|home| self.kind(home) == Kind::Custom);
        is_own || (!is_custom && self.kind(of) == Kind::Default)
    }

    fn node_with(&self, address: IpAddr) -> Option<usize> {
        (0..self.topology().nodes).find(|node| node_address(*node, self.family) == address)
    }

    /// The pod with this address that a network's pods, or the nodes, speak to.
    fn pod_at(&self, home: Option<usize>, to: IpAddr) -> Option<usize> {
        let speaks_to = |network: usize| match home {
            Some(home) => home == network || self.topology().knows(home, network),
            None => self.kind(network) != Kind::Custom,
        };
        let pods = 0..self.topology().pods.len();
        let mut found = pods.filter(|pod| {
            self.world.address(*pod, self.family) == to && speaks_to(self.topology().pods[*pod].network)
        });
        let first = found.next();
        assert_eq!(found.next(), None, "an address is one pod's, as one network sees it");
        first
    }

    /// Whether an address is some pod's or service's to be, so that nobody else has it.
    fn is_claimed(&self, home: usize, to: IpAddr) -> bool {
        let topology = self.topology();
        let known = [home].into_iter().chain(topology.leaked(home));
        let of_cluster = prefixes(CLUSTER_PODS).into_iter().chain(prefixes(SERVICES));
        known.into_iter().any(|network| topology.networks[network].contains(to))
            || of_cluster.into_iter().any(|prefix| prefix.contains(&to))
            || (0..topology.services.len()).any(|service| external_ip(service, self.family) == to)
    }

    /// Whether answers to a sender's own address come back from a network.
    fn is_known_in(&self, network: usize) -> bool {
        match self.sender.network(self.topology()) {
            Some(home) => {
                let shares_addresses =
                    self.kind(home) == Kind::Isolated && self.kind(network) == Kind::Default;
                home == network || shares_addresses || self.topology().knows(home, network)
            }
            // They come back to where they came into the cluster.
            None => true,
        }
    }

    fn own_name(&self) -> IpAddr {
        self.sender.address(self.world, self.family)
    }

    fn node_name(&self) -> IpAddr {
        node_address(self.sender.node(self.topology()), self.family)
    }

    fn at_member(&self, pod: usize) -> Sighting {
        let network = self.topology().pods[pod].network;
        let source = if self.sender == Sender::Pod(pod) {
            // By its own, it would answer itself.
            self.topology().networks[network].gateway(self.family)
        } else if self.is_known_in(network) {
            self.own_name()
        } else {
            self.node_name()
        };
        Sighting {
            place: Place::Pod(pod),
            source,
            destination: self.world.address(pod, self.family),
            port: MEMBER_PORT,
            vni: self.topology().networks[network].vni(),
        }
    }

    fn at_pod(&self, pod: usize, said: Said) -> Sighting {
        let network = &self.topology().networks[self.topology().pods[pod].network];
        let by_fabric = self.sender.network(self.topology()).is_none() && network.kind == Kind::Isolated;
        Sighting {
            place: Place::Pod(pod),
            source: self.own_name(),
            destination: self.world.address(pod, self.family),
            port: port_of(said),
            vni: if by_fabric { fabric_vni() } else { network.vni() },
        }
    }

    /// A node that knows the sender, or whoever is outside: there, and at nodes that do not know it, its own node speaks for
    /// it.
    fn beyond(&self, home: usize, to: IpAddr, said: Said) -> Sighting {
        let knowing = self.node_with(to).filter(|_| self.kind(home) != Kind::Custom);
        Sighting {
            place: Place::Host(knowing.unwrap_or_else(|| self.sender.node(self.topology()))),
            source: if knowing.is_some() { self.own_name() } else { self.node_name() },
            destination: to,
            port: port_of(said),
            vni: fabric_vni(),
        }
    }
}

pub fn fabric_vni() -> Vni {
    Vni::new(FABRIC_VNI).expect("a small VNI")
}

fn port_of(said: Said) -> u16 {
    match said {
        Said::To(port) => port,
        Said::Ping => 0,
    }
}
