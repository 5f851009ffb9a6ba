//! The fourth stage: what the router answers itself, at a network's gateway address.

use vrouter_objects::{DropReason, IpProtocol};

use super::answer::{refuse, send_back};
use super::classify::Arrival;
use super::egress::trim_to_packet;
use super::established::arrival_vrf;
use super::{Context, Outcome, Worker};
use crate::address::Family;
use crate::checksum::Delta;
use crate::frame::{Frame, Ingress};
use crate::parse::{EchoRole, Fragment, IcmpKind, IcmpTypes, Packet, Transport, read_u16, write_u16};
use crate::rewrite::address_fields;

/// IGMP (RFC 3376), ICMPv6 listener discovery's older kin.
const IGMP: IpProtocol = IpProtocol(2);

/// Whether a packet is to this node's gateway address. The gateway is on every node alike, so only local
/// senders mean this one.
#[inline]
pub(super) fn is_to_gateway(context: Context<'_>, frame: &Frame, packet: &Packet, arrival: &Arrival) -> bool {
    matches!(frame.ingress, Ingress::Port(_))
        && arrival_vrf(context, arrival).is_some_and(|vrf| vrf.is_gateway(packet.destination))
}

/// Serves a packet to this node's gateway address: pings, and nothing else.
#[cold]
pub(super) fn serve(
    worker: &mut Worker,
    context: Context<'_>,
    frame: &mut Frame,
    packet: &Packet,
) -> Outcome {
    let later = matches!(packet.fragment, Fragment::Later { .. });
    match packet.header {
        Transport::Icmp { kind: IcmpKind::Echo { role: EchoRole::Request, .. } } => {}
        // The rest of a large ping goes back as it came.
        Transport::None if later && matches!(packet.protocol, IpProtocol::ICMP | IpProtocol::ICMPV6) => {}
        // Nobody is told about a message of that kind that nobody asked for.
        Transport::Icmp { .. } => return Outcome::Drop(DropReason::NoService),
        _ => return refuse(worker, context, frame, packet, DropReason::NoService),
    }
    echo_reply(frame, packet);
    trim_to_packet(frame, packet);
    let egress = send_back(context, frame, packet.family);
    egress.map_or(Outcome::Drop(DropReason::InterfaceDown), Outcome::Answer)
}

/// Takes what hosts tell the routers of their link about groups, which we do not forward; nothing else to a
/// group is for us.
pub(super) fn multicast(packet: &Packet) -> Outcome {
    let igmp = packet.protocol == IGMP && packet.family == Family::V4;
    match packet.header {
        Transport::Icmp { kind: IcmpKind::Membership } => Outcome::Consume,
        _ if igmp => Outcome::Consume,
        _ => Outcome::Drop(DropReason::Multicast),
    }
}

/// Turns an echo request, or a later fragment of one, into the reply.
fn echo_reply(frame: &mut Frame, packet: &Packet) {
    let (source_at, destination_at, len) = address_fields(packet.family);
    let (ip, transport) = (usize::from(packet.ip), usize::from(packet.transport));
    let bytes = frame.bytes_mut();
    // Swapping the addresses leaves every sum over both of them as it was.
    for at in 0..len {
        bytes.swap(ip + source_at + at, ip + destination_at + at);
    }
    match packet.family {
        Family::V4 => {
            let old = read_u16(bytes, ip + 8);
            let new = 64 << 8 | old & 0xff;
            write_u16(bytes, ip + 8, new);
            let checksum = Delta::default().word(old, new).apply(read_u16(bytes, ip + 10));
            write_u16(bytes, ip + 10, checksum);
        }
        Family::V6 => bytes[ip + 7] = 64,
    }
    if matches!(packet.header, Transport::Icmp { .. }) {
        let old = read_u16(bytes, transport);
        let new = u16::from(IcmpTypes::of(packet.family).echo_reply) << 8;
        write_u16(bytes, transport, new);
        let checksum = Delta::default().word(old, new).apply(read_u16(bytes, transport + 2));
        write_u16(bytes, transport + 2, checksum);
    }
}
