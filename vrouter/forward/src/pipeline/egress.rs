//! The last stages before transmit: rewrite, and out by an interface or tunnel, in pieces where it must be.

use vrouter_objects::{DropReason, MacAddress, VmiId};

use super::fast_path::rewrite_if_plain;
use super::{Context, Outcome, Worker, answer, spare_frame};
use crate::address::Family;
use crate::checksum::header_checksum;
use crate::flow::{self, Actions, PackedNextHop, Slot};
use crate::frame::{Checksum, CountedAs, Egress, Frame, Ingress, Packets};
use crate::offload::finish_checksum;
use crate::parse::{ETHERNET_HEADER, Fragment, Head, Packet, Transport, ethertype, read_u16, write_u16};
use crate::rewrite::{self, Endpoint, Translation};
use crate::tables::{PortEntry, RouterEntry, Snapshot};

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;

/// A next hop with everything needed to leave by it.
#[derive(Clone, Copy)]
pub(super) enum Exit<'a> {
    Port(&'a PortEntry),
    Tunnel { own: &'a RouterEntry, router: &'a RouterEntry, vni: vrouter_objects::Vni, mtu: u16 },
}

impl Exit<'_> {
    /// The largest IP packet it takes.
    #[inline(always)]
    pub(super) fn mtu(&self) -> usize {
        match self {
            Self::Port(entry) => usize::from(entry.mtu),
            Self::Tunnel { mtu, .. } => usize::from(*mtu),
        }
    }

    #[inline(always)]
    fn macs(&self) -> (MacAddress, MacAddress) {
        match self {
            Self::Port(entry) => (entry.mac, MacAddress::GATEWAY),
            Self::Tunnel { own, router, .. } => (router.mac, own.mac),
        }
    }

    #[inline(always)]
    pub(super) fn egress(&self, entropy: u32) -> Egress {
        match self {
            Self::Port(entry) => Egress::Port(entry.port),
            Self::Tunnel { router, vni, .. } => {
                Egress::Tunnel { destination: router.address, vni: *vni, entropy }
            }
        }
    }

    /// Puts its addresses at the start of a frame, whose EtherType is the packet's already.
    #[inline(always)]
    pub(super) fn write_macs(&self, head: &mut Head) {
        let (destination, source) = self.macs();
        head[..6].copy_from_slice(&destination.0);
        head[6..12].copy_from_slice(&source.0);
    }

    /// Writes its link header at the start of a frame.
    fn write_ethernet(&self, bytes: &mut [u8], family: Family) {
        let (destination, source) = self.macs();
        write_ethernet(bytes, destination, source, family);
    }
}

impl Worker {
    /// Sends a packet on by its flow.
    #[inline]
    pub(super) fn send(
        &mut self,
        context: Context<'_>,
        frame: &mut Frame,
        packet: &Packet,
        slot: &Slot,
        hash: u64,
        spare: &mut Vec<Frame>,
    ) -> Outcome {
        if rewrite::hops_left(frame.bytes(), packet) <= 1 {
            return answer::time_exceeded(self, context, frame, packet);
        }
        let exit = match exit(context, frame.ingress, slot) {
            Ok(exit) => exit,
            Err(reason) => return Outcome::Drop(reason),
        };
        let Packets { count, largest } = packets(frame, packet);
        let too_big = largest > exit.mtu();
        if too_big && !may_fragment(frame, packet) {
            return answer::too_big(self, context, frame, packet, exit.mtu() as u16);
        }
        let entropy = entropy(packet, hash);
        if rewrite_if_plain(context, frame, packet, slot, exit).is_some() {
            clamp_segment_size(frame, packet, exit);
            return Outcome::Forward(exit.egress(entropy));
        }
        let translation = self.translation(slot);
        if translation != Translation::default() {
            let offload = frame.offload;
            if let Err(reason) = rewrite::translate(frame.bytes_mut(), packet, &offload, &translation) {
                return Outcome::Drop(reason);
            }
        }
        rewrite::take_hop(frame.bytes_mut(), packet);
        clamp_segment_size(frame, packet, exit);
        slot.touch(count, packet.ip_len() as u64, context.tenths);
        if too_big {
            return self.fragment(frame, packet, exit, entropy, spare);
        }
        write_link_header(frame, packet, exit);
        Outcome::Forward(exit.egress(entropy))
    }

    /// Sends an ICMP error on by the flow it is about.
    pub(super) fn send_error(
        &self,
        context: Context<'_>,
        frame: &mut Frame,
        packet: &Packet,
        slot: &Slot,
    ) -> Outcome {
        // Nobody is told about an error's own end.
        if rewrite::hops_left(frame.bytes(), packet) <= 1 {
            return Outcome::Drop(DropReason::TtlExceeded);
        }
        let exit = match exit(context, frame.ingress, slot) {
            Ok(exit) => exit,
            Err(reason) => return Outcome::Drop(reason),
        };
        if packet.ip_len() > exit.mtu() {
            return Outcome::Drop(DropReason::TooBig);
        }
        rewrite::take_hop(frame.bytes_mut(), packet);
        write_link_header(frame, packet, exit);
        Outcome::Forward(exit.egress(0))
    }

    /// What a flow changes in its packets.
    #[inline]
    fn translation(&self, slot: &Slot) -> Translation {
        let decision = slot.decision();
        if decision.actions == Actions::NONE {
            return Translation::default();
        }
        let first = Endpoint { address: slot.translated(), port: decision.translated_port };
        if !decision.actions.has(Actions::DESTINATION) {
            return Translation { source: Some(first), destination: None };
        }
        // Where both ends are translated, the new source is what the other direction answers to.
        let source = decision.actions.has(Actions::SOURCE).then(|| {
            let reverse = self.shared.flows.slot(slot.reverse()).key();
            reverse.map(|key| Endpoint { address: key.destination, port: key.destination_port })
        });
        Translation { source: source.flatten(), destination: Some(first) }
    }

    /// Sends an IPv4 packet in fragments (RFC 791 section 3.2). The frame itself ends here.
    fn fragment(
        &mut self,
        frame: &mut Frame,
        packet: &Packet,
        exit: Exit<'_>,
        entropy: u32,
        spare: &mut Vec<Frame>,
    ) -> Outcome {
        frame.truncate(packet.end as usize);
        finish_checksum(frame);
        let header_len = packet.ip_header_len();
        let piece_len = (exit.mtu().saturating_sub(header_len)) & !7;
        if piece_len == 0 {
            return Outcome::Drop(DropReason::TooBig);
        }
        let ip = usize::from(packet.ip);
        let (payload_start, end) = (usize::from(packet.transport), packet.end as usize);
        let old = read_u16(frame.bytes(), ip + 6);
        for (number, start) in (payload_start..end).step_by(piece_len).enumerate() {
            let piece_end = (start + piece_len).min(end);
            let mut piece = spare_frame(spare);
            piece.ingress = frame.ingress;
            piece.set_len(ETHERNET_HEADER + header_len + piece_end - start);
            let bytes = piece.bytes_mut();
            bytes[ETHERNET_HEADER..ETHERNET_HEADER + header_len]
                .copy_from_slice(&frame.bytes()[ip..payload_start]);
            bytes[ETHERNET_HEADER + header_len..].copy_from_slice(&frame.bytes()[start..piece_end]);
            let more = if piece_end < end { MORE_FRAGMENTS } else { old & MORE_FRAGMENTS };
            let offset = (old & 0x1fff) + (number * piece_len / 8) as u16;
            let total = (header_len + piece_end - start) as u16;
            write_u16(bytes, ETHERNET_HEADER + 2, total);
            write_u16(bytes, ETHERNET_HEADER + 6, more | offset);
            write_u16(bytes, ETHERNET_HEADER + 10, 0);
            let checksum = header_checksum(&bytes[ETHERNET_HEADER..ETHERNET_HEADER + header_len]);
            write_u16(bytes, ETHERNET_HEADER + 10, checksum);
            exit.write_ethernet(bytes, Family::V4);
            piece.counted_as = CountedAs::Made;
            piece.egress = Some(exit.egress(entropy));
            self.count_piece(&piece);
            self.made.push(piece);
        }
        Outcome::Fragmented
    }

    fn count_piece(&self, piece: &Frame) {
        self.counters().originated.add(1);
        if let Some(Egress::Port(port)) = piece.egress {
            self.counters().tx(port, 1, piece.len() as u64);
        }
    }
}

/// Keeps the segments that a connection agrees on within what this exit takes.
fn clamp_segment_size(frame: &mut Frame, packet: &Packet, exit: Exit<'_>) {
    if matches!(packet.header, Transport::Tcp { .. }) {
        let headers = if packet.family == Family::V4 { 40 } else { 60 };
        let (offload, limit) = (frame.offload, exit.mtu().saturating_sub(headers) as u16);
        rewrite::clamp_segment_size(frame.bytes_mut(), packet, &offload, limit);
    }
}

/// Where a flow's packets leave, those that came in here.
#[inline(always)]
pub(super) fn exit<'a>(context: Context<'a>, ingress: Ingress, slot: &Slot) -> Result<Exit<'a>, DropReason> {
    let snapshot = context.snapshot;
    match slot.next_hop() {
        PackedNextHop::Interface(vmi) => match noted_port(snapshot, slot) {
            Some(entry) if entry.vmi == vmi => Ok(Exit::Port(entry)),
            _ => find_port(snapshot, slot, vmi),
        },
        PackedNextHop::Tunnel(router) => {
            let invalid = DropReason::InvalidNextHop;
            let own = snapshot.own().ok_or(invalid)?;
            let router = snapshot.router(router).ok_or(invalid)?;
            let vni = slot.egress_vrf().and_then(|vrf| snapshot.vrf(vrf)).ok_or(invalid)?.vni;
            // Either the route leads back to ourselves, where nobody has the address; or it leads on to
            // another node what came from one, though all nodes are neighbours.
            if router.id == own.id || matches!(ingress, Ingress::Tunnel { .. }) {
                return Err(DropReason::RouteLoop);
            }
            Ok(Exit::Tunnel { own, router, vni, mtu: snapshot.tunnel_mtu() })
        }
        PackedNextHop::Receive => {
            snapshot.port_of(VmiId::HOST).map(Exit::Port).ok_or(DropReason::InterfaceDown)
        }
        PackedNextHop::Unreachable => Err(DropReason::NoRoute),
    }
}

/// The port that the flow's packets leave by, if its interface is where it was last found.
#[inline(always)]
pub(super) fn noted_port<'a>(snapshot: &'a Snapshot, slot: &Slot) -> Option<&'a PortEntry> {
    let noted = slot.noted_port();
    snapshot.port(noted.port).filter(|entry| noted.is_of(entry.vmi))
}

/// Where an interface is, for a flow that did not know.
#[cold]
fn find_port<'a>(snapshot: &'a Snapshot, slot: &Slot, vmi: VmiId) -> Result<Exit<'a>, DropReason> {
    let entry = snapshot.port_of(vmi).ok_or(DropReason::InterfaceDown)?;
    slot.note_port(entry.port);
    Ok(Exit::Port(entry))
}

/// The inner flow's hash for the underlay. Fragments have no ports, so all of a datagram's go by its
/// addresses.
fn entropy(packet: &Packet, hash: u64) -> u32 {
    match packet.fragment {
        Fragment::Whole => flow::entropy(hash),
        Fragment::First { .. } | Fragment::Later { .. } => {
            let mixed = packet.source.bits() ^ packet.destination.bits().rotate_left(17);
            ((mixed as u64 ^ (mixed >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
        }
    }
}

/// What a frame is or will be cut into.
fn packets(frame: &Frame, packet: &Packet) -> Packets {
    frame.offload.packets(packet.ip_len(), packet.ip_header_len() + packet.header.header_len())
}

/// IPv4 without "don't fragment", and one packet: a router may cut it.
fn may_fragment(frame: &Frame, packet: &Packet) -> bool {
    packet.family == Family::V4
        && frame.offload.segmentation.is_none()
        && read_u16(frame.bytes(), usize::from(packet.ip) + 6) & DONT_FRAGMENT == 0
}

/// Puts the link header for its exit in front of the IP packet, which becomes the frame's whole contents.
fn write_link_header(frame: &mut Frame, packet: &Packet, exit: Exit<'_>) {
    trim_to_packet(frame, packet);
    exit.write_ethernet(frame.bytes_mut(), packet.family);
}

/// Leaves 14 bytes before the IP packet, and nothing behind it.
pub(super) fn trim_to_packet(frame: &mut Frame, packet: &Packet) {
    frame.truncate(packet.end as usize);
    let tag = usize::from(packet.ip) - ETHERNET_HEADER;
    if tag > 0 {
        frame.take_front(tag);
        if let Checksum::Partial { start, offset } = frame.offload.checksum {
            frame.offload.checksum = Checksum::Partial { start: start - tag as u16, offset };
        }
    }
}

/// Writes an Ethernet header at the start of a frame.
pub(super) fn write_ethernet(bytes: &mut [u8], destination: MacAddress, source: MacAddress, family: Family) {
    bytes[..6].copy_from_slice(&destination.0);
    bytes[6..12].copy_from_slice(&source.0);
    write_u16(bytes, 12, ethertype(family));
}
