//! What was received through a tunnel, turned into frames: one for each VXLAN packet, but that packets which continue
//! each other become one super-frame, so that it is one frame to the router.

use std::mem;
use std::net::IpAddr;
use std::num::NonZeroU16;

use vrouter_forward::frame::{Checksum, Frame, Ingress, Offload, SegmentKind, Segmentation};
use vrouter_forward::offload::{Layout, Run, recognise};
use vrouter_objects::DropReason;

use super::header::{self, HEADER_LEN};
use crate::ledger::Ledger;
use crate::vnet::MAX_DATAGRAMS;
use crate::worker::take;

/// Gathers the packets of one burst into frames.
pub(super) struct Gatherer<'a> {
    frames: &'a mut Vec<Frame>,
    spare: &'a mut Vec<Frame>,
    /// The run that the last of the frames begins.
    run: Option<Run>,
}

impl<'a> Gatherer<'a> {
    /// Puts frames behind these, in buffers from among the spare ones.
    pub(super) fn new(frames: &'a mut Vec<Frame>, spare: &'a mut Vec<Frame>) -> Self {
        Self { frames, spare, run: None }
    }

    /// Takes a received buffer of one packet, or of packets of `segment` bytes. Its frame is left with some other
    /// buffer, or the same.
    pub(super) fn take(
        &mut self,
        buffer: &mut Frame,
        source: IpAddr,
        segment: Option<usize>,
        ledger: &mut impl Ledger,
    ) {
        let Some(size) = segment.filter(|size| *size < buffer.len()) else {
            return self.take_whole(buffer, source, None, ledger);
        };
        let datagrams = datagrams_in(buffer.bytes(), size);
        if datagrams.is_some() {
            return self.take_whole(buffer, source, datagrams, ledger);
        }
        for packet in buffer.bytes().chunks(size) {
            self.take_part(packet, source, ledger);
        }
    }

    /// Ends the last run. To be called when the burst is complete.
    pub(super) fn finish(mut self, ledger: &mut impl Ledger) {
        self.end_run(ledger);
    }

    /// A packet that has the buffer to itself becomes a frame where it lies. It may be a super-frame of datagrams.
    fn take_whole(
        &mut self,
        buffer: &mut Frame,
        source: IpAddr,
        datagrams: Option<Segmentation>,
        ledger: &mut impl Ledger,
    ) {
        let Some((vni, inner)) = header::parse(buffer.bytes()) else {
            return ledger.refused(DropReason::InvalidVxlan);
        };
        let ingress = Ingress::Tunnel { source, vni };
        if datagrams.is_none() && self.continue_run(inner, ingress, &Offload::default()) {
            return;
        }
        let mut offload = recognise(inner);
        if matches!(offload.checksum, Checksum::Partial { .. }) && datagrams.is_some() {
            offload.segmentation = datagrams;
        }
        if !self.continue_run(inner, ingress, &offload) {
            let mut frame = mem::replace(buffer, take(self.spare));
            frame.take_front(HEADER_LEN);
            self.begin_run(frame, ingress, offload, ledger);
        }
    }

    /// A packet among others is copied out: what follows it must be moved in any case.
    fn take_part(&mut self, packet: &[u8], source: IpAddr, ledger: &mut impl Ledger) {
        let Some((vni, inner)) = header::parse(packet) else {
            return ledger.refused(DropReason::InvalidVxlan);
        };
        let ingress = Ingress::Tunnel { source, vni };
        if self.continue_run(inner, ingress, &Offload::default()) {
            return;
        }
        let offload = recognise(inner);
        if !self.continue_run(inner, ingress, &offload) {
            let mut frame = take(self.spare);
            frame.set(inner);
            self.begin_run(frame, ingress, offload, ledger);
        }
    }

    fn begin_run(&mut self, mut frame: Frame, ingress: Ingress, offload: Offload, ledger: &mut impl Ledger) {
        self.end_run(ledger);
        frame.ingress = ingress;
        frame.offload = offload;
        self.run = Run::begin(frame.bytes(), &frame.offload);
        self.frames.push(frame);
    }

    /// Puts the packet behind the run, if it continues it. Nearly every packet of a stream does, and then nothing need
    /// be known of it beforehand; only a partial checksum has to be recognised first.
    fn continue_run(&mut self, inner: &[u8], ingress: Ingress, offload: &Offload) -> bool {
        let (Some(run), Some(first)) = (&mut self.run, self.frames.last_mut()) else { return false };
        first.ingress == ingress
            && run.accept(first.bytes(), inner, offload)
            // A run has room in any buffer of full size.
            && first.append(&inner[run.header_len()..])
    }

    fn end_run(&mut self, ledger: &mut impl Ledger) {
        let Some(run) = self.run.take().filter(|run| run.count() > 1) else { return };
        if let Some(first) = self.frames.last_mut() {
            first.offload = run.write_headers(first.bytes_mut());
            ledger.gathered(run.count());
        }
    }
}

/// How the packet in this buffer is to be cut, if it is one packet, though said to be several of `size` bytes: over a
/// link on the same machine a kernel leaves a super-frame of UDP whole, and the size that is told is that of its
/// datagrams.
fn datagrams_in(buffer: &[u8], size: usize) -> Option<Segmentation> {
    let (_, inner) = header::parse(buffer)?;
    let layout = Layout::of(inner).filter(|layout| layout.kind() == SegmentKind::Udp)?;
    let is_one_packet = HEADER_LEN + layout.end() > size;
    let is_makable = layout.payload_len().div_ceil(size) <= MAX_DATAGRAMS;
    let size = u16::try_from(size).ok().and_then(NonZeroU16::new)?;
    (is_one_packet && is_makable).then_some(Segmentation { kind: SegmentKind::Udp, size })
}

#[cfg(test)]
mod tests;
