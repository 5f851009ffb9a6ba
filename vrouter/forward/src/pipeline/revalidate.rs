//! Whether what a flow was decided by still holds, once the tables are newer than its last check.

use vrouter_objects::{DropReason, IpProtocol, NextHop, VmiId, VrfId};

use super::link_local::still_reaches;
use super::locate::{Located, choose_part, locate, packed_next_hop, route_to};
use super::plan::{by_fabric, client, is_admitted};
use super::policy::{self, Connection};
use super::way_back::way_to;
use super::{Context, Worker};
use crate::address::Address;
use crate::flow::{Actions, Direction, FlowKey, FlowTable, PackedNextHop, Slot};
use crate::parse::TcpFlags;
use crate::rewrite::Endpoint;
use crate::tables::{Epoch, PoolState, Snapshot};

/// Whether a flow may go on as it was decided.
pub(super) enum Verdict {
    /// It may.
    Valid,
    /// Its decision is void; this packet may decide anew.
    Anew,
    /// Its member is gone with the connection's state: the client is to be told.
    MemberGone,
    /// Its decision is void, and only the other side can decide anew.
    Void,
    /// Policy does not let it go on.
    Denied(DropReason),
}

impl Worker {
    /// Whether a flow that was found by other means than a packet of its own still holds.
    pub(super) fn is_in_force(&self, context: Context<'_>, slot: &Slot, key: &FlowKey) -> bool {
        slot.decision().epoch == context.snapshot.epoch().0
            || matches!(self.revalidate(context, slot, key, None), Verdict::Valid)
    }

    /// Checks a flow against tables that are newer than its last check.
    pub(super) fn revalidate(
        &self,
        context: Context<'_>,
        slot: &Slot,
        key: &FlowKey,
        flags: Option<TcpFlags>,
    ) -> Verdict {
        let flows = &self.shared.flows;
        let is_initiator = slot.direction() == Direction::Initiator;
        let initiator = if is_initiator { slot } else { flows.slot(slot.reverse()) };
        let Some(initiator_key) = initiator.key() else { return Verdict::Void };
        let verdict = revalidate_service(context, initiator, &initiator_key, slot.direction(), flags);
        match verdict {
            Verdict::Valid => {}
            // The other side's packets cannot choose a member.
            _ if !is_initiator => return Verdict::Void,
            other => return other,
        }
        let came_in = if is_initiator { None } else { way_to(initiator_key.origin) };
        let next_hop = match came_in {
            Some(way_back) => way_back,
            None => match self.next_hop_now(context, slot, key) {
                Hop::To(next_hop) => next_hop,
                // Whoever had the address is gone, and its node says so.
                Hop::Nobody if !is_initiator => return Verdict::Void,
                Hop::Nobody if initiator.service().is_some() => return member_gone(key.protocol, flags),
                Hop::Nobody => return Verdict::Anew,
                Hop::Unknown => return Verdict::Void,
            },
        };
        if next_hop == PackedNextHop::Receive {
            match slot.direction() {
                Direction::Initiator if !self.is_answerable(context, slot, key) => return Verdict::Anew,
                Direction::Initiator => {}
                // Whoever is of the cluster, and cannot be found there any more, is not beyond it.
                Direction::Responder => return Verdict::Void,
            }
        }
        if let Err(reason) = self.readmit(context, initiator, slot, next_hop) {
            return Verdict::Denied(reason);
        }
        if next_hop != slot.next_hop() {
            slot.set_next_hop(next_hop);
        }
        slot.set_epoch(context.snapshot.epoch().0);
        Verdict::Valid
    }

    /// Whether policy lets a connection go on, one direction of which goes this way from now on.
    fn readmit(
        &self,
        context: Context<'_>,
        initiator: &Slot,
        slot: &Slot,
        next_hop: PackedNextHop,
    ) -> Result<(), DropReason> {
        let snapshot = context.snapshot;
        let has_moved = next_hop != slot.next_hop();
        let since = if has_moved { Epoch::default() } else { Epoch(slot.decision().epoch) };
        if !snapshot.has_governed() || !snapshot.has_policy_changed(since) {
            return Ok(());
        }
        let Some(connection) = living(&self.shared.flows, snapshot, initiator) else { return Ok(()) };
        let connection = match slot.direction() {
            Direction::Initiator => Connection { way_there: next_hop, ..connection },
            Direction::Responder => connection,
        };
        policy::readmit(snapshot, &connection, since)
    }

    /// Whether answers still find back to a flow whose packets go to the node's stack: they bear an address of the node,
    /// or they are to a node, as nodes know pods. Since the flow began, either may have ceased to be one.
    fn is_answerable(&self, context: Context<'_>, slot: &Slot, key: &FlowKey) -> bool {
        let snapshot = context.snapshot;
        if snapshot.host().is_none() {
            // It does not know its addresses yet.
            return true;
        }
        if slot.decision().actions.has(Actions::SOURCE) {
            let answers = self.shared.flows.slot(slot.reverse()).key();
            answers.is_some_and(|answers| snapshot.is_own_address(answers.destination))
        } else {
            snapshot.knows_pods(destination(slot, key))
        }
    }

    /// Where a flow's packets are to go by the tables as they are.
    fn next_hop_now(&self, context: Context<'_>, slot: &Slot, key: &FlowKey) -> Hop {
        let destination = destination(slot, key);
        let Some(vrf) = slot.egress_vrf() else { return Hop::Unknown };
        match route_to(context.snapshot, vrf, destination) {
            Located::Hop { next_hop, .. } => {
                let next_hop = packed_next_hop(next_hop, |parts| still_or_other(parts, slot));
                Hop::To(by_fabric(context.snapshot, key, (vrf, destination), next_hop))
            }
            Located::Reject => Hop::Nobody,
            Located::Service(_) | Located::LinkLocal(_) | Located::Nowhere(_) => {
                Hop::To(PackedNextHop::Unreachable)
            }
        }
    }
}

/// A flow's connection, as policy sees it now; `None`: it has just gone.
pub(super) fn living(flows: &FlowTable, snapshot: &Snapshot, slot: &Slot) -> Option<Connection> {
    let other = flows.slot(slot.reverse());
    let (initiator, responder) = match slot.direction() {
        Direction::Initiator => (slot, other),
        Direction::Responder => (other, slot),
    };
    let (key, answers, egress_vrf) = (initiator.key()?, responder.key()?, initiator.egress_vrf()?);
    Some(Connection {
        key,
        source: answers.destination,
        destination: Endpoint { address: answers.source, port: answers.source_port },
        egress_vrf,
        way_there: whose_now(snapshot, initiator.next_hop(), egress_vrf, answers.source),
        // Who came into the cluster somewhere is where they came in, whatever the routes say.
        way_back: way_to(key.origin)
            .unwrap_or_else(|| whose_now(snapshot, responder.next_hop(), key.vrf, key.source)),
    })
}

/// A next hop to a pod, or to nobody, is to whoever has the address now: another pod may have got it since, here or on another
/// node.
fn whose_now(snapshot: &Snapshot, hop: PackedNextHop, vrf: VrfId, address: Address) -> PackedNextHop {
    let may_be_a_pods = match hop {
        PackedNextHop::Interface(vmi) => vmi != VmiId::HOST,
        PackedNextHop::Tunnel(_) | PackedNextHop::Unreachable => true,
        PackedNextHop::Receive => false,
    };
    match route_to(snapshot, vrf, address) {
        Located::Hop { next_hop: NextHop::Interface(now), .. } if may_be_a_pods => {
            PackedNextHop::Interface(*now)
        }
        Located::Hop { next_hop: NextHop::Tunnel(now), .. } if may_be_a_pods => PackedNextHop::Tunnel(*now),
        _ => hop,
    }
}

/// Whom a flow's packets are for as they leave.
fn destination(slot: &Slot, key: &FlowKey) -> Address {
    if slot.decision().actions.has(Actions::DESTINATION) { slot.translated() } else { key.destination }
}

/// Where a flow's packets are to go.
enum Hop {
    /// There.
    To(PackedNextHop),
    /// Nobody has the address any more.
    Nobody,
    /// The flow does not say where to look.
    Unknown,
}

/// What is left of the decision for a service, or for none, that a connection was begun by. `direction` is
/// that of the packet at hand.
fn revalidate_service(
    context: Context<'_>,
    initiator: &Slot,
    key: &FlowKey,
    direction: Direction,
    flags: Option<TcpFlags>,
) -> Verdict {
    let located = locate(context.snapshot, key);
    let Some((fip_id, member)) = initiator.service() else {
        return match (located, direction) {
            // What was a plain address may have become a service's, which has something at this port or nothing.
            (Located::Service(_) | Located::Reject, _) => Verdict::Anew,
            (Located::LinkLocal(vmi), _) if still_reaches(context.snapshot, key, vmi, initiator) => {
                Verdict::Valid
            }
            (Located::LinkLocal(_), _) => Verdict::Anew,
            // What was a link-local address is none any more.
            _ if initiator.decision().actions.has(Actions::DESTINATION) => Verdict::Anew,
            // One network may not lead to another any more.
            (Located::Hop { vrf, .. }, _) if Some(vrf) != initiator.egress_vrf() => Verdict::Anew,
            _ => Verdict::Valid,
        };
    };
    let frontend = match located {
        Located::Service(frontend) if frontend.fip.id == fip_id => frontend,
        _ => return Verdict::Anew,
    };
    let opening = flags.is_some_and(TcpFlags::is_opening);
    if frontend.fip.generation.0 <= initiator.decision().epoch && !opening {
        return Verdict::Valid;
    }
    if !is_admitted(context.snapshot, frontend, key) {
        return Verdict::Anew;
    }
    let policy = frontend.policy_for(client(context.snapshot, key));
    let pool = &frontend.listener().pool;
    match pool.state_of(policy, member) {
        PoolState::Active => Verdict::Valid,
        PoolState::Draining if is_under_way(key.protocol, flags) => Verdict::Valid,
        PoolState::Draining if !pool.has_usable() => Verdict::Valid,
        // What it still answers is on its way to who asked.
        PoolState::Draining if direction == Direction::Responder => Verdict::Valid,
        PoolState::Draining => Verdict::Anew,
        PoolState::Gone => member_gone(key.protocol, flags),
    }
}

/// Whether a packet belongs to a TCP connection that has begun: its member alone knows its state.
fn is_under_way(protocol: IpProtocol, flags: Option<TcpFlags>) -> bool {
    protocol == IpProtocol::TCP && !flags.is_some_and(TcpFlags::is_opening)
}

/// What a flow's next packet meets when its member is gone.
fn member_gone(protocol: IpProtocol, flags: Option<TcpFlags>) -> Verdict {
    if is_under_way(protocol, flags) { Verdict::MemberGone } else { Verdict::Anew }
}

/// A flow stays with its part of an ECMP route as long as there is that part.
fn still_or_other(parts: &[NextHop], slot: &Slot) -> PackedNextHop {
    let now = slot.next_hop();
    let is_now = |part: &NextHop| packed_next_hop(part, |_| PackedNextHop::Unreachable) == now;
    if parts.iter().any(is_now) {
        now
    } else {
        choose_part(parts, u64::from(slot.decision().translated_port))
    }
}
