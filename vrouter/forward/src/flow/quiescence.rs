//! Burst boundaries: how the agent knows that no worker still uses what it took out of service.
//!
//! A worker announces the boundary number it has seen before each burst, and that it is idle before it
//! sleeps. Whoever took something out of service (swapped the snapshot, unlinked a flow) draws a new number;
//! once every worker has announced it or is idle, nobody holds on to the old thing.

use super::sync::{AtomicU64, Ordering, fence};

const IDLE: u64 = u64::MAX;

/// A point in every worker's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Boundary(u64);

/// One worker's announcement, alone on its cache line.
#[derive(Debug)]
#[repr(align(128))]
struct Announced(AtomicU64);

/// The boundaries of all workers.
#[derive(Debug)]
pub struct Quiescence {
    next: AtomicU64,
    workers: Box<[Announced]>,
}

impl Quiescence {
    /// For so many workers, all idle.
    pub fn new(workers: usize) -> Self {
        Self {
            next: AtomicU64::new(1),
            workers: (0..workers).map(|_| Announced(AtomicU64::new(IDLE))).collect(),
        }
    }

    /// The worker begins a burst. To be called before it loads the snapshot or looks at the flow table.
    #[inline]
    pub fn enter(&self, worker: usize) {
        // Release: what the burst before this one did is done once the new number is seen.
        self.workers[worker].0.store(self.next.load(Ordering::Relaxed), Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// The worker holds on to nothing until it enters again.
    pub fn leave(&self, worker: usize) {
        self.workers[worker].0.store(IDLE, Ordering::Release);
    }

    /// A new boundary, to be drawn after something was taken out of service.
    pub fn draw(&self) -> Boundary {
        fence(Ordering::SeqCst);
        Boundary(self.next.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// Whether every worker has passed this boundary.
    pub fn passed(&self, boundary: Boundary) -> bool {
        fence(Ordering::SeqCst);
        self.workers.iter().all(|worker| worker.0.load(Ordering::Acquire) >= boundary.0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_boundary_is_passed_by_entering_again_or_leaving() {
        let quiescence = Quiescence::new(2);
        quiescence.enter(0);
        let boundary = quiescence.draw();
        assert!(!quiescence.passed(boundary), "worker 0 is in a burst that began before");
        quiescence.enter(0);
        assert!(quiescence.passed(boundary), "worker 0 began anew, worker 1 is idle");
        quiescence.enter(1);
        let later = quiescence.draw();
        quiescence.leave(0);
        assert!(!quiescence.passed(later));
        quiescence.leave(1);
        assert!(quiescence.passed(later));
    }
}
