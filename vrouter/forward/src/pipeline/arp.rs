//! ARP (RFC 826): the router answers for everything it has a route to, with its own address.

use vrouter_objects::{DropReason, MacAddress};

use super::classify::mac_at;
use super::{Context, Outcome};
use crate::address::Address;
use crate::frame::{Egress, Frame, Ingress};
use crate::parse::{read_u16, write_u16};
use crate::tables::PortEntry;

const LEN: usize = 28;
const REQUEST: u16 = 1;
const REPLY: u16 = 2;

/// Answers an ARP packet from a local port, whose body begins at `offset`.
pub(super) fn answer(context: Context<'_>, frame: &mut Frame, offset: usize) -> Outcome {
    let Ingress::Port(port) = frame.ingress else { return Outcome::Drop(DropReason::InvalidArp) };
    let Some(entry) = context.snapshot.port(port) else { return Outcome::Drop(DropReason::UnknownPort) };
    let Some(body) = frame.bytes().get(offset..offset + LEN) else {
        return Outcome::Drop(DropReason::PacketTruncated);
    };
    // Ethernet and IPv4 only, with their address lengths.
    if body[..6] != [0, 1, 8, 0, 6, 4] || mac_at(body, 8) != entry.mac {
        return Outcome::Drop(DropReason::InvalidArp);
    }
    let (sender, target) = (ipv4_at(body, 14), ipv4_at(body, 24));
    // A host may ask with no address of its own yet (RFC 5227), but not with another's.
    let probe = sender == Address::v4([0; 4]);
    if !probe && !entry.addresses.contains(&sender) {
        return Outcome::Drop(DropReason::SpoofedAddress);
    }
    match read_u16(body, 6) {
        REQUEST if is_ours_to_answer(context, entry, target) => {
            reply(frame, offset, entry, target, sender);
            Outcome::Answer(Egress::Port(port))
        }
        // About itself, or about nobody we know; or announcing itself, which we know already.
        REQUEST | REPLY => Outcome::Consume,
        _ => Outcome::Drop(DropReason::InvalidArp),
    }
}

fn ipv4_at(body: &[u8], at: usize) -> Address {
    Address::v4([body[at], body[at + 1], body[at + 2], body[at + 3]])
}

/// Everything but the host's own addresses that its network has a gateway or a route for. Link-local addresses are left out,
/// whatever route matches them: whoever asks for one on a link asks whether it may have it.
pub(super) fn is_ours_to_answer(context: Context<'_>, entry: &PortEntry, target: Address) -> bool {
    let Some(vrf) = context.snapshot.vrf(entry.vrf) else { return false };
    let is_routed = !target.is_link_local() && vrf.route(target).is_some();
    !entry.addresses.contains(&target) && (vrf.is_gateway(target) || is_routed)
}

fn reply(frame: &mut Frame, offset: usize, entry: &PortEntry, target: Address, sender: Address) {
    let bytes = frame.bytes_mut();
    bytes[..6].copy_from_slice(&entry.mac.0);
    bytes[6..12].copy_from_slice(&MacAddress::GATEWAY.0);
    let body = &mut bytes[offset..offset + LEN];
    write_u16(body, 6, REPLY);
    body[8..14].copy_from_slice(&MacAddress::GATEWAY.0);
    body[14..18].copy_from_slice(&target.v4_octets());
    body[18..24].copy_from_slice(&entry.mac.0);
    body[24..28].copy_from_slice(&sender.v4_octets());
}
