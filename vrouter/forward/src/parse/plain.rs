//! The headers that nearly every packet has, read at fixed offsets: an untagged frame, IPv4 without options or IPv6
//! without extension headers, whole, and TCP or UDP.
//!
//! Whatever is read here, [`super::parse`] reads in the same way; what is not has to go through that. What may not
//! appear in any header is only checked as far as a flow that is in the table does not already vouch for it: no flow has
//! a source that is multicast, or no port.

use vrouter_objects::IpProtocol;

use super::{ETHERNET_HEADER, TcpFlags, ethernet};
use crate::address::Family;

const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;
const TCP_HEADER: usize = 20;
/// The first byte of an IPv4 header without options.
const VERSION_4_FIVE_WORDS: u8 = 0x45;
/// "More fragments" and the offset: any of them makes a fragment.
const FRAGMENT_MASK: u16 = 0x3fff;
/// The upper half of an IPv4 address in its table form, and its 16 bits above the address itself.
const V4_MAPPED: u64 = 0xffff;

/// The headers of such a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plain {
    pub(crate) family: Family,
    /// TCP or UDP.
    pub(crate) protocol: IpProtocol,
    /// Of UDP: none.
    pub(crate) flags: TcpFlags,
    /// Bytes of IP and transport header.
    pub(crate) headers_len: u8,
    /// Bytes from the IP header on.
    pub(crate) ip_len: u32,
    /// Source and destination address, the upper 64 bits of each first, in the form that tables have.
    pub(crate) addresses: [u64; 4],
    /// Source port, destination port.
    pub(crate) ports: u32,
}

impl Plain {
    /// Reads a frame; `None` if it is anything else.
    #[inline(always)]
    pub(crate) fn read(frame: &[u8]) -> Option<Self> {
        let ethernet: &[u8; ETHERNET_HEADER] = frame.first_chunk()?;
        match u16::from_be_bytes([ethernet[12], ethernet[13]]) {
            ethernet::IPV4 => Self::v4(&frame[ETHERNET_HEADER..]),
            ethernet::IPV6 => Self::v6(&frame[ETHERNET_HEADER..]),
            _ => None,
        }
    }

    #[inline(always)]
    fn v4(packet: &[u8]) -> Option<Self> {
        let head: &[u8; IPV4_HEADER + UDP_HEADER] = packet.first_chunk()?;
        let ip_len = usize::from(word(head, 2));
        if head[0] != VERSION_4_FIVE_WORDS || word(head, 6) & FRAGMENT_MASK != 0 || ip_len > packet.len() {
            return None;
        }
        let address = |at| V4_MAPPED << 32 | u64::from(double(head, at));
        let addresses = [0, address(12), 0, address(16)];
        Self::transport::<IPV4_HEADER>(&packet[..ip_len], Family::V4, head[9], addresses)
    }

    #[inline(always)]
    fn v6(packet: &[u8]) -> Option<Self> {
        let head: &[u8; IPV6_HEADER + UDP_HEADER] = packet.first_chunk()?;
        let payload_len = usize::from(word(head, 4));
        let ip_len = IPV6_HEADER + payload_len;
        if head[0] >> 4 != 6 || payload_len == 0 || ip_len > packet.len() {
            return None;
        }
        let half = |at| u64::from(double(head, at)) << 32 | u64::from(double(head, at + 4));
        let addresses = [half(8), half(16), half(24), half(32)];
        let mapped = |high: u64, low: u64| high == 0 && low >> 32 == V4_MAPPED;
        if mapped(addresses[0], addresses[1]) || mapped(addresses[2], addresses[3]) {
            return None;
        }
        Self::transport::<IPV6_HEADER>(&packet[..ip_len], Family::V6, head[6], addresses)
    }

    /// The transport header of an IP packet whose IP header has `IP` bytes.
    #[inline(always)]
    fn transport<const IP: usize>(
        packet: &[u8],
        family: Family,
        protocol: u8,
        addresses: [u64; 4],
    ) -> Option<Self> {
        let (header_len, flags) = match IpProtocol(protocol) {
            IpProtocol::UDP => {
                let header: &[u8; UDP_HEADER] = packet.get(IP..)?.first_chunk()?;
                let len = usize::from(word(header, 4));
                if len < UDP_HEADER || len > packet.len() - IP {
                    return None;
                }
                (UDP_HEADER, TcpFlags(0))
            }
            IpProtocol::TCP => {
                let header: &[u8; TCP_HEADER] = packet.get(IP..)?.first_chunk()?;
                let len = usize::from(header[12] >> 4) * 4;
                if len < TCP_HEADER || len > packet.len() - IP {
                    return None;
                }
                (len, TcpFlags(header[13]))
            }
            _ => return None,
        };
        let ports: &[u8; 4] = packet.get(IP..)?.first_chunk()?;
        Some(Self {
            family,
            protocol: IpProtocol(protocol),
            flags,
            headers_len: (IP + header_len) as u8,
            ip_len: packet.len() as u32,
            addresses,
            ports: u32::from_be_bytes(*ports),
        })
    }
}

#[inline(always)]
fn word<const N: usize>(header: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([header[at], header[at + 1]])
}

#[inline(always)]
fn double<const N: usize>(header: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}
