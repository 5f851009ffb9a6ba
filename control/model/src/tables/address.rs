//! Routes to single pod addresses that their node's blocks do not cover.

use std::net::IpAddr;

use vrouter_objects::NextHop;

use super::{Layer, Placed, grant, route, shared_route};
use crate::allocate::Nodes;
use crate::config::ModelConfig;
use crate::family::host_prefix;
use crate::index::Index;

/// The route to an address whose owner is not where the blocks say.
pub fn host_route(config: &ModelConfig, index: &Index, nodes: &Nodes, address: IpAddr) -> Placed {
    let vrf = config.pods.vrf;
    let Some(node) = node_of(config, index, address) else { return Placed::new() };
    let Some(given) = nodes.get(node) else { return Placed::new() };
    let at_home = given.blocks.iter().any(|block| block.prefix.contains(&address));
    let reachable = index.vtep(node).is_some();
    if at_home || !reachable || !config.pods.contains(address) {
        return Placed::new();
    }
    let prefix = host_prefix(address);
    vec![
        shared_route(vrf, prefix, NextHop::Tunnel(given.router)),
        (Layer::Node(node.to_owned()), route(vrf, prefix, NextHop::Reject)),
    ]
}

/// The node an address is on, or will be once the pod that was promised it is attached.
fn node_of<'a>(config: &ModelConfig, index: &'a Index, address: IpAddr) -> Option<&'a str> {
    let owner = index.owner(config.pods.vrf, address).map(|owner| owner.node);
    owner.or_else(|| {
        let mut wishing = index.pods_wishing(address);
        let promised = wishing.find(|(name, pod)| grant(config, index, name, pod).is_ok());
        promised.and_then(|(_, pod)| pod.node.as_deref())
    })
}
