//! The short way of nearly every packet: plain headers, a flow that is in the table and as old as the tables,
//! and nothing that needs an answer.
//!
//! It takes the stages in the same order and to the same end as the long way does, and leaves out only what
//! such a packet cannot need. Where anything is unusual it changes nothing and leaves the packet to the long
//! way, which alone knows what to do about it.

use super::Context;
use super::egress::{Exit, exit, noted_port};
use super::leads::Lead;
use crate::address::Family;
use crate::counters::WorkerCounters;
use crate::flow::{Actions, Decision, Slot};
use crate::frame::{Egress, Frame, Packets};
use crate::parse::{ETHERNET_HEADER, Packet, PlainHeaders, PlainIp, PlainV4, PlainV6};
use crate::rewrite::{Endpoint, Side, can_rewrite_plain, take_plain_hop, translate_plain};

/// Forwards a packet if it can go the short way, counts it, and returns where it leaves; else it is as it
/// was.
#[inline(always)]
pub(super) fn forward_established<Ip: PlainIp>(
    context: Context<'_>,
    frame: &mut Frame,
    lead: &Lead,
    counters: &WorkerCounters,
) -> Option<Egress> {
    let slot = lead.candidate?;
    if !slot.has_key_of(&lead.key, Ip::FAMILY) {
        return None;
    }
    // If the flow was forgotten since the index named it, it was decided at no snapshot's epoch.
    let decision = slot.decision();
    let is_settled = decision.seen.includes(lead.headers.settled);
    if !is_settled || decision.epoch != context.snapshot.epoch().0 || decision.actions == Actions::BOTH {
        return None;
    }
    match noted_port(context.snapshot, slot) {
        Some(entry) => leave::<Ip>(context, frame, lead, (slot, decision), Exit::Port(entry), counters),
        None => {
            let exit = exit(context, frame.ingress, slot).ok()?;
            leave::<Ip>(context, frame, lead, (slot, decision), exit, counters)
        }
    }
}

/// Sends a packet out by this exit, which is mostly known to be a port where this is compiled into.
#[inline(always)]
fn leave<Ip: PlainIp>(
    context: Context<'_>,
    frame: &mut Frame,
    lead: &Lead,
    flow: (&Slot, Decision),
    exit: Exit<'_>,
    counters: &WorkerCounters,
) -> Option<Egress> {
    rewrite::<Ip>(context, frame, &lead.headers, flow, exit)?;
    if frame.offload.segmentation.is_some() {
        counters.super_frames_received.add(1);
    }
    counters.forwarded.add(1);
    if let Exit::Port(entry) = exit {
        counters.tx(entry.port, 1, ETHERNET_HEADER as u64 + u64::from(lead.headers.ip_len));
    }
    let egress = exit.egress(lead.entropy());
    frame.egress = Some(egress);
    Some(egress)
}

/// [`rewrite`], for a packet that came the long way and may be plain all the same, as the first of a flow
/// mostly is.
pub(super) fn rewrite_if_plain(
    context: Context<'_>,
    frame: &mut Frame,
    packet: &Packet,
    slot: &Slot,
    exit: Exit<'_>,
) -> Option<()> {
    let headers = PlainHeaders::of(packet)?;
    let decision = slot.decision();
    if decision.actions == Actions::BOTH {
        return None;
    }
    match packet.family {
        Family::V4 => rewrite::<PlainV4>(context, frame, &headers, (slot, decision), exit),
        Family::V6 => rewrite::<PlainV6>(context, frame, &headers, (slot, decision), exit),
    }
}

/// The last stages but transmit, for plain headers.
#[inline(always)]
fn rewrite<Ip: PlainIp>(
    context: Context<'_>,
    frame: &mut Frame,
    headers: &PlainHeaders,
    (slot, decision): (&Slot, Decision),
    exit: Exit<'_>,
) -> Option<()> {
    let Packets { count, largest } = frame.offload.packets(headers.ip_len as usize, headers.len.into());
    if largest > exit.mtu() {
        return None;
    }
    let covered = frame.offload.checksum.covered();
    let head = frame.head_mut()?;
    if !can_rewrite_plain::<Ip>(head, headers.protocol, covered) {
        return None;
    }
    let adjustments = slot.adjustments();
    // Without a translation, there is nothing to adjust.
    take_plain_hop::<Ip>(head, adjustments.addresses);
    exit.write_macs(head);
    slot.touch(count, headers.ip_len.into(), context.tenths);
    if decision.actions != Actions::NONE {
        let address = match Ip::FAMILY {
            Family::V4 => slot.translated_v4(),
            Family::V6 => slot.translated(),
        };
        let to = Endpoint { address, port: decision.translated_port };
        let is_destination = decision.actions == Actions::DESTINATION;
        let side = if is_destination { Side::Destination } else { Side::Source };
        translate_plain::<Ip>(head, (headers.protocol, covered), (side, to), adjustments);
    }
    frame.set_end(ETHERNET_HEADER + headers.ip_len as usize);
    Some(())
}
