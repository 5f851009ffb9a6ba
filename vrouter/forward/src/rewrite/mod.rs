//! The seventh stage: changing a packet in place, with every checksum that covers what changes.

mod plain;

pub(crate) use plain::{Side, can_rewrite_plain, take_plain_hop, translate_plain};

use vrouter_objects::{DropReason, IpProtocol};

use crate::address::{Address, Family};
use crate::checksum::{Delta, header_checksum, sctp_crc, transport_checksum, udp_checksum};
use crate::frame::{Checksum, Offload};
use crate::parse::{Fragment, Packet, TcpFlags, Transport, read_u16, read_u32, write_u16, write_u32};

/// An address and port (or ICMP identifier) to put in place of what a packet bears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) address: Address,
    pub(crate) port: u16,
}

/// What to change in a packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Translation {
    pub(crate) source: Option<Endpoint>,
    pub(crate) destination: Option<Endpoint>,
}

/// Offsets of the address fields in an IP header, and their length.
pub(crate) const fn address_fields(family: Family) -> (usize, usize, usize) {
    match family {
        Family::V4 => (12, 16, 4),
        Family::V6 => (8, 24, 16),
    }
}

/// Runs `f` with the address's octets in the form its family's header has them.
fn with_octets<R>(address: Address, f: impl FnOnce(&[u8]) -> R) -> R {
    match address.family() {
        Family::V4 => f(&address.v4_octets()),
        Family::V6 => f(&address.v6_octets()),
    }
}

/// Writes an address into an IP header field and returns how that changes a sum over it.
fn replace_address(bytes: &mut [u8], at: usize, address: Address, delta: Delta) -> Delta {
    with_octets(address, |octets| {
        let field = &mut bytes[at..at + octets.len()];
        let delta = delta.bytes(field, octets);
        field.copy_from_slice(octets);
        delta
    })
}

fn replace_port(bytes: &mut [u8], at: usize, port: u16, delta: Delta) -> Delta {
    let delta = delta.word(read_u16(bytes, at), port);
    write_u16(bytes, at, port);
    delta
}

/// Adjusts the IPv4 header checksum; IPv6 has none.
fn adjust_ip_checksum(bytes: &mut [u8], ip: usize, family: Family, delta: Delta) {
    if family == Family::V4 {
        let at = ip + 10;
        write_u16(bytes, at, delta.apply(read_u16(bytes, at)));
    }
}

/// Translates a packet. Refused where a checksum cannot be kept right: UDP over IPv6 without one, and the
/// ports of SCTP where the CRC spans fragments that are not here.
pub(crate) fn translate(
    bytes: &mut [u8],
    packet: &Packet,
    offload: &Offload,
    translation: &Translation,
) -> Result<(), DropReason> {
    if udp_without_checksum(bytes, packet, offload) == Some(Family::V6) {
        return Err(DropReason::ChecksumError);
    }
    let sctp_ports_change = sctp_ports_change(packet, translation);
    if sctp_ports_change && packet.fragment != Fragment::Whole {
        return Err(DropReason::ChecksumError);
    }
    let crc_before = sctp_ports_change.then(|| transport_crc(bytes, packet));
    let ip = usize::from(packet.ip);
    let (source_at, destination_at, _) = address_fields(packet.family);
    let mut addresses = Delta::default();
    if let Some(source) = translation.source {
        addresses = replace_address(bytes, ip + source_at, source.address, addresses);
    }
    if let Some(destination) = translation.destination {
        addresses = replace_address(bytes, ip + destination_at, destination.address, addresses);
    }
    adjust_ip_checksum(bytes, ip, packet.family, addresses);
    // Without a transport header here, the bytes behind the IP header are payload.
    if !matches!(packet.fragment, Fragment::Later { .. }) {
        translate_transport(bytes, packet, offload, translation, addresses);
    }
    if let Some(before) = crc_before {
        let after = transport_crc(bytes, packet);
        let at = usize::from(packet.transport) + 8;
        // The CRC is linear: a wrong one stays wrong by the same difference.
        let field = u32::from_le_bytes(read_u32(bytes, at).to_be_bytes());
        write_u32(bytes, at, u32::from_be_bytes((field ^ before ^ after).to_le_bytes()));
    }
    Ok(())
}

/// The family of a UDP packet that has no checksum (RFC 768: zero).
fn udp_without_checksum(bytes: &[u8], packet: &Packet, offload: &Offload) -> Option<Family> {
    let udp = matches!(packet.header, Transport::Udp { .. });
    let partial = matches!(offload.checksum, Checksum::Partial { .. });
    (udp && !partial && read_u16(bytes, usize::from(packet.transport) + 6) == 0).then_some(packet.family)
}

fn sctp_ports_change(packet: &Packet, translation: &Translation) -> bool {
    let Transport::Sctp { source, destination } = packet.header else { return false };
    translation.source.is_some_and(|to| to.port != source)
        || translation.destination.is_some_and(|to| to.port != destination)
}

fn transport_crc(bytes: &[u8], packet: &Packet) -> u32 {
    sctp_crc(&bytes[usize::from(packet.transport)..packet.end as usize])
}

fn translate_transport(
    bytes: &mut [u8],
    packet: &Packet,
    offload: &Offload,
    translation: &Translation,
    addresses: Delta,
) {
    let transport = usize::from(packet.transport);
    let ports = |bytes: &mut [u8], delta: Delta| {
        let delta = match translation.source {
            Some(source) => replace_port(bytes, transport, source.port, delta),
            None => delta,
        };
        match translation.destination {
            Some(destination) => replace_port(bytes, transport + 2, destination.port, delta),
            None => delta,
        }
    };
    match packet.header {
        Transport::Tcp { .. } => {
            let delta = ports(bytes, Delta::default());
            adjust_checksum(bytes, transport, 16, offload, addresses, delta);
        }
        Transport::Udp { .. } => {
            let none = udp_without_checksum(bytes, packet, offload).is_some();
            let delta = ports(bytes, Delta::default());
            if !none {
                adjust_checksum(bytes, transport, 6, offload, addresses, delta);
                let partial = matches!(offload.checksum, Checksum::Partial { .. });
                if !partial {
                    let checksum = udp_checksum(read_u16(bytes, transport + 6));
                    write_u16(bytes, transport + 6, checksum);
                }
            }
        }
        Transport::Sctp { .. } => {
            ports(bytes, Delta::default());
        }
        Transport::Icmp { kind } => {
            let id = translated_id(packet, translation);
            let delta = match (kind, id) {
                (crate::parse::IcmpKind::Echo { .. }, Some(id)) => {
                    replace_port(bytes, transport + 4, id, Delta::default())
                }
                _ => Delta::default(),
            };
            // Only ICMPv6's checksum covers the addresses.
            let addresses = if packet.family == Family::V6 { addresses } else { Delta::default() };
            adjust_checksum(bytes, transport, 2, offload, addresses, delta);
        }
        Transport::None => {}
    }
}

fn translated_id(packet: &Packet, translation: &Translation) -> Option<u16> {
    let (id, _) = packet.ports();
    let new = translation.source.or(translation.destination)?.port;
    (new != id).then_some(new)
}

/// Adjusts a transport checksum. A partial one holds the sum of the pseudo-header and nothing else.
fn adjust_checksum(
    bytes: &mut [u8],
    transport: usize,
    field: usize,
    offload: &Offload,
    addresses: Delta,
    contents: Delta,
) {
    let at = transport + field;
    let old = read_u16(bytes, at);
    let new = match offload.checksum {
        Checksum::Partial { .. } => addresses.apply_to_sum(old),
        Checksum::Unverified | Checksum::Valid => contents.apply(addresses.apply(old)),
    };
    write_u16(bytes, at, new);
}

/// What is left of a packet's TTL or hop limit.
pub(crate) fn hops_left(bytes: &[u8], packet: &Packet) -> u8 {
    match packet.family {
        Family::V4 => bytes[usize::from(packet.ip) + 8],
        Family::V6 => bytes[usize::from(packet.ip) + 7],
    }
}

/// Takes one hop off the TTL or hop limit, which must be at least one.
#[inline]
pub(crate) fn take_hop(bytes: &mut [u8], packet: &Packet) {
    let ip = usize::from(packet.ip);
    match packet.family {
        Family::V4 => {
            let old = read_u16(bytes, ip + 8);
            let new = old - 0x0100;
            write_u16(bytes, ip + 8, new);
            adjust_ip_checksum(bytes, ip, Family::V4, Delta::default().word(old, new));
        }
        Family::V6 => bytes[ip + 7] -= 1,
    }
}

/// Lowers the maximum segment size that a SYN announces to `limit` (RFC 6691; never raises it).
pub(crate) fn clamp_segment_size(bytes: &mut [u8], packet: &Packet, offload: &Offload, limit: u16) {
    let Transport::Tcp { flags, header_len, .. } = packet.header else { return };
    if !flags.any(TcpFlags::SYN) {
        return;
    }
    let transport = usize::from(packet.transport);
    let Some(at) = segment_size_option(&bytes[transport..transport + usize::from(header_len)]) else {
        return;
    };
    let at = transport + at;
    let announced = read_u16(bytes, at);
    if announced <= limit {
        return;
    }
    write_u16(bytes, at, limit);
    // Options may stand at odd offsets; the sum then has the bytes swapped.
    let odd = (at - transport) % 2 == 1;
    let (old, new) = if odd { (announced.swap_bytes(), limit.swap_bytes()) } else { (announced, limit) };
    if !matches!(offload.checksum, Checksum::Partial { .. }) {
        let checksum = Delta::default().word(old, new).apply(read_u16(bytes, transport + 16));
        write_u16(bytes, transport + 16, checksum);
    }
}

/// The offset of the maximum segment size's value in a TCP header.
fn segment_size_option(header: &[u8]) -> Option<usize> {
    let mut at = 20;
    while at + 1 < header.len() {
        match (header[at], usize::from(header[at + 1])) {
            (0, _) => return None,
            (1, _) => at += 1,
            (2, 4) if at + 4 <= header.len() => return Some(at + 2),
            (_, length) if length >= 2 => at += length,
            _ => return None,
        }
    }
    None
}

/// Translates the packet that an ICMP error quotes, and the error's own addresses, and makes the error's
/// checksum anew: what is quoted is under it.
pub(crate) fn translate_error(
    bytes: &mut [u8],
    packet: &Packet,
    quoted: &crate::parse::Quoted,
    outer: &Translation,
    inner: &Translation,
) {
    translate_quoted(bytes, packet.family, quoted, inner);
    let ip = usize::from(packet.ip);
    let (source_at, destination_at, _) = address_fields(packet.family);
    let mut delta = Delta::default();
    if let Some(source) = outer.source {
        delta = replace_address(bytes, ip + source_at, source.address, delta);
    }
    if let Some(destination) = outer.destination {
        delta = replace_address(bytes, ip + destination_at, destination.address, delta);
    }
    adjust_ip_checksum(bytes, ip, packet.family, delta);
    let transport = usize::from(packet.transport);
    write_u16(bytes, transport + 2, 0);
    let checksum = icmp_checksum(bytes, packet);
    write_u16(bytes, transport + 2, checksum);
}

/// Whether an ICMP message is as its sender sent it.
pub(crate) fn has_valid_icmp_checksum(bytes: &[u8], packet: &Packet) -> bool {
    // Over a message with its checksum in place, the checksum is zero.
    icmp_checksum(bytes, packet) == 0
}

fn icmp_checksum(bytes: &[u8], packet: &Packet) -> u16 {
    let (ip, message) = (usize::from(packet.ip), usize::from(packet.transport)..packet.end as usize);
    let (source_at, destination_at, len) = address_fields(packet.family);
    let field = |at: usize| &bytes[ip + at..ip + at + len];
    match packet.family {
        Family::V4 => header_checksum(&bytes[message]),
        Family::V6 => {
            let protocol = IpProtocol::ICMPV6.0;
            transport_checksum(field(source_at), field(destination_at), protocol, &bytes[message])
        }
    }
}

fn translate_quoted(bytes: &mut [u8], family: Family, quoted: &crate::parse::Quoted, inner: &Translation) {
    let (source_at, destination_at, _) = address_fields(family);
    let mut addresses = Delta::default();
    let mut ports = Delta::default();
    let has_ports = matches!(quoted.protocol, IpProtocol::TCP | IpProtocol::UDP | IpProtocol::SCTP);
    let is_icmp = matches!(quoted.protocol, IpProtocol::ICMP | IpProtocol::ICMPV6);
    if let Some(source) = inner.source {
        addresses = replace_address(bytes, quoted.ip + source_at, source.address, addresses);
        if has_ports {
            ports = replace_port(bytes, quoted.transport, source.port, ports);
        }
    }
    if let Some(destination) = inner.destination {
        addresses = replace_address(bytes, quoted.ip + destination_at, destination.address, addresses);
        if has_ports {
            ports = replace_port(bytes, quoted.transport + 2, destination.port, ports);
        }
    }
    adjust_ip_checksum(bytes, quoted.ip, family, addresses);
    if let Some(source) = inner.source.filter(|_| is_icmp) {
        ports = replace_port(bytes, quoted.transport + 4, source.port, ports);
    }
    // A UDP checksum always lies within the eight bytes that are quoted at least; a TCP one may be cut off.
    let field = match quoted.protocol {
        IpProtocol::TCP => 16,
        IpProtocol::UDP => 6,
        IpProtocol::ICMP | IpProtocol::ICMPV6 => 2,
        _ => return,
    };
    // Only ICMP for IPv4 has a checksum that does not cover the addresses.
    let addresses = if quoted.protocol == IpProtocol::ICMP { Delta::default() } else { addresses };
    let at = quoted.transport + field;
    if let Some(checksum) = bytes.get(at..at + 2).map(|_| read_u16(bytes, at))
        && !(checksum == 0 && quoted.protocol == IpProtocol::UDP)
    {
        write_u16(bytes, at, ports.apply(addresses.apply(checksum)));
    }
}
