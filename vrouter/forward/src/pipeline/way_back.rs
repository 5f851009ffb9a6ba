//! Where answers go: to whoever is behind a packet's source address, if that may be where the packet came from.

use vrouter_objects::{NextHop, RouterId, VmiId};

use super::classify::{Arrival, Entrance};
use super::locate::{Located, route_to};
use crate::flow::{FlowKey, Origin, PackedNextHop};
use crate::tables::Snapshot;

/// Where a packet's sender is: at the interface it came from, which bears the address; beyond the node, where nobody
/// of the cluster is; or behind the node it came from, if the address's route leads there or out of the cluster.
/// `None`: it is somebody else's.
#[inline]
pub(super) fn way_back(snapshot: &Snapshot, arrival: &Arrival, key: &FlowKey) -> Option<PackedNextHop> {
    match arrival.entrance {
        Entrance::Pod(vmi) => Some(PackedNextHop::Interface(vmi)),
        Entrance::Host => way_back_to_host(snapshot, key),
        Entrance::Tunnel(router) => way_back_to(snapshot, router, key),
    }
}

fn way_back_to_host(snapshot: &Snapshot, key: &FlowKey) -> Option<PackedNextHop> {
    let Located::Hop { next_hop, .. } = route_to(snapshot, key.vrf, key.source) else { return None };
    let is_outside = *next_hop == NextHop::Receive || snapshot.node_address(key.source).is_some();
    is_outside.then_some(PackedNextHop::Interface(VmiId::HOST))
}

fn way_back_to(snapshot: &Snapshot, router: RouterId, key: &FlowKey) -> Option<PackedNextHop> {
    let Located::Hop { next_hop, .. } = route_to(snapshot, key.vrf, key.source) else { return None };
    let tunnel = NextHop::Tunnel(router);
    let leads_there = match next_hop {
        NextHop::Composite(parts) => parts.contains(&tunnel),
        // What this node itself sent to another's node port comes back from there to a member here, not to the node.
        NextHop::Receive => !snapshot.is_own_address(key.source) || !snapshot.is_own_address(key.destination),
        next_hop => *next_hop == tunnel || snapshot.node_address(key.source).is_some(),
    };
    leads_there.then_some(PackedNextHop::Tunnel(router))
}

/// The way to who came into the cluster here; `None`: their address's route says it.
pub(super) fn way_to(origin: Origin) -> Option<PackedNextHop> {
    match origin {
        Origin::Cluster => None,
        Origin::Host => Some(PackedNextHop::Interface(VmiId::HOST)),
        Origin::Router(router) => Some(PackedNextHop::Tunnel(router)),
    }
}
