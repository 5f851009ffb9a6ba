//! The headers that nearly every packet has, read at fixed offsets: an untagged frame, IPv4 without options or IPv6
//! without extension headers, whole, and TCP or UDP.
//!
//! Whatever is read here, [`super::parse`] reads in the same way; what is not has to go through that. What may not
//! appear in any header is only checked as far as a flow that is in the table does not already vouch for it: no flow has
//! a source that is multicast, or no port.

use vrouter_objects::IpProtocol;

use super::{ETHERNET_HEADER, TcpFlags, ethernet};
use crate::flow::Seen;
use crate::frame::{Frame, HEAD};

const UDP_HEADER: usize = 8;
const TCP_HEADER: usize = 20;

/// The beginning of a frame, longer than any header that is read here.
pub(crate) type Head = [u8; HEAD];

/// Such a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plain {
    /// Source and destination address, the upper 64 bits of each first, in the form that tables have.
    pub(crate) addresses: [u64; 4],
    /// Source port, destination port.
    pub(crate) ports: u32,
    /// What its headers are besides.
    pub(crate) headers: PlainHeaders,
}

/// What its headers are, besides who it is from and for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlainHeaders {
    /// Bytes of the whole packet, from the IP header on.
    pub(crate) ip_len: u32,
    /// Bytes of IP and transport header.
    pub(crate) len: u16,
    /// TCP or UDP.
    pub(crate) protocol: IpProtocol,
    /// What a flow must have shown for this packet to change nothing about it.
    pub(crate) settled: Seen,
}

impl PlainHeaders {
    /// Of no packet.
    pub(crate) const NONE: Self = Self { protocol: IpProtocol(0), settled: Seen::any(), len: 0, ip_len: 0 };
}

/// Which IP header it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlainVersion {
    /// [`PlainV4`].
    V4,
    /// [`PlainV6`].
    V6,
}

/// An IP header of fixed length. What depends on the version is compiled for each by itself.
pub(crate) trait PlainIp {
    /// The version's name.
    const VERSION: PlainVersion;
    /// Its EtherType.
    const ETHERTYPE: u16;
    /// Bytes of IP header.
    const LEN: usize;
    /// Offset of the hop limit in it.
    const HOPS: usize;
    /// Offset of the source address.
    const SOURCE: usize;
    /// Bytes of an address; the destination follows the source.
    const ADDRESS: usize;

    /// Length of the packet and its protocol as its header has them; `None` if it is not plain.
    fn read(head: &Head) -> Option<(usize, IpProtocol)>;

    /// Source and destination address as in [`Plain::addresses`].
    fn addresses(head: &Head) -> Option<[u64; 4]>;
}

/// IPv4 without options.
pub(crate) enum PlainV4 {}

/// IPv6 without extension headers.
pub(crate) enum PlainV6 {}

impl PlainVersion {
    /// The version of a frame that may be plain.
    pub(crate) fn of(frame: &Frame) -> Option<Self> {
        match word(frame.head()?, 12) {
            _ if frame.len() < ETHERNET_HEADER => None,
            ethernet::IPV4 => Some(Self::V4),
            ethernet::IPV6 => Some(Self::V6),
            _ => None,
        }
    }
}

impl Plain {
    /// Reads a frame of this version; `None` if it is not plain.
    #[inline(always)]
    pub(crate) fn read<Ip: PlainIp>(head: &Head, frame_len: usize) -> Option<Self> {
        let transport = ETHERNET_HEADER + Ip::LEN;
        let (ip_len, protocol) = Ip::read(head)?;
        if ETHERNET_HEADER + ip_len > frame_len {
            return None;
        }
        // Too short for an IP header is too short for any transport's.
        let payload_len = ip_len.wrapping_sub(Ip::LEN) as isize;
        let (header_len, settled) = match protocol {
            IpProtocol::TCP => {
                let len = usize::from(head[transport + 12] >> 4) * 4;
                let is_sound = len >= TCP_HEADER && len as isize <= payload_len;
                is_sound.then_some((len, Seen::settled_for(TcpFlags(head[transport + 13]))))?
            }
            IpProtocol::UDP => {
                let len = usize::from(word(head, transport + 4));
                let is_sound = len >= UDP_HEADER && len as isize <= payload_len;
                is_sound.then_some((UDP_HEADER, Seen::any()))?
            }
            _ => return None,
        };
        let headers = PlainHeaders {
            protocol,
            settled,
            len: (Ip::LEN + header_len) as u16,
            ip_len: ip_len as u32,
        };
        Some(Self { addresses: Ip::addresses(head)?, ports: double(head, transport), headers })
    }
}

/// The first byte of an IPv4 header without options.
const VERSION_4_FIVE_WORDS: u8 = 0x45;
/// "More fragments" and the offset: any of them makes a fragment.
const FRAGMENT_MASK: u16 = 0x3fff;
/// What stands above an IPv4 address in its table form.
const V4_MAPPED: u64 = 0xffff << 32;

impl PlainIp for PlainV4 {
    const VERSION: PlainVersion = PlainVersion::V4;
    const ETHERTYPE: u16 = ethernet::IPV4;
    const LEN: usize = 20;
    const HOPS: usize = 8;
    const SOURCE: usize = 12;
    const ADDRESS: usize = 4;

    #[inline(always)]
    fn read(head: &Head) -> Option<(usize, IpProtocol)> {
        let ip = ETHERNET_HEADER;
        let is_plain = head[ip] == VERSION_4_FIVE_WORDS && word(head, ip + 6) & FRAGMENT_MASK == 0;
        is_plain.then_some((word(head, ip + 2).into(), IpProtocol(head[ip + 9])))
    }

    #[inline(always)]
    fn addresses(head: &Head) -> Option<[u64; 4]> {
        let address = |at| V4_MAPPED | u64::from(double(head, ETHERNET_HEADER + at));
        Some([0, address(12), 0, address(16)])
    }
}

impl PlainIp for PlainV6 {
    const VERSION: PlainVersion = PlainVersion::V6;
    const ETHERTYPE: u16 = ethernet::IPV6;
    const LEN: usize = 40;
    const HOPS: usize = 7;
    const SOURCE: usize = 8;
    const ADDRESS: usize = 16;

    #[inline(always)]
    fn read(head: &Head) -> Option<(usize, IpProtocol)> {
        let ip = ETHERNET_HEADER;
        let ip_len = Self::LEN + usize::from(word(head, ip + 4));
        (head[ip] >> 4 == 6).then_some((ip_len, IpProtocol(head[ip + 6])))
    }

    #[inline(always)]
    fn addresses(head: &Head) -> Option<[u64; 4]> {
        let half = |at| {
            let at = ETHERNET_HEADER + at;
            u64::from(double(head, at)) << 32 | u64::from(double(head, at + 4))
        };
        let addresses = [half(8), half(16), half(24), half(32)];
        // Such a packet would bear an IPv4 host's name.
        let is_mapped = |high: u64, low: u64| high == 0 && low >> 32 == V4_MAPPED >> 32;
        let [source_high, source_low, destination_high, destination_low] = addresses;
        let is_sound = !is_mapped(source_high, source_low) && !is_mapped(destination_high, destination_low);
        is_sound.then_some(addresses)
    }
}

/// The 16-bit field at a fixed offset.
#[inline(always)]
fn word(head: &Head, at: usize) -> u16 {
    u16::from_be_bytes([head[at], head[at + 1]])
}

/// The 32-bit field at a fixed offset.
#[inline(always)]
fn double(head: &Head, at: usize) -> u32 {
    u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}
