//! The headers that nearly every packet has, read at fixed offsets: an untagged frame, IPv4 without options
//! or IPv6 without extension headers, whole, and TCP or UDP.
//!
//! Whatever is read here, [`super::parse`] reads in the same way; what is not has to go through that. What
//! may not appear in any header is only checked as far as a flow does not vouch for it: a flow is settled by
//! a packet of its own that [`super::parse`] has read, so it has no address and no port that no packet may
//! have.

use vrouter_objects::IpProtocol;

use super::head::{Head, get_double, get_word};
use super::transport::{TCP_HEADER, UDP_HEADER};
use super::{ETHERNET_HEADER, Fragment, Packet, TcpFlags, Transport, ethernet, ipv4, ipv6};
use crate::address::{Address, Family};
use crate::flow::{FlowKey, Seen};
use crate::frame::Frame;

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
    pub(crate) const NONE: Self = Self { protocol: IpProtocol(0), settled: Seen::ANY, len: 0, ip_len: 0 };

    /// Reads them from a frame of this version; `None` if it is not plain.
    ///
    /// In place, and each field by itself: a value on its way through registers would be packed there and
    /// unpacked again.
    #[inline(always)]
    pub(crate) fn read<Ip: PlainIp>(&mut self, head: &Head, frame_len: usize) -> Option<()> {
        let transport = ETHERNET_HEADER + Ip::LEN;
        let (ip_len, protocol) = Ip::read(head)?;
        if ETHERNET_HEADER + ip_len > frame_len {
            return None;
        }
        self.ip_len = ip_len as u32;
        self.protocol = protocol;
        match protocol {
            IpProtocol::TCP => {
                let len = Ip::LEN + usize::from(head[transport + 12] >> 4) * 4;
                if len < Ip::LEN + TCP_HEADER || len > ip_len {
                    return None;
                }
                self.len = len as u16;
                self.settled = Seen::settled_for(Some(TcpFlags(head[transport + 13])));
            }
            IpProtocol::UDP => {
                let datagram = usize::from(get_word(head, transport + 4));
                if datagram < UDP_HEADER || Ip::LEN + datagram > ip_len {
                    return None;
                }
                self.len = (Ip::LEN + UDP_HEADER) as u16;
                self.settled = Seen::settled_for(None);
            }
            _ => return None,
        }
        Some(())
    }

    /// Those of a packet that the long way has read; `None` if it is not plain.
    pub(crate) fn of(packet: &Packet) -> Option<Self> {
        let ip_header_len = match packet.family {
            Family::V4 => PlainV4::LEN,
            Family::V6 => PlainV6::LEN,
        };
        let is_plain = usize::from(packet.ip) == ETHERNET_HEADER
            && packet.ip_header_len() == ip_header_len
            && packet.fragment == Fragment::Whole;
        let (header_len, settled) = match packet.header {
            Transport::Tcp { header_len, flags, .. } => (header_len.into(), Seen::settled_for(Some(flags))),
            Transport::Udp { .. } => (UDP_HEADER, Seen::settled_for(None)),
            _ => return None,
        };
        is_plain.then_some(Self {
            ip_len: packet.ip_len() as u32,
            len: (ip_header_len + header_len) as u16,
            protocol: packet.protocol,
            settled,
        })
    }

    /// The packet with these headers at the start of `frame`, between these endpoints. What the flow of an
    /// established packet vouches for is checked here: `None` if it does not hold.
    #[inline(always)] // What it returns would be copied otherwise.
    pub(crate) fn packet<Ip: PlainIp>(&self, frame: &Frame, key: &FlowKey) -> Option<Packet> {
        let (from, to) = (key.source, key.destination);
        // Some may send to themselves or to groups, or be nobody yet.
        (from.is_unicast() && to.is_unicast() && from != to).then_some(())?;
        let (source, destination) = (key.source_port, key.destination_port);
        let header = match self.protocol {
            IpProtocol::TCP => {
                let flags = TcpFlags(frame.head()?[ETHERNET_HEADER + Ip::LEN + 13]);
                let is_sound = flags.is_possible() && source != 0 && destination != 0;
                let header_len = (usize::from(self.len) - Ip::LEN) as u8;
                is_sound.then_some(Transport::Tcp { source, destination, flags, header_len })?
            }
            _ => (destination != 0).then_some(Transport::Udp { source, destination })?,
        };
        Some(Packet {
            family: Ip::FAMILY,
            ip: ETHERNET_HEADER as u16,
            transport: (ETHERNET_HEADER + Ip::LEN) as u16,
            end: ETHERNET_HEADER as u32 + self.ip_len,
            source: from,
            destination: to,
            protocol: self.protocol,
            fragment: Fragment::Whole,
            header,
        })
    }
}

/// An IP header of fixed length. What depends on the version is compiled for each by itself.
pub(crate) trait PlainIp {
    /// Its addresses' family.
    const FAMILY: Family;
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

    /// Source and destination address, the upper 64 bits of each first, in the form that tables have; `None`
    /// if no such packet may have them.
    fn addresses(head: &Head) -> Option<[u64; 4]>;
}

/// IPv4 without options.
pub(crate) enum PlainV4 {}

/// IPv6 without extension headers.
pub(crate) enum PlainV6 {}

/// Which IP header a frame claims to have; `None` if it may not be a plain one.
#[inline(always)]
pub(crate) fn plain_family(frame: &Frame) -> Option<Family> {
    match get_word(frame.head()?, 12) {
        _ if frame.len() < ETHERNET_HEADER => None,
        ethernet::IPV4 => Some(Family::V4),
        ethernet::IPV6 => Some(Family::V6),
        _ => None,
    }
}

/// Source and destination port of a plain packet.
#[inline(always)]
pub(crate) fn plain_ports<Ip: PlainIp>(head: &Head) -> u32 {
    get_double(head, ETHERNET_HEADER + Ip::LEN)
}

/// The first byte of an IPv4 header without options.
const VERSION_4_FIVE_WORDS: u8 = 0x45;
/// Any of these bits makes a fragment.
const FRAGMENT_MASK: u16 = ipv4::MORE_FRAGMENTS | ipv4::OFFSET_MASK;
/// What stands above an IPv4 address in the lower half of its table form; the upper half is zero.
const V4_MAPPED: u64 = Address::V4_UNSPECIFIED.bits() as u64;

impl PlainIp for PlainV4 {
    const FAMILY: Family = Family::V4;
    const LEN: usize = ipv4::MIN_HEADER;
    const HOPS: usize = 8;
    const SOURCE: usize = 12;
    const ADDRESS: usize = 4;

    #[inline(always)]
    fn read(head: &Head) -> Option<(usize, IpProtocol)> {
        let ip = ETHERNET_HEADER;
        let is_plain = head[ip] == VERSION_4_FIVE_WORDS && get_word(head, ip + 6) & FRAGMENT_MASK == 0;
        is_plain.then_some((get_word(head, ip + 2).into(), IpProtocol(head[ip + 9])))
    }

    #[inline(always)]
    fn addresses(head: &Head) -> Option<[u64; 4]> {
        let address = |at| V4_MAPPED | u64::from(get_double(head, ETHERNET_HEADER + at));
        Some([0, address(Self::SOURCE), 0, address(Self::SOURCE + Self::ADDRESS)])
    }
}

impl PlainIp for PlainV6 {
    const FAMILY: Family = Family::V6;
    const LEN: usize = ipv6::HEADER_LEN;
    const HOPS: usize = 7;
    const SOURCE: usize = 8;
    const ADDRESS: usize = 16;

    #[inline(always)]
    fn read(head: &Head) -> Option<(usize, IpProtocol)> {
        let ip = ETHERNET_HEADER;
        let ip_len = Self::LEN + usize::from(get_word(head, ip + 4));
        (head[ip] >> 4 == 6).then_some((ip_len, IpProtocol(head[ip + 6])))
    }

    #[inline(always)]
    fn addresses(head: &Head) -> Option<[u64; 4]> {
        let half = |at| {
            let at = ETHERNET_HEADER + at;
            u64::from(get_double(head, at)) << 32 | u64::from(get_double(head, at + 4))
        };
        let addresses = [half(8), half(16), half(24), half(32)];
        // Such a packet would bear an IPv4 host's name.
        let is_mapped = |high: u64, low: u64| high == 0 && low >> 32 == V4_MAPPED >> 32;
        let [source_high, source_low, destination_high, destination_low] = addresses;
        let is_sound = !is_mapped(source_high, source_low) && !is_mapped(destination_high, destination_low);
        is_sound.then_some(addresses)
    }
}
