//! IPv4 (RFC 791).

use vrouter_objects::{DropReason, IpProtocol};

use super::{Fragment, Packet, Transport, check_addresses, read_u16, transport};
use crate::address::{Address, Family};

pub(super) const MIN_HEADER: usize = 20;
pub(super) const MORE_FRAGMENTS: u16 = 0x2000;
pub(super) const OFFSET_MASK: u16 = 0x1fff;
const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;
const LOOSE_SOURCE_ROUTE: u8 = 131;
const STRICT_SOURCE_ROUTE: u8 = 137;
const MAX_DATAGRAM: usize = 65_535;

pub(super) fn parse(frame: &[u8], ip: usize) -> Result<Packet, DropReason> {
    let header = frame.get(ip..ip + MIN_HEADER).ok_or(DropReason::PacketTruncated)?;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let total_len = usize::from(read_u16(header, 2));
    if header[0] >> 4 != 4 || header_len < MIN_HEADER || total_len < header_len {
        return Err(DropReason::InvalidIpv4);
    }
    if frame.len() - ip < total_len {
        return Err(DropReason::PacketTruncated);
    }
    if has_source_route(&frame[ip + MIN_HEADER..ip + header_len]) {
        return Err(DropReason::InvalidIpv4);
    }
    let source = Address::v4([header[12], header[13], header[14], header[15]]);
    let destination = Address::v4([header[16], header[17], header[18], header[19]]);
    check_addresses(source, destination)?;
    // What no datagram can have: a fragment that ends behind the largest (the "ping of death").
    if usize::from(read_u16(header, 6) & OFFSET_MASK) * 8 + total_len - header_len > MAX_DATAGRAM {
        return Err(DropReason::InvalidIpv4);
    }
    let protocol = IpProtocol(header[9]);
    let fragment = fragment(read_u16(header, 6), read_u16(header, 4));
    let payload = &frame[ip + header_len..ip + total_len];
    let header = match fragment {
        Fragment::Later { .. } => Transport::None,
        _ => transport::parse(payload, protocol, Family::V4, fragment)?,
    };
    Ok(Packet {
        family: Family::V4,
        ip: ip as u16,
        transport: (ip + header_len) as u16,
        end: (ip + total_len) as u32,
        source,
        destination,
        protocol,
        fragment,
        header,
    })
}

/// Whether its sender says where it is to go besides (RFC 791 section 3.1): whoever gets such a packet sends it on, past what
/// was decided about it here (RFC 7126 sections 4.3 and 4.4).
fn has_source_route(mut options: &[u8]) -> bool {
    while let [kind, rest @ ..] = options {
        options = match (*kind, rest.first().map(|len| usize::from(*len))) {
            (END_OF_OPTIONS, _) => return false,
            (NO_OPERATION, _) => rest,
            (LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE, _) => return true,
            (_, Some(len)) if (2..=options.len()).contains(&len) => &options[len..],
            _ => return false,
        };
    }
    false
}

fn fragment(flags_and_offset: u16, id: u16) -> Fragment {
    let id = u32::from(id);
    if flags_and_offset & OFFSET_MASK != 0 {
        Fragment::Later { id }
    } else if flags_and_offset & MORE_FRAGMENTS != 0 {
        Fragment::First { id }
    } else {
        Fragment::Whole
    }
}
