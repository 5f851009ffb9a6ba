//! ICMP errors on their way to whoever sent the packet they quote: translated back like the flow's replies,
//! outside and inside (RFC 5508 section 4.2).

use vrouter_objects::DropReason;

use super::answer::hand_back;
use super::classify::{Arrival, Entrance};
use super::{Context, Outcome, Worker};
use crate::flow::{Actions, FlowKey, Slot};
use crate::frame::Frame;
use crate::parse::{Packet, parse_quoted};
use crate::rewrite::{Endpoint, Translation, has_valid_icmp_checksum, translate_error};

/// Bytes of ICMP header before the quoted packet.
const ICMP_HEADER: usize = 8;

/// Relays an error along the reverse of the flow whose packet it quotes.
pub(super) fn relay(
    worker: &mut Worker,
    context: Context<'_>,
    frame: &mut Frame,
    packet: &Packet,
    arrival: &Arrival,
) -> Outcome {
    let offset = usize::from(packet.transport) + ICMP_HEADER;
    let quoted = match parse_quoted(&frame.bytes()[..packet.end as usize], offset, packet.family) {
        Ok(quoted) => quoted,
        Err(reason) => return unrelated(context, frame, packet, arrival, reason),
    };
    // It must go to whoever sent what it quotes, or it would be a way into others' flows.
    let is_to_sender = packet.destination == quoted.source;
    // And a pod is on nobody's way: it can tell of what was sent to itself alone.
    let is_of_passer_by = matches!(arrival.entrance, Entrance::Pod(_)) && packet.source != quoted.destination;
    if !is_to_sender || is_of_passer_by {
        return unrelated(context, frame, packet, arrival, DropReason::IcmpUnrelated);
    }
    // The quoted packet went out by one direction of a flow; the error comes in like a packet of the other.
    let key = FlowKey {
        vrf: arrival.vrf,
        origin: arrival.origin_of(context, quoted.destination),
        source: quoted.destination,
        destination: quoted.source,
        source_port: quoted.ports.1,
        destination_port: quoted.ports.0,
        protocol: quoted.protocol,
    };
    let flows = &worker.shared.flows;
    let Some(index) = flows.find(&flows.table_key(&key)) else {
        return unrelated(context, frame, packet, arrival, DropReason::IcmpUnrelated);
    };
    let slot = flows.slot(index);
    // One that a change of the tables has ended is no flow, though nobody has cleared it away yet.
    if !worker.is_in_force(context, slot, &key) {
        return unrelated(context, frame, packet, arrival, DropReason::IcmpUnrelated);
    }
    let (replies, sender) = translations(worker, slot, &key);
    // A router on the way keeps its name; the translated host itself goes by the one the sender knows.
    let from_host = packet.source == key.source;
    let outer =
        Translation { source: replies.source.filter(|_| from_host), destination: replies.destination };
    if sender != Translation::default() {
        // Its checksum is made anew, which must not make a damaged message look sound.
        if !has_valid_icmp_checksum(frame.bytes(), packet) {
            return Outcome::Drop(DropReason::ChecksumError);
        }
        translate_error(frame.bytes_mut(), packet, &quoted, &outer, &sender);
    }
    worker.send_error(context, frame, packet, slot)
}

/// What becomes of an error that is about no flow. All that come to the node are steered to us, and those that are not
/// ours are the node's.
fn unrelated(
    context: Context<'_>,
    frame: &mut Frame,
    packet: &Packet,
    arrival: &Arrival,
    reason: DropReason,
) -> Outcome {
    let is_the_nodes =
        arrival.entrance == Entrance::Host && context.snapshot.is_own_address(packet.destination);
    if is_the_nodes { hand_back(context, frame, packet, reason) } else { Outcome::Drop(reason) }
}

/// What the flow's replies are translated to, and what that makes of the quoted packet's ends.
fn translations(worker: &Worker, slot: &Slot, key: &FlowKey) -> (Translation, Translation) {
    let actions = slot.decision().actions;
    let partner = worker.shared.flows.slot(slot.reverse()).key();
    // The partner's key is the quoted packet as its sender sent it.
    let Some(sent) = partner.filter(|_| actions != Actions::NONE) else {
        return (Translation::default(), Translation::default());
    };
    let sent_source = Endpoint { address: sent.source, port: sent.source_port };
    let sent_destination = Endpoint { address: sent.destination, port: sent.destination_port };
    let replies = Translation {
        source: (sent.destination != key.source).then_some(sent_destination),
        destination: (sent.source != key.destination).then_some(sent_source),
    };
    (replies, Translation { source: Some(sent_source), destination: Some(sent_destination) })
}
