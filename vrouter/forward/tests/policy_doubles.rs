//! Addresses that a tenant's pods have and somebody else as well: nobody is taken for the other.

mod support;

use std::collections::BTreeSet;

use support::{
    ACK, Client, Conversation, MEMBER_PORT, Network, SYN, Tenancy, Voice, address, allow, binding, hold,
    in_set, ingress, is_at, peer_addresses, protocols, publish, published, select, vip, voices,
};
use vrouter_forward::Family;
use vrouter_forward::sim::{Delivery, PodHandle, node_addresses};
use vrouter_objects::{Object, PeerSet, PodBinding, Ports, ServiceProtocol};

/// The nodes' own subnets.
const SUBNETS: [&str; 2] = ["172.30.0.0/24", "fd00:172:30::/64"];
/// Out of the second node's block.
const SERVER: [&str; 2] = ["10.244.2.10", "fd00:10:244:2::10"];

/// The server's network knows the tenant's, so that packets bear the pod's own address.
#[test]
fn a_pod_with_the_address_of_the_servers_node_is_not_that_node() {
    for (case, far) in voices().flat_map(|case| [(case, 0), (case, 1)]) {
        let (family, voice) = case;
        let networks = vec![Network::default_pods(), Network::custom(1, SUBNETS)];
        let mut tenancy = Tenancy::new(2, networks, BTreeSet::from([(0, 1)]));
        let [v4, v6] = SERVER.map(|text| text.parse().expect("a literal address"));
        let server = tenancy.pod(0, 1, v4, v6);
        let [v4, v6] = node_addresses(server.node);
        let double = tenancy.pod(1, far, v4, v6);
        let asked = Conversation::of(&double, voice, address(&server, family), MEMBER_PORT);
        let standing = asked.must_open(&mut tenancy.cluster);
        hold(&mut tenancy.cluster, ingress(1, &[]));
        select(&mut tenancy.cluster, &server, &[1]);
        asked.must_be_cut(&mut tenancy.cluster, &standing);
        let other = asked.by(4001);
        assert!(!other.is_open(&mut tenancy.cluster), "{case:?} on node {far}");
        let node = Conversation::new(Client::Node(1), voice, address(&server, family), MEMBER_PORT);
        assert!(node.is_open(&mut tenancy.cluster), "{case:?}: its own node may");
    }
}

const CLIENTS: [&str; 2] = ["10.50.0.0/24", "fd00:50::/64"];
const SERVERS: [&str; 2] = ["10.60.0.0/24", "fd00:60::/64"];
const NODE_PORT: u16 = 30_080;

/// A tenant's server on the first node, published at a port of all nodes, and a pod on the second of a network that the
/// server's knows.
struct Scene {
    tenancy: Tenancy,
    server: PodHandle,
    known: PodHandle,
    family: Family,
    voice: Voice,
}

impl Scene {
    fn new(family: Family, protocol: ServiceProtocol) -> Self {
        let networks =
            vec![Network::default_pods(), Network::custom(1, CLIENTS), Network::custom(2, SERVERS)];
        let mut tenancy = Tenancy::new(3, networks, BTreeSet::from([(1, 2)]));
        let [v4, v6] = tenancy.addresses(2, 0);
        let server = tenancy.pod(2, 0, v4, v6);
        let [v4, v6] = tenancy.addresses(1, 1);
        let known = tenancy.pod(1, 1, v4, v6);
        let network = &tenancy.networks[2];
        let members = [network.member(1, &server, family, MEMBER_PORT)];
        let service = network.service(1, vip(family), 80, &members);
        let service = published(service, NODE_PORT, support::load_balancer_ip(family));
        tenancy.cluster.put(&[Object::FloatingIp(service)]);
        Self { tenancy, server, known, family, voice: Voice::Service(protocol) }
    }

    /// Somebody beyond the nodes, who has the pod's address, sends to a node's port; says what came to the server.
    fn outsider_sends(&mut self, node: usize, from_port: u16, flags: u8) -> Option<Delivery> {
        let from = (address(&self.known, self.family), from_port);
        let to = node_addresses(node)[usize::from(self.family == Family::V6)];
        let frame = self.voice.frame(from, (to, NODE_PORT), flags);
        let deliveries = self.tenancy.cluster.send_from_host(node, &frame);
        deliveries.into_iter().find(|delivery| is_at(delivery, &self.server))
    }
}

/// By whatever node they come, the one with the pod among them.
#[test]
fn who_is_outside_is_served_though_a_pod_of_a_known_network_has_the_address() {
    for ((family, protocol), node) in protocols().flat_map(|case| [0, 1, 2].map(|node| (case, node))) {
        let mut scene = Scene::new(family, protocol);
        let label = format!("{family:?} {protocol} by node {node}");
        let there = scene.outsider_sends(node, 4000, SYN).unwrap_or_else(|| panic!("{label}: not served"));
        let answer = scene.voice.answer(&support::read(&there.frame), SYN | ACK);
        let back = support::send_from(&mut scene.tenancy.cluster, &there, &answer);
        assert!(back.iter().any(|delivery| support::is_at_host(delivery, node)), "{label}: {back:?}");
    }
}

#[test]
fn who_is_outside_is_not_let_in_as_the_pod_of_a_known_network_that_has_the_address() {
    for ((family, protocol), node) in protocols().flat_map(|case| [0, 1, 2].map(|node| (case, node))) {
        let mut scene = Scene::new(family, protocol);
        let set = PeerSet { id: support::set_id(1), name: "the pod".to_owned() };
        let space = scene.tenancy.networks[1].pods;
        scene.tenancy.cluster.put(&[Object::PeerSet(set)]);
        scene.tenancy.cluster.put(&peer_addresses(1, space, &scene.known));
        hold(&mut scene.tenancy.cluster, ingress(1, &[allow(in_set(1), Ports::Any)]));
        let bound = PodBinding { vrf: scene.tenancy.networks[2].pods, ..binding(&scene.server, &[1]) };
        publish(&mut scene.tenancy.cluster, 0, &[Object::PodBinding(bound)]);
        let label = format!("{family:?} {protocol} by node {node}");
        assert_eq!(scene.outsider_sends(node, 4000, SYN), None, "{label}");
        let asked = Conversation::of(&scene.known, scene.voice, address(&scene.server, family), MEMBER_PORT);
        assert!(asked.is_open(&mut scene.tenancy.cluster), "{label}: the pod is let in");
    }
}
