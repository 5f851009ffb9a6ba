//! The stages between receive and transmit, in the order a packet meets them.

mod affinity;
mod answer;
mod arp;
mod classify;
mod drops;
mod egress;
mod error;
mod established;
mod explain;
mod fast_path;
mod fragments;
mod leads;
mod limiter;
mod link_local;
mod local;
mod locate;
mod neighbour;
mod plan;
mod policy;
mod resolve;
mod revalidate;
mod source;
mod way_back;
mod worker;

use std::sync::Arc;

pub use drops::DroppedPacket;
pub use explain::{Lead, Opinion, Opinions, Question};
pub use worker::Worker;

use vrouter_objects::DropReason;

use affinity::Affinities;

use crate::counters::{self, PacketCounters, PortCounters, WorkerCounters};
use crate::flow::{Boundary, FlowTable, Quiescence};
use crate::frame::{Egress, Frame, MAX_FRAME, PortId, Time};
use crate::tables::Snapshot;

/// Frames that go through the router together.
#[derive(Debug, Default)]
pub struct Burst {
    /// What was received, in order; after processing each has its egress, or none. What the router made
    /// itself or released stands behind.
    pub frames: Vec<Frame>,
    /// Empty frames of full size, for what the router makes itself.
    pub spare: Vec<Frame>,
}

/// An empty frame of full size.
fn spare_frame(spare: &mut Vec<Frame>) -> Frame {
    let mut frame = spare.pop().unwrap_or_else(|| Frame::with_capacity(MAX_FRAME));
    frame.reset();
    frame
}

/// What the core must be told about its surroundings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForwardConfig {
    /// ICMP errors and resets that one worker makes per second at most.
    pub answers_per_second: u32,
}

impl Default for ForwardConfig {
    fn default() -> Self {
        Self { answers_per_second: 1000 }
    }
}

/// What the workers of one node share.
#[derive(Debug)]
pub struct Shared {
    /// The flow table.
    pub flows: FlowTable,
    config: ForwardConfig,
    affinities: Affinities,
    quiescence: Quiescence,
    counters: Box<[Arc<WorkerCounters>]>,
}

impl Shared {
    /// For so many workers.
    pub fn new(flows: FlowTable, workers: usize, config: ForwardConfig) -> Arc<Self> {
        let counters = (0..workers).map(|_| Arc::new(WorkerCounters::new())).collect();
        let affinities = Affinities::new(flows.seed());
        Arc::new(Self { flows, config, affinities, quiescence: Quiescence::new(workers), counters })
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.counters.len()
    }

    /// All counts, summed over the workers.
    pub fn totals(&self) -> PacketCounters {
        counters::totals(&self.counters)
    }

    /// One port's counts, summed over the workers.
    pub fn port(&self, port: PortId) -> PortCounters {
        counters::port_totals(&self.counters, port)
    }

    /// A point that every worker passes once it has finished what it is doing now. To be drawn after a new
    /// snapshot was put in place.
    pub fn boundary(&self) -> Boundary {
        self.quiescence.draw()
    }

    /// Whether every worker has passed it.
    pub fn passed(&self, boundary: &Boundary) -> bool {
        self.quiescence.passed(*boundary)
    }
}

/// The time and the tables of one burst.
#[derive(Debug, Clone, Copy)]
struct Context<'a> {
    now: Time,
    /// `now` as flows note it.
    tenths: u32,
    snapshot: &'a Snapshot,
}

/// How a frame's way ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It leaves.
    Forward(Egress),
    /// It leaves as these many frames, which stand with what the router made.
    Fragmented,
    /// A local service took it.
    Consume,
    /// A local service took it and turned it into the answer.
    Answer(Egress),
    /// Dropped.
    Drop(DropReason),
    /// Dropped, and turned into what the sender is told.
    Refuse(DropReason, Egress),
    /// It waits.
    Hold,
}
