//! Counting what the cases came to.

use std::fmt;

use crate::expectation::Outcome;

/// How many cases came to what.
#[derive(Debug, Default)]
pub struct Tally {
    reached: usize,
    rejected: usize,
    dropped: usize,
    failures: usize,
    /// The first few, in full.
    told: Vec<String>,
}

impl Tally {
    const TOLD: usize = 5;

    /// Counts a case; a failure with all there is to say of it.
    pub fn count(&mut self, outcome: &Outcome, checked: Result<(), String>) {
        *match outcome {
            Outcome::Reaches(_) => &mut self.reached,
            Outcome::Rejected(_) => &mut self.rejected,
            Outcome::Dropped(_) => &mut self.dropped,
        } += 1;
        if let Err(problem) = checked {
            self.failures += 1;
            if self.told.len() < Self::TOLD {
                self.told.push(problem);
            }
        }
    }

    /// # Panics
    /// With the first failures, if there are any; and if an outcome never came.
    pub fn assert_all_went_well(&self) {
        assert_eq!(self.failures, 0, "{self}\n{}", self.told.join("\n"));
        assert!(self.reached > 0 && self.rejected > 0 && self.dropped > 0, "{self}");
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reached, rejected, dropped, failures, .. } = self;
        let cases = reached + rejected + dropped;
        write!(
            f,
            "{cases} cases: {reached} reach members, {rejected} are rejected, {dropped} dropped; {failures} failed"
        )
    }
}
