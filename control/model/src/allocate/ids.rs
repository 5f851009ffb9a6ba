//! Numbers that are given once.

use serde::{Deserialize, Serialize};

use super::given::Numbered;

/// Gives ids in ascending order, each once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Counter {
    last: u32,
}

impl Counter {
    /// A counter whose first number is 1.
    pub const NEW: Self = Self { last: 0 };

    /// The next id; `None` once four thousand million have been given.
    pub fn next<T: Numbered>(&mut self) -> Option<T> {
        self.range(1).and_then(|first| T::numbered(first).ok())
    }

    /// The first of so many numbers in a row.
    pub fn range(&mut self, count: u32) -> Option<u32> {
        let first = self.last.checked_add(1)?;
        self.last = self.last.checked_add(count)?;
        Some(first)
    }

    /// Whether this number was given.
    pub fn has_given(&self, number: u32) -> bool {
        (1..=self.last).contains(&number)
    }
}

impl Default for Counter {
    fn default() -> Self {
        Self::NEW
    }
}
