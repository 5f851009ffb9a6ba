//! Counting a burst. What every packet is counted by is summed up here first: a burst mostly comes from one port and goes
//! to one, so its counters are written once.

use crate::counters::WorkerCounters;
use crate::frame::{Ingress, PortId};

/// What a burst adds to its worker's counters.
#[derive(Debug, Default)]
pub(super) struct Tally {
    received: u64,
    super_frames: u64,
    forwarded: u64,
    received_from: Vec<PortRun>,
    sent_to: Vec<PortRun>,
}

/// Frames that follow each other at one port.
#[derive(Debug, Clone, Copy)]
pub(super) struct PortRun {
    port: PortId,
    frames: u64,
    bytes: u64,
}

impl Tally {
    /// Notes frames of one ingress that came in, so many of them super-frames.
    pub(super) fn received(&mut self, ingress: Ingress, frames: u64, super_frames: u64, bytes: u64) {
        self.received += frames;
        self.super_frames += super_frames;
        if let Ingress::Port(port) = ingress {
            self.received_from.push(PortRun { port, frames, bytes });
        }
    }

    /// Notes frames that leave by one port.
    pub(super) fn sent(&mut self, run: PortRun) {
        self.forwarded += run.frames;
        self.sent_to.push(run);
    }

    /// Notes a frame that leaves by a tunnel.
    #[inline(always)]
    pub(super) fn tunnelled(&mut self) {
        self.forwarded += 1;
    }

    /// Writes all of it. The tally is at nothing again.
    pub(super) fn settle(&mut self, counters: &WorkerCounters) {
        counters.received.add(std::mem::take(&mut self.received));
        counters.super_frames_received.add(std::mem::take(&mut self.super_frames));
        counters.forwarded.add(std::mem::take(&mut self.forwarded));
        self.received_from.drain(..).for_each(|run| counters.rx(run.port, run.frames, run.bytes));
        self.sent_to.drain(..).for_each(|run| counters.tx(run.port, run.frames, run.bytes));
    }
}

impl PortRun {
    /// One frame more, at this port; returns the run that is over, if it is another port than before.
    #[inline(always)]
    pub(super) fn go_on(&mut self, port: PortId, bytes: u32) -> Option<Self> {
        let over = (self.port != port).then(|| std::mem::replace(self, Self { port, ..Self::default() }));
        self.frames += 1;
        self.bytes += u64::from(bytes);
        over
    }
}

impl Default for PortRun {
    fn default() -> Self {
        Self { port: PortId(0), frames: 0, bytes: 0 }
    }
}
