//! Counters: written by one worker each, without locked instructions, and summed by whoever reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vrouter_objects::DropReason;

use crate::frame::{Frame, Ingress, MAX_PORTS, PortId};

/// A counter that one thread writes and any thread reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts `n` more. Only the owning worker may.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    /// Takes `n` back.
    #[inline]
    pub fn sub(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).saturating_sub(n), Ordering::Relaxed);
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one worker counted. The first five keep the law `received = forwarded + consumed + dropped + held`.
#[derive(Debug)]
#[repr(align(128))]
pub struct WorkerCounters {
    /// Frames as read.
    pub received: Counter,
    /// Frames that left by a port or tunnel.
    pub forwarded: Counter,
    /// Frames that a local service took.
    pub consumed: Counter,
    /// Frames dropped, by reason.
    drops: [Counter; DropReason::COUNT],
    /// Fragments waiting for their first.
    pub held: Counter,
    /// Packets the router made itself.
    pub originated: Counter,
    /// Super-frames received.
    pub super_frames_received: Counter,
    /// Super-frames that left whole.
    pub super_frames_sent: Counter,
    /// Segments cut from super-frames for an egress that cannot take them.
    pub segments_cut: Counter,
    /// Frames merged into super-frames.
    pub frames_merged: Counter,
    ports: Box<[PortCell; MAX_PORTS]>,
}

#[derive(Debug, Default)]
struct PortCell {
    rx_packets: Counter,
    rx_bytes: Counter,
    tx_packets: Counter,
    tx_bytes: Counter,
    drops: Counter,
}

/// One port's traffic, from the router's side: received from the pod, transmitted to it. Frames and bytes of
/// frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames received from it.
    pub rx_packets: u64,
    /// Bytes received from it.
    pub rx_bytes: u64,
    /// Frames sent to it.
    pub tx_packets: u64,
    /// Bytes sent to it.
    pub tx_bytes: u64,
    /// Frames received from it that were dropped.
    pub drops: u64,
}

/// The sums over all workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketCounters {
    /// Frames as read.
    pub received: u64,
    /// Frames that left by a port or tunnel.
    pub forwarded: u64,
    /// Frames that a local service took.
    pub consumed: u64,
    /// Frames dropped, all reasons together.
    pub dropped: u64,
    /// Fragments waiting for their first.
    pub held: u64,
    /// Packets the router made itself.
    pub originated: u64,
    /// Super-frames received.
    pub super_frames_received: u64,
    /// Super-frames that left whole.
    pub super_frames_sent: u64,
    /// Segments cut from super-frames.
    pub segments_cut: u64,
    /// Frames merged into super-frames.
    pub frames_merged: u64,
    /// Drops by reason, indexed by the reason's number.
    pub drops: Vec<u64>,
}

impl WorkerCounters {
    pub(crate) fn new() -> Self {
        Self {
            received: Counter::default(),
            forwarded: Counter::default(),
            consumed: Counter::default(),
            drops: std::array::from_fn(|_| Counter::default()),
            held: Counter::default(),
            originated: Counter::default(),
            super_frames_received: Counter::default(),
            super_frames_sent: Counter::default(),
            segments_cut: Counter::default(),
            frames_merged: Counter::default(),
            ports: Box::new(std::array::from_fn(|_| PortCell::default())),
        }
    }

    #[inline(always)]
    fn cell(&self, port: PortId) -> &PortCell {
        &self.ports[usize::from(port.0) % MAX_PORTS]
    }

    /// Counts frames that came in at one ingress.
    pub(crate) fn receive(&self, ingress: Ingress, frames: &[Frame]) {
        self.received.add(frames.len() as u64);
        if let Ingress::Port(port) = ingress {
            let cell = self.cell(port);
            cell.rx_packets.add(frames.len() as u64);
            cell.rx_bytes.add(frames.iter().map(|frame| frame.len() as u64).sum());
        }
    }

    #[inline(always)]
    pub(crate) fn tx(&self, port: PortId, frames: u64, bytes: u64) {
        let cell = self.cell(port);
        cell.tx_packets.add(frames);
        cell.tx_bytes.add(bytes);
    }

    pub(crate) fn tx_undone(&self, port: PortId, bytes: usize) {
        let cell = self.cell(port);
        cell.tx_packets.sub(1);
        cell.tx_bytes.sub(bytes as u64);
    }

    /// Counts a frame from this port as dropped.
    pub(crate) fn drop(&self, reason: DropReason, port: Option<PortId>) {
        self.drops[reason as usize].add(1);
        if let Some(port) = port {
            self.cell(port).drops.add(1);
        }
    }

    /// Counts a received frame that ended before the pipeline: an offload header or outer header that makes
    /// no sense.
    pub fn drop_unparsed(&self, reason: DropReason, port: Option<PortId>) {
        self.received.add(1);
        if let Some(port) = port {
            self.cell(port).rx_packets.add(1);
        }
        self.drop(reason, port);
    }

    /// What was dropped for this reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize].get()
    }
}

/// The sums over these workers.
pub(crate) fn totals(workers: &[Arc<WorkerCounters>]) -> PacketCounters {
    let sum = |field: fn(&WorkerCounters) -> &Counter| workers.iter().map(|worker| field(worker).get()).sum();
    let drops: Vec<u64> = DropReason::ALL
        .iter()
        .map(|reason| workers.iter().map(|worker| worker.dropped(*reason)).sum())
        .collect();
    PacketCounters {
        received: sum(|worker| &worker.received),
        forwarded: sum(|worker| &worker.forwarded),
        consumed: sum(|worker| &worker.consumed),
        dropped: drops.iter().sum(),
        held: sum(|worker| &worker.held),
        originated: sum(|worker| &worker.originated),
        super_frames_received: sum(|worker| &worker.super_frames_received),
        super_frames_sent: sum(|worker| &worker.super_frames_sent),
        segments_cut: sum(|worker| &worker.segments_cut),
        frames_merged: sum(|worker| &worker.frames_merged),
        drops,
    }
}

/// The sums over these workers for one port.
pub(crate) fn port_totals(workers: &[Arc<WorkerCounters>], port: PortId) -> PortCounters {
    workers.iter().map(|worker| worker.cell(port)).fold(PortCounters::default(), |sum, cell| PortCounters {
        rx_packets: sum.rx_packets + cell.rx_packets.get(),
        rx_bytes: sum.rx_bytes + cell.rx_bytes.get(),
        tx_packets: sum.tx_packets + cell.tx_packets.get(),
        tx_bytes: sum.tx_bytes + cell.tx_bytes.get(),
        drops: sum.drops + cell.drops.get(),
    })
}

impl PacketCounters {
    /// Whether every frame has ended exactly once. True whenever no worker is inside a burst.
    pub fn are_conserved(&self) -> bool {
        self.received == self.forwarded + self.consumed + self.dropped + self.held
    }

    /// What was dropped for this reason.
    pub fn dropped_for(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }
}
