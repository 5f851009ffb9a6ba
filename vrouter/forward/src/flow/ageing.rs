//! Forgetting flows that were idle too long.

use std::ops::Range;

use super::decision::{Actions, Direction, FlowIndex, Life};
use super::quiescence::Quiescence;
use super::reserve::WorkerFlows;
use super::slot::Slot;
use super::sync::Ordering;
use super::table::{FlowTable, tenths};
use super::tcp::ConnectionState;
use crate::frame::Time;

/// Ageing looks at so many slots at a time.
const SWEEP: u32 = 4096;
/// Of those, so many together.
const TOGETHER: usize = 64;
/// A look at the whole table takes about so many milliseconds.
const PASS: u64 = 1_000;
/// The same for a table that is mostly empty.
const SLOW_PASS: u64 = 8_000;

impl FlowTable {
    /// Forgets flows that were idle too long, a piece of the table at a time. Returns after how many
    /// milliseconds to go on; `None` once there are no flows at all.
    pub(crate) fn age(&self, worker: &mut WorkerFlows, now: Time, quiescence: &Quiescence) -> Option<u64> {
        worker.reclaim(self, quiescence);
        let high = self.high_water.load(Ordering::Acquire);
        let pieces = high.div_ceil(SWEEP).max(1);
        let piece = self.cursor.fetch_add(1, Ordering::Relaxed) % pieces;
        let tenths = tenths(now);
        let end = ((piece + 1) * SWEEP).min(high);
        for first in (piece * SWEEP..end).step_by(TOGETHER) {
            self.age_some(worker, first..(first + TOGETHER as u32).min(end), tenths);
        }
        worker.reclaim(self, quiescence);
        if self.is_empty() && worker.limbo.is_empty() {
            return None;
        }
        // No single step is long. A table that was once full and is nearly empty is not worth waking up for
        // often.
        let pass = if self.len() < high as usize / 4 { SLOW_PASS } else { PASS };
        Some((pass / u64::from(pieces)).clamp(5, 250))
    }

    /// Finds what is too old among a few slots before any of it is removed, so that their places in the index
    /// are on their way when they are needed.
    fn age_some(&self, worker: &mut WorkerFlows, numbers: Range<u32>, now: u32) {
        worker.due.extend(numbers.map(FlowIndex).filter(|index| self.is_due(*index, now)));
        for index in &worker.due {
            let slot = self.slot(*index);
            self.index.prefetch(self.hash_of(slot));
            self.index.prefetch(self.hash_of(self.slot(slot.reverse())));
        }
        while let Some(index) = worker.due.pop() {
            self.remove(worker, index);
        }
    }

    /// Whether a slot is an initiator's whose connection was idle too long.
    fn is_due(&self, index: FlowIndex, now: u32) -> bool {
        let slot = self.slot(index);
        let control = slot.control();
        if control.life != Life::Live || control.direction != Direction::Initiator {
            return false;
        }
        now.saturating_sub(self.last_seen(slot)) > self.idle_limit(slot) / 100
    }

    /// After how many milliseconds without packets a connection is forgotten, by its initiator's slot.
    pub(super) fn idle_limit(&self, initiator: &Slot) -> u32 {
        let timeouts = &self.config.timeouts;
        match self.state(initiator) {
            ConnectionState::Closed if initiator.decision().actions.has(Actions::SOURCE) => {
                timeouts.closed_translated
            }
            state => timeouts.of(initiator.protocol(), state),
        }
    }
}
