//! Counting a burst. What every packet is counted by is summed up here first: a burst mostly comes from one port and goes
//! to one, so its counters are written once.

use crate::counters::WorkerCounters;
use crate::frame::{Egress, Frame, Ingress, PortId};

/// What a burst adds to its worker's counters.
#[derive(Debug, Default)]
pub(super) struct Tally {
    received: u64,
    super_frames: u64,
    forwarded: u64,
    from: Run,
    to: Run,
}

/// Frames that follow each other at one port.
#[derive(Debug, Clone, Copy)]
struct Run {
    port: PortId,
    frames: u64,
    bytes: u64,
}

impl Tally {
    /// Notes a frame that came in.
    #[inline(always)]
    pub(super) fn received(&mut self, counters: &WorkerCounters, frame: &Frame) {
        self.received += 1;
        self.super_frames += u64::from(frame.offload.segmentation.is_some());
        if let Ingress::Port(port) = frame.ingress
            && let Some(over) = self.from.go_on(port, frame.len())
        {
            over.write(|run| counters.rx(run.port, run.frames, run.bytes));
        }
    }

    /// Notes a frame that leaves.
    #[inline(always)]
    pub(super) fn forwarded(&mut self, counters: &WorkerCounters, frame: &Frame, egress: Egress) {
        self.forwarded += 1;
        if let Egress::Port(port) = egress
            && let Some(over) = self.to.go_on(port, frame.len())
        {
            over.write(|run| counters.tx(run.port, run.frames, run.bytes));
        }
    }

    /// Writes all that is not written yet. The burst is over.
    pub(super) fn settle(self, counters: &WorkerCounters) {
        counters.received.add(self.received);
        counters.super_frames_received.add(self.super_frames);
        counters.forwarded.add(self.forwarded);
        self.from.write(|run| counters.rx(run.port, run.frames, run.bytes));
        self.to.write(|run| counters.tx(run.port, run.frames, run.bytes));
    }
}

impl Default for Run {
    fn default() -> Self {
        Self { port: PortId(0), frames: 0, bytes: 0 }
    }
}

impl Run {
    /// One frame more, at this port. Returns the run that thereby is over.
    #[inline(always)]
    fn go_on(&mut self, port: PortId, bytes: usize) -> Option<Self> {
        let over = (self.port != port).then(|| std::mem::replace(self, Self { port, ..Self::default() }));
        self.frames += 1;
        self.bytes += bytes as u64;
        over
    }

    #[inline]
    fn write(self, write: impl FnOnce(Self)) {
        if self.frames > 0 {
            write(self);
        }
    }
}
