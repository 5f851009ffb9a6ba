//! Routes to single pod addresses: those of networks of their own, and in the cluster's network those that their node's
//! blocks do not cover.

use std::net::IpAddr;

use ipnet::IpNet;
use vrouter_objects::{NextHop, RouterId, VrfId};

use super::{Layer, Placed, grant, route, shared_route};
use crate::allocate::Nodes;
use crate::config::ModelConfig;
use crate::family::host_prefix;
use crate::index::Index;
use crate::network::{NetworkRole, PodNetwork, Tenancy, VirtualNetwork};

/// The routes to an address, in all networks in which it is a pod's.
pub fn host_routes(config: &ModelConfig, index: &Index, nodes: &Nodes, address: IpAddr) -> Placed {
    let spaces = index.spaces_of(address).into_iter();
    let targets = spaces.filter_map(|space| Target::find(index, nodes, space, address));
    targets.flat_map(|target| target.routes(config, index)).collect()
}

/// An address with the node that it is on.
struct Target<'a> {
    prefix: IpNet,
    network: &'a VirtualNetwork,
    node: &'a str,
    /// The node's id, where tunnels reach it.
    router: Option<RouterId>,
    /// Whether the node's blocks cover the address, so that the cluster's network needs no route to it.
    is_at_home: bool,
}

impl<'a> Target<'a> {
    fn find(index: &'a Index, nodes: &Nodes, space: VrfId, address: IpAddr) -> Option<Self> {
        let (vrf, node) = place_of(index, space, address)?;
        let given = nodes.get(node)?;
        Some(Self {
            prefix: host_prefix(address),
            network: index.networks.get(vrf)?,
            node,
            router: index.vtep(node).map(|_| given.router),
            is_at_home: given.blocks.iter().any(|block| block.prefix.contains(&address)),
        })
    }

    fn routes(&self, config: &ModelConfig, index: &Index) -> Placed {
        let NetworkRole::Pods(PodNetwork { tenancy, .. }) = self.network.role else { return Placed::new() };
        // What a pod's status states may be anybody's; an interface of a custom network may have an address of its former subnets.
        if tenancy != Tenancy::Custom && !config.pods.contains(self.prefix.addr()) {
            return Placed::new();
        }
        let vrf = self.network.vrf;
        let mut placed = Placed::new();
        match tenancy {
            Tenancy::Cluster => self.off_block(config, &mut placed),
            Tenancy::Isolated => {
                self.lead_to_node(vrf, NextHop::Reject, &mut placed);
                // Nodes reach the pod as they reach those of the cluster's network.
                self.lead_to_node(config.fabric.vrf, NextHop::VrfTranslate(vrf), &mut placed);
                if !index.networks.are_peers(vrf, config.pods.vrf) {
                    self.off_block(config, &mut placed);
                }
            }
            Tenancy::Custom => self.lead_to_node(vrf, NextHop::Reject, &mut placed),
        }
        // Where networks share their subnets, prefixes do not tell them apart.
        if tenancy != Tenancy::Custom {
            let peers = index.networks.peers(vrf).map(|peer| peer.vrf);
            placed.extend(peers.map(|peer| shared_route(peer, self.prefix, NextHop::VrfTranslate(vrf))));
        }
        placed
    }

    /// The cluster's network leads a node's blocks to the node: what is not in these needs a route of its own, for answers to
    /// find back as well.
    fn off_block(&self, config: &ModelConfig, placed: &mut Placed) {
        if !self.is_at_home {
            self.lead_to_node(config.pods.vrf, NextHop::Reject, placed);
        }
    }

    /// Leads to the node from all others; at the node itself it is this, unless there is an interface.
    fn lead_to_node(&self, vrf: VrfId, at_node: NextHop, placed: &mut Placed) {
        let Some(router) = self.router else { return };
        placed.push(shared_route(vrf, self.prefix, NextHop::Tunnel(router)));
        placed.push((Layer::Node(self.node.to_owned()), route(vrf, self.prefix, at_node)));
    }
}

/// The network and node that an address is in, or will be once the pod that was promised it is attached.
fn place_of(index: &Index, space: VrfId, address: IpAddr) -> Option<(VrfId, &str)> {
    if let Some(owner) = index.owner(space, address) {
        return Some((owner.vrf, owner.node));
    }
    let picked = index.picked_for(space, address).into_iter();
    let mut promised = picked.chain(index.pods_wishing_in(space, address));
    promised.find_map(|(name, pod)| {
        grant(index, name, pod).is_ok_and(|granted| granted.contains(&address)).then_some(())?;
        Some((index.wanted_network(name, pod).ok()?.vrf, pod.node.as_deref()?))
    })
}
