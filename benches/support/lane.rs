//! A worker without the system calls around it.

use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};
use vrouter_forward::frame::{Frame, Time};
use vrouter_forward::{Burst, NoObserver, Shared, Snapshot, Worker};

/// The time at which everything begins.
const BEGINNING: Time = Time::from_millis(1_000_000);
/// More milliseconds than an unanswered flow is kept for.
const FORGOTTEN_AFTER: u64 = 60_000;

/// A worker with its view of the snapshot in force, as `io` has it.
#[derive(Debug)]
pub struct Lane {
    worker: Worker,
    snapshot: Cache<Arc<ArcSwap<Snapshot>>, Arc<Snapshot>>,
    /// Stands still but for what is to grow old.
    now: Time,
}

impl Lane {
    pub(crate) fn new(id: usize, shared: Arc<Shared>, snapshot: Arc<ArcSwap<Snapshot>>) -> Self {
        Self { worker: Worker::new(id, shared), snapshot: Cache::new(snapshot), now: BEGINNING }
    }

    /// Takes a burst through the router: the measured part. It is never inlined, so that a profiler finds it by its
    /// name, and nothing else is done in it.
    #[inline(never)]
    pub fn process_burst(&mut self, burst: &mut Burst) {
        self.process(burst);
    }

    /// Takes a single frame through the router, outside of any measurement.
    ///
    /// # Panics
    /// If it does not leave as one frame.
    pub fn forward(&mut self, frame: Frame) -> Frame {
        let mut burst = Burst { frames: vec![frame], spare: Vec::new() };
        self.process(&mut burst);
        match burst.frames.pop() {
            Some(frame) if burst.frames.is_empty() && frame.egress.is_some() => frame,
            _ => panic!("a packet of the bench's own does not get through"),
        }
    }

    /// Lets every unanswered flow grow too old, and its slot become free again.
    pub fn forget_newcomers(&mut self) {
        self.worker.idle();
        self.now = self.now.plus_millis(FORGOTTEN_AFTER);
        while self.worker.maintain(self.now).is_some() {}
    }

    #[inline(always)]
    fn process(&mut self, burst: &mut Burst) {
        self.worker.begin_burst();
        let snapshot = self.snapshot.load();
        self.worker.process(self.now, snapshot, burst, &mut NoObserver);
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.worker.idle();
    }
}
