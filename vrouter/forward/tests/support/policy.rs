//! Network policies, as the controller would push them.

use std::net::IpAddr;

use vrouter_forward::sim::{Cluster, PodHandle};
use vrouter_objects::{
    IpNet, NamedPort, Object, ObjectKey, Peer, PeerAddress, PeerAddressKey, PeerSet, PeerSetId, Peers,
    PodBinding, PodName, Policy, PolicyAction, PolicyId, PolicyRule, PortMatch, Ports, ServiceProtocol, Tier,
    VrfId,
};

use super::network::{publish, remove};
use super::tenancy::vrf;

/// A NetworkPolicy of this number that governs nothing yet.
pub fn network_policy(number: u32) -> Policy {
    policy(number, Tier::Namespace)
}

/// A policy of any tier that governs nothing yet.
pub fn policy(number: u32, tier: Tier) -> Policy {
    let name = format!("NetworkPolicy default/policy-{number}");
    Policy { id: policy_id(number), name, tier, ingress: None, egress: None }
}

/// A NetworkPolicy with these rules for what comes in.
pub fn ingress(number: u32, rules: &[PolicyRule]) -> Policy {
    Policy { ingress: Some(rules.to_vec()), ..network_policy(number) }
}

/// A NetworkPolicy with these rules for what goes out.
pub fn egress(number: u32, rules: &[PolicyRule]) -> Policy {
    Policy { egress: Some(rules.to_vec()), ..network_policy(number) }
}

/// A NetworkPolicy with these rules for both.
pub fn both_ways(number: u32, rules: &[PolicyRule]) -> Policy {
    Policy { egress: Some(rules.to_vec()), ..ingress(number, rules) }
}

pub fn policy_id(number: u32) -> PolicyId {
    PolicyId::new(number).expect("not 0")
}

pub fn allow(peers: Peers, ports: Ports) -> PolicyRule {
    rule(PolicyAction::Allow, peers, ports)
}

pub fn rule(action: PolicyAction, peers: Peers, ports: Ports) -> PolicyRule {
    PolicyRule { name: format!("{action}"), action, peers, ports }
}

/// Whoever is in the set of this number.
pub fn in_set(number: u32) -> Peers {
    Peers::These(vec![Peer::Set(set_id(number))])
}

/// Whoever has an address of this prefix, and none of those.
pub fn in_block(prefix: &str, except: &[&str]) -> Peers {
    let net = |text: &str| text.parse::<IpNet>().expect("a literal prefix");
    Peers::These(vec![Peer::Block {
        prefix: net(prefix),
        except: except.iter().map(|text| net(text)).collect(),
    }])
}

pub fn one_port(protocol: ServiceProtocol, port: u16) -> Ports {
    Ports::These(vec![PortMatch::Range { protocol, first: port, last: port }])
}

/// The port that the selected pod itself calls so.
pub fn own_port(protocol: ServiceProtocol, name: &str) -> Ports {
    Ports::These(vec![PortMatch::Own { protocol, name: name.to_owned() }])
}

pub fn set_id(number: u32) -> PeerSetId {
    PeerSetId::new(number).expect("not 0")
}

/// The set of this number with these pods of the cluster's own network in it.
pub fn peer_set(number: u32, pods: &[&PodHandle]) -> Vec<Object> {
    let set = PeerSet { id: set_id(number), name: format!("set {number}") };
    let members = pods.iter().flat_map(|pod| peer_addresses(number, vrf(1), pod));
    [Object::PeerSet(set)].into_iter().chain(members).collect()
}

/// A pod's addresses in an address space, as elements of a set.
pub fn peer_addresses(set: u32, space: VrfId, pod: &PodHandle) -> [Object; 2] {
    [pod.v4, pod.v6].map(|address| peer_address(set, space, address))
}

pub fn peer_address(set: u32, space: VrfId, address: IpAddr) -> Object {
    let key = PeerAddressKey { set: set_id(set), space, address };
    Object::PeerAddress(PeerAddress { key, port: None })
}

pub fn pod_name(pod: &PodHandle) -> PodName {
    PodName { namespace: "default".to_owned(), name: format!("pod-{}", pod.port.0) }
}

/// What the controller says of a pod of the cluster's own network that these policies select.
pub fn binding(pod: &PodHandle, policies: &[u32]) -> PodBinding {
    let policies = policies.iter().map(|number| policy_id(*number)).collect();
    PodBinding { policies, ..PodBinding::new(pod_name(pod), "", vrf(1)) }
}

/// Lets these policies, and no others, select a pod.
pub fn select(cluster: &mut Cluster, pod: &PodHandle, policies: &[u32]) {
    publish(cluster, pod.node, &[Object::PodBinding(binding(pod, policies))]);
}

/// The same for a pod that has a named port.
pub fn select_with_port(
    cluster: &mut Cluster,
    pod: &PodHandle,
    policies: &[u32],
    (name, protocol, port): (&str, ServiceProtocol, u16),
) {
    let port = NamedPort { name: name.to_owned(), protocol, port: super::service::port(port) };
    let binding = PodBinding { ports: vec![port], ..binding(pod, policies) };
    publish(cluster, pod.node, &[Object::PodBinding(binding)]);
}

/// Holds a policy on every node.
pub fn hold(cluster: &mut Cluster, policy: Policy) {
    cluster.put(&[Object::Policy(policy)]);
}

/// Takes a policy off every node.
pub fn drop_policy(cluster: &mut Cluster, number: u32) {
    for node in 0..cluster.nodes.len() {
        remove(cluster, node, ObjectKey::Policy(policy_id(number)));
    }
}

/// Holds a policy and lets it alone select a pod.
pub fn govern(cluster: &mut Cluster, pod: &PodHandle, policy: Policy) {
    let number = policy.id.get();
    hold(cluster, policy);
    select(cluster, pod, &[number]);
}
