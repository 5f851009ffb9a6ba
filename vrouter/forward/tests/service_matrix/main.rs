//! Every kind of frontend × traffic policies × protocol × family × client × members × source ranges × affinity: who
//! is reached, in whose name, what the client is answered, or how it is refused. The cases are spanned by their axes
//! (`case.rs`). What is right is said by `expectation.rs`, from the documentation of Kubernetes and the router alone.

mod case;
mod expectation;
mod ids;
mod journey;
mod kernel_node;
#[path = "../support/mod.rs"]
mod support;
mod tally;
mod world;

use case::{Affinity, Case, NODES, services};
use expectation::{Outcome, expect};
use journey::{Checked, Journey};
use tally::Tally;
use vrouter_forward::Family;
use vrouter_objects::ServiceProtocol;
use world::{Kept, World};

#[test]
fn tcp_over_ipv4() {
    check(ServiceProtocol::Tcp, Family::V4);
}

#[test]
fn tcp_over_ipv6() {
    check(ServiceProtocol::Tcp, Family::V6);
}

#[test]
fn udp_over_ipv4() {
    check(ServiceProtocol::Udp, Family::V4);
}

#[test]
fn udp_over_ipv6() {
    check(ServiceProtocol::Udp, Family::V6);
}

#[test]
fn sctp_over_ipv4() {
    check(ServiceProtocol::Sctp, Family::V4);
}

#[test]
fn sctp_over_ipv6() {
    check(ServiceProtocol::Sctp, Family::V6);
}

/// Goes through the table of one protocol and family. All its cases share a cluster, one service after the other.
fn check(protocol: ServiceProtocol, family: Family) {
    let mut world = World::new(protocol, family);
    let mut tally = Tally::default();
    for service in services() {
        world.install(&service);
        for case in (0..NODES).flat_map(|entry| service.cases(entry)) {
            let outcome = expect(&case);
            let _announced = Announced(&case);
            let checked = check_case(&mut world, &case, &outcome);
            let told = |problem| format!("{protocol} over {family:?}: {case}\n    {problem}\n{world}");
            tally.count(&outcome, checked.map_err(told));
        }
        world.retire();
    }
    println!("{protocol} over {family:?}: {tally}");
    tally.assert_all_went_well();
}

/// Names the case in which something panics.
struct Announced<'a>(&'a Case<'a>);

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in the case: {}", self.0);
        }
    }
}

/// Sends the case's connections and compares all that comes of them, and what the nodes counted, with the outcome.
fn check_case(world: &mut World, case: &Case<'_>, outcome: &Outcome) -> Checked<()> {
    let before = world.drops();
    let mut journey = Journey::new(world, case);
    let refused = match outcome {
        Outcome::Reaches(sightings) => {
            let kept = match case.service.affinity {
                Affinity::None => Kept::Nobody,
                Affinity::ClientIp => journey.kept(),
            };
            journey.reaches(sightings, kept)?;
            None
        }
        Outcome::Rejected(reason) => {
            journey.is_rejected()?;
            Some(*reason)
        }
        Outcome::Dropped(reason) => {
            journey.is_dropped()?;
            Some(*reason)
        }
    };
    world.check_drops(&before, case.entry, refused)
}
