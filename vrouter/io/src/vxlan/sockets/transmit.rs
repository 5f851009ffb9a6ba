//! Sending frames through a tunnel: VXLAN header on, checksums finished, super-frames cut, and as many packets of one
//! flow as possible in one call (UDP_SEGMENT).

use std::io::{self, IoSlice};
use std::net::IpAddr;

use vrouter_forward::frame::{Egress, Frame};
use vrouter_forward::offload::{Cut, MAX_SEGMENTS, SegmentChecksum, finish_checksum};
use vrouter_objects::{DropReason, Vni};

use super::header::{self, HEADER_LEN};
use crate::ledger::Ledger;

/// The most bytes in one call: what fits one UDP datagram, which it would be without segmentation.
const MAX_BYTES: usize = 65_000;

/// Where a call's packets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tunnel {
    pub(super) destination: IpAddr,
    pub(super) vni: Vni,
    pub(super) entropy: u32,
}

impl Tunnel {
    fn of(frame: &Frame) -> Option<Self> {
        match frame.egress {
            Some(Egress::Tunnel { destination, vni, entropy }) => Some(Self { destination, vni, entropy }),
            _ => None,
        }
    }
}

/// How the parts of a call are packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Datagrams {
    /// One.
    One,
    /// As many of this many bytes as there are; the last may be shorter.
    Of(u16),
}

/// Where VXLAN packets go, VXLAN header first.
pub(super) trait DatagramSink {
    fn send(&self, tunnel: &Tunnel, datagrams: Datagrams, parts: &[IoSlice<'_>]) -> io::Result<()>;
}

/// The sending side of a worker's tunnel.
#[derive(Debug)]
pub(super) struct TunnelTransmitter<S> {
    sink: S,
    /// VXLAN and inner headers of the segments of one super-frame.
    headers: Vec<u8>,
}

impl<S: DatagramSink> TunnelTransmitter<S> {
    pub(super) fn new(sink: S) -> Self {
        Self { sink, headers: Vec::new() }
    }

    /// Sends the frames in their order. Each is sent, or told to the ledger as lost. All must leave by a tunnel.
    pub(super) fn send(&mut self, frames: &mut [Frame], ledger: &mut impl Ledger) {
        let mut rest = frames;
        while let Some(first) = rest.first() {
            let count = equals_ahead(rest);
            let Some(tunnel) = Tunnel::of(first) else { return };
            let (now, later) = rest.split_at_mut(count);
            match now {
                [frame] if frame.offload.segmentation.is_some() => {
                    self.send_super_frame(&tunnel, frame, ledger)
                }
                packets => self.send_packets(&tunnel, packets, ledger),
            }
            rest = later;
        }
    }

    /// Sends packets of equal length, but perhaps the last, to one tunnel.
    fn send_packets(&self, tunnel: &Tunnel, frames: &mut [Frame], ledger: &mut impl Ledger) {
        let mut parts = [IoSlice::new(&[]); MAX_SEGMENTS];
        let size = HEADER_LEN + frames[0].len();
        let count = frames.len();
        for (part, frame) in parts.iter_mut().zip(&mut *frames) {
            *part = IoSlice::new(encapsulate(frame, tunnel.vni));
        }
        let result = self.sink.send(tunnel, datagrams(count, size), &parts[..count]);
        match result {
            Ok(()) => {}
            Err(error) if count > 1 && is_refusal(&error) => {
                for frame in frames {
                    let packet = IoSlice::new(frame.with_header_mut(HEADER_LEN));
                    if let Err(error) = self.sink.send(tunnel, Datagrams::One, &[packet]) {
                        ledger.lost(frame, reason(&error));
                    }
                }
            }
            Err(error) => frames.iter().for_each(|frame| ledger.lost(frame, reason(&error))),
        }
    }

    /// Cuts a super-frame, and sends its packets in as few calls as they fit. When a call fails, the packets of the
    /// others are still worth sending; but the frame counts as lost.
    fn send_super_frame(&mut self, tunnel: &Tunnel, frame: &Frame, ledger: &mut impl Ledger) {
        let cut = frame.offload.segmentation.and_then(|segmentation| Cut::of(frame.bytes(), segmentation));
        let Some(cut) = cut else { return ledger.lost(frame, DropReason::InvalidOffload) };
        let at_once = (MAX_BYTES / (HEADER_LEN + cut.frame_len())).clamp(1, MAX_SEGMENTS);
        let sent = (0..cut.count()).step_by(at_once).map(|first| {
            let count = at_once.min(cut.count() - first);
            self.send_segments(tunnel, frame, &cut, first, count)
        });
        match all(sent) {
            Ok(()) => ledger.cut(cut.count()),
            Err(error) => ledger.lost(frame, reason(&error)),
        }
    }

    /// Sends `count` packets from `first` on. The first error, if any of them was not sent.
    fn send_segments(
        &mut self,
        tunnel: &Tunnel,
        frame: &Frame,
        cut: &Cut,
        first: usize,
        count: usize,
    ) -> io::Result<()> {
        let stride = HEADER_LEN + cut.header_len();
        if self.headers.len() < count * stride {
            self.headers.resize(count * stride, 0);
        }
        for (number, headers) in self.headers.chunks_exact_mut(stride).take(count).enumerate() {
            let (vxlan, inner) = headers.split_at_mut(HEADER_LEN);
            vxlan.copy_from_slice(&header::build(tunnel.vni));
            cut.write_headers(frame.bytes(), first + number, SegmentChecksum::Full, inner);
        }
        let mut parts = [IoSlice::new(&[]); 2 * MAX_SEGMENTS];
        let (pairs, _) = parts.as_chunks_mut::<2>();
        for (number, (pair, headers)) in
            pairs.iter_mut().zip(self.headers.chunks_exact(stride)).take(count).enumerate()
        {
            *pair = [IoSlice::new(headers), IoSlice::new(cut.payload(frame.bytes(), first + number))];
        }
        let pairs = &pairs[..count];
        match self.sink.send(tunnel, datagrams(count, HEADER_LEN + cut.frame_len()), pairs.as_flattened()) {
            Err(error) if count > 1 && is_refusal(&error) => {
                all(pairs.iter().map(|pair| self.sink.send(tunnel, Datagrams::One, pair)))
            }
            result => result,
        }
    }
}

/// Does all of it, whatever fails; the first error, if there was any.
fn all(results: impl Iterator<Item = io::Result<()>>) -> io::Result<()> {
    results.reduce(Result::and).unwrap_or(Ok(()))
}

/// Completes the frame and puts the VXLAN header before it; returns both.
fn encapsulate(frame: &mut Frame, vni: Vni) -> &[u8] {
    finish_checksum(frame);
    let packet = frame.with_header_mut(HEADER_LEN);
    packet[..HEADER_LEN].copy_from_slice(&header::build(vni));
    packet
}

/// How many frames from the first on can go in one call: of one flow and of one length, but that the last may be
/// shorter.
fn equals_ahead(frames: &[Frame]) -> usize {
    let first = &frames[0];
    if first.offload.segmentation.is_some() {
        return 1;
    }
    let most = (MAX_BYTES / (HEADER_LEN + first.len())).clamp(1, MAX_SEGMENTS);
    let mut count = 1;
    for next in &frames[1..frames.len().min(most)] {
        let is_alike = next.offload.segmentation.is_none() && next.egress == first.egress;
        if !is_alike || next.len() > first.len() {
            break;
        }
        count += 1;
        if next.len() < first.len() {
            break;
        }
    }
    count
}

fn datagrams(count: usize, size: usize) -> Datagrams {
    // Whatever is sent together is shorter than MAX_BYTES.
    if count > 1 { Datagrams::Of(size as u16) } else { Datagrams::One }
}

/// Whether the kernel or the link does not take several packets at once, so that each may still go alone.
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EIO | libc::EMSGSIZE | libc::EOPNOTSUPP))
}

fn reason(error: &io::Error) -> DropReason {
    match error.raw_os_error() {
        Some(libc::EMSGSIZE) => DropReason::TooBig,
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => DropReason::QueueFull,
        _ => DropReason::TransmitFailed,
    }
}

#[cfg(test)]
mod tests;
