//! What a worker does about a port that sends faster than whoever receives can take it.

use std::num::NonZero;
use std::thread;
use std::time::Duration;

/// How long it pauses, and the timer's slack on top. Meanwhile the port's queue goes on filling, and what does not fit
/// is dropped by the sender's kernel, at the least cost to anybody.
const PAUSE: Duration = Duration::from_micros(20);

/// Whether receivers have to wait for a core because the worker is on it.
///
/// A flooded worker never finds its queues empty, so it never sleeps. Where it shares the cores with those it sends to,
/// they do not come to read meanwhile: their sockets overflow, and most of what it carried was carried in vain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cores {
    /// There are at least two more for every worker.
    Ample,
    /// There are not.
    Shared,
}

impl Cores {
    /// For so many workers, on this machine.
    pub(crate) fn for_workers(workers: usize) -> Self {
        Self::of(thread::available_parallelism().map_or(1, NonZero::get), workers)
    }

    fn of(cores: usize, workers: usize) -> Self {
        if cores >= 3 * workers { Self::Ample } else { Self::Shared }
    }

    /// Leaves the core to others for a moment, where they need it. The worker must hold on to nothing.
    pub(super) fn pause(self) {
        if self == Self::Shared {
            thread::sleep(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_shared_where_there_are_less_than_three_for_a_worker() {
        for (cores, workers, expected) in
            [(1, 1, Cores::Shared), (2, 1, Cores::Shared), (3, 1, Cores::Ample), (8, 4, Cores::Shared)]
        {
            assert_eq!(Cores::of(cores, workers), expected, "{cores} cores, {workers} workers");
        }
    }
}
