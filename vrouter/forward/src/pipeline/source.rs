//! In whose name a flow's packets leave: the sender's wherever answers find back to it, else the node's or the router's.

use std::ops::RangeInclusive;

use vrouter_objects::{DropReason, IpProtocol, RouterKind, VXLAN_PORT, VrfId};

use super::classify::Entrance;
use super::locate::{Located, route_to};
use super::plan::Refused;
use crate::address::{Address, Family};
use crate::flow::{FlowKey, PackedNextHop};
use crate::rewrite::Endpoint;
use crate::tables::Snapshot;

/// The ports that a client's packets may come from if its own is taken.
const CLIENT_PORTS: RangeInclusive<u16> = 1024..=u16::MAX;

/// Whom a flow's packets come from, as they leave.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'a> {
    /// Who sent them; by another port only if theirs is taken.
    Sender,
    /// This address of the router's, with the sender's port if it is free.
    Router(&'a Address),
    /// The node, by one of these ports. None of them is given again to one peer while the connection may stand there.
    Node(&'a Address, &'a RangeInclusive<u16>),
}

/// What a flow's packets are to as they come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AskedFor {
    /// A service, one of whose members becomes their destination.
    Service,
    /// Whoever has their destination address.
    Address,
}

/// The way of a flow's packets, as far as it decides in whose name they go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passage {
    pub(super) entrance: Entrance,
    pub(super) asked_for: AskedFor,
    pub(super) egress_vrf: VrfId,
    /// Their destination as they leave.
    pub(super) destination: Address,
    pub(super) next_hop: PackedNextHop,
}

impl Source<'_> {
    /// The new source of a packet from this one; `None`: as it is.
    pub(super) fn first(&self, sender: Endpoint, random: u64) -> Option<Endpoint> {
        match self {
            Self::Sender => None,
            Self::Router(address) => Some(Endpoint { address: **address, port: sender.port }),
            Self::Node(..) => Some(self.other(sender, random)),
        }
    }

    /// The address that packets from this sender leave with.
    #[inline]
    pub(super) fn address(&self, sender: Address) -> Address {
        match self {
            Self::Sender => sender,
            Self::Router(address) | Self::Node(address, _) => **address,
        }
    }

    /// Another one, where that is taken.
    pub(super) fn other(&self, sender: Endpoint, random: u64) -> Endpoint {
        let (address, ports) = match self {
            Self::Sender => (sender.address, &CLIENT_PORTS),
            Self::Router(address) => (**address, &CLIENT_PORTS),
            Self::Node(address, ports) => (**address, *ports),
        };
        let count = u64::from(ports.end().saturating_sub(*ports.start())) + 1;
        Endpoint { address, port: ports.start() + (random % count) as u16 }
    }
}

/// Nothing that a node says in its own name may pass for a tunnel's packet: others believe what it says there.
pub(super) fn check_tunnel_port(protocol: IpProtocol, port: u16, source: &Source<'_>) -> Result<(), Refused> {
    let is_to_tunnel = protocol == IpProtocol::UDP && port == VXLAN_PORT;
    if is_to_tunnel && matches!(source, Source::Node(..)) {
        return Err(Refused::Silent(DropReason::TunnelPort));
    }
    Ok(())
}

/// A pod that reaches itself through a service must see another's address, or its answer would never come
/// back through the router: its gateway's. `None`: the nodes' network has none.
#[cold]
pub(super) fn hairpin(snapshot: &Snapshot, vrf: VrfId, pod: Address) -> Option<Source<'_>> {
    snapshot.gateway_for(vrf, pod).map(Source::Router)
}

/// In whose name a flow's packets pass.
#[inline(always)]
pub(super) fn source<'a>(
    snapshot: &'a Snapshot,
    key: &FlowKey,
    passage: Passage,
) -> Result<Source<'a>, Refused> {
    let Passage { entrance, egress_vrf, next_hop, .. } = passage;
    // Within one network, everybody goes by their own name.
    if key.vrf == egress_vrf && entrance != Entrance::Host && next_hop != PackedNextHop::Receive {
        return Ok(Source::Sender);
    }
    source_across(snapshot, key, passage)
}

/// The same, from one network to another, or by the node.
#[inline(never)]
fn source_across<'a>(snapshot: &'a Snapshot, key: &FlowKey, passage: Passage) -> Result<Source<'a>, Refused> {
    let Passage { entrance, egress_vrf, destination, next_hop, asked_for } = passage;
    match (next_hop, entrance) {
        (PackedNextHop::Receive, entrance) => to_host(snapshot, key.vrf, entrance, destination, asked_for),
        (_, Entrance::Pod(_)) if !snapshot.is_known_in(key.vrf, egress_vrf) => {
            if asked_for == AskedFor::Address && snapshot.fabric() != Some(egress_vrf) {
                // Strangers meet at services and in the fabric alone.
                return Err(Refused::NoRoute);
            }
            as_stranger(snapshot, next_hop, destination.family())
        }
        (PackedNextHop::Tunnel(_), Entrance::Host) if asked_for == AskedFor::Service => {
            from_beyond(snapshot, key, egress_vrf, next_hop, destination.family())
        }
        _ => Ok(Source::Sender),
    }
}

/// In whose name packets that came in by the node go to a service's member on another one.
fn from_beyond<'a>(
    snapshot: &'a Snapshot,
    key: &FlowKey,
    egress_vrf: VrfId,
    next_hop: PackedNextHop,
    family: Family,
) -> Result<Source<'a>, Refused> {
    if has_double(snapshot, egress_vrf, key.source) {
        return as_stranger(snapshot, next_hop, family);
    }
    Ok(kernels_source(snapshot, next_hop, family).unwrap_or(Source::Sender))
}

/// Whether an address from beyond the nodes is, or may become, a pod's in a network: one of its own, or of one that it is
/// leaked with.
fn has_double(snapshot: &Snapshot, vrf: VrfId, address: Address) -> bool {
    let is_inside = snapshot.vrf(vrf).is_some_and(|vrf| vrf.is_inside(address));
    is_inside
        || match route_to(snapshot, vrf, address) {
            Located::Hop { vrf, .. } => snapshot.fabric() != Some(vrf),
            Located::Reject | Located::LinkLocal(_) | Located::Service(_) => true,
            Located::Nowhere(_) => false,
        }
}

/// In whose name packets go into a network where their sender's address is not known, or is another's.
#[cold]
fn as_stranger(snapshot: &Snapshot, next_hop: PackedNextHop, family: Family) -> Result<Source<'_>, Refused> {
    kernels_source(snapshot, next_hop, family).map_or_else(|| in_the_nodes_name(snapshot, family), Ok)
}

/// Whom packets to a kernel's node must come from, if they come from outside: it would not send answers to strangers back to us.
fn kernels_source(snapshot: &Snapshot, next_hop: PackedNextHop, family: Family) -> Option<Source<'_>> {
    let PackedNextHop::Tunnel(router) = next_hop else { return None };
    let is_kernels = snapshot.router(router).is_some_and(|router| router.kind == RouterKind::Kernel);
    snapshot.block_source(family).filter(|_| is_kernels).map(Source::Router)
}

/// In whose name packets go to the node's own stack, and beyond it.
fn to_host(
    snapshot: &Snapshot,
    vrf: VrfId,
    entrance: Entrance,
    destination: Address,
    asked_for: AskedFor,
) -> Result<Source<'_>, Refused> {
    // Whoever has it on one link is not who has it on another (RFC 4291 section 2.5.6). IPv4's are no different, but
    // clouds tell nodes and pods about themselves at one.
    if destination.family() == Family::V6 && destination.is_link_local() {
        return Err(Refused::NoRoute);
    }
    let is_hidden = match entrance {
        Entrance::Pod(_) => !snapshot.knows_pods(destination) || !snapshot.is_known_in_fabric(vrf),
        // Whoever answers must not answer past us.
        Entrance::Host if asked_for == AskedFor::Service => true,
        // A service that is gone must not leak.
        Entrance::Host => return Err(Refused::Tell(DropReason::NoService)),
        // Services are translated where packets come into the cluster.
        Entrance::Tunnel(_) if asked_for == AskedFor::Address && snapshot.is_own_address(destination) => {
            false
        }
        // Answers that nobody here waits for any more.
        Entrance::Tunnel(_) => return Err(Refused::Silent(DropReason::NoFlow)),
    };
    if is_hidden { in_the_nodes_name(snapshot, destination.family()) } else { Ok(Source::Sender) }
}

fn in_the_nodes_name(snapshot: &Snapshot, family: Family) -> Result<Source<'_>, Refused> {
    let host = snapshot.host().ok_or(Refused::Silent(DropReason::InterfaceDown))?;
    let address = host.source(family).ok_or(Refused::NoRoute)?;
    Ok(Source::Node(address, &host.source_ports))
}
