//! IPv6 neighbour discovery (RFC 4861): the router answers for everything it has a route to.

use vrouter_objects::{DropReason, IpProtocol, MacAddress};

use super::arp::is_ours_to_answer;
use super::egress::{trim_to_packet, write_ethernet};
use super::{Context, Outcome};
use crate::address::{Address, Family};
use crate::checksum::transport_checksum;
use crate::frame::{Egress, Frame, Ingress, Offload};
use crate::parse::{ETHERNET_HEADER, Packet, write_u16, write_u32};
use crate::tables::PortEntry;

const IPV6: usize = 40;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// An advertisement with the target's link-layer address.
const ADVERTISEMENT_LEN: usize = 32;
const ROUTER: u32 = 1 << 31;
const SOLICITED: u32 = 1 << 30;
const OVERRIDE: u32 = 1 << 29;
/// All nodes on the link, and the Ethernet group that it maps to.
const ALL_NODES: [u8; 16] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const ALL_NODES_MAC: MacAddress = MacAddress([0x33, 0x33, 0, 0, 0, 1]);

/// Answers a neighbour discovery message from a local port. Nothing of the kind is ever forwarded.
pub(super) fn answer(context: Context<'_>, frame: &mut Frame, packet: &Packet) -> Outcome {
    let Ingress::Port(port) = frame.ingress else { return Outcome::Drop(DropReason::InvalidArp) };
    let Some(entry) = context.snapshot.port(port) else { return Outcome::Drop(DropReason::UnknownPort) };
    let bytes = frame.bytes();
    let message = &bytes[usize::from(packet.transport)..packet.end as usize];
    // Only from this very link (section 7.1.1): no router has taken a hop off.
    if bytes[usize::from(packet.ip) + 7] != 255 || message[1] != 0 {
        return Outcome::Drop(DropReason::InvalidArp);
    }
    if message[0] != SOLICITATION {
        // Router solicitations need no answer, advertisements tell us nothing new.
        return Outcome::Consume;
    }
    let Some(target) = message.get(8..24).and_then(|octets| <[u8; 16]>::try_from(octets).ok()) else {
        return Outcome::Drop(DropReason::InvalidArp);
    };
    let target = Address::v6(target);
    let unspecified = packet.source.bits() == 0;
    if !is_own_option(message, entry, unspecified) {
        return Outcome::Drop(DropReason::InvalidArp);
    }
    if !is_ours_to_answer(context, entry, target) {
        return Outcome::Consume;
    }
    match advertise(frame, packet, entry, target, unspecified) {
        Some(()) => Outcome::Answer(Egress::Port(port)),
        None => Outcome::Consume,
    }
}

/// The options must be whole; a source link-layer address must be the sender's, and a host without an address
/// has none (section 7.1.1).
fn is_own_option(message: &[u8], entry: &PortEntry, unspecified: bool) -> bool {
    let mut options = &message[24..];
    while let [kind, units, ..] = *options {
        let len = usize::from(units) * 8;
        if len == 0 || len > options.len() {
            return false;
        }
        if kind == 1 && (unspecified || options[2..8] != entry.mac.0) {
            return false;
        }
        options = &options[len..];
    }
    options.is_empty()
}

/// Turns the frame into an advertisement of `target`. One who asked without an address is answered by way of
/// all nodes, and the answer is not "solicited" (section 7.2.4).
fn advertise(
    frame: &mut Frame,
    packet: &Packet,
    entry: &PortEntry,
    target: Address,
    unspecified: bool,
) -> Option<()> {
    let (to, to_mac, flags) = if unspecified {
        (Address::v6(ALL_NODES), ALL_NODES_MAC, ROUTER | OVERRIDE)
    } else {
        (packet.source, entry.mac, ROUTER | SOLICITED | OVERRIDE)
    };
    trim_to_packet(frame, packet);
    let total = ETHERNET_HEADER + IPV6 + ADVERTISEMENT_LEN;
    frame.truncate(total);
    frame.extend(total - frame.len())?;
    frame.offload = Offload::default();
    let bytes = frame.bytes_mut();
    write_ethernet(bytes, to_mac, MacAddress::GATEWAY, Family::V6);
    let header = &mut bytes[ETHERNET_HEADER..ETHERNET_HEADER + IPV6];
    header.fill(0);
    header[0] = 0x60;
    write_u16(header, 4, ADVERTISEMENT_LEN as u16);
    header[6] = IpProtocol::ICMPV6.0;
    header[7] = 255;
    header[8..24].copy_from_slice(&target.v6_octets());
    header[24..40].copy_from_slice(&to.v6_octets());
    let body = &mut bytes[ETHERNET_HEADER + IPV6..];
    body.fill(0);
    body[0] = ADVERTISEMENT;
    write_u32(body, 4, flags);
    body[8..24].copy_from_slice(&target.v6_octets());
    body[24..26].copy_from_slice(&[2, 1]);
    body[26..32].copy_from_slice(&MacAddress::GATEWAY.0);
    let checksum = transport_checksum(&target.v6_octets(), &to.v6_octets(), IpProtocol::ICMPV6.0, body);
    write_u16(body, 2, checksum);
    Some(())
}
