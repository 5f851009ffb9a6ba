//! Gathering a run of packets into one super-frame: the reverse of [`Cut`](super::Cut).
//!
//! A run is packets of one flow, one right behind the other, that differ in nothing but what cutting writes
//! anew: IPv4 id and checksum, TCP sequence number, lengths, checksums. So cutting the super-frame again
//! gives the same packets, and whoever receives it may cut it or take it whole. In doubt a packet is left as
//! it is.

use std::num::NonZeroU16;
use std::ops::Range;

use super::checksum::{
    has_ip_length, has_valid_checksum, has_valid_ip_header, pseudo_header_sum, write_ip_length,
};
use super::layout::{ETHERNET_LEN, IPV4_FLAGS, IPV4_ID, Layout, TCP_FLAGS, TCP_SEQUENCE, UDP_LENGTH};
use super::{MAX_GATHERED, MAX_SEGMENTS};
use crate::address::Family;
use crate::frame::{Checksum, Offload, SegmentKind, Segmentation};
use crate::parse::{TcpFlags, read_u16, read_u32, write_u16};

/// The bit of an IPv4 header's flags that forbids to fragment it.
const DONT_FRAGMENT: u8 = 0x40;

/// A run of packets that can become one super-frame.
#[derive(Debug, Clone)]
pub struct Run {
    layout: Layout,
    /// Whether the first packet's checksum is known to be right; it is read only once there is a second
    /// packet.
    is_verified: bool,
    count: usize,
    /// Payload of the first packet, and of every other but perhaps the last.
    size: NonZeroU16,
    payload_len: usize,
    /// By how much the IPv4 id grows from one packet to the next, once there are two.
    id_step: Option<u16>,
    is_pushed: bool,
    is_ended: bool,
}

impl Run {
    /// The run that begins with this packet; `None` if no packet can follow it.
    pub fn begin(first: &[u8], offload: &Offload) -> Option<Self> {
        let layout = gatherable(first, offload)?;
        if is_pushed(first, &layout) {
            return None;
        }
        Some(Self {
            layout,
            is_verified: offload.checksum != Checksum::Unverified,
            count: 1,
            size: u16::try_from(layout.payload_len()).ok().and_then(NonZeroU16::new)?,
            payload_len: layout.payload_len(),
            id_step: None,
            is_pushed: false,
            is_ended: false,
        })
    }

    /// Takes the next packet into the run, if it continues it. `first` is the first packet; more may follow
    /// it.
    ///
    /// The next one is not parsed: whatever has the same headers has the same layout. So a packet of which
    /// nothing is known, [`Offload::default`], costs no more than being compared and summed.
    pub fn accept(&mut self, first: &[u8], next: &[u8], offload: &Offload) -> bool {
        if self.is_ended || self.count == MAX_SEGMENTS || offload.segmentation.is_some() {
            return false;
        }
        let Some(layout) = self.layout.of_whole(next.len()) else { return false };
        if !self.has_room(&layout) || !self.is_same_flow(first, next) || !is_sound(next, &layout) {
            return false;
        }
        let id_step = self.next_id_step(first, next);
        if id_step.is_none() || !self.verify(first, next, &layout, offload) {
            return false;
        }
        self.id_step = id_step;
        self.count += 1;
        self.payload_len += layout.payload_len();
        self.is_pushed = is_pushed(next, &layout);
        self.is_ended = self.is_pushed || layout.payload_len() < usize::from(self.size.get());
        true
    }

    /// How many packets the run has.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Its IP version.
    pub const fn family(&self) -> Family {
        self.layout.family()
    }

    /// Its transport protocol.
    pub const fn kind(&self) -> SegmentKind {
        self.layout.kind()
    }

    /// How many bytes of headers each of its packets has; all that follows in each is payload.
    pub const fn header_len(&self) -> usize {
        self.layout.payload()
    }

    /// Turns the first packet's headers, alone or with the first payload behind them, into the super-frame's,
    /// and says how it is to be completed.
    ///
    /// # Panics
    /// If `headers` is shorter than [`Run::header_len`].
    pub fn write_headers(&self, headers: &mut [u8]) -> Offload {
        let transport = self.layout.transport();
        let transport_len = self.header_len() - transport + self.payload_len;
        match self.layout.kind() {
            SegmentKind::Tcp if self.is_pushed => headers[transport + TCP_FLAGS] |= TcpFlags::PSH,
            SegmentKind::Tcp => {}
            SegmentKind::Udp => write_u16(headers, transport + UDP_LENGTH, transport_len as u16),
        }
        write_ip_length(headers, &self.layout, transport_len);
        let seed = pseudo_header_sum(headers, &self.layout, transport_len);
        let offset = self.layout.checksum_offset();
        write_u16(headers, transport + offset, seed);
        Offload {
            checksum: Checksum::Partial { start: transport as u16, offset: offset as u16 },
            segmentation: Some(Segmentation { kind: self.layout.kind(), size: self.size }),
        }
    }

    fn has_room(&self, next: &Layout) -> bool {
        next.payload_len() <= usize::from(self.size.get())
            && self.header_len() + self.payload_len + next.payload_len() <= MAX_GATHERED
    }

    /// Whether everything but what cutting writes anew is the same in both packets, and the next one's place
    /// in the stream is behind the run.
    fn is_same_flow(&self, first: &[u8], next: &[u8]) -> bool {
        let same = |range: Range<usize>| first[range.clone()] == next[range];
        let transport = self.layout.transport();
        let is_same_path = same(0..ETHERNET_LEN)
            && match self.layout.family() {
                // Version, TOS; flags and offset, TTL, protocol; addresses.
                Family::V4 => same(14..16) && same(20..24) && same(26..34),
                // Version, class, flow label; next header, hop limit, addresses.
                Family::V6 => same(14..18) && same(20..54),
            }
            && same(transport..transport + 4);
        is_same_path
            && match self.layout.kind() {
                SegmentKind::Udp => true,
                SegmentKind::Tcp => {
                    let expected =
                        read_u32(first, transport + TCP_SEQUENCE).wrapping_add(self.payload_len as u32);
                    read_u32(next, transport + TCP_SEQUENCE) == expected
                        // Acknowledgement, data offset; window; urgent pointer and options.
                        && same(transport + 8..transport + TCP_FLAGS)
                        && same(transport + 14..transport + 16)
                        && same(transport + 18..self.layout.payload())
                }
            }
    }

    /// By how much the id of `next` shows ids to grow, if that goes with the run. They grow by one, as
    /// cutting makes them; or not at all where they mean nothing, in packets that are never fragmented (RFC
    /// 6864).
    fn next_id_step(&self, first: &[u8], next: &[u8]) -> Option<u16> {
        if self.layout.family() == Family::V6 {
            return Some(0);
        }
        let field = self.layout.network() + IPV4_ID;
        let distance = read_u16(next, field).wrapping_sub(read_u16(first, field));
        let may_stay = first[self.layout.network() + IPV4_FLAGS] & DONT_FRAGMENT != 0;
        let step = match distance {
            0 if may_stay => 0,
            _ if usize::from(distance) == self.count => 1,
            _ => return None,
        };
        self.id_step.is_none_or(|so_far| so_far == step).then_some(step)
    }

    /// Whether both checksums are right, so that writing them anew hides nothing.
    fn verify(&mut self, first: &[u8], next: &[u8], next_layout: &Layout, offload: &Offload) -> bool {
        self.is_verified = self.is_verified || has_valid_checksum(first, &self.layout);
        self.is_verified
            && (offload.checksum != Checksum::Unverified || has_valid_checksum(next, next_layout))
    }
}

/// The layout of a packet that may be part of a run: one whole, plain packet with payload, that asks for
/// nothing special.
fn gatherable(frame: &[u8], offload: &Offload) -> Option<Layout> {
    if offload.segmentation.is_some() {
        return None;
    }
    let layout = Layout::of(frame)?;
    let is_whole = layout.end() == frame.len() && layout.payload_len() > 0;
    (layout.is_plain() && is_whole && is_sound(frame, &layout)).then_some(layout)
}

/// Whether what may differ between the packets of a flow is as it is in a plain packet of this layout, but
/// for the transport checksum.
fn is_sound(frame: &[u8], layout: &Layout) -> bool {
    let transport = layout.transport();
    let is_ordinary = match layout.kind() {
        SegmentKind::Tcp => frame[transport + TCP_FLAGS] & !TcpFlags::PSH == TcpFlags::ACK,
        SegmentKind::Udp => {
            let has_checksum = read_u16(frame, transport + layout.checksum_offset()) != 0;
            let length = usize::from(read_u16(frame, transport + UDP_LENGTH));
            has_checksum && length == layout.end() - transport
        }
    };
    is_ordinary && has_ip_length(frame, layout) && has_valid_ip_header(frame, layout)
}

fn is_pushed(frame: &[u8], layout: &Layout) -> bool {
    layout.kind() == SegmentKind::Tcp && frame[layout.transport() + TCP_FLAGS] & TcpFlags::PSH != 0
}

#[cfg(test)]
mod tests;
