//! Policy on a node.

use std::net::IpAddr;

use vrouter_objects::{
    Object, Peer, PeerAddress, PeerAddressKey, PeerSet, PeerSetId, Peers, PodBinding, PodName, Policy,
    PolicyAction, PolicyId, PolicyRule, PortMatch, Ports, ServiceProtocol, Tier, VrfId,
};

/// How many strangers each rule is about.
const STRANGERS: u32 = 100;

/// A policy with so many rules that says whom the pod may speak to, and the sets that it refers to. Each rule is about a set of
/// its own, of strangers; these are in the last one's set as well.
pub fn governing(pod: PodName, rules: usize, these: &[IpAddr]) -> Vec<Object> {
    let numbers = 1..=rules as u32;
    let egress = numbers.clone().map(|number| PolicyRule {
        name: format!("egress[{}]", number - 1),
        action: PolicyAction::Allow,
        peers: Peers::These(vec![Peer::Set(set_id(number))]),
        ports: Ports::These(vec![PortMatch::Range {
            protocol: ServiceProtocol::Tcp,
            first: 1,
            last: u16::MAX,
        }]),
    });
    let id = PolicyId::new(1).expect("not 0");
    let policy = Policy {
        id,
        name: "NetworkPolicy default/policy".to_owned(),
        tier: Tier::Namespace,
        ingress: None,
        egress: Some(egress.collect()),
    };
    let binding = PodBinding { policies: vec![id], ..PodBinding::new(pod, "", pod_network()) };
    let mut objects = Vec::new();
    for number in numbers {
        objects.extend(set(number, (0..STRANGERS).map(|host| stranger(number * STRANGERS + host))));
    }
    objects.extend(these.iter().map(|&address| element(rules as u32, address)));
    objects.extend([Object::Policy(policy), Object::PodBinding(binding)]);
    objects
}

/// A set of these addresses.
pub fn set(number: u32, addresses: impl IntoIterator<Item = IpAddr>) -> Vec<Object> {
    let set = PeerSet { id: set_id(number), name: format!("set {number}") };
    let elements = addresses.into_iter().map(|address| element(number, address));
    [Object::PeerSet(set)].into_iter().chain(elements).collect()
}

/// An address of a set.
pub fn element(set: u32, address: IpAddr) -> Object {
    let key = PeerAddressKey { set: set_id(set), space: pod_network(), address };
    Object::PeerAddress(PeerAddress { key, port: None })
}

/// Somebody else's address, another for each number below 2^19.
pub fn stranger(number: u32) -> IpAddr {
    IpAddr::from((0x0ac8_0000 | number).to_be_bytes())
}

fn set_id(number: u32) -> PeerSetId {
    PeerSetId::new(number).expect("not 0")
}

fn pod_network() -> VrfId {
    VrfId::new(1).expect("not 0")
}
