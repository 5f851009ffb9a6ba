//! Changing the headers that nearly every packet has, at fixed offsets: see [`crate::parse::Plain`].

use vrouter_objects::IpProtocol;

use super::Endpoint;
use crate::address::Family;
use crate::checksum::{Delta, udp_checksum};
use crate::frame::Checksum;
use crate::parse::ETHERNET_HEADER;

/// Bytes of a frame up to the end of a UDP header.
const V4_HEADERS: usize = ETHERNET_HEADER + 20 + 8;
const V6_HEADERS: usize = ETHERNET_HEADER + 40 + 8;
/// Where the checksum stands in a TCP and in a UDP header.
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;

/// Which end of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Source address and port.
    Source,
    /// Destination address and port.
    Destination,
}

/// What to change in a plain packet, besides that it loses a hop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlainRewrite {
    pub(crate) family: Family,
    pub(crate) protocol: IpProtocol,
    pub(crate) translation: Option<(Side, Endpoint)>,
}

impl PlainRewrite {
    /// Changes the frame; `None`, and nothing done, where that takes more than a change: no hop is left, or a checksum
    /// is missing that must be there.
    #[inline(always)]
    pub(crate) fn apply(self, frame: &mut [u8], checksum: Checksum) -> Option<()> {
        match self.family {
            Family::V4 => self.v4(frame, checksum),
            Family::V6 => self.v6(frame, checksum),
        }
    }

    #[inline(always)]
    fn v4(self, frame: &mut [u8], checksum: Checksum) -> Option<()> {
        let head: &mut [u8; V4_HEADERS] = frame.first_chunk_mut()?;
        let ip = ETHERNET_HEADER;
        if head[ip + 8] <= 1 {
            return None;
        }
        let mut ip_delta = Delta::HOP;
        if let Some((side, to)) = self.translation {
            let (address_at, port_at) = match side {
                Side::Source => (ip + 12, ip + 20),
                Side::Destination => (ip + 16, ip + 22),
            };
            let new = to.address.bits() as u32;
            let addresses = Delta::default().double(get_double(head, address_at), new);
            put_double(head, address_at, new);
            let ports = Delta::default().word(get(head, port_at), to.port);
            put(head, port_at, to.port);
            ip_delta = ip_delta.and(addresses);
            self.adjust::<{ ETHERNET_HEADER + 20 }>(frame, checksum, addresses, ports);
        }
        let head: &mut [u8; V4_HEADERS] = frame.first_chunk_mut()?;
        head[ip + 8] -= 1;
        put(head, ip + 10, ip_delta.apply(get(head, ip + 10)));
        Some(())
    }

    #[inline(always)]
    fn v6(self, frame: &mut [u8], checksum: Checksum) -> Option<()> {
        let head: &mut [u8; V6_HEADERS] = frame.first_chunk_mut()?;
        let ip = ETHERNET_HEADER;
        if head[ip + 7] <= 1 {
            return None;
        }
        if let Some((side, to)) = self.translation {
            let partial = matches!(checksum, Checksum::Partial { .. });
            // Without a checksum, nothing would protect the addresses (RFC 8200 section 8.1).
            if self.protocol == IpProtocol::UDP && !partial && get(head, ip + 40 + UDP_CHECKSUM) == 0 {
                return None;
            }
            let (address_at, port_at) = match side {
                Side::Source => (ip + 8, ip + 40),
                Side::Destination => (ip + 24, ip + 42),
            };
            let new = to.address.v6_octets();
            let mut addresses = Delta::default();
            for (number, part) in new.as_chunks::<4>().0.iter().enumerate() {
                let (at, part) = (address_at + 4 * number, u32::from_be_bytes(*part));
                addresses = addresses.double(get_double(head, at), part);
                put_double(head, at, part);
            }
            let ports = Delta::default().word(get(head, port_at), to.port);
            put(head, port_at, to.port);
            self.adjust::<{ ETHERNET_HEADER + 40 }>(frame, checksum, addresses, ports);
        }
        frame[ip + 7] -= 1;
        Some(())
    }

    /// Adjusts the checksum of the transport header at `TRANSPORT`.
    #[inline(always)]
    fn adjust<const TRANSPORT: usize>(
        self,
        frame: &mut [u8],
        checksum: Checksum,
        addresses: Delta,
        ports: Delta,
    ) {
        let at = match self.protocol {
            IpProtocol::TCP => TRANSPORT + TCP_CHECKSUM,
            _ => TRANSPORT + UDP_CHECKSUM,
        };
        let Some(field) = frame.get_mut(at..at + 2) else { return };
        let old = u16::from_be_bytes([field[0], field[1]]);
        let new = match checksum {
            // It holds the pseudo-header's sum and nothing else.
            Checksum::Partial { .. } => addresses.apply_to_sum(old),
            _ if self.protocol == IpProtocol::TCP => addresses.and(ports).apply(old),
            // There is none (RFC 768).
            _ if old == 0 => old,
            _ => udp_checksum(addresses.and(ports).apply(old)),
        };
        field.copy_from_slice(&new.to_be_bytes());
    }
}

#[inline(always)]
fn get<const N: usize>(head: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([head[at], head[at + 1]])
}

#[inline(always)]
fn put<const N: usize>(head: &mut [u8; N], at: usize, value: u16) {
    [head[at], head[at + 1]] = value.to_be_bytes();
}

#[inline(always)]
fn get_double<const N: usize>(head: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

#[inline(always)]
fn put_double<const N: usize>(head: &mut [u8; N], at: usize, value: u32) {
    [head[at], head[at + 1], head[at + 2], head[at + 3]] = value.to_be_bytes();
}
