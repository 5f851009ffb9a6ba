//! The fifth stage: finding a packet's flow, and whether what the flow was decided by still holds.

use vrouter_objects::{DropReason, IpProtocol, NextHop, VmiId, VrfId};

use super::classify::{Arrival, Arrived, flow_key, stage};
use super::fragments::Reassociated;
use super::local::Service;
use super::locate::{Located, choose_part, locate, packed_next_hop, route_to};
use super::plan::{by_fabric, client, way_to};
use super::policy::{self, Connection};
use super::{Context, Outcome, Worker, answer, error, local, neighbour, spare_frame};
use crate::address::Address;
use crate::flow::{
    Actions, ConnectionState, Direction, FlowIndex, FlowKey, FlowTable, PackedNextHop, Seen, Slot,
};
use crate::frame::Frame;
use crate::observer::Observer;
use crate::parse::{EchoRole, Fragment, IcmpKind, Packet, TcpFlags, Transport};
use crate::rewrite::Endpoint;
use crate::tables::{Epoch, PoolState, Snapshot, Vrf};

/// Whether a flow may go on as it was decided.
enum Verdict {
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

/// The control bits of a TCP packet.
pub(super) const fn tcp_flags(packet: &Packet) -> Option<TcpFlags> {
    match packet.header {
        Transport::Tcp { flags, .. } => Some(flags),
        _ => None,
    }
}

impl Worker {
    /// Takes an IP packet from its flow to its egress.
    #[inline(always)]
    pub(super) fn ip<O: Observer>(
        &mut self,
        context: Context<'_>,
        frame: &mut Frame,
        arrived: &Arrived,
        spare: &mut Vec<Frame>,
        observer: &mut O,
    ) -> Outcome {
        let Arrived { packet, arrival, .. } = arrived;
        match (packet.fragment, packet.header) {
            (Fragment::Whole, Transport::Icmp { kind: IcmpKind::Neighbour }) => {
                neighbour::answer(context, frame, packet)
            }
            // In fragments, it could hide from whoever looks at it (RFC 6980).
            (_, Transport::Icmp { kind: IcmpKind::Neighbour }) => Outcome::Drop(DropReason::InvalidArp),
            _ if packet.destination.is_multicast() => local::multicast(packet),
            (Fragment::Whole, Transport::Icmp { kind: IcmpKind::Error }) => {
                error::relay(self, context, frame, packet, arrival)
            }
            // Errors quote little enough never to need fragments.
            (_, Transport::Icmp { kind: IcmpKind::Error }) => Outcome::Drop(DropReason::IcmpUnrelated),
            (Fragment::Whole, _) => self.flow(context, frame, arrived, spare, observer),
            (Fragment::First { id }, _) => self.first_fragment(context, frame, arrived, id, spare, observer),
            (Fragment::Later { id }, _) => self.later_fragment(context, frame, arrived, id, spare, observer),
        }
    }

    fn first_fragment<O: Observer>(
        &mut self,
        context: Context<'_>,
        frame: &mut Frame,
        arrived: &Arrived,
        id: u32,
        spare: &mut Vec<Frame>,
        observer: &mut O,
    ) -> Outcome {
        let Arrived { packet, arrival, .. } = arrived;
        let outcome = match self.fragments.is_given_up(packet, arrival, id) {
            Some(reason) => Outcome::Drop(reason),
            None => self.flow(context, frame, arrived, spare, observer),
        };
        let followers = self.fragments.first(context.now, packet, arrival, id, outcome);
        self.release(context, followers, spare, observer);
        outcome
    }

    fn later_fragment<O: Observer>(
        &mut self,
        context: Context<'_>,
        frame: &mut Frame,
        arrived: &Arrived,
        id: u32,
        spare: &mut Vec<Frame>,
        observer: &mut O,
    ) -> Outcome {
        let Arrived { packet, arrival, .. } = arrived;
        match self.fragments.later(context.now, packet, arrival, id, frame) {
            Reassociated::Flow { protocol, ports } => {
                let key = FlowKey { protocol, ..flow_key(packet, arrival, ports) };
                let arrived = Arrived { key, table_key: self.shared.flows.table_key(&key), ..*arrived };
                self.flow(context, frame, &arrived, spare, observer)
            }
            Reassociated::Held => Outcome::Hold,
            Reassociated::Doomed(reason, others) => {
                for mut other in others {
                    self.counters().held.sub(1);
                    self.account(context, &mut other, Outcome::Drop(reason), observer);
                }
                Outcome::Drop(reason)
            }
        }
    }

    /// Sends on the fragments that waited for their first.
    fn release<O: Observer>(
        &mut self,
        context: Context<'_>,
        followers: Vec<Frame>,
        spare: &mut Vec<Frame>,
        observer: &mut O,
    ) {
        for follower in followers {
            // Frames that leave go back to the pool of full-sized ones.
            let mut frame = spare_frame(spare);
            frame.copy_from(&follower);
            self.counters().held.sub(1);
            let staged = stage(context, &frame);
            let outcome = self.decide(context, &mut frame, &staged, spare, observer);
            self.account(context, &mut frame, outcome, observer);
            self.made.push(frame);
        }
    }

    fn flow<O: Observer>(
        &mut self,
        context: Context<'_>,
        frame: &mut Frame,
        arrived: &Arrived,
        spare: &mut Vec<Frame>,
        observer: &mut O,
    ) -> Outcome {
        let Arrived { packet, arrival, key, table_key } = arrived;
        let Some(index) = self.shared.flows.find(table_key) else {
            if !local::is_to_gateway(context, frame, packet, arrival) {
                return self.resolve(context, frame, arrived, spare, observer);
            }
            return match local::serve(context, frame, packet) {
                Service::Done(outcome) => outcome,
                Service::Refuse => answer::refuse(self, context, frame, packet, DropReason::NoService),
            };
        };
        let slot = self.shared.flows.slot(index);
        if asks_the_other_way(packet, slot) {
            return self.resolve(context, frame, arrived, spare, observer);
        }
        let decision = slot.decision();
        let flags = tcp_flags(packet);
        // A SYN may begin another connection on an old one's ports, so it asks even if a packet before it
        // has.
        let opening = flags.is_some_and(TcpFlags::is_opening);
        if decision.epoch != context.snapshot.epoch().0 || opening {
            match self.revalidate(context, slot, key, flags) {
                Verdict::Valid => {}
                Verdict::Anew => {
                    self.forget(index);
                    return self.resolve(context, frame, arrived, spare, observer);
                }
                Verdict::MemberGone => {
                    self.forget(index);
                    return answer::refuse(self, context, frame, packet, DropReason::MemberGone);
                }
                Verdict::Void => {
                    self.forget(index);
                    return Outcome::Drop(DropReason::NoFlow);
                }
                // It stays for as long as it would if nobody sent, or the other side's packets could begin it again the other way
                // round.
                Verdict::Denied(reason) => return Outcome::Drop(reason),
            }
        }
        if !decision.seen.includes(Seen::settled_for(flags)) {
            if opening && self.is_over(slot) {
                self.forget(index);
                return self.resolve(context, frame, arrived, spare, observer);
            }
            self.note(slot, flags);
        }
        self.send(context, frame, packet, slot, table_key.hash, spare)
    }

    /// Forgets a connection.
    pub(super) fn forget(&mut self, index: FlowIndex) {
        self.shared.flows.remove(&mut self.flows, index);
    }

    /// Whether a connection has ended, so that a SYN on its ports begins another.
    fn is_over(&self, slot: &Slot) -> bool {
        self.shared.flows.state(slot) == ConnectionState::Closed
    }

    /// Notes what a packet shows of its connection's state.
    fn note(&self, slot: &Slot, flags: Option<TcpFlags>) {
        let flows = &self.shared.flows;
        let before = slot.seen();
        let after = before.with(flags, flows.slot(slot.reverse()).seen());
        if after == before {
            return;
        }
        let direction = slot.direction();
        let before = slot.add_seen(after);
        if before == Seen::default() && direction == Direction::Responder {
            flows.replied(slot);
        }
    }

    /// Whether a flow that was found by other means than a packet of its own still holds.
    pub(super) fn is_in_force(&self, context: Context<'_>, slot: &Slot, key: &FlowKey) -> bool {
        slot.decision().epoch == context.snapshot.epoch().0
            || matches!(self.revalidate(context, slot, key, None), Verdict::Valid)
    }

    /// Checks a flow against tables that are newer than its last check.
    fn revalidate(
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
        if !snapshot.has_policy_changed(since) {
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
            Located::Service(_) | Located::Nowhere(_) => Hop::To(PackedNextHop::Unreachable),
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
        way_back: whose_now(snapshot, responder.next_hop(), key.vrf, key.source),
    })
}

/// A next hop to an interface is to whoever has the address now: another pod may have got it since.
fn whose_now(snapshot: &Snapshot, hop: PackedNextHop, vrf: VrfId, address: Address) -> PackedNextHop {
    match (hop, route_to(snapshot, vrf, address)) {
        (PackedNextHop::Interface(vmi), Located::Hop { next_hop: NextHop::Interface(now), .. })
            if vmi != VmiId::HOST =>
        {
            PackedNextHop::Interface(*now)
        }
        (hop, _) => hop,
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
            (Located::Service(_), _) | (Located::Reject, Direction::Initiator) => Verdict::Anew,
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
    if !frontend.admits(key.source) {
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

/// Whether a packet is a ping from whoever answers one of the same identifier: that is no answer. It is decided about as what
/// begins something, and goes by the flow that is there.
fn asks_the_other_way(packet: &Packet, slot: &Slot) -> bool {
    let is_request =
        matches!(packet.header, Transport::Icmp { kind: IcmpKind::Echo { role: EchoRole::Request, .. } });
    is_request && slot.direction() == Direction::Responder
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

/// The VRF a packet arrived in.
pub(super) fn arrival_vrf<'a>(context: Context<'a>, arrival: &Arrival) -> Option<&'a Vrf> {
    context.snapshot.vrf(arrival.vrf)
}
