//! NetworkPolicies: everything that may be written, and some that may not.

use std::net::IpAddr;

use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer,
    NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use vrouter_tests::lab::Family;

use super::labels::{NAMED_NAMESPACE, POD, selector, senseless};
use super::places::{NAMESPACES, OUTSIDERS, PORT_NAMES, PORTS};
use crate::fleet::NODES;
use crate::objects::{block, node_address};
use crate::random::Random;
use crate::world::{Name, Protocol, World, family_of};

/// How many policies a namespace has at most.
const NAMES: usize = 3;

/// Where a policy is put.
pub fn name(random: &mut Random) -> Name {
    Name::new(random.pick(NAMESPACES), &format!("policy-{}", random.below(NAMES)))
}

/// A policy.
pub fn policy(world: &World, random: &mut Random) -> NetworkPolicy {
    let types = random.pick(&[
        None,
        None,
        Some(&[][..]),
        Some(&["Ingress"]),
        Some(&["Egress"]),
        Some(&["Ingress", "Egress"]),
        Some(&["Ingress", "Egress"]),
    ]);
    let ingress = rules(random, |random| {
        let (from, ports) = (peers(world, random), ports(random));
        NetworkPolicyIngressRule { from, ports }
    });
    let egress = rules(random, |random| {
        let (to, ports) = (peers(world, random), ports(random));
        NetworkPolicyEgressRule { to, ports }
    });
    let pod_selector = (!random.percent(5)).then(|| selector(POD, random));
    let policy_types = types.map(|types| types.iter().map(|it| (*it).to_owned()).collect());
    let spec = NetworkPolicySpec { pod_selector, policy_types, ingress, egress };
    NetworkPolicy { spec: Some(spec), ..NetworkPolicy::default() }
}

fn rules<T>(random: &mut Random, rule: impl Fn(&mut Random) -> T) -> Option<Vec<T>> {
    let count = match random.below(10) {
        0 | 1 => return None,
        2 => 0,
        3..7 => 1,
        7 | 8 => 2,
        _ => 3,
    };
    Some((0..count).map(|_| rule(random)).collect())
}

fn peers(world: &World, random: &mut Random) -> Option<Vec<NetworkPolicyPeer>> {
    let count = match random.below(10) {
        0 => return None,
        1 => 0,
        2..7 => 1,
        7 | 8 => 2,
        _ => 3,
    };
    Some((0..count).map(|_| peer(world, random)).collect())
}

fn peer(world: &World, random: &mut Random) -> NetworkPolicyPeer {
    let (block, namespaces, pods) = match random.below(40) {
        0..11 => (false, false, true),
        11..20 => (false, true, false),
        20..28 => (false, true, true),
        28..38 => (true, false, false),
        // Neither of these may be.
        38 => (true, random.percent(50), true),
        _ => (false, false, false),
    };
    let faulty = random.percent(2);
    let select =
        |words, random: &mut Random| if faulty { senseless(words, random) } else { selector(words, random) };
    NetworkPolicyPeer {
        ip_block: block.then(|| ip_block(world, random)),
        namespace_selector: namespaces.then(|| select(NAMED_NAMESPACE, random)),
        pod_selector: pods.then(|| select(POD, random)),
    }
}

/// A block around something that is there, with exceptions around something else.
fn ip_block(world: &World, random: &mut Random) -> IPBlock {
    if random.percent(3) {
        let cidr = random.pick(&["10.244.0.0", "10.244.0.0/33", "nonsense/8", "fd00::/129"]).to_owned();
        return IPBlock { cidr, except: None };
    }
    let family = random.pick(&Family::BOTH);
    let cidr = prefix(world, family, random);
    let count = random.pick(&[0, 0, 0, 1, 1, 2]);
    let length: u8 = cidr.split_once('/').and_then(|(_, length)| length.parse().ok()).unwrap_or(0);
    let outside_too = random.percent(2);
    let inside = (0..12).map(|_| prefix(world, family, random));
    let inside = inside.filter(|text| outside_too || is_within(text, &cidr, length)).take(count).collect();
    IPBlock { cidr, except: (count > 0 || random.percent(20)).then_some(inside) }
}

/// Prefixes of one address: of all that is, of the cluster's networks, of a node's pods, of one alone.
pub fn prefix(world: &World, family: Family, random: &mut Random) -> String {
    let zero = if family == Family::V4 { "0.0.0.0/0" } else { "::/0" };
    let by = |v4: &str, v6: &str| if family == Family::V4 { v4.to_owned() } else { v6.to_owned() };
    match random.below(12) {
        0 => zero.to_owned(),
        1 => by("10.244.0.0/16", "fd00:10:244::/48"),
        2 | 3 => block(1 + random.below(NODES), family),
        4 | 5 => {
            let addresses = world.pods.values().flat_map(|pod| &pod.addresses);
            let addresses: Vec<IpAddr> = addresses.copied().filter(|it| family_of(*it) == family).collect();
            match addresses.len() {
                0 => zero.to_owned(),
                _ => format!("{}/{}", random.pick(&addresses), by("32", "128")),
            }
        }
        6 => by("172.30.0.0/24", "fd00:172:30::/64"),
        7 => format!("{}/{}", node_address(1 + random.below(NODES), family), by("32", "128")),
        8 => by("198.51.100.0/24", "2001:db8:51::/48"),
        9 => by("198.51.100.0/25", "2001:db8:51::/64"),
        10 => {
            let outsiders = OUTSIDERS[usize::from(family == Family::V6)];
            format!("{}/{}", random.pick(outsiders), by("32", "128"))
        }
        // Services are translated before policy is asked: this means nobody.
        _ => by("10.96.0.0/12", "fd00:10:96::/108"),
    }
}

fn is_within(text: &str, cidr: &str, length: u8) -> bool {
    let Some((address, own)) = text.split_once('/') else { return false };
    let (Ok(address), Ok(own)) = (address.parse::<IpAddr>(), own.parse::<u8>()) else { return false };
    let Ok(net) = cidr.parse::<ipnet::IpNet>() else { return false };
    own > length && net.contains(&address)
}

fn ports(random: &mut Random) -> Option<Vec<NetworkPolicyPort>> {
    let count = match random.below(10) {
        0..3 => return None,
        3 => 0,
        4..7 => 1,
        7 | 8 => 2,
        _ => 4,
    };
    Some((0..count).map(|_| port(random)).collect())
}

fn port(random: &mut Random) -> NetworkPolicyPort {
    let protocol = match random.below(30) {
        0..8 => None,
        8..28 => Some(random.pick(&Protocol::ALL).name()),
        28 => Some("ICMP"),
        _ => Some("tcp"),
    };
    let number = i32::from(random.pick(PORTS));
    let name = random.pick(PORT_NAMES).to_owned();
    let (port, end_port) = match random.below(40) {
        0..8 => (None, None),
        8..20 => (Some(IntOrString::Int(number)), None),
        20..26 => {
            let end = number + random.pick(&[0, 1, 30, 8000]);
            (Some(IntOrString::Int(number)), Some(end))
        }
        26..37 => (Some(IntOrString::String(name)), None),
        // None of these may be.
        37 => (None, Some(number)),
        38 => (Some(IntOrString::String(name)), Some(number)),
        _ => (Some(IntOrString::Int(number)), Some(number - 1)),
    };
    NetworkPolicyPort { protocol: protocol.map(str::to_owned), port, end_port }
}
