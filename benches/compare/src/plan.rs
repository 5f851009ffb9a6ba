//! What is measured, in which order.

use std::fmt;

use serde::Serialize;

use crate::arguments::{Arguments, Extent};
use crate::case::Case;
use crate::subject::{Place, Services, Site, Subject};

/// Loaded in the usual run.
pub const USUAL: Services = Services(1000);

/// Loaded besides, to see whether their number matters.
const SCALE: [Services; 2] = [Services(10), Services(10_000)];

/// One building of one subject, and the cases measured in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// Counted from 0.
    pub round: usize,
    /// Where client and servers are.
    pub place: Place,
    /// Beside how many other services.
    pub services: Services,
    /// What forwards.
    pub subject: Subject,
    /// One after the other.
    pub cases: Vec<Case>,
}

/// A subject that cannot be had at a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// The subject.
    pub subject: Subject,
    /// Where.
    pub place: Place,
    /// Why not.
    pub reason: String,
}

/// A whole run.
#[derive(Debug)]
pub struct Plan {
    /// In order.
    pub stages: Vec<Stage>,
    /// What was asked for and cannot be measured.
    pub skipped: Vec<Skipped>,
}

impl Plan {
    /// What these arguments ask for.
    pub fn of(arguments: &Arguments) -> Self {
        Self::with(arguments, |subject, place| Site::is_supported(subject, place, arguments.policy))
    }

    fn with(arguments: &Arguments, is_supported: impl Fn(Subject, Place) -> Result<(), String>) -> Self {
        let mut plan = Self { stages: Vec::new(), skipped: Vec::new() };
        for place in arguments.places() {
            let mut subjects = Vec::new();
            for subject in arguments.subjects() {
                match is_supported(subject, place) {
                    Ok(()) => subjects.push(subject),
                    Err(reason) => plan.skipped.push(Skipped { subject, place, reason }),
                }
            }
            plan.add(place, USUAL, &subjects, &arguments.cases(), arguments.rounds());
            if arguments.extent() == Extent::Full {
                let cases: Vec<_> =
                    arguments.cases().into_iter().filter(|case| case.tells_of_scale()).collect();
                subjects.retain(|subject| is_scaled(*subject));
                for services in SCALE {
                    plan.add(place, services, &subjects, &cases, arguments.rounds());
                }
            }
        }
        plan
    }

    fn add(&mut self, place: Place, services: Services, subjects: &[Subject], cases: &[Case], rounds: usize) {
        if subjects.is_empty() || cases.is_empty() {
            return;
        }
        for round in 0..rounds {
            let stage = |subject: Subject| {
                let services = subject.loaded(services);
                Stage { round, place, services, subject, cases: cases.to_vec() }
            };
            self.stages.extend(turns(subjects, round).into_iter().map(stage));
        }
    }

    /// How many measurements it comes to.
    pub fn measurements(&self) -> usize {
        self.stages.iter().map(|stage| stage.cases.len()).sum()
    }
}

/// The subjects' order in a round: every other round goes backwards, and each pair of rounds begins one further on. So none
/// always follows the same one, and what drifts in the course of a run touches the first and the last alike.
fn turns(subjects: &[Subject], round: usize) -> Vec<Subject> {
    let mut order = subjects.to_vec();
    order.rotate_left(round / 2 % subjects.len());
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// Whether it is measured with other numbers of services too: all that have services.
fn is_scaled(subject: Subject) -> bool {
    subject.loaded(USUAL) != Services::NONE
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { round, place, services, subject, .. } = self;
        write!(f, "{subject}, {place}, {services}, round {}", round + 1)
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}: {}", self.subject, self.place, self.reason)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn plan(line: &str) -> Plan {
        let arguments = Arguments::try_parse_from(line.split(' ')).unwrap();
        Plan::with(&arguments, |subject, place| match (subject, place) {
            (Subject::Veth, Place::Cross) => Err("no tunnel".to_owned()),
            _ => Ok(()),
        })
    }

    #[test]
    fn subjects_take_turns_and_turns_change() {
        let plan = plan("bench --quick --place same --only crr");
        let order: Vec<_> = plan.stages.iter().map(|stage| (stage.round, stage.subject)).collect();
        let (ours, theirs) = (Subject::VRouter, Subject::Nftables);
        assert_eq!(order, [(0, ours), (0, theirs), (1, theirs), (1, ours), (2, theirs), (2, ours)]);
        assert_eq!(plan.measurements(), 6);
        let subjects = [ours, theirs, Subject::Veth];
        assert_eq!(turns(&subjects, 1), [Subject::Veth, theirs, ours]);
        assert_eq!(turns(&subjects, 2), [theirs, Subject::Veth, ours]);
        assert_eq!(turns(&subjects, 3), [ours, Subject::Veth, theirs]);
    }

    #[test]
    fn a_quick_run_has_all_cases_and_places() {
        let plan = plan("bench --quick");
        assert_eq!(plan.measurements(), 2 * 2 * 3 * 8);
        assert!(plan.stages.iter().all(|stage| stage.services == USUAL));
    }

    #[test]
    fn a_full_run_looks_at_scale_where_services_are_known() {
        let plan = plan("bench --rounds 1");
        let (bare, known): (Vec<_>, Vec<_>) =
            plan.stages.iter().partition(|stage| stage.services == Services::NONE);
        assert!(bare.iter().all(|stage| stage.subject == Subject::Veth && stage.cases.len() == 8));
        let scaled: Vec<_> = known.into_iter().filter(|stage| stage.services != USUAL).collect();
        assert_eq!(scaled.len(), 5 * 2 * 2);
        assert!(scaled.iter().all(|stage| stage.cases == [Case::Tcp1, Case::Crr]));
        assert!(scaled.iter().all(|stage| is_scaled(stage.subject)));
    }

    #[test]
    fn what_cannot_be_had_is_told() {
        let plan = plan("bench --subject veth --only udp64");
        let reason = "no tunnel".to_owned();
        assert_eq!(plan.skipped, [Skipped { subject: Subject::Veth, place: Place::Cross, reason }]);
        assert!(plan.stages.iter().all(|stage| stage.place == Place::Same));
    }
}
