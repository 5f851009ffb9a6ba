//! Routing instances: one forwarding table per virtual network.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::{Vni, VrfId};

/// A VirtualNetwork with its RoutingInstance, as a node needs it: the two are one to one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutingInstance {
    /// The VRF.
    pub id: VrfId,
    /// The network's name, `namespace/name`.
    pub name: String,
    /// What marks this network's packets between nodes. Each network has its own.
    pub vni: Vni,
    /// What is in it.
    pub kind: NetworkKind,
    /// The network's subnets, at most one gateway each.
    pub subnets: Vec<Subnet>,
    /// Whose addresses its interfaces have: its own, or those of the network that it shares its subnets with. Within one
    /// address space, an address is one pod's.
    pub address_space: VrfId,
    /// The networks in which its interfaces are known by their addresses, itself aside: answers find back from there.
    /// Into any other network, packets go in the node's name.
    pub known_in: Vec<VrfId>,
}

impl RoutingInstance {
    /// An overlay network with addresses of its own that is known nowhere else.
    pub fn new(id: VrfId, name: &str, vni: Vni, subnets: Vec<Subnet>) -> Self {
        Self {
            id,
            name: name.to_owned(),
            vni,
            kind: NetworkKind::Overlay,
            subnets,
            address_space: id,
            known_in: Vec::new(),
        }
    }
}

/// What is in a network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum NetworkKind {
    /// Interfaces of pods, or addresses of services.
    #[default]
    Overlay,
    /// The nodes themselves, and whoever is beyond them: `vhost0` is a port into it. There is one.
    Fabric,
    /// Addresses by which each node reaches its own interfaces ([`LinkLocal`](crate::LinkLocal)): the same may be another's on
    /// another node, so nothing of it travels between them. There is one.
    LinkLocal,
}

/// A subnet of a virtual network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    /// Its prefix.
    pub prefix: IpNet,
    /// The address the vRouter itself answers at, on every node alike.
    pub gateway: IpAddr,
}
