//! Sends packets through the router for a profiler that counts instructions (`scripts/instructions`): only what happens
//! inside `Lane::process_burst` is of interest.

use std::env;

use anyhow::{Context, Result};
use vrouter_benches::{
    DEFAULT_SLOTS, Direction, Established, Layout, Newcomers, Place, ROUND, Round, Site, Target, Traffic,
};
use vrouter_forward::Family;

const ROUNDS: usize = 20;
const BURST: usize = 64;
const FLOWS: usize = 1_000;

/// The cases by name, each with what is counted.
const CASES: [(&str, fn()); 11] = [
    ("established-nat-10-services", || established(services(10), Direction::Both)),
    ("established-nat-10000-services", || established(services(10_000), Direction::Both)),
    ("established-nat-forward", || established(services(10), Direction::Forward)),
    ("established-nat-reply", || established(services(10), Direction::Reply)),
    ("established-nat-ipv6", || established(Layout { family: Family::V6, ..services(10) }, Direction::Both)),
    ("established-plain", || {
        established(Layout { target: Target::Members, ..services(10) }, Direction::Both)
    }),
    ("established-nat-to-tunnel", || established(across(services(10)), Direction::Forward)),
    ("established-nat-from-tunnel", || established(across(services(10)), Direction::Reply)),
    ("flow-setup", || flow_setup(services(10))),
    ("flow-setup-plain", || flow_setup(Layout { target: Target::Members, ..services(10) })),
    ("flow-setup-to-tunnel", || flow_setup(across(services(10)))),
];

fn main() -> Result<()> {
    match env::args().nth(1) {
        None => CASES.iter().for_each(|(name, _)| println!("{name}")),
        Some(wanted) => {
            let case = CASES.iter().find(|(name, _)| *name == wanted);
            let (_, run) = case.with_context(|| format!("there is no case {wanted}"))?;
            run();
            println!("{}", ROUNDS * ROUND);
        }
    }
    Ok(())
}

fn services(services: usize) -> Layout {
    Layout { members: 3, ..Layout::new(services, DEFAULT_SLOTS) }
}

fn across(layout: Layout) -> Layout {
    Layout { place: Place::Cross, ..layout }
}

fn established(layout: Layout, direction: Direction) {
    let bench = Established::new(layout, FLOWS / 2);
    send(&bench.site, bench.traffic(direction, 0, 1));
}

fn flow_setup(layout: Layout) {
    let site = Site::new(layout);
    send(&site, Newcomers::new(&site));
}

fn send(site: &Site, mut traffic: impl Traffic) {
    let mut lane = site.router.lane(0);
    let mut round = Round::new(&traffic, BURST);
    for _ in 0..ROUNDS {
        round.take(&mut traffic, &mut lane);
    }
    round.check();
}
