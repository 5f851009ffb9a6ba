//! Who answered how often, and what went wrong.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

const EXAMPLES: usize = 5;

/// The sum of all requests of a run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Requests that were answered or failed.
    pub requests: u64,
    /// Requests without an answer, or with one that is none.
    pub failed: u64,
    /// Answers on an established connection by another pod than its first.
    pub moved: u64,
    /// Answers by pod.
    pub members: BTreeMap<String, u64>,
    /// Some of the errors.
    pub errors: Vec<String>,
    #[serde(skip)]
    begun: u64,
}

impl Tally {
    /// Counts a request that is about to begin; false where there were enough.
    pub fn take_turn(&mut self, most: Option<u64>) -> bool {
        let allowed = most.is_none_or(|most| self.begun < most);
        self.begun += u64::from(allowed);
        allowed
    }

    /// An answer, on a connection on which this pod had answered before.
    pub fn answered(&mut self, member: &str, before: Option<&str>) {
        self.requests += 1;
        *self.members.entry(member.to_owned()).or_default() += 1;
        self.moved += u64::from(before.is_some_and(|before| before != member));
    }

    /// No answer.
    pub fn failed(&mut self, error: &anyhow::Error) {
        self.requests += 1;
        self.failed += 1;
        if self.errors.len() < EXAMPLES {
            self.errors.push(format!("{error:#}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_member() {
        let mut tally = Tally::default();
        assert!(tally.take_turn(Some(1)));
        assert!(!tally.take_turn(Some(1)));
        tally.answered("a", None);
        tally.answered("a", Some("a"));
        tally.answered("b", Some("a"));
        tally.failed(&anyhow::anyhow!("no route"));
        assert_eq!((tally.requests, tally.failed, tally.moved), (4, 1, 1));
        assert_eq!(tally.members, BTreeMap::from([("a".into(), 2), ("b".into(), 1)]));
    }
}
