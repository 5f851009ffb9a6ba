//! Who answered how often, and what went wrong.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::session::Answer;

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
    /// Answers by the address that the pod saw its client at.
    pub clients: BTreeMap<String, u64>,
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
    pub fn answered(&mut self, answer: &Answer, before: Option<&str>) {
        self.requests += 1;
        *self.members.entry(answer.pod.clone()).or_default() += 1;
        *self.clients.entry(answer.client.clone()).or_default() += 1;
        self.moved += u64::from(before.is_some_and(|before| before != answer.pod));
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
        let by = |pod: &str| Answer { pod: pod.to_owned(), client: "10.0.0.1".to_owned() };
        tally.answered(&by("a"), None);
        tally.answered(&by("a"), Some("a"));
        tally.answered(&by("b"), Some("a"));
        tally.failed(&anyhow::anyhow!("no route"));
        assert_eq!((tally.requests, tally.failed, tally.moved), (4, 1, 1));
        assert_eq!(tally.members, BTreeMap::from([("a".into(), 2), ("b".into(), 1)]));
        assert_eq!(tally.clients, BTreeMap::from([("10.0.0.1".into(), 3)]));
    }
}
