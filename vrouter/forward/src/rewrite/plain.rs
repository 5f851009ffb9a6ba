//! Changing the headers that nearly every packet has, at fixed offsets: see [`crate::parse::Plain`].

use vrouter_objects::IpProtocol;

use super::Endpoint;
use crate::checksum::{Adjustment, udp_checksum};
use crate::flow::Adjustments;
use crate::frame::Covered;
use crate::parse::{ETHERNET_HEADER, Head, PlainIp, PlainVersion};

/// Where the checksum stands in a TCP and in a UDP header.
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;
/// Where it stands in an IPv4 header.
const IPV4_CHECKSUM: usize = 10;

/// Which end of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Source address and port.
    Source,
    /// Destination address and port.
    Destination,
}

/// Whether there is a hop left to take off a plain packet, and no checksum missing that it must have to be translated.
#[inline(always)]
pub(crate) fn can_rewrite_plain<Ip: PlainIp>(head: &Head, protocol: IpProtocol, covered: Covered) -> bool {
    let is_missing = Ip::VERSION == PlainVersion::V6
        && protocol == IpProtocol::UDP
        && covered == Covered::All
        && get_word(head, ETHERNET_HEADER + Ip::LEN + UDP_CHECKSUM) == 0;
    head[ETHERNET_HEADER + Ip::HOPS] > 1 && !is_missing
}

/// Puts an endpoint in place of one of a plain packet's.
#[inline(always)]
pub(crate) fn translate_plain<Ip: PlainIp>(
    head: &mut Head,
    (protocol, covered): (IpProtocol, Covered),
    (side, to): (Side, Endpoint),
    adjustments: Adjustments,
) {
    let transport = ETHERNET_HEADER + Ip::LEN;
    let (address_at, port_at) = match side {
        Side::Source => (ETHERNET_HEADER + Ip::SOURCE, transport),
        Side::Destination => (ETHERNET_HEADER + Ip::SOURCE + Ip::ADDRESS, transport + 2),
    };
    for number in 0..Ip::ADDRESS / 4 {
        let part = (to.address.bits() >> (8 * (Ip::ADDRESS - 4) - 32 * number)) as u32;
        put_double(head, address_at + 4 * number, part);
    }
    put_word(head, port_at, to.port);
    let Adjustments { addresses, endpoints } = adjustments;
    match (protocol, covered) {
        (IpProtocol::TCP, Covered::All) => adjust(head, transport + TCP_CHECKSUM, |old| endpoints.apply(old)),
        (IpProtocol::TCP, Covered::PseudoHeader) => {
            adjust(head, transport + TCP_CHECKSUM, |old| addresses.apply_to_sum(old));
        }
        (_, Covered::All) => adjust(head, transport + UDP_CHECKSUM, |old| match old {
            // There is none (RFC 768).
            [0, 0] => old,
            _ => udp_checksum(u16::from_be_bytes(endpoints.apply(old))).to_be_bytes(),
        }),
        (_, Covered::PseudoHeader) => {
            adjust(head, transport + UDP_CHECKSUM, |old| addresses.apply_to_sum(old));
        }
    }
}

/// Takes one hop off a plain packet, the sum over whose addresses changed by this.
#[inline(always)]
pub(crate) fn take_plain_hop<Ip: PlainIp>(head: &mut Head, addresses: Adjustment) {
    head[ETHERNET_HEADER + Ip::HOPS] = head[ETHERNET_HEADER + Ip::HOPS].wrapping_sub(1);
    if Ip::VERSION == PlainVersion::V4 {
        adjust(head, ETHERNET_HEADER + IPV4_CHECKSUM, |old| Adjustment::HOP.apply(addresses.apply(old)));
    }
}

#[inline(always)]
fn adjust(head: &mut Head, at: usize, change: impl FnOnce([u8; 2]) -> [u8; 2]) {
    [head[at], head[at + 1]] = change([head[at], head[at + 1]]);
}

#[inline(always)]
fn get_word(head: &Head, at: usize) -> u16 {
    u16::from_be_bytes([head[at], head[at + 1]])
}

#[inline(always)]
fn put_word(head: &mut Head, at: usize, value: u16) {
    [head[at], head[at + 1]] = value.to_be_bytes();
}

#[inline(always)]
fn put_double(head: &mut Head, at: usize, value: u32) {
    [head[at], head[at + 1], head[at + 2], head[at + 3]] = value.to_be_bytes();
}
