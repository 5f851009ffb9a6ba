//! The node itself, as the fabric network knows it.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use vrouter_objects::{IpNet, VrfId};

use crate::address::{Address, Family};

/// The node's own place among the nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostNetwork {
    /// The network that `vhost0` is a port into.
    pub vrf: VrfId,
    /// The node's addresses. The first of a family is the source of what goes out in the node's name.
    pub addresses: Vec<IpAddr>,
    /// The nodes' addresses that node ports are served at; empty: all.
    pub node_port_addresses: Vec<IpNet>,
    /// The ports that packets sent in the node's name come from. The node's own processes must not use them.
    pub source_ports: RangeInclusive<u16>,
}

/// The same, as the data path reads it.
#[derive(Debug)]
pub(crate) struct HostEntry {
    pub(crate) vrf: VrfId,
    pub(crate) source_ports: RangeInclusive<u16>,
    addresses: Box<[Address]>,
}

/// An address of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeAddress {
    /// Whether it is this node's.
    pub(crate) is_own: bool,
    /// Whether node ports are served at it.
    pub(crate) serves_node_ports: bool,
    /// Whether its node answers pods by the way they came. A kernel's node would by its tunnel, past the flow.
    pub(crate) knows_pods: bool,
}

impl HostNetwork {
    /// Whether node ports are served at an address of a node.
    pub fn serves_node_ports_at(&self, address: IpAddr) -> bool {
        let wanted = &self.node_port_addresses;
        wanted.is_empty() || wanted.iter().any(|prefix| prefix.contains(&address))
    }
}

impl HostEntry {
    pub(super) fn new(host: &HostNetwork) -> Self {
        Self {
            vrf: host.vrf,
            source_ports: host.source_ports.clone(),
            addresses: host.addresses.iter().map(|address| (*address).into()).collect(),
        }
    }

    /// What goes out in the node's name comes from this address of a family.
    pub(crate) fn source(&self, family: Family) -> Option<&Address> {
        self.addresses.iter().find(|address| address.family() == family)
    }
}
