//! Counters that stand in the tables and outlive them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often something was decided here: a new flow, or a packet that was dropped.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hits(Arc<AtomicU64>);

impl Hits {
    /// Counts one.
    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How many there were.
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
