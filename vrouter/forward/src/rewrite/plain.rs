//! Changing the headers that nearly every packet has, at fixed offsets: see [`crate::parse::PlainIp`].

use vrouter_objects::IpProtocol;

use super::Endpoint;
use crate::address::Family;
use crate::checksum::{Adjustment, udp_checksum};
use crate::flow::Adjustments;
use crate::frame::Covered;
use crate::parse::{ETHERNET_HEADER, Head, PlainIp, get_word, put_double, put_word};

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

/// Whether there is a hop left to take off a plain packet, and no checksum missing that it must have to be
/// translated.
#[inline(always)]
pub(crate) fn can_rewrite_plain<Ip: PlainIp>(head: &Head, protocol: IpProtocol, covered: Covered) -> bool {
    let is_missing = Ip::FAMILY == Family::V6
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
    if Ip::FAMILY == Family::V4 {
        adjust(head, ETHERNET_HEADER + IPV4_CHECKSUM, |old| Adjustment::HOP.apply(addresses.apply(old)));
    }
}

#[inline(always)]
fn adjust(head: &mut Head, at: usize, change: impl FnOnce([u8; 2]) -> [u8; 2]) {
    [head[at], head[at + 1]] = change([head[at], head[at + 1]]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::address::Address;
    use crate::checksum::Delta;
    use crate::frame::{Checksum, Frame, Ingress, Offload, PortId};
    use crate::parse::{Packet, Parsed, PlainV4, PlainV6, parse};
    use crate::rewrite::{Translation, take_hop, translate};
    use crate::sim::PacketBuilder;

    fn address(family: Family, number: u128) -> Address {
        match family {
            Family::V4 => Address::v4((0x0a00_0000 | number as u32 & 0xff_ffff).to_be_bytes()),
            Family::V6 => Address::from_bits(0xfd00 << 112 | number >> 16),
        }
    }

    fn parsed(frame: &Frame) -> Packet {
        match parse(frame.bytes()) {
            Ok(Parsed::Ip(packet)) => packet,
            other => panic!("{other:?}"),
        }
    }

    /// What the translation does to checksums, found without a flow.
    fn adjustments(packet: &Packet, side: Side, to: Endpoint) -> Adjustments {
        let (source, destination) = packet.ports();
        let (address, port) = match side {
            Side::Source => (packet.source, source),
            Side::Destination => (packet.destination, destination),
        };
        let addresses = Delta::default().bytes(&address.v6_octets(), &to.address.v6_octets());
        Adjustments { addresses: addresses.into(), endpoints: addresses.word(port, to.port).into() }
    }

    proptest! {
        #[test]
        fn a_plain_packet_is_changed_as_any_packet_is(
            family in prop::sample::select(vec![Family::V4, Family::V6]),
            side in prop::sample::select(vec![Side::Source, Side::Destination]),
            is_tcp: bool,
            is_partial: bool,
            (source, destination, new) in any::<(u128, u128, u128)>(),
            ports in any::<(u16, u16, u16)>(),
            checksum in prop::option::of(any::<u16>()),
            hops in 2..=u8::MAX,
        ) {
            let source_port = ports.0.max(1);
            let (source, destination) = (address(family, source), address(family, destination));
            prop_assume!(source != destination);
            let packet = PacketBuilder::new(source, destination).hops(hops).payload(&[7; 9]);
            let destination_port = ports.1.max(1);
            let packet = match is_tcp {
                true => packet.tcp(source_port, destination_port, 16),
                false => packet.udp(source_port, destination_port),
            };
            let mut frame = Frame::from_bytes(&packet.build(), Ingress::Port(PortId(0)));
            let (start, offset) = (if family == Family::V4 { 34 } else { 54 }, if is_tcp { 16 } else { 6 });
            let at = start + offset;
            if let Some(checksum) = checksum {
                frame.bytes_mut()[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
            }
            let partial = Checksum::Partial { start: start as u16, offset: offset as u16 };
            let checksum = if is_partial { partial } else { Checksum::Unverified };
            let offload = Offload { checksum, segmentation: None };
            let packet = parsed(&frame);
            let to = Endpoint { address: address(family, new), port: ports.2 };

            let translation = match side {
                Side::Source => Translation { source: Some(to), destination: None },
                Side::Destination => Translation { source: None, destination: Some(to) },
            };
            let mut expected = frame.bytes().to_vec();
            let outcome = translate(&mut expected, &packet, &offload, &translation);
            if outcome.is_ok() {
                take_hop(&mut expected, &packet);
            }

            let adjustments = adjustments(&packet, side, to);
            let (protocol, covered) = (packet.protocol, offload.checksum.covered());
            let head = frame.head_mut().expect("a frame with room");
            let can = match family {
                Family::V4 => can_rewrite_plain::<PlainV4>(head, protocol, covered),
                Family::V6 => can_rewrite_plain::<PlainV6>(head, protocol, covered),
            };
            prop_assert_eq!(can, outcome.is_ok());
            match family {
                _ if !can => {}
                Family::V4 => {
                    translate_plain::<PlainV4>(head, (protocol, covered), (side, to), adjustments);
                    take_plain_hop::<PlainV4>(head, adjustments.addresses);
                }
                Family::V6 => {
                    translate_plain::<PlainV6>(head, (protocol, covered), (side, to), adjustments);
                    take_plain_hop::<PlainV6>(head, adjustments.addresses);
                }
            }
            prop_assert_eq!(frame.bytes(), &expected[..]);
        }
    }
}
