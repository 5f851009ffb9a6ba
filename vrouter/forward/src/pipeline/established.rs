//! The fifth stage: finding a packet's flow, and whether what the flow was decided by still holds.

use vrouter_objects::{DropReason, IpProtocol, NextHop};

use super::classify::{Arrival, Arrived, flow_key, stage};
use super::fragments::Reassociated;
use super::local::Service;
use super::resolve::{Located, choose_part, locate, packed_next_hop};
use super::{Context, Outcome, Worker, answer, error, local, neighbour, spare_frame};
use crate::flow::{Actions, ConnectionState, Direction, FlowIndex, FlowKey, PackedNextHop, Seen, Slot};
use crate::frame::Frame;
use crate::observer::Observer;
use crate::parse::{Fragment, IcmpKind, Packet, TcpFlags, Transport};
use crate::tables::{PoolState, Vrf};

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
                let arrived = Arrived { key, hash: self.shared.flows.hash(&key), ..*arrived };
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
            let staged = stage(context, &frame, |key| self.shared.flows.hash(key));
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
        let Arrived { packet, arrival, key, hash } = arrived;
        let Some(index) = self.shared.flows.find(key, *hash) else {
            return match local::serve(context, frame, packet, arrival) {
                Service::Done(outcome) => outcome,
                Service::Refuse => answer::refuse(self, context, frame, packet, DropReason::NoService),
                Service::NotOurs => self.resolve(context, frame, arrived, spare, observer),
            };
        };
        let slot = self.shared.flows.slot(index);
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
            }
        }
        if !decision.seen.includes(Seen::settled_for(flags)) {
            if opening && self.is_over(slot) {
                self.forget(index);
                return self.resolve(context, frame, arrived, spare, observer);
            }
            self.note(slot, flags);
        }
        self.send(context, frame, packet, slot, *hash, spare)
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
        let destination = if slot.decision().actions.has(Actions::DESTINATION) {
            slot.translated()
        } else {
            key.destination
        };
        let Some(vrf) = slot.egress_vrf() else { return Verdict::Void };
        let next_hop = match locate(context.snapshot, vrf, destination) {
            Located::Hop { next_hop, .. } => packed_next_hop(next_hop, |parts| still_or_other(parts, slot)),
            // Whoever had the address is gone, and its node says so.
            Located::Reject if !is_initiator => return Verdict::Void,
            Located::Reject if initiator.service().is_some() => return member_gone(key.protocol, flags),
            Located::Reject => return Verdict::Anew,
            Located::Service(_) | Located::Nowhere(_) => PackedNextHop::Unreachable,
        };
        if next_hop != slot.next_hop() {
            slot.set_next_hop(next_hop);
        }
        slot.set_epoch(context.snapshot.epoch().0);
        Verdict::Valid
    }
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
    let located = locate(context.snapshot, key.vrf, key.destination);
    let Some((fip_id, member)) = initiator.service() else {
        // What was a plain address may have become a service's.
        return match located {
            Located::Service(_) => Verdict::Anew,
            _ => Verdict::Valid,
        };
    };
    let fip = match located {
        Located::Service(fip) if fip.id == fip_id => fip,
        _ => return Verdict::Anew,
    };
    let opening = flags.is_some_and(TcpFlags::is_opening);
    if fip.generation.0 <= initiator.decision().epoch && !opening {
        return Verdict::Valid;
    }
    let Some(listener) = fip.listener(key.protocol, key.destination_port) else { return Verdict::Anew };
    match listener.state_of(member) {
        PoolState::Active => Verdict::Valid,
        PoolState::Draining if is_under_way(key.protocol, flags) => Verdict::Valid,
        PoolState::Draining if !listener.has_active() => Verdict::Valid,
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

/// The VRF a packet arrived in.
pub(super) fn arrival_vrf<'a>(context: Context<'a>, arrival: &Arrival) -> Option<&'a Vrf> {
    context.snapshot.vrf(arrival.vrf)
}
