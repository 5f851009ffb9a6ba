//! Free slots: those of all, and those that each worker has at hand or may not give back yet.

use vrouter_arch::prefetch_write;

use super::decision::FlowIndex;
use super::quiescence::{Boundary, Quiescence};
use super::sync::Ordering;
use super::table::FlowTable;

/// How many slots a worker takes from the shared list at a time.
const BATCH: usize = 64;
/// Room for what a worker removes between two looks at the boundary.
const LIMBO: usize = 8192;

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
    /// Flows that are too old, for a moment.
    pub(super) due: Vec<FlowIndex>,
}

impl WorkerFlows {
    pub(crate) fn new() -> Self {
        Self {
            spare: Vec::with_capacity(2 * BATCH),
            limbo: Vec::with_capacity(LIMBO),
            limbo_boundary: None,
            due: Vec::with_capacity(BATCH),
        }
    }

    pub(super) fn take_pair(&mut self, table: &FlowTable) -> Option<(FlowIndex, FlowIndex)> {
        if self.spare.len() < 2 {
            self.refill(table);
        }
        if self.spare.len() < 2 {
            return None;
        }
        let pair = (self.spare.pop()?, self.spare.pop()?);
        // The next connection's slots are on their way while this one is dealt with.
        for index in self.spare.iter().rev().take(2) {
            let slot = table.slot(*index);
            prefetch_write(slot);
            prefetch_write(slot.second_line());
        }
        Some(pair)
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
