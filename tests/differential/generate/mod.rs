//! Random objects: Services of every kind with their EndpointSlices, valid as an API server would have them.

mod endpoints;
mod service;

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::objects::Objects;
use crate::random::Random;

/// How many services one ruleset has.
const SERVICES: u16 = 40;
const FIRST_NODE_PORT: i32 = 30_000;

/// What the objects of one run share.
#[derive(Debug)]
struct Generator<'a> {
    random: &'a mut Random,
    /// External addresses with the protocol and port that a service has taken: others may have the same address at other
    /// ports.
    taken: BTreeSet<(IpAddr, String, i32)>,
    node_ports: i32,
}

/// The objects of a seed.
pub fn objects(random: &mut Random) -> Objects {
    let mut generator = Generator { random, taken: BTreeSet::new(), node_ports: FIRST_NODE_PORT };
    let mut services = Vec::new();
    let mut slices = Vec::new();
    for number in 0..SERVICES {
        let service = generator.service(number);
        slices.extend(generator.slices(&service));
        services.push(service);
    }
    Objects::new(services, slices)
}
