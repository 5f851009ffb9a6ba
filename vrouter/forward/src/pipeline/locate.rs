//! What is at an address: a service, a next hop, or nobody.

use vrouter_objects::{DropReason, NextHop, VmiId, VrfId};

use crate::address::Address;
use crate::flow::{FlowKey, PackedNextHop};
use crate::tables::{Frontend, Snapshot, Vrf};

/// How many VRFs a packet may be handed through.
const MAX_VRFS: usize = 4;

/// What is at an address.
pub(super) enum Located<'a> {
    /// A service.
    Service(&'a Frontend),
    /// A next hop that packets leave by.
    Hop {
        /// The VRF whose route it is.
        vrf: VrfId,
        /// The next hop: an interface, a tunnel, several of them, or this node.
        next_hop: &'a NextHop,
    },
    /// An interface of this node, by an address that means it here alone.
    LinkLocal(VmiId),
    /// Nobody, and the sender is to be told.
    Reject,
    /// Nobody.
    Nowhere(DropReason),
}

/// Looks up where a flow's packets are to go, from VRF to VRF.
pub(super) fn locate<'a>(snapshot: &'a Snapshot, key: &FlowKey) -> Located<'a> {
    walk(snapshot, key.vrf, key.destination, |vrf| {
        if vrf.has_frontends() { at_service(snapshot, vrf, key) } else { None }
    })
}

/// Looks up where an address is, whatever services there are at it.
pub(super) fn route_to(snapshot: &Snapshot, vrf: VrfId, address: Address) -> Located<'_> {
    walk(snapshot, vrf, address, |_| None)
}

#[inline(always)]
fn walk<'a>(
    snapshot: &'a Snapshot,
    vrf: VrfId,
    address: Address,
    service: impl Fn(&'a Vrf) -> Option<Located<'a>>,
) -> Located<'a> {
    let mut id = vrf;
    for _ in 0..MAX_VRFS {
        let Some(vrf) = snapshot.vrf(id) else { return Located::Nowhere(DropReason::InvalidNextHop) };
        if vrf.is_link_local() {
            return at_link_local(vrf, address);
        }
        if let Some(located) = service(vrf) {
            return located;
        }
        match vrf.route(address) {
            None => return Located::Nowhere(DropReason::NoRoute),
            Some(NextHop::VrfTranslate(next)) => id = *next,
            Some(NextHop::Discard) => return Located::Nowhere(DropReason::DiscardRoute),
            Some(NextHop::Reject) => return Located::Reject,
            Some(next_hop) => return Located::Hop { vrf: id, next_hop },
        }
    }
    Located::Nowhere(DropReason::RouteLoop)
}

/// The service that a flow's packets are to in a network. A service's address has nothing else at it, unless it is a
/// node's as well; and at the nodes' addresses there are the node ports.
#[inline(never)] // What it needs would be reckoned ahead of the walk otherwise, for networks without services, too.
fn at_service<'a>(snapshot: &Snapshot, vrf: &'a Vrf, key: &FlowKey) -> Option<Located<'a>> {
    let (address, protocol, port) = (key.destination, key.protocol, key.destination_port);
    let vip = vrf.vip(address);
    if let Some(frontend) = vip.and_then(|vip| vip.frontend(protocol, port)) {
        return Some(Located::Service(frontend));
    }
    match snapshot.node_address(address) {
        Some(node) if node.serves_node_ports => {
            vrf.node_port(address.family(), protocol, port).map(Located::Service)
        }
        Some(_) => None,
        None => vip.map(|_| Located::Reject),
    }
}

/// Whose link-local address this is.
#[cold]
fn at_link_local<'a>(network: &Vrf, address: Address) -> Located<'a> {
    match network.route(address) {
        Some(NextHop::Interface(vmi)) => Located::LinkLocal(*vmi),
        _ => Located::Reject,
    }
}

/// A next hop as a flow keeps it; `choose` decides between the parts of an ECMP one.
#[inline]
pub(super) fn packed_next_hop(
    next_hop: &NextHop,
    choose: impl FnOnce(&[NextHop]) -> PackedNextHop,
) -> PackedNextHop {
    match next_hop {
        NextHop::Interface(vmi) => PackedNextHop::Interface(*vmi),
        NextHop::Tunnel(router) => PackedNextHop::Tunnel(*router),
        NextHop::Receive => PackedNextHop::Receive,
        NextHop::Composite(parts) => choose(parts),
        NextHop::VrfTranslate(_) | NextHop::Reject | NextHop::Discard => PackedNextHop::Unreachable,
    }
}

/// One part of an ECMP next hop.
pub(super) fn choose_part(parts: &[NextHop], hash: u64) -> PackedNextHop {
    let part = &parts[(hash % parts.len().max(1) as u64) as usize];
    packed_next_hop(part, |_| PackedNextHop::Unreachable)
}
