//! Cutting a super-frame into the packets its sender left it to stand for (TSO, USO).

use vrouter_arch::checksum::{add, sum};

use super::checksum::{pseudo_header_sum, write_ip_length};
use super::layout::{IPV4_ID, Layout, TCP_FLAGS, TCP_SEQUENCE, UDP_LENGTH};
use crate::address::Family;
use crate::checksum::udp_checksum;
use crate::frame::{Checksum, Frame, Offload, SegmentKind, Segmentation};
use crate::parse::{TcpFlags, read_u16, read_u32, write_u16, write_u32};

/// TCP flags that only the last segment has.
const LAST_ONLY: u8 = TcpFlags::FIN | TcpFlags::PSH;
/// The TCP flag that only the first segment has.
const FIRST_ONLY: u8 = TcpFlags::CWR;

/// What becomes of each segment's checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentChecksum {
    /// Computed, for an egress that takes complete packets only.
    Full,
    /// The pseudo-header's sum, for an egress that completes it.
    Partial,
}

/// How a super-frame is cut: which headers and which bytes of payload make each of its packets.
///
/// It borrows nothing, so a caller can keep the frame, write each packet's headers where they suit it, and
/// send them together with the payload where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    layout: Layout,
    size: usize,
}

impl Cut {
    /// How this super-frame is cut. `None` if it is not a packet of that transport, or a fragment.
    pub fn of(frame: &[u8], segmentation: Segmentation) -> Option<Self> {
        let layout = Layout::of(frame).filter(|layout| layout.kind() == segmentation.kind)?;
        Some(Self { layout, size: usize::from(segmentation.size.get()) })
    }

    /// How many packets it becomes; one if the payload is not longer than a segment's.
    pub fn count(&self) -> usize {
        self.layout.payload_len().div_ceil(self.size).max(1)
    }

    /// Its IP version.
    pub const fn family(&self) -> Family {
        self.layout.family()
    }

    /// How many bytes of headers each packet has, from the Ethernet header on.
    pub const fn header_len(&self) -> usize {
        self.layout.payload()
    }

    /// How long the frames of its packets are; the last may be shorter.
    pub fn frame_len(&self) -> usize {
        self.header_len() + self.size.min(self.layout.payload_len())
    }

    /// The payload of packet `index`.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn payload<'f>(&self, frame: &'f [u8], index: usize) -> &'f [u8] {
        let payload = &frame[self.layout.payload()..self.layout.end()];
        let start = index * self.size;
        &payload[start..payload.len().min(start + self.size)]
    }

    /// Writes the headers of packet `index` into `headers`, which has [`Cut::header_len`] bytes.
    ///
    /// # Panics
    /// If there are not so many packets, or `headers` has another length.
    pub fn write_headers(&self, frame: &[u8], index: usize, checksum: SegmentChecksum, headers: &mut [u8]) {
        headers.copy_from_slice(&frame[..self.header_len()]);
        let payload = self.payload(frame, index);
        let transport_len = self.header_len() - self.layout.transport() + payload.len();
        match self.layout.kind() {
            SegmentKind::Tcp => self.advance_tcp(headers, index),
            SegmentKind::Udp => {
                write_u16(headers, self.layout.transport() + UDP_LENGTH, transport_len as u16)
            }
        }
        if self.layout.family() == Family::V4 {
            let field = self.layout.network() + IPV4_ID;
            let id = read_u16(headers, field);
            write_u16(headers, field, id.wrapping_add(index as u16));
        }
        write_ip_length(headers, &self.layout, transport_len);
        self.write_checksum(headers, payload, checksum);
    }

    /// Writes the checksums of the whole super-frame as an egress wants them that does the cutting: the IPv4
    /// header's, which not every sender of super-frames computes, and the pseudo-header's sum.
    ///
    /// # Panics
    /// If `frame` is shorter than the frame it was made for.
    pub fn write_whole_checksums(&self, frame: &mut [u8]) {
        let transport_len = self.layout.end() - self.layout.transport();
        write_ip_length(frame, &self.layout, transport_len);
        let seed = pseudo_header_sum(frame, &self.layout, transport_len);
        write_u16(frame, self.layout.transport() + self.layout.checksum_offset(), seed);
    }

    /// Makes packet `index` the contents of `segment`, with the super-frame's ingress and egress.
    ///
    /// # Panics
    /// If there are not so many packets, or `segment` has too little room.
    pub fn copy_segment(&self, frame: &Frame, index: usize, checksum: SegmentChecksum, segment: &mut Frame) {
        let payload = self.payload(frame.bytes(), index);
        segment.set_len(self.header_len() + payload.len());
        let (headers, body) = segment.bytes_mut().split_at_mut(self.header_len());
        body.copy_from_slice(payload);
        self.write_headers(frame.bytes(), index, checksum, headers);
        segment.offload = Offload { checksum: self.checksum_state(checksum), segmentation: None };
        segment.ingress = frame.ingress;
        segment.egress = frame.egress;
    }

    /// A segment's place in the stream, and the flags that belong there.
    fn advance_tcp(&self, headers: &mut [u8], index: usize) {
        let sequence = self.layout.transport() + TCP_SEQUENCE;
        let first = read_u32(headers, sequence);
        write_u32(headers, sequence, first.wrapping_add((index * self.size) as u32));
        let flags = &mut headers[self.layout.transport() + TCP_FLAGS];
        if index > 0 {
            *flags &= !FIRST_ONLY;
        }
        if index + 1 < self.count() {
            *flags &= !LAST_ONLY;
        }
    }

    fn write_checksum(&self, headers: &mut [u8], payload: &[u8], checksum: SegmentChecksum) {
        let transport = self.layout.transport();
        let field = transport + self.layout.checksum_offset();
        let seed = pseudo_header_sum(headers, &self.layout, headers.len() - transport + payload.len());
        write_u16(headers, field, seed);
        if checksum == SegmentChecksum::Full {
            // Both transport headers have an even length, so the payload begins with a whole word.
            let full = !add(sum(&headers[transport..]), sum(payload));
            let is_udp = self.layout.kind() == SegmentKind::Udp;
            write_u16(headers, field, if is_udp { udp_checksum(full) } else { full });
        }
    }

    fn checksum_state(&self, checksum: SegmentChecksum) -> Checksum {
        match checksum {
            SegmentChecksum::Full => Checksum::Valid,
            SegmentChecksum::Partial => Checksum::Partial {
                start: self.layout.transport() as u16,
                offset: self.layout.checksum_offset() as u16,
            },
        }
    }
}

#[cfg(test)]
mod tests;
