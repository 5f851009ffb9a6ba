//! One more node, which has no vRouter: its kernel is at the tunnel's end, and knows the blocks of the others.

use std::net::IpAddr;

use vrouter_forward::Family;
use vrouter_forward::frame::{Egress, Frame, PortId};
use vrouter_forward::sim::{Cluster, Delivery, Tunnelled};
use vrouter_objects::{
    AddressLease, IpNet, LeaseId, NextHop, Object, Route, RouteKey, RouterId, RouterKind, VirtualRouter,
};

use crate::case::NODES;
use crate::ids::{POD_NETWORK, id, vrf};
use crate::support::{FAMILIES, from_tunnel, node_mac, publish, vtep};

/// Its number, after those of the cluster's nodes.
pub const NUMBER: usize = NODES;
/// Where its pod is.
pub const PORT: PortId = PortId(1);

/// Makes it known to the cluster, and every node's block to that node.
pub fn join(cluster: &mut Cluster) {
    let router = id(RouterId::new, NUMBER as u32 + 1);
    let route = |family| {
        let key = RouteKey { vrf: vrf(POD_NETWORK), prefix: block(NUMBER, family) };
        Object::Route(Route { key, next_hop: NextHop::Tunnel(router) })
    };
    let node = VirtualRouter {
        kind: RouterKind::Kernel,
        ..VirtualRouter::new(router, "kernel-node", vtep(NUMBER), node_mac(NUMBER))
    };
    cluster.put(&[Object::VirtualRouter(node)]);
    cluster.put(&FAMILIES.map(route));
    for node in 0..NODES {
        publish(cluster, node, &FAMILIES.map(|family| Object::AddressLease(lease(node, family))));
    }
}

fn lease(node: usize, family: Family) -> AddressLease {
    let number = node as u32 * 2 + u32::from(family == Family::V6) + 1;
    AddressLease {
        id: id(LeaseId::new, number),
        vrf: vrf(POD_NETWORK),
        prefix: block(node, family),
        first_vmi: number * 1000,
        vmi_count: 1000,
    }
}

/// The block of a node's pods.
pub fn block(node: usize, family: Family) -> IpNet {
    let number = node + 1;
    let text = match family {
        Family::V4 => format!("10.244.{number}.0/24"),
        Family::V6 => format!("fd00:10:244:{number}::/64"),
    };
    text.parse().expect("a prefix")
}

/// The address of its pod.
pub fn pod(family: Family) -> IpAddr {
    block(NUMBER, family).hosts().nth(10).expect("a block has hosts")
}

/// What arrives at its pod of what went through tunnels.
pub fn arrival(tunnelled: &Tunnelled) -> Option<Delivery> {
    let Egress::Tunnel { destination, .. } = tunnelled.egress else { return None };
    let Tunnelled { frame, offload, .. } = tunnelled.clone();
    (destination == vtep(NUMBER)).then_some(Delivery { node: NUMBER, port: PORT, frame, offload })
}

/// Its pod's packet, as it comes out of the tunnel at a node.
pub fn sent(frame: &[u8], to: usize) -> Frame {
    let mut bytes = frame.to_vec();
    bytes[..6].copy_from_slice(&node_mac(to).0);
    bytes[6..12].copy_from_slice(&node_mac(NUMBER).0);
    from_tunnel(&bytes, vtep(NUMBER))
}
