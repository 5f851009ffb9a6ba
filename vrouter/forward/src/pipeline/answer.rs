//! Telling a sender why its packet went nowhere: TCP resets and ICMP errors, made in place of the packet.

use vrouter_objects::{DropReason, IpProtocol, MacAddress};

use super::egress::{trim_to_packet, write_ethernet};
use super::{Context, Outcome, Worker};
use crate::address::{Address, Family};
use crate::checksum::{header_checksum, transport_checksum};
use crate::frame::{Egress, Frame, Ingress, Offload};
use crate::parse::{
    ETHERNET_HEADER, Fragment, IcmpKind, IcmpTypes, Packet, TcpFlags, Transport, read_u32, write_u16,
    write_u32,
};
use crate::rewrite::address_fields;

const ICMP_HEADER: usize = 8;
/// A fresh packet's TTL or hop limit.
const HOPS: u8 = 64;

/// Drops a packet and tells its sender that nobody is there: TCP by a reset, anything else by port unreachable (RFC 1122
/// section 3.2.2.1), as from the address it was sent to.
pub(super) fn refuse(
    worker: &mut Worker,
    context: Context<'_>,
    frame: &mut Frame,
    packet: &Packet,
    reason: DropReason,
) -> Outcome {
    if !may_answer(packet) || !worker.answers.allow(frame.ingress, context.now) {
        return Outcome::Drop(reason);
    }
    if matches!(packet.header, Transport::Tcp { flags, .. } if flags.any(TcpFlags::RST)) {
        return Outcome::Drop(reason);
    }
    // What follows overwrites the packet.
    worker.sample_drop(context, frame, reason);
    let made = match packet.header {
        Transport::Tcp { flags, header_len, .. } if packet.fragment == Fragment::Whole => {
            reset(frame, packet, flags, header_len.into())
        }
        _ => icmp(frame, packet, IcmpTypes::of(packet.family).port_unreachable, 0, packet.destination),
    };
    made.and_then(|()| send_back(context, frame, packet.family))
        .map_or(Outcome::Drop(reason), |egress| Outcome::Refuse(reason, egress))
}

/// Drops a packet that no route leads on, and tells its sender.
pub(super) fn no_route(
    worker: &mut Worker,
    context: Context<'_>,
    frame: &mut Frame,
    packet: &Packet,
    reason: DropReason,
) -> Outcome {
    let code = IcmpTypes::of(packet.family).no_route;
    from_gateway(worker, context, frame, packet, (code, 0), reason)
}

/// Drops a packet whose hops are used up, and tells its sender.
pub(super) fn time_exceeded(
    worker: &mut Worker,
    context: Context<'_>,
    frame: &mut Frame,
    packet: &Packet,
) -> Outcome {
    let code = IcmpTypes::of(packet.family).time_exceeded;
    from_gateway(worker, context, frame, packet, (code, 0), DropReason::TtlExceeded)
}

/// Drops a packet larger than the next link takes, and tells its sender how much that is (RFC 1191, RFC
/// 8201).
pub(super) fn too_big(
    worker: &mut Worker,
    context: Context<'_>,
    frame: &mut Frame,
    packet: &Packet,
    mtu: u16,
) -> Outcome {
    let code = IcmpTypes::of(packet.family).too_big;
    from_gateway(worker, context, frame, packet, (code, u32::from(mtu)), DropReason::TooBig)
}

fn from_gateway(
    worker: &mut Worker,
    context: Context<'_>,
    frame: &mut Frame,
    packet: &Packet,
    (code, parameter): ((u8, u8), u32),
    reason: DropReason,
) -> Outcome {
    let gateway = arrival_gateway(context, frame, packet);
    let Some(gateway) =
        gateway.filter(|_| may_answer(packet) && worker.answers.allow(frame.ingress, context.now))
    else {
        return Outcome::Drop(reason);
    };
    worker.sample_drop(context, frame, reason);
    icmp(frame, packet, code, parameter, gateway)
        .and_then(|()| send_back(context, frame, packet.family))
        .map_or(Outcome::Drop(reason), |egress| Outcome::Refuse(reason, egress))
}

/// The router's own address in the network that a packet arrived in.
fn arrival_gateway(context: Context<'_>, frame: &Frame, packet: &Packet) -> Option<Address> {
    let snapshot = context.snapshot;
    let vrf = match frame.ingress {
        Ingress::Port(port) => snapshot.port(port)?.vrf,
        Ingress::Tunnel { vni, .. } => snapshot.vrf_of_vni(vni)?,
    };
    // The nodes' network has no gateway: there the node speaks for itself.
    let gateway = snapshot.vrf(vrf)?.gateway_for(packet.source);
    gateway.or_else(|| snapshot.host()?.source(packet.family)).copied()
}

/// No error is ever made about an error, about a later fragment, or to a group or nobody (RFC 1122 section
/// 3.2.2, RFC 4443 section 2.4 e).
fn may_answer(packet: &Packet) -> bool {
    let about_error =
        matches!(packet.header, Transport::Icmp { kind: IcmpKind::Error | IcmpKind::Neighbour });
    let later = matches!(packet.fragment, Fragment::Later { .. });
    !about_error && !later && packet.source.is_unicast() && packet.destination.is_unicast()
}

/// Turns the frame into a reset of its connection (RFC 9293 section 3.10.7.1).
fn reset(frame: &mut Frame, packet: &Packet, flags: TcpFlags, header_len: usize) -> Option<()> {
    let transport = usize::from(packet.transport);
    let data = packet.end as usize - transport - header_len;
    let bytes = frame.bytes();
    let (sequence, acknowledged) = (read_u32(bytes, transport + 4), read_u32(bytes, transport + 8));
    let counted = u32::from(flags.any(TcpFlags::SYN)) + u32::from(flags.any(TcpFlags::FIN));
    let (source, destination) = packet.ports();
    let mut header = [0_u8; 20];
    write_u16(&mut header, 0, destination);
    write_u16(&mut header, 2, source);
    if flags.any(TcpFlags::ACK) {
        write_u32(&mut header, 4, acknowledged);
        header[13] = TcpFlags::RST;
    } else {
        write_u32(&mut header, 8, sequence.wrapping_add(data as u32).wrapping_add(counted));
        header[13] = TcpFlags::RST | TcpFlags::ACK;
    }
    header[12] = 5 << 4;
    replace(frame, packet, packet.destination, IpProtocol::TCP, 16, &header)
}

/// Turns the frame into an ICMP error about its packet.
fn icmp(
    frame: &mut Frame,
    packet: &Packet,
    (kind, code): (u8, u8),
    parameter: u32,
    from: Address,
) -> Option<()> {
    // As much of the packet as keeps the error small (RFC 1812 section 4.3.2.3, RFC 4443 section 3.1).
    let limit = match packet.family {
        Family::V4 => 576 - 20 - ICMP_HEADER,
        Family::V6 => 1280 - 40 - ICMP_HEADER,
    };
    let mut message = [0_u8; ICMP_HEADER + 1232];
    let ip = usize::from(packet.ip);
    let quoted = &frame.bytes()[ip..(packet.end as usize).min(ip + limit)];
    let len = ICMP_HEADER + quoted.len();
    (message[0], message[1]) = (kind, code);
    write_u32(&mut message, 4, parameter);
    message[ICMP_HEADER..len].copy_from_slice(quoted);
    let protocol = match packet.family {
        Family::V4 => IpProtocol::ICMP,
        Family::V6 => IpProtocol::ICMPV6,
    };
    replace(frame, packet, from, protocol, 2, &message[..len])
}

/// Makes the frame a packet from `from` to the sender of `packet`, with this transport contents, whose
/// checksum is put in at `field`. `None`: the frame's buffer has no room for it.
fn replace(
    frame: &mut Frame,
    packet: &Packet,
    from: Address,
    protocol: IpProtocol,
    field: usize,
    contents: &[u8],
) -> Option<()> {
    trim_to_packet(frame, packet);
    let to = packet.source;
    let (source_at, destination_at, len) = address_fields(packet.family);
    let header_len = if packet.family == Family::V4 { 20 } else { 40 };
    let total = ETHERNET_HEADER + header_len + contents.len();
    frame.truncate(total);
    frame.extend(total - frame.len())?;
    frame.offload = Offload::default();
    let bytes = frame.bytes_mut();
    let header = &mut bytes[ETHERNET_HEADER..ETHERNET_HEADER + header_len];
    header.fill(0);
    match packet.family {
        Family::V4 => {
            header[0] = 0x45;
            write_u16(header, 2, (header_len + contents.len()) as u16);
            header[8] = HOPS;
            header[9] = protocol.0;
            header[source_at..source_at + len].copy_from_slice(&from.v4_octets());
            header[destination_at..destination_at + len].copy_from_slice(&to.v4_octets());
            let checksum = header_checksum(header);
            write_u16(header, 10, checksum);
        }
        Family::V6 => {
            header[0] = 0x60;
            write_u16(header, 4, contents.len() as u16);
            header[6] = protocol.0;
            header[7] = HOPS;
            header[source_at..source_at + len].copy_from_slice(&from.v6_octets());
            header[destination_at..destination_at + len].copy_from_slice(&to.v6_octets());
        }
    }
    let (header, body) = bytes[ETHERNET_HEADER..].split_at_mut(header_len);
    body.copy_from_slice(contents);
    let checksum = if protocol == IpProtocol::ICMP {
        header_checksum(body)
    } else {
        let (source, destination) =
            (&header[source_at..source_at + len], &header[destination_at..destination_at + len]);
        transport_checksum(source, destination, protocol.0, body)
    };
    write_u16(body, field, checksum);
    Some(())
}

/// Hands a packet that came by `vhost0`, and is the node's own affair, back to the node as it came.
pub(super) fn hand_back(
    context: Context<'_>,
    frame: &mut Frame,
    packet: &Packet,
    otherwise: DropReason,
) -> Outcome {
    trim_to_packet(frame, packet);
    send_back(context, frame, packet.family).map_or(Outcome::Drop(otherwise), Outcome::Forward)
}

/// Addresses a frame to where it came from, and says by what it leaves.
pub(super) fn send_back(context: Context<'_>, frame: &mut Frame, family: Family) -> Option<Egress> {
    let snapshot = context.snapshot;
    let (destination, source, egress) = match frame.ingress {
        Ingress::Port(port) => (snapshot.port(port)?.mac, MacAddress::GATEWAY, Egress::Port(port)),
        Ingress::Tunnel { source, vni } => {
            let router = snapshot.router(snapshot.router_at(source.into())?)?;
            let egress = Egress::Tunnel { destination: router.address, vni, entropy: 0 };
            (router.mac, snapshot.own()?.mac, egress)
        }
    };
    write_ethernet(frame.bytes_mut(), destination, source, family);
    Some(egress)
}
