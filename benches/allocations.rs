//! Counts allocations, apart from the timed benches, since counting costs time: none may happen per established packet or
//! new connection. And says how many bytes a connection takes, all told, when there are a million.

use std::alloc::System;

use anyhow::{Result, ensure};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use vrouter_benches::{
    DEFAULT_SLOTS, Direction, Established, Layout, Newcomers, Place, ROUND, Round, Site, Traffic,
};
use vrouter_forward::Family;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const SERVICES: usize = 1_000;
const FLOWS: usize = 10_000;
const BURST: usize = 64;
/// After so many rounds every buffer is as large as it ever gets.
const WARM_UP: usize = 300;
const ROUNDS: usize = 1_000;
const CONNECTIONS: usize = 1_000_000;
/// What so many connections may take.
const MOST_BYTES: usize = 400_000_000;

fn main() -> Result<()> {
    let layout = Layout::new(SERVICES, DEFAULT_SLOTS);
    let across = Layout { place: Place::Cross, ..layout };
    println!("{:<28} {:>24}", "", "allocations per packet");
    let counts = [
        ("established", established(layout, Direction::Both)),
        ("established, IPv6", established(Layout { family: Family::V6, ..layout }, Direction::Both)),
        ("established, to a tunnel", established(across, Direction::Forward)),
        ("established, from a tunnel", established(across, Direction::Reply)),
        ("flow setup", flow_setup(layout)),
        ("flow setup, to a tunnel", flow_setup(across)),
    ];
    for (name, count) in counts {
        println!("{name:<28} {:>24}", count as f64 / (ROUNDS * ROUND) as f64);
    }
    let bytes = bytes_held_by_connections();
    println!("\n{CONNECTIONS} connections: {bytes} bytes, {} each", bytes / CONNECTIONS);
    ensure!(counts.iter().all(|(_, count)| *count == 0), "there are allocations per packet");
    ensure!(bytes <= MOST_BYTES, "{CONNECTIONS} connections take more than {MOST_BYTES} bytes: {bytes}");
    Ok(())
}

fn established(layout: Layout, direction: Direction) -> usize {
    let bench = Established::new(layout, FLOWS / 2);
    count(&bench.site, bench.traffic(direction, 0, 1))
}

fn flow_setup(layout: Layout) -> usize {
    let site = Site::new(layout);
    count(&site, Newcomers::new(&site))
}

/// How many allocations the rounds take, once everything is warm. Old flows are forgotten between them: that is counted
/// too.
fn count(site: &Site, mut traffic: impl Traffic) -> usize {
    let mut lane = site.router.lane(0);
    let mut round = Round::new(&traffic, BURST);
    let mut run = |rounds| {
        for _ in 0..rounds {
            round.take(&mut traffic, &mut lane);
        }
    };
    run(WARM_UP);
    let region = Region::new(ALLOCATOR);
    run(ROUNDS);
    let change = region.change();
    round.check();
    change.allocations + change.reallocations
}

/// What a router with a table for so many connections holds when it has them: slots, index, counters and tables.
fn bytes_held_by_connections() -> usize {
    let region = Region::new(ALLOCATOR);
    // Twenty services, so that a client's ports suffice.
    let site = Site::new(Layout::new(20, 2 * (CONNECTIONS + ROUND)));
    begin_connections(&site);
    let change = region.change();
    change.bytes_allocated - change.bytes_deallocated
}

fn begin_connections(site: &Site) {
    let mut lane = site.router.lane(0);
    let mut traffic = Newcomers::new(site);
    let mut round = Round::new(&traffic, BURST);
    for _ in 0..CONNECTIONS.div_ceil(ROUND) {
        round.send(&mut traffic, &mut lane);
    }
    round.check();
    assert!(site.router.shared.flows.len() >= 2 * CONNECTIONS, "all of them are there");
}
