//! Asking a world questions, and gathering what it says.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use anyhow::Result;

use crate::packet::Probe;
use crate::question::Question;
use crate::verdict::{Answer, Verdict};

/// Something that does with packets what a node does.
pub trait World {
    /// What becomes of each of these, sent one after the other.
    fn ask(&mut self, probes: &[Probe]) -> Result<Vec<Verdict>>;
}

/// A question with the packets that ask it.
#[derive(Debug)]
pub struct Asked<'a> {
    /// The question.
    pub question: &'a Question,
    /// The packets.
    pub probes: Vec<Probe>,
}

/// The answers of a world to these questions, in their order.
pub fn answers(world: &mut impl World, asked: &[Asked]) -> Result<Vec<Answer>> {
    let probes: Vec<Probe> = asked.iter().flat_map(|asked| asked.probes.iter().copied()).collect();
    let mut verdicts = world.ask(&probes)?.into_iter();
    let answer = |asked: &Asked| {
        let verdicts: Vec<Verdict> = verdicts.by_ref().take(asked.probes.len()).collect();
        answer(asked, &verdicts)
    };
    Ok(asked.iter().map(answer).collect())
}

fn answer(asked: &Asked, verdicts: &[Verdict]) -> Answer {
    let mut by_address: BTreeMap<IpAddr, BTreeSet<Verdict>> = BTreeMap::new();
    for (probe, verdict) in asked.probes.iter().zip(verdicts) {
        by_address.entry(probe.source.ip()).or_default().insert(*verdict);
    }
    let is_sticky = asked.question.is_sticky;
    let wavering = by_address.values().filter(|verdicts| is_sticky && verdicts.len() > 1).count();
    // A single client address meets a single member, and which one is chance.
    let one_member = is_sticky && !asked.question.client.is_many();
    let seen = |verdict: Verdict| {
        if one_member { verdict.of_any_member(asked.question.destination) } else { verdict }
    };
    Answer { verdicts: by_address.into_values().flatten().map(seen).collect(), wavering }
}
