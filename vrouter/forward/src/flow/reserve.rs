//! Free slots: those of all, and those that each worker has at hand or may not give back yet.

use super::quiescence::{Boundary, Quiescence};
use super::slot::FlowIndex;
use super::sync::Ordering;
use super::table::FlowTable;

/// How many slots a worker takes from the shared list at a time.
const BATCH: usize = 64;

/// The free slots that no worker has at hand.
#[derive(Debug, Default)]
pub(super) struct FreeSlots {
    pub(super) recycled: Vec<FlowIndex>,
    pub(super) next_fresh: u32,
}

/// What one worker keeps for itself: slots at hand, and slots that others may still be looking at.
#[derive(Debug)]
pub(crate) struct WorkerFlows {
    pub(super) spare: Vec<FlowIndex>,
    pub(super) limbo: Vec<FlowIndex>,
    limbo_boundary: Option<(Boundary, usize)>,
}

impl WorkerFlows {
    pub(crate) fn new() -> Self {
        Self { spare: Vec::with_capacity(4 * BATCH), limbo: Vec::new(), limbo_boundary: None }
    }

    pub(super) fn take_pair(&mut self, table: &FlowTable) -> Option<(FlowIndex, FlowIndex)> {
        if self.spare.len() < 2 {
            self.refill(table);
        }
        if self.spare.len() < 2 {
            return None;
        }
        Some((self.spare.pop()?, self.spare.pop()?))
    }

    fn refill(&mut self, table: &FlowTable) {
        let mut free = table.free();
        let recycled = free.recycled.len().saturating_sub(BATCH);
        self.spare.extend(free.recycled.drain(recycled..));
        let room = table.slots.len() as u32 - free.next_fresh;
        let fresh = (BATCH.saturating_sub(self.spare.len()) as u32).min(room);
        self.spare.extend((free.next_fresh..free.next_fresh + fresh).map(FlowIndex));
        free.next_fresh += fresh;
        table.high_water.store(free.next_fresh, Ordering::Release);
    }

    /// Gives back the removed slots that no worker can be looking at any more.
    pub(super) fn reclaim(&mut self, table: &FlowTable, quiescence: &Quiescence) {
        if let Some((boundary, count)) = self.limbo_boundary {
            if !quiescence.passed(boundary) {
                return;
            }
            table.free().recycled.extend(self.limbo.drain(..count));
            self.limbo_boundary = None;
        }
        if !self.limbo.is_empty() {
            self.limbo_boundary = Some((quiescence.draw(), self.limbo.len()));
        }
    }
}
