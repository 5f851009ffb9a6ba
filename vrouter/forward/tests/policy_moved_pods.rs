//! Pods that go to another node with their addresses, and connections that were begun before: policies follow them.

mod support;

use support::{
    ACK, Conversation, MEMBER_PORT, SYN, Voice, address, allow, binding, both_ways, egress, hold, in_set,
    ingress, peer_set, pod_name, publish, remove, select, voices,
};
use vrouter_forward::Family;
use vrouter_forward::frame::PortId;
use vrouter_forward::sim::{Cluster, Delivery, PodHandle};
use vrouter_objects::{IpNet, NextHop, Object, ObjectKey, Policy, Ports, Route, RouteKey};

/// A connection between pods of two nodes, of whom one will move.
struct Scene {
    cluster: Cluster,
    client: PodHandle,
    server: PodHandle,
    asked: Conversation,
    delivery: Delivery,
}

impl Scene {
    fn new((family, voice): (Family, Voice)) -> Self {
        let mut cluster = Cluster::new(3);
        let (client, server) = (cluster.pod(0), cluster.pod(1));
        let asked = Conversation::of(&client, voice, address(&server, family), MEMBER_PORT);
        let delivery = asked.must_open(&mut cluster);
        Self { cluster, client, server, asked, delivery }
    }

    /// Lets a pod go to another node, where this policy selects it from the first.
    fn go(&mut self, pod: &PodHandle, node: usize, policy: Policy) -> PodHandle {
        support::detach(&mut self.cluster, pod);
        remove(&mut self.cluster, pod.node, ObjectKey::PodBinding(pod_name(pod)));
        let hosts =
            [pod.v4, pod.v6].map(|address| RouteKey { vrf: support::vrf(1), prefix: IpNet::from(address) });
        let next_hop = NextHop::Tunnel(support::router(node));
        let routes = hosts.map(|key| Object::Route(Route { key, next_hop: next_hop.clone() }));
        self.cluster.put(&routes);
        let number = policy.id.get();
        hold(&mut self.cluster, policy);
        let next = PodHandle { node, port: PortId(3), ..pod.clone() };
        publish(&mut self.cluster, node, &[Object::PodBinding(binding(&next, &[number]))]);
        let there = self.cluster.pod_at(node, pod.v4, pod.v6);
        assert_eq!(there.port, next.port, "the binding is its own");
        there
    }

    /// What the server got, as if it had got it where it is now.
    fn at(&self, there: &PodHandle) -> Delivery {
        let mut delivery = Delivery { node: there.node, port: there.port, ..self.delivery.clone() };
        delivery.frame[..6].copy_from_slice(&there.mac.0);
        delivery
    }

    fn asked_by(&self, client: &PodHandle) -> Conversation {
        Conversation::of(client, self.asked.voice, self.asked.to, MEMBER_PORT)
    }
}

/// It may not be spoken to where it is now, so neither side hears the other, whoever speaks first.
#[test]
fn a_server_that_comes_to_its_clients_node_is_governed_there() {
    for case in voices() {
        let mut scene = Scene::new(case);
        let server = scene.server.clone();
        let there = scene.go(&server, 0, ingress(1, &[]));
        let from_there = scene.at(&there);
        for flags in [SYN | ACK, ACK] {
            assert!(!scene.asked.is_answered(&mut scene.cluster, &from_there, flags), "{case:?}");
            assert_eq!(scene.asked.heard(&mut scene.cluster, ACK), None, "{case:?}");
        }
    }
}

/// It may not speak to anybody where it is now.
#[test]
fn a_client_that_comes_to_its_servers_node_is_governed_there() {
    for case in voices() {
        let mut scene = Scene::new(case);
        let client = scene.client.clone();
        let there = scene.go(&client, 1, egress(1, &[]));
        let asked = scene.asked_by(&there);
        for flags in [ACK, SYN, ACK] {
            assert_eq!(asked.heard(&mut scene.cluster, flags), None, "{case:?}");
            assert!(!asked.is_answered(&mut scene.cluster, &scene.delivery, ACK), "{case:?}");
        }
    }
}

/// Who is let in by an address is let in with it from elsewhere, in the middle of a connection too.
#[test]
fn a_client_that_leaves_its_servers_node_keeps_its_connections() {
    for (family, voice) in voices() {
        let mut scene = Scene::new((family, voice));
        let (client, server) = (scene.cluster.pod(0), scene.cluster.pod(0));
        scene.cluster.put(&peer_set(1, &[&client]));
        hold(&mut scene.cluster, both_ways(1, &[allow(in_set(1), Ports::Any)]));
        select(&mut scene.cluster, &server, &[1]);
        let asked = Conversation::of(&client, voice, address(&server, family), MEMBER_PORT);
        let delivery = asked.must_open(&mut scene.cluster);
        support::detach(&mut scene.cluster, &client);
        let hosts = [client.v4, client.v6];
        let key = |address| RouteKey { vrf: support::vrf(1), prefix: IpNet::from(address) };
        let next_hop = NextHop::Tunnel(support::router(2));
        scene
            .cluster
            .put(&hosts.map(|host| Object::Route(Route { key: key(host), next_hop: next_hop.clone() })));
        let there = scene.cluster.pod_at(2, client.v4, client.v6);
        let asked = Conversation { client: support::Client::Pod(there), ..asked };
        asked.must_go_on(&mut scene.cluster, &delivery);
    }
}
