//! ClusterNetworkPolicies.

use vrouter_tests::lab::Family;

use super::labels::{NAMED_NAMESPACE, NODE, POD, selector};
use super::places::{PORT_NAMES, PORTS};
use super::policies::prefix;
use crate::random::Random;
use crate::text::{
    Action, ClusterPolicySpec, DestinationPort, Direction, NamespacedPods, Peer, PortRange, ProtocolMatch,
    ProtocolPorts, Rule, Subject, Tier,
};
use crate::world::{Protocol, World};

/// The name of one.
pub fn name(random: &mut Random) -> String {
    format!("cluster-policy-{}", random.below(4))
}

/// A policy.
pub fn policy(world: &World, random: &mut Random) -> ClusterPolicySpec {
    let subject = if random.percent(50) {
        Subject { namespaces: Some(selector(NAMED_NAMESPACE, random)), pods: None }
    } else {
        Subject { namespaces: None, pods: Some(pods(random)) }
    };
    let mut rules = |direction| {
        let count = random.pick(&[0, 1, 1, 2, 3]);
        (0..count).map(|_| rule(world, direction, random)).collect::<Vec<_>>()
    };
    let (ingress, egress) = (rules(Direction::Ingress), rules(Direction::Egress));
    ClusterPolicySpec {
        tier: random.pick(&[Tier::Admin, Tier::Baseline]),
        priority: random.pick(&[0, 10, 10, 1000]),
        subject,
        ingress,
        egress,
    }
}

fn pods(random: &mut Random) -> NamespacedPods {
    NamespacedPods {
        namespace_selector: selector(NAMED_NAMESPACE, random),
        pod_selector: selector(POD, random),
    }
}

fn rule(world: &World, direction: Direction, random: &mut Random) -> Rule {
    let action = random.pick(&[Action::Accept, Action::Accept, Action::Deny, Action::Deny, Action::Pass]);
    let name = if random.percent(50) { String::new() } else { format!("rule-{}", random.below(9)) };
    let count = random.pick(&[1, 1, 2]);
    let mut peers: Vec<Peer> = (0..count).map(|_| peer(world, direction, random)).collect();
    if random.percent(2) {
        // Nobody here knows such a peer.
        let unknown = Peer { domain_names: Some(vec!["example.com".to_owned()]), ..Peer::default() };
        peers = vec![if direction == Direction::Egress && action == Action::Accept {
            unknown
        } else {
            Peer::default()
        }];
    }
    let has_names = peers.iter().all(|peer| peer.nodes.is_none() && peer.networks.is_none());
    let count = random.pick(&[0, 0, 1, 1, 2]);
    let protocols = (0..count).map(|_| protocol(has_names, random)).collect();
    let (from, to) = match direction {
        Direction::Ingress => (peers, Vec::new()),
        Direction::Egress => (Vec::new(), peers),
    };
    Rule { name, action, from, to, protocols }
}

fn peer(world: &World, direction: Direction, random: &mut Random) -> Peer {
    let kinds = if direction == Direction::Egress { 6 } else { 4 };
    match random.below(kinds) {
        0 | 1 => Peer { namespaces: Some(selector(NAMED_NAMESPACE, random)), ..Peer::default() },
        2 | 3 => Peer { pods: Some(pods(random)), ..Peer::default() },
        4 => Peer { nodes: Some(selector(NODE, random)), ..Peer::default() },
        _ => {
            let networks = (0..1 + random.below(2)).map(|_| {
                let family = random.pick(&Family::BOTH);
                prefix(world, family, random)
            });
            Peer { networks: Some(networks.collect()), ..Peer::default() }
        }
    }
}

fn protocol(has_names: bool, random: &mut Random) -> ProtocolMatch {
    if has_names && random.percent(25) {
        let name = random.pick(PORT_NAMES).to_owned();
        return ProtocolMatch { destination_named_port: Some(name), ..ProtocolMatch::default() };
    }
    let start = random.pick(PORTS);
    let destination_port = if random.percent(70) {
        DestinationPort { number: Some(start), range: None }
    } else {
        DestinationPort {
            number: None,
            range: Some(PortRange { start, end: start + random.pick(&[1, 30, 8000]) }),
        }
    };
    let ports = Some(ProtocolPorts { destination_port });
    match random.pick(&Protocol::ALL) {
        Protocol::Tcp => ProtocolMatch { tcp: ports, ..ProtocolMatch::default() },
        Protocol::Udp => ProtocolMatch { udp: ports, ..ProtocolMatch::default() },
        Protocol::Sctp => ProtocolMatch { sctp: ports, ..ProtocolMatch::default() },
    }
}
