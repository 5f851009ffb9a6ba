//! Writing frames behind a virtio-net header: super-frames whole, runs of one flow gathered into one write, everything
//! else singly.

use std::io::{self, IoSlice};

use vrouter_forward::frame::{Frame, SegmentKind};
use vrouter_forward::offload::{Cut, MAX_SEGMENTS, Run, SegmentChecksum};
use vrouter_objects::DropReason;

use super::header::{HEADER_LEN, VnetHeader};
use crate::ledger::Ledger;

/// Where packets go: one call, one packet with its virtio-net header.
pub(crate) trait PacketSink {
    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<()>;
}

/// Which super-frames the kernel takes from us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SuperFrames {
    /// TCP only: before Linux 6.2.
    Tcp,
    /// TCP and UDP.
    TcpAndUdp,
}

impl SuperFrames {
    fn include(self, kind: SegmentKind) -> bool {
        kind == SegmentKind::Tcp || self == Self::TcpAndUdp
    }
}

/// The interface is gone for good; nothing more can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unplugged;

/// The longest headers that are copied to be changed: Ethernet with tag, IPv6, TCP with all its options.
const MAX_HEADERS: usize = 14 + 4 + 40 + 60;

/// The sending side of one queue.
#[derive(Debug)]
pub(crate) struct Transmitter<S> {
    sink: S,
    super_frames: SuperFrames,
}

impl<S: PacketSink> Transmitter<S> {
    pub(crate) fn new(sink: S, super_frames: SuperFrames) -> Self {
        Self { sink, super_frames }
    }

    /// Where the packets go.
    pub(crate) fn sink(&self) -> &S {
        &self.sink
    }

    /// Writes the frames in their order. Each is written, or told to the ledger as lost, once; so it is in every
    /// function here that is given frames, also if it finds the interface unplugged.
    pub(crate) fn send(&mut self, frames: &mut [Frame], ledger: &mut impl Ledger) -> Result<(), Unplugged> {
        let mut rest = frames;
        while let [first, others @ ..] = rest {
            let run = self.begin_run(first, others);
            let (now, later) = rest.split_at_mut(run.as_ref().map_or(1, Run::count));
            let sent = match &run {
                Some(run) => self.send_run(run, now, ledger),
                None => self.send_one(&mut now[0], ledger),
            };
            sent.inspect_err(|Unplugged| lose_all(later, ledger))?;
            rest = later;
        }
        Ok(())
    }

    /// The run of at least two packets that begins with `first`, if there is one.
    fn begin_run(&self, first: &Frame, others: &[Frame]) -> Option<Run> {
        if others.is_empty() {
            return None;
        }
        let mut run = Run::begin(first.bytes(), &first.offload)?;
        if !self.super_frames.include(run.kind()) {
            return None;
        }
        others.iter().take_while(|next| run.accept(first.bytes(), next.bytes(), &next.offload)).count();
        (run.count() > 1).then_some(run)
    }

    fn send_run(
        &mut self,
        run: &Run,
        frames: &mut [Frame],
        ledger: &mut impl Ledger,
    ) -> Result<(), Unplugged> {
        let mut headers = [0; HEADER_LEN + MAX_HEADERS];
        let headers = &mut headers[..HEADER_LEN + run.header_len()];
        headers[HEADER_LEN..].copy_from_slice(&frames[0].bytes()[..run.header_len()]);
        let offload = run.write_headers(&mut headers[HEADER_LEN..]);
        let header = offload.segmentation.map_or(VnetHeader::of_packet(offload.checksum), |segmentation| {
            VnetHeader::of_super_frame(offload.checksum, segmentation, run.family(), run.header_len())
        });
        headers[..HEADER_LEN].copy_from_slice(&header.to_bytes());

        let mut parts = [IoSlice::new(&[]); MAX_SEGMENTS + 1];
        parts[0] = IoSlice::new(headers);
        for (part, frame) in parts[1..].iter_mut().zip(&*frames) {
            *part = IoSlice::new(&frame.bytes()[run.header_len()..]);
        }
        match self.sink.write(&parts[..=frames.len()]) {
            Ok(()) => {
                ledger.gathered(frames.len());
                Ok(())
            }
            // The frames themselves are as they were: they can still go one by one.
            Err(error) if is_refusal(&error) => self.send_singly(frames, ledger),
            Err(error) => {
                let given_up = frames.iter().map(|frame| give_up(frame, &error, ledger));
                given_up.reduce(Result::and).unwrap_or(Ok(()))
            }
        }
    }

    fn send_singly(&mut self, frames: &mut [Frame], ledger: &mut impl Ledger) -> Result<(), Unplugged> {
        let mut rest = frames;
        while let [first, later @ ..] = rest {
            self.send_packet(first, ledger).inspect_err(|Unplugged| lose_all(later, ledger))?;
            rest = later;
        }
        Ok(())
    }

    fn send_one(&mut self, frame: &mut Frame, ledger: &mut impl Ledger) -> Result<(), Unplugged> {
        let Some(segmentation) = frame.offload.segmentation else { return self.send_packet(frame, ledger) };
        let Some(cut) = Cut::of(frame.bytes(), segmentation) else {
            ledger.lost(frame, DropReason::InvalidOffload);
            return Ok(());
        };
        if cut.count() == 1 {
            return self.send_packet(frame, ledger);
        }
        if !self.super_frames.include(segmentation.kind) {
            return self.send_cut(&cut, frame, ledger);
        }
        cut.write_whole_checksums(frame.bytes_mut());
        let checksum = frame.offload.checksum;
        let header = VnetHeader::of_super_frame(checksum, segmentation, cut.family(), cut.header_len());
        match self.write_with(header, frame) {
            Ok(()) => {
                ledger.sent_whole();
                Ok(())
            }
            Err(error) if is_refusal(&error) => self.send_cut(&cut, frame, ledger),
            Err(error) => give_up(frame, &error, ledger),
        }
    }

    /// Writes each packet of a super-frame singly.
    fn send_cut(&mut self, cut: &Cut, frame: &mut Frame, ledger: &mut impl Ledger) -> Result<(), Unplugged> {
        let mut packet = Frame::with_capacity(cut.frame_len());
        for index in 0..cut.count() {
            cut.copy_segment(frame, index, SegmentChecksum::Partial, &mut packet);
            if let Err(error) = self.write_with(VnetHeader::of_packet(packet.offload.checksum), &mut packet) {
                return give_up(frame, &error, ledger);
            }
        }
        ledger.cut(cut.count());
        Ok(())
    }

    fn send_packet(&mut self, frame: &mut Frame, ledger: &mut impl Ledger) -> Result<(), Unplugged> {
        match self.write_with(VnetHeader::of_packet(frame.offload.checksum), frame) {
            Ok(()) => Ok(()),
            Err(error) => give_up(frame, &error, ledger),
        }
    }

    /// Writes the frame with this header in the headroom before it, in one piece.
    fn write_with(&mut self, header: VnetHeader, frame: &mut Frame) -> io::Result<()> {
        let bytes = frame.with_header_mut(HEADER_LEN);
        bytes[..HEADER_LEN].copy_from_slice(&header.to_bytes());
        self.sink.write(&[IoSlice::new(bytes)])
    }
}

/// Whether the kernel does not like this kind of super-frame, rather than this packet.
fn is_refusal(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINVAL)
}

/// Takes down that this frame was not written.
fn give_up(frame: &Frame, error: &io::Error, ledger: &mut impl Ledger) -> Result<(), Unplugged> {
    let (reason, result) = match error.raw_os_error() {
        Some(libc::EBADFD | libc::EBADF | libc::ENODEV) => (DropReason::InterfaceDown, Err(Unplugged)),
        // An interface that is set down; a packet socket's may come back.
        Some(libc::EIO | libc::ENETDOWN | libc::ENXIO) => (DropReason::InterfaceDown, Ok(())),
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => (DropReason::QueueFull, Ok(())),
        _ => (DropReason::TransmitFailed, Ok(())),
    };
    ledger.lost(frame, reason);
    result
}

/// Takes down frames that were not tried any more.
fn lose_all(frames: &[Frame], ledger: &mut impl Ledger) {
    frames.iter().for_each(|frame| ledger.lost(frame, DropReason::InterfaceDown));
}

#[cfg(test)]
mod tests;
