//! How long to wait before the next attempt.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// Doubles from the first wait to the longest, each shortened by up to half, so that nodes that lost one controller
/// together do not come back together.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// The next wait; `random` is any number.
    pub(super) fn next(&mut self, random: u64) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(self.longest);
        let shortened = (random % 1000) as u32;
        wait - wait / 2 * shortened / 1000
    }

    /// It went well: begin with the first wait again.
    pub(super) fn reset(&mut self) {
        self.next = self.first;
    }
}

/// A number that differs with every call and process; the standard library seeds its hash maps so.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_start_over() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
        let waits: Vec<_> = (0..8).map(|_| backoff.next(0).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        let shortest = backoff.next(999);
        assert!(shortest > Duration::from_millis(2500) && shortest < Duration::from_millis(2510));
        backoff.reset();
        assert_eq!(backoff.next(0).as_millis(), 100);
    }
}
