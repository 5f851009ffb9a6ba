//! Writing frames to a TAP: super-frames whole, runs of one flow gathered into one write, everything else singly.

use std::io::{self, IoSlice};

use vrouter_forward::frame::{Frame, SegmentKind};
use vrouter_forward::offload::{Cut, MAX_SEGMENTS, Run, SegmentChecksum};
use vrouter_objects::DropReason;

use super::vnet::{HEADER_LEN, VnetHeader};
use crate::ledger::Ledger;

/// Where a TAP's packets go: one call, one packet with its virtio-net header.
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

/// The sending side of one TAP queue.
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

    /// Writes the frames in their order. Each is written, or told to the ledger as lost.
    pub(crate) fn send(&mut self, frames: &mut [Frame], ledger: &mut impl Ledger) -> Result<(), Unplugged> {
        let mut rest = frames;
        while let [first, others @ ..] = rest {
            let sent = match self.begin_run(first, others) {
                Some(run) => self.send_run(&run, &mut rest[..run.count()], ledger).map(|()| run.count()),
                None => self.send_one(first, ledger).map(|()| 1),
            };
            match sent {
                Ok(count) => rest = &mut rest[count..],
                Err(Unplugged) => {
                    rest.iter().for_each(|frame| ledger.lost(frame, DropReason::InterfaceDown));
                    return Err(Unplugged);
                }
            }
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
            Err(error) if is_refusal(&error) => {
                frames.iter_mut().try_for_each(|frame| self.send_packet(frame, ledger))
            }
            Err(error) => frames.iter().try_for_each(|frame| give_up(frame, &error, ledger)),
        }
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

fn give_up(frame: &Frame, error: &io::Error, ledger: &mut impl Ledger) -> Result<(), Unplugged> {
    let (reason, result) = match error.raw_os_error() {
        Some(libc::EBADFD | libc::EBADF | libc::ENODEV) => return Err(Unplugged),
        // A TAP that is set down.
        Some(libc::EIO) => (DropReason::InterfaceDown, Ok(())),
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => (DropReason::QueueFull, Ok(())),
        _ => (DropReason::TransmitFailed, Ok(())),
    };
    ledger.lost(frame, reason);
    result
}

#[cfg(test)]
mod tests;
