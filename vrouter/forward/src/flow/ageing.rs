//! Forgetting flows that were idle too long.

use super::quiescence::Quiescence;
use super::reserve::WorkerFlows;
use super::slot::{Direction, FlowIndex, Life};
use super::sync::Ordering;
use super::table::{FlowTable, tenths};
use crate::frame::Time;

/// Ageing looks at so many slots at a time.
const SWEEP: u32 = 4096;
/// A look at the whole table takes about so many milliseconds.
const PASS: u64 = 1_000;
/// The same for a table that is mostly empty.
const SLOW_PASS: u64 = 8_000;

impl FlowTable {
    /// Forgets flows that were idle too long, a piece of the table at a time. Returns after how many milliseconds to go
    /// on; `None` once there are no flows at all.
    pub(crate) fn age(&self, worker: &mut WorkerFlows, now: Time, quiescence: &Quiescence) -> Option<u64> {
        worker.reclaim(self, quiescence);
        let high = self.high_water.load(Ordering::Acquire);
        let pieces = high.div_ceil(SWEEP).max(1);
        let piece = self.cursor.fetch_add(1, Ordering::Relaxed) % pieces;
        let tenths = tenths(now);
        for number in piece * SWEEP..((piece + 1) * SWEEP).min(high) {
            self.age_one(worker, FlowIndex(number), tenths);
        }
        worker.reclaim(self, quiescence);
        if self.is_empty() && worker.limbo.is_empty() {
            return None;
        }
        // No single step is long. A table that was once full and is nearly empty is not worth waking up for often.
        let pass = if self.len() < high as usize / 4 { SLOW_PASS } else { PASS };
        Some((pass / u64::from(pieces)).clamp(5, 250))
    }

    fn age_one(&self, worker: &mut WorkerFlows, index: FlowIndex, now: u32) {
        let slot = self.slot(index);
        let control = slot.control();
        if control.life != Life::Live || control.direction != Direction::Initiator {
            return;
        }
        let timeout = self.config.timeouts.of(slot.protocol(), self.state(slot)) / 100;
        if now.saturating_sub(self.last_seen(slot)) > timeout {
            self.remove(worker, index);
        }
    }
}
