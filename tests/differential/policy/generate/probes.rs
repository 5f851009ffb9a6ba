//! Packets: who speaks to whom.

use std::net::IpAddr;

use vrouter_tests::lab::Family;

use super::places::{OUTSIDERS, PORTS};
use crate::fleet::NODES;
use crate::random::Random;
use crate::reach::{Origin, Probe, Target, Transport};
use crate::wire::Shape;
use crate::world::{Name, Protocol, World};

/// How often another is tried where one makes no packet.
const TRIES: usize = 20;

/// The first packet of a connection with this number.
pub fn probe(world: &World, id: u16, random: &mut Random) -> Probe {
    let mut probe = any(world, id, random);
    for _ in 0..TRIES {
        if probe.segment(world).is_some() {
            break;
        }
        probe = any(world, id, random);
    }
    probe
}

fn any(world: &World, id: u16, random: &mut Random) -> Probe {
    let family = random.pick(&Family::BOTH);
    let (from, to) = match random.below(20) {
        0..8 => (pod(world, random), target_pod(world, random)),
        8..11 => (pod(world, random), service(world, random, Target::Cluster)),
        11 => (pod(world, random), node_port(world, random)),
        12 => (pod(world, random), Target::Node(1 + random.below(NODES), random.pick(PORTS))),
        13 | 14 => (pod(world, random), Target::Outside(outsider(family, random), random.pick(PORTS))),
        15 | 16 => (Origin::Node(1 + random.below(NODES)), target_pod(world, random)),
        17 => (Origin::Node(1 + random.below(NODES)), service(world, random, Target::Cluster)),
        18 => (outside(family, random), node_port(world, random)),
        _ => (outside(family, random), target_pod(world, random)),
    };
    let spoken = match &to {
        Target::Cluster(name) | Target::NodePort(name, _) => world.services.get(name).map(|it| it.protocol),
        Target::Pod(..) | Target::Node(..) | Target::Outside(..) => None,
    };
    let transport = match (spoken, random.below(10)) {
        (Some(protocol), _) => Transport::Ports(protocol),
        (None, 0..4) => Transport::Ports(Protocol::Tcp),
        (None, 4..7) => Transport::Ports(Protocol::Udp),
        (None, 7 | 8) => Transport::Ports(Protocol::Sctp),
        (None, _) => Transport::Echo,
    };
    let shape = match (transport, random.below(16)) {
        (Transport::Ports(Protocol::Udp), 0) => Shape::Fragments,
        (Transport::Ports(Protocol::Udp), 1) => Shape::Backwards,
        _ => Shape::Whole,
    };
    Probe { id, from, to, family, transport, shape }
}

/// One of these names, or one that nobody has.
fn name<'a>(names: impl Iterator<Item = &'a Name>, random: &mut Random) -> Name {
    let names: Vec<&Name> = names.collect();
    if names.is_empty() { Name::new("nowhere", "nobody") } else { random.pick(&names).clone() }
}

fn pod(world: &World, random: &mut Random) -> Origin {
    Origin::Pod(name(world.attached().map(|(name, _)| name), random))
}

/// A pod, often at a port that it has a name for.
fn target_pod(world: &World, random: &mut Random) -> Target {
    let name = name(world.attached().map(|(name, _)| name), random);
    let named: Vec<u16> =
        world.pods.get(&name).iter().flat_map(|pod| &pod.ports).map(|port| port.number).collect();
    let port = if !named.is_empty() && random.percent(50) { random.pick(&named) } else { random.pick(PORTS) };
    Target::Pod(name, port)
}

fn service(world: &World, random: &mut Random, target: impl Fn(Name) -> Target) -> Target {
    target(name(world.services.keys(), random))
}

fn node_port(world: &World, random: &mut Random) -> Target {
    let node = 1 + random.below(NODES);
    service(world, random, |name| Target::NodePort(name, node))
}

fn outside(family: Family, random: &mut Random) -> Origin {
    Origin::Outside { address: outsider(family, random), entry: 1 + random.below(NODES) }
}

fn outsider(family: Family, random: &mut Random) -> IpAddr {
    let text = random.pick(OUTSIDERS[usize::from(family == Family::V6)]);
    text.parse().expect("a literal address")
}
