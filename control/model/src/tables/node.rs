//! A node's own objects: its tunnel end, the routes to itself and to its blocks, its leases.

use std::net::IpAddr;

use vrouter_objects::{AddressLease, MacAddress, NextHop, Object, RouterKind, VirtualRouter};

use super::{Layer, Placed, route, shared_route};
use crate::allocate::{Block, NodeAllocation};
use crate::config::ModelConfig;
use crate::family::host_prefix;
use crate::kube::{NodeKind, NodeRecord};

/// The kind byte in the MACs of our VTEPs.
const VTEP_MAC_KIND: u8 = 0x56;

/// A node, with all that was settled about it.
pub struct NodePlace<'a> {
    /// Its name.
    pub name: &'a str,
    /// What its object says.
    pub record: &'a NodeRecord,
    /// Where tunnels to it end, if they can.
    pub vtep: Option<IpAddr>,
    /// Where the node itself is reached.
    pub addresses: Vec<IpAddr>,
    /// What it was given.
    pub given: &'a NodeAllocation,
}

/// What follows from a node.
pub fn node_objects(config: &ModelConfig, node: &NodePlace<'_>) -> Placed {
    let own = Layer::Node(node.name.to_owned());
    let to_it = NextHop::Tunnel(node.given.router);
    let mut placed = Placed::new();
    if let Some(vtep) = node.vtep {
        placed.push((Layer::Fabric, Object::VirtualRouter(virtual_router(node, vtep))));
        if node.record.kind == NodeKind::Vrouter {
            for &address in &node.addresses {
                placed.push(shared_route(config.fabric.vrf, host_prefix(address), to_it.clone()));
            }
        }
    }
    for block in &node.given.blocks {
        if node.vtep.is_some() {
            placed.push(shared_route(config.pods.vrf, block.prefix, to_it.clone()));
        }
        if node.record.kind == NodeKind::Vrouter {
            // At home, an address that no interface has is answered for, not sent in a circle.
            placed.push((own.clone(), route(config.pods.vrf, block.prefix, NextHop::Reject)));
            placed.push((own.clone(), Object::AddressLease(lease(config, block))));
        }
    }
    placed
}

fn virtual_router(node: &NodePlace<'_>, address: IpAddr) -> VirtualRouter {
    let id = node.given.router;
    let (kind, mac) = match node.record.kind {
        NodeKind::Kernel { mac, .. } => (RouterKind::Kernel, mac),
        NodeKind::Vrouter | NodeKind::Unknown => {
            (RouterKind::Vrouter, MacAddress::local(VTEP_MAC_KIND, id.get()))
        }
    };
    VirtualRouter {
        id,
        name: node.name.to_owned(),
        address,
        mac,
        addresses: node.addresses.clone(),
        zone: node.record.zone.clone(),
        kind,
    }
}

fn lease(config: &ModelConfig, block: &Block) -> AddressLease {
    AddressLease {
        id: block.lease,
        vrf: config.pods.vrf,
        prefix: block.prefix,
        first_vmi: block.first_vmi,
        vmi_count: block.vmi_count,
    }
}
