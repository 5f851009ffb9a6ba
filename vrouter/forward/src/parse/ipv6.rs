//! IPv6 and its extension headers (RFC 8200).

use vrouter_objects::{DropReason, IpProtocol};

use super::{Fragment, Packet, Transport, check_addresses, read_u16, read_u32, transport};
use crate::address::{Address, Family};

pub(super) const HEADER_LEN: usize = 40;
/// Nobody sends more; a chain without end costs time.
const MAX_EXTENSIONS: usize = 8;
const MAX_DATAGRAM: usize = 65_535;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

pub(super) fn parse(frame: &[u8], ip: usize) -> Result<Packet, DropReason> {
    let header: &[u8; HEADER_LEN] =
        frame.get(ip..).and_then(|rest| rest.first_chunk()).ok_or(DropReason::PacketTruncated)?;
    let payload_len = usize::from(read_u16(header, 4));
    // A payload length of zero announces a jumbogram (RFC 2675), which no link here carries.
    if header[0] >> 4 != 6 || payload_len == 0 {
        return Err(DropReason::InvalidIpv6);
    }
    let end = ip + HEADER_LEN + payload_len;
    if frame.len() < end {
        return Err(DropReason::PacketTruncated);
    }
    let (source, destination) = (address(header, 8), address(header, 24));
    if source.family() == Family::V4 || destination.family() == Family::V4 {
        return Err(DropReason::InvalidAddress);
    }
    check_addresses(source, destination)?;
    let chain = Chain::walk(&frame[..end], ip + HEADER_LEN, header[6])?;
    let payload = &frame[chain.transport..end];
    let header = match chain.fragment {
        Fragment::Later { .. } => Transport::None,
        fragment => transport::parse(payload, chain.protocol, Family::V6, fragment)?,
    };
    Ok(Packet {
        family: Family::V6,
        ip: ip as u16,
        transport: chain.transport as u16,
        end: end as u32,
        source,
        destination,
        protocol: chain.protocol,
        fragment: chain.fragment,
        header,
    })
}

fn address(header: &[u8; HEADER_LEN], offset: usize) -> Address {
    let mut octets = [0; 16];
    octets.copy_from_slice(&header[offset..offset + 16]);
    Address::v6(octets)
}

/// Where a chain of extension headers ends.
pub(super) struct Chain {
    pub(super) protocol: IpProtocol,
    pub(super) transport: usize,
    pub(super) fragment: Fragment,
}

impl Chain {
    /// Walks exactly the headers that have the common layout. Any other next header is terminal, whatever its
    /// bytes look like: taking them for a header would make up ports.
    pub(super) fn walk(packet: &[u8], first: usize, next: u8) -> Result<Self, DropReason> {
        let mut chain = Self { protocol: IpProtocol(next), transport: first, fragment: Fragment::Whole };
        let mut fragment_headers = 0;
        for position in 0..=MAX_EXTENSIONS {
            let next = chain.protocol.0;
            if !matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS) {
                return Ok(chain);
            }
            if next == HOP_BY_HOP && position != 0 {
                return Err(DropReason::InvalidExtension);
            }
            let Some(extension) = packet.get(chain.transport..).filter(|rest| rest.len() >= 8) else {
                return Err(DropReason::InvalidExtension);
            };
            // A packet to be source-routed by its receiver (RFC 5095) gets around what we decided about it.
            if next == ROUTING && extension[3] != 0 {
                return Err(DropReason::InvalidExtension);
            }
            // Its fixed part alone is longer than that (RFC 4302 section 2).
            if next == AUTHENTICATION && extension[1] == 0 {
                return Err(DropReason::InvalidExtension);
            }
            let len = match next {
                FRAGMENT => 8,
                AUTHENTICATION => (usize::from(extension[1]) + 2) * 4,
                _ => (usize::from(extension[1]) + 1) * 8,
            };
            if extension.len() < len {
                return Err(DropReason::InvalidExtension);
            }
            chain.protocol = IpProtocol(extension[0]);
            chain.transport += len;
            if next == FRAGMENT {
                fragment_headers += 1;
                if fragment_headers > 1 {
                    return Err(DropReason::InvalidExtension);
                }
                // What no datagram can have: a fragment that ends behind the largest.
                let offset = usize::from(read_u16(extension, 2) & !7);
                if offset + packet.len().saturating_sub(chain.transport) > MAX_DATAGRAM {
                    return Err(DropReason::InvalidExtension);
                }
                chain.fragment = fragment(extension);
                if matches!(chain.fragment, Fragment::Later { .. }) {
                    return Ok(chain);
                }
            }
        }
        Err(DropReason::InvalidExtension)
    }
}

fn fragment(extension: &[u8]) -> Fragment {
    let offset_and_flags = read_u16(extension, 2);
    let id = read_u32(extension, 4);
    match (offset_and_flags >> 3, offset_and_flags & 1) {
        (0, 0) => Fragment::Whole,
        (0, _) => Fragment::First { id },
        _ => Fragment::Later { id },
    }
}
