//! One node's core: its tables, its flow table and one worker.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use vrouter_objects::{Object, Vmi};

use crate::flow::{FlowConfig, FlowRecord, FlowTable, Slot};
use crate::frame::{Frame, PortId, Time};
use crate::observer::NoObserver;
use crate::pipeline::{Burst, ForwardConfig, Shared, Worker};
use crate::tables::{Change, Epoch, Refusal, Snapshot, Tables};

/// A router without cables.
#[derive(Debug)]
pub struct Node {
    /// Its master tables. After changing them, [`Node::publish`].
    pub tables: Tables,
    /// What its worker shares with the outside.
    pub shared: Arc<Shared>,
    snapshot: Arc<Snapshot>,
    worker: Worker,
    burst: Burst,
    epoch: Epoch,
}

impl Node {
    /// An empty node of this name with so many flow slots (which are never freed: this is for tests).
    pub fn new(name: &str, slots: usize) -> Self {
        let slots: &'static [Slot] = Box::leak((0..slots).map(|_| Slot::new()).collect());
        let high_water = Box::leak(Box::default());
        Self::with_slots(name, (slots, high_water), Epoch(0), FlowConfig::default(), Time::default())
    }

    /// A node that takes up what these slots, used up to the given mark, hold: as a restarted process does.
    pub fn with_slots(
        name: &str,
        (slots, high_water): (&'static [Slot], &'static AtomicU32),
        last: Epoch,
        config: FlowConfig,
        now: Time,
    ) -> Self {
        let mut tables = Tables::new(name, last);
        let (flows, _) = FlowTable::recover(slots, high_water, config, now);
        let shared = Shared::new(flows, 1, ForwardConfig::default());
        let epoch = Epoch(last.0 + 1);
        let snapshot = tables.publish(epoch);
        let worker = Worker::new(0, Arc::clone(&shared));
        Self { tables, shared, snapshot, worker, burst: Burst::default(), epoch }
    }

    /// Makes what the tables hold now what packets meet.
    pub fn publish(&mut self) {
        self.epoch = Epoch(self.epoch.0 + 1);
        self.snapshot = self.tables.publish(self.epoch);
    }

    /// Puts objects and publishes.
    pub fn put(&mut self, objects: impl IntoIterator<Item = Object>) -> Vec<Refusal> {
        let refusals = self.tables.apply(objects.into_iter().map(Change::Put).collect());
        self.publish();
        refusals
    }

    /// Attaches an interface and publishes.
    ///
    /// # Panics
    /// If the tables refuse it.
    pub fn attach(&mut self, vmi: Vmi, port: PortId) {
        self.tables.attach(vmi, port).expect("the test attaches what can be attached");
        self.publish();
    }

    /// What packets meet.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The epoch of the current snapshot.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Sends frames through the router together and returns all that have an egress.
    ///
    /// # Panics
    /// If the counters do not account for every frame.
    pub fn process(&mut self, now: Time, frames: impl IntoIterator<Item = Frame>) -> Vec<Frame> {
        self.take(now, frames, Worker::process)
    }

    /// [`Node::process`], without the short way of established flows.
    ///
    /// # Panics
    /// If the counters do not account for every frame.
    pub fn process_the_long_way(&mut self, now: Time, frames: impl IntoIterator<Item = Frame>) -> Vec<Frame> {
        self.take(now, frames, Worker::process_the_long_way)
    }

    fn take(
        &mut self,
        now: Time,
        frames: impl IntoIterator<Item = Frame>,
        way: fn(&mut Worker, Time, &Snapshot, &mut Burst, &mut NoObserver),
    ) -> Vec<Frame> {
        self.burst.frames.extend(frames);
        self.worker.begin_burst();
        way(&mut self.worker, now, &self.snapshot, &mut self.burst, &mut NoObserver);
        self.worker.idle();
        let totals = self.shared.totals();
        assert!(totals.are_conserved(), "frames unaccounted for: {totals:#?}\n{}", self.flows_text(now));
        self.burst.frames.drain(..).filter(|frame| frame.egress.is_some()).collect()
    }

    /// Sends a burst through the router and leaves it in `burst`, without looking at the counters: for
    /// benches. A profiler finds it by its name.
    #[inline(never)]
    pub fn process_burst(&mut self, now: Time, burst: &mut Burst) {
        self.worker.begin_burst();
        self.worker.process(now, &self.snapshot, burst, &mut NoObserver);
    }

    /// Runs ageing until everything was looked at once.
    pub fn age(&mut self, now: Time) {
        for _ in 0..=self.shared.flows.capacity() / 4096 + 1 {
            self.worker.maintain(now);
        }
    }

    /// Every flow, for assertions.
    pub fn flows(&self, now: Time) -> Vec<FlowRecord> {
        self.shared.flows.records(now, usize::MAX, |_| true)
    }

    /// Every flow, for messages.
    pub fn flows_text(&self, now: Time) -> String {
        self.flows(now).iter().map(|flow| format!("{flow:?}\n")).collect()
    }
}
