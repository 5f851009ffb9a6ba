//! Nodes, and what is leased to them.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::{LeaseId, MacAddress, RouterId, VrfId};

/// The UDP port that nodes take tunnels' packets at (RFC 7348 section 5).
pub const VXLAN_PORT: u16 = 4789;

/// A node as others see it: the end of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtualRouter {
    /// The node.
    pub id: RouterId,
    /// The Node object's name.
    pub name: String,
    /// Its VTEP: the underlay address that tunnels to it end at, and that packets from it bear.
    pub address: IpAddr,
    /// The destination MAC its tunnel end expects in inner frames, and the source MAC of what it sends.
    pub mac: MacAddress,
    /// Every address of the node that the cluster knows, the VTEP's included: node ports are served at them, and pods
    /// reach the node itself by them.
    pub addresses: Vec<IpAddr>,
    /// Its zone (`topology.kubernetes.io/zone`), empty where it has none.
    pub zone: String,
    /// What forwards its packets.
    pub kind: RouterKind,
}

impl VirtualRouter {
    /// A vRouter with this address alone, in no zone.
    pub fn new(id: RouterId, name: &str, address: IpAddr, mac: MacAddress) -> Self {
        Self {
            id,
            name: name.to_owned(),
            address,
            mac,
            addresses: vec![address],
            zone: String::new(),
            kind: RouterKind::Vrouter,
        }
    }
}

/// What forwards a node's packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum RouterKind {
    /// A vRouter: it returns what came from outside by way of another node to that node.
    #[default]
    Vrouter,
    /// A kernel with flannel's VXLAN: it knows the pod network alone.
    Kernel,
}

/// A block of pod addresses, and of interface ids, that one node may give out by itself, also while the controller
/// is away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressLease {
    /// The lease.
    pub id: LeaseId,
    /// The network whose addresses these are.
    pub vrf: VrfId,
    /// The addresses. Never given to two nodes.
    pub prefix: IpNet,
    /// The first of the interface ids that go with this block.
    pub first_vmi: u32,
    /// How many interface ids there are.
    pub vmi_count: u32,
}
