//! Nodes, namespaces and pods.

use std::net::IpAddr;

use vrouter_tests::lab::Family;

use super::{cluster_policies, labels, policies, services};
use crate::fleet::NODES;
use crate::objects::node_address;
use crate::random::Random;
use crate::world::{Isolation, Name, NamedPort, Namespace, Node, Phase, Pod, Protocol, Status, World};

/// The namespaces that may be.
pub const NAMESPACES: &[&str] = &["shop", "bank", "lab", "vault"];
/// The names that ports have.
pub const PORT_NAMES: &[&str] = &["http", "dns", "admin"];
/// The ports that are spoken to, and that policies know.
pub const PORTS: &[u16] = &[53, 80, 81, 8080, 8443];
/// Those outside.
pub const OUTSIDERS: [&[&str]; 2] = [
    &["198.51.100.7", "198.51.100.200", "203.0.113.9"],
    &["2001:db8:51::7", "2001:db8:51:1::7", "2001:db8:71::9"],
];

/// The last number that a pod may have: its address's last part, and the same address is nobody else's on its node.
const LAST_POD: usize = 200;

/// A world.
pub fn world(random: &mut Random) -> World {
    let mut world = World::default();
    for number in 1..=NODES {
        world.nodes.insert(number, node(random));
    }
    for name in NAMESPACES {
        if let Some(namespace) = namespace(name, random) {
            world.namespaces.insert((*name).to_owned(), namespace);
        }
    }
    for _ in 0..5 + random.below(6) {
        let (name, pod) = pod(&world, random);
        world.pods.insert(name, pod);
    }
    for _ in 0..2 + random.below(4) {
        services::add(&mut world, random);
    }
    for _ in 0..random.below(9) {
        let name = policies::name(random);
        world.policies.insert(name, policies::policy(&world, random));
    }
    if random.percent(50) {
        for _ in 0..1 + random.below(3) {
            let name = cluster_policies::name(random);
            world.cluster_policies.insert(name, cluster_policies::policy(&world, random));
        }
    }
    world
}

/// A node.
pub fn node(random: &mut Random) -> Node {
    Node { labels: labels::labels(labels::NODE, random) }
}

/// A namespace; `None`: it is not declared.
fn namespace(name: &str, random: &mut Random) -> Option<Namespace> {
    let isolation = match (name, random.below(4)) {
        // What is isolated stays so; most worlds have one such namespace.
        ("vault", 0 | 1) => Isolation::ByLabel,
        ("vault", 2) => Isolation::ByAnnotation,
        ("lab", 0) => Isolation::ByLabel,
        _ => Isolation::Shared,
    };
    let labels = labels::labels(labels::NAMESPACE, random);
    (isolation != Isolation::Shared || random.percent(75)).then_some(Namespace { labels, isolation })
}

/// A pod that is not there yet.
pub fn pod(world: &World, random: &mut Random) -> (Name, Pod) {
    let namespace = random.pick(NAMESPACES);
    let node = 1 + random.below(NODES);
    let is_free = |number: &usize| {
        let taken =
            |pod: &Pod| Family::BOTH.iter().any(|it| pod.addresses.contains(&address(node, *number, *it)));
        !world.pods.contains_key(&Name::new(namespace, &format!("pod-{number}")))
            && !world.pods.values().any(taken)
    };
    let number = (10..LAST_POD).find(is_free).unwrap_or(LAST_POD);
    let phase = match random.below(20) {
        0..14 => Phase::Running,
        14 | 15 => Phase::Terminating,
        16 => Phase::Finished,
        _ => Phase::OnHost,
    };
    let families =
        random.pick(&[&Family::BOTH[..], &Family::BOTH[..], &Family::BOTH[..], &[Family::V4], &[Family::V6]]);
    // A finished pod's status may still say an address that is another's by now.
    let squatter = world.attached().next().map(|(_, pod)| pod.addresses.clone());
    let addresses = match (phase, squatter) {
        (Phase::OnHost, _) => Family::BOTH.map(|family| node_address(node, family)).to_vec(),
        (Phase::Finished, Some(addresses)) if random.percent(80) => addresses,
        _ => families.iter().map(|family| address(node, number, *family)).collect(),
    };
    let status = if phase == Phase::Finished || random.percent(60) { Status::Stated } else { Status::Silent };
    let labels = labels::labels(labels::POD, random);
    let pod = Pod { node, labels, ports: named_ports(random), addresses, phase, status };
    (Name::new(namespace, &format!("pod-{number}")), pod)
}

/// Ports with names: the same name may mean another number in each pod, and for each protocol.
pub fn named_ports(random: &mut Random) -> Vec<NamedPort> {
    let mut ports = Vec::new();
    for name in PORT_NAMES {
        for protocol in Protocol::ALL {
            if random.percent(if protocol == Protocol::Tcp { 50 } else { 20 }) {
                ports.push(NamedPort { name: (*name).to_owned(), protocol, number: random.pick(PORTS) });
            }
        }
    }
    ports
}

fn address(node: usize, number: usize, family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::from([10, 244, node as u8, number as u8]),
        Family::V6 => IpAddr::from([0xfd00, 0x10, 0x244, node as u16, 0, 0, 0, number as u16]),
    }
}
