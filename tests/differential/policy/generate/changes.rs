//! What changes in a world while connections live.

use std::net::IpAddr;

use super::{cluster_policies, labels, places, policies};
use crate::fleet::NODES;
use crate::random::Random;
use crate::script::Change;
use crate::world::{Isolation, Name, Namespace, Phase, Pod, Status, World};

/// Pods that a world has at most.
const PODS: usize = 14;

/// One change.
pub fn change(world: &World, random: &mut Random) -> Change {
    match random.below(20) {
        0..7 => put_policy(world, random),
        7 | 8 => drop_policy(world, random),
        9 | 10 => put_cluster_policy(world, random),
        11 => drop_cluster_policy(world, random),
        12..15 => with_pod(world, random, |pod, random| pod.labels = labels::labels(labels::POD, random)),
        15 => with_pod(world, random, advance),
        16 => come(world, random),
        17 => go(world, random),
        18 => namespace(world, random),
        _ => Change::Node(1 + random.below(NODES), places::node(random)),
    }
}

fn put_policy(world: &World, random: &mut Random) -> Change {
    let name = policies::name(random);
    Change::Policy(name, Some(Box::new(policies::policy(world, random))))
}

fn drop_policy(world: &World, random: &mut Random) -> Change {
    let names: Vec<&Name> = world.policies.keys().collect();
    match names.len() {
        0 => put_policy(world, random),
        _ => Change::Policy(random.pick(&names).clone(), None),
    }
}

fn put_cluster_policy(world: &World, random: &mut Random) -> Change {
    let name = cluster_policies::name(random);
    Change::ClusterPolicy(name, Some(cluster_policies::policy(world, random)))
}

fn drop_cluster_policy(world: &World, random: &mut Random) -> Change {
    let names: Vec<&String> = world.cluster_policies.keys().collect();
    match names.len() {
        0 => put_cluster_policy(world, random),
        _ => Change::ClusterPolicy(random.pick(&names).clone(), None),
    }
}

fn with_pod(world: &World, random: &mut Random, change: impl Fn(&mut Pod, &mut Random)) -> Change {
    let names: Vec<&Name> = world.pods.keys().collect();
    if names.is_empty() {
        return come(world, random);
    }
    let name = random.pick(&names).clone();
    let mut pod = world.pods[&name].clone();
    change(&mut pod, random);
    Change::Pod(name, Some(pod))
}

/// A pod grows older, or its status is written.
fn advance(pod: &mut Pod, random: &mut Random) {
    pod.phase = match pod.phase {
        Phase::Running if random.percent(50) => Phase::Terminating,
        Phase::Running | Phase::Terminating if random.percent(50) => Phase::Finished,
        other => other,
    };
    pod.status = Status::Stated;
}

fn come(world: &World, random: &mut Random) -> Change {
    if world.pods.len() >= PODS {
        return go(world, random);
    }
    let (name, mut pod) = places::pod(world, random);
    // Somebody else's former address.
    let gone = world.pods.values().find(|pod| pod.phase == Phase::Finished);
    let is_held = |address: &IpAddr| world.attached().any(|(_, pod)| pod.addresses.contains(address));
    let is_free = |former: &&Pod| !former.addresses.iter().any(is_held);
    if let Some(former) = gone.filter(is_free).filter(|_| pod.is_attached()) {
        (pod.node, pod.addresses) = (former.node, former.addresses.clone());
    }
    Change::Pod(name, Some(pod))
}

fn go(world: &World, random: &mut Random) -> Change {
    let names: Vec<&Name> = world.pods.keys().collect();
    match names.len() {
        0..4 => put_policy(world, random),
        _ => Change::Pod(random.pick(&names).clone(), None),
    }
}

/// Labels of a namespace change, or whether it is declared; what is isolated stays so.
fn namespace(world: &World, random: &mut Random) -> Change {
    let name = random.pick(places::NAMESPACES).to_owned();
    let isolation = world.namespaces.get(&name).map_or(Isolation::Shared, |it| it.isolation);
    let labels = labels::labels(labels::NAMESPACE, random);
    let is_declared = isolation != Isolation::Shared || random.percent(75);
    Change::Namespace(name, is_declared.then_some(Namespace { labels, isolation }))
}
