//! Counting a burst. What every packet is counted by is summed up here first: a burst mostly comes from one
//! port and goes to one, so its counters are written once.

use crate::counters::WorkerCounters;
use crate::frame::{Frame, Ingress, PortId};

/// As many runs as a burst of the usual size can have at most, so that none has to allocate.
const RUNS: usize = 256;

/// What a burst adds to its worker's counters.
#[derive(Debug)]
pub(super) struct Tally {
    received: u64,
    super_frames: u64,
    forwarded: u64,
    received_from: Vec<PortRun>,
    sent_to: Vec<PortRun>,
    /// The one that goes on.
    sending: PortRun,
}

/// Frames that follow each other at one port.
#[derive(Debug, Clone, Copy, Default)]
struct PortRun {
    port: PortId,
    frames: u32,
    bytes: u64,
}

impl Tally {
    /// Of nothing yet.
    pub(super) fn new() -> Self {
        Self {
            received: 0,
            super_frames: 0,
            forwarded: 0,
            received_from: Vec::with_capacity(RUNS),
            sent_to: Vec::with_capacity(RUNS),
            sending: PortRun::default(),
        }
    }

    /// Notes frames that came in at one ingress.
    pub(super) fn received(&mut self, ingress: Ingress, received: &[Frame]) {
        let (frames, bytes) = (received.len() as u32, received.iter().map(|frame| frame.len() as u64).sum());
        self.received += u64::from(frames);
        if let Ingress::Port(port) = ingress {
            self.received_from.push(PortRun { port, frames, bytes });
        }
    }

    /// Notes that one of the frames that came in is a super-frame.
    pub(super) fn super_frame(&mut self) {
        self.super_frames += 1;
    }

    /// Notes a frame that leaves by this port.
    #[inline(always)]
    pub(super) fn sent(&mut self, port: PortId, bytes: usize) {
        if self.sending.port != port {
            self.change_port(port);
        }
        self.sending.frames += 1;
        self.sending.bytes += bytes as u64;
    }

    #[inline(never)]
    fn change_port(&mut self, port: PortId) {
        self.forwarded += u64::from(self.sending.frames);
        self.sent_to.push(std::mem::replace(&mut self.sending, PortRun { port, ..PortRun::default() }));
    }

    /// Notes a frame that leaves by a tunnel.
    #[inline(always)]
    pub(super) fn tunnelled(&mut self) {
        self.forwarded += 1;
    }

    /// Writes what came in: before anything is counted as gone, or more would seem to go than came.
    pub(super) fn settle_received(&mut self, counters: &WorkerCounters) {
        counters.received.add(std::mem::take(&mut self.received));
        self.received_from.drain(..).for_each(|run| counters.rx(run.port, run.frames.into(), run.bytes));
    }

    /// Writes the rest. The tally is at nothing again.
    pub(super) fn settle(&mut self, counters: &WorkerCounters) {
        self.change_port(PortId::default());
        counters.super_frames_received.add(std::mem::take(&mut self.super_frames));
        counters.forwarded.add(std::mem::take(&mut self.forwarded));
        self.sent_to.drain(..).for_each(|run| counters.tx(run.port, run.frames.into(), run.bytes));
    }
}
