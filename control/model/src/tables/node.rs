//! A node's own objects: its tunnel end, the routes to its blocks, its leases.

use std::net::IpAddr;

use vrouter_objects::{AddressLease, MacAddress, NextHop, Object, VirtualRouter};

use super::{Layer, Placed, route, shared_route};
use crate::allocate::{Block, NodeAllocation};
use crate::config::ModelConfig;
use crate::kube::{NodeKind, NodeRecord};

/// The kind byte in the MACs of our VTEPs.
const VTEP_MAC_KIND: u8 = 0x56;

/// What follows from a node whose tunnels end at `vtep`.
pub fn node_objects(
    config: &ModelConfig,
    name: &str,
    node: &NodeRecord,
    vtep: Option<IpAddr>,
    given: &NodeAllocation,
) -> Placed {
    let own = Layer::Node(name.to_owned());
    let mut placed = Placed::new();
    if let Some(address) = vtep {
        let mac = match node.kind {
            NodeKind::Kernel { mac, .. } => mac,
            NodeKind::Vrouter | NodeKind::Unknown => MacAddress::local(VTEP_MAC_KIND, given.router.get()),
        };
        let router = VirtualRouter { id: given.router, name: name.to_owned(), address, mac };
        placed.push((Layer::Fabric, Object::VirtualRouter(router)));
    }
    for block in &given.blocks {
        if vtep.is_some() {
            placed.push(shared_route(config.pods.vrf, block.prefix, NextHop::Tunnel(given.router)));
        }
        if node.kind == NodeKind::Vrouter {
            // At home, an address that no interface has is answered for, not sent in a circle.
            placed.push((own.clone(), route(config.pods.vrf, block.prefix, NextHop::Reject)));
            placed.push((own.clone(), Object::AddressLease(lease(config, block))));
        }
    }
    placed
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
