//! The fifth stage: finding a packet's flow.

use vrouter_objects::DropReason;

use super::classify::{Arrival, Arrived, flow_key, stage};
use super::fragments::Reassociated;
use super::revalidate::Verdict;
use super::{Context, Outcome, Worker, answer, error, local, neighbour, spare_frame};
use crate::flow::{ConnectionState, Direction, FlowIndex, FlowKey, Seen, Slot};
use crate::frame::Frame;
use crate::observer::Observer;
use crate::parse::{EchoRole, Fragment, IcmpKind, Packet, TcpFlags, Transport};
use crate::tables::Vrf;

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
        let Arrived { packet, key, table_key, .. } = arrived;
        let Some(index) = self.shared.flows.find(table_key) else {
            return self.resolve(context, frame, arrived, spare, observer);
        };
        let slot = self.shared.flows.slot(index);
        if asks_the_other_way(packet, slot) {
            if !self.is_in_force(context, slot, key) {
                self.forget(index);
            }
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
}

/// Whether a packet is a ping from whoever answers one of the same identifier: that is no answer. It is decided about as what
/// begins something, and goes by the flow that is there, as long as that is in force.
fn asks_the_other_way(packet: &Packet, slot: &Slot) -> bool {
    let is_request =
        matches!(packet.header, Transport::Icmp { kind: IcmpKind::Echo { role: EchoRole::Request, .. } });
    is_request && slot.direction() == Direction::Responder
}

/// The VRF a packet arrived in.
pub(super) fn arrival_vrf<'a>(context: Context<'a>, arrival: &Arrival) -> Option<&'a Vrf> {
    context.snapshot.vrf(arrival.vrf)
}
