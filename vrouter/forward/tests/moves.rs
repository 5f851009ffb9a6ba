//! Addresses that change hands: the next packet goes where the address now is, established flow or not.

mod support;

use std::net::IpAddr;

use support::{
    ACK, Conversation, FAMILIES, SYN, Voice, address, detach, dropped, only, packet, publish, vip,
};
use vrouter_forward::Family;
use vrouter_forward::sim::{Cluster, PodHandle, ServiceSpec};
use vrouter_objects::{DropReason, NextHop, Object, Route, RouteKey, RouterId, ServiceProtocol, VrfId};

/// The routes by which every other node reaches a pod that is not in its node's block.
fn routes_to(pod: &PodHandle) -> Vec<Object> {
    let route = |address: IpAddr| {
        let key = RouteKey { vrf: VrfId::new(1).unwrap(), prefix: address.into() };
        let next_hop = NextHop::Tunnel(RouterId::new(pod.node as u32 + 1).unwrap());
        Object::Route(Route { key, next_hop })
    };
    vec![route(pod.v4), route(pod.v6)]
}

/// How a client addresses a pod.
#[derive(Debug, Clone, Copy)]
enum By {
    Address,
    Service,
}

struct Scene {
    cluster: Cluster,
    client: PodHandle,
    server: PodHandle,
}

impl Scene {
    fn new(client_node: usize, server_node: usize) -> Self {
        let mut cluster = Cluster::new(3);
        let (client, server) = (cluster.pod(client_node), cluster.pod(server_node));
        for (number, family) in (1..).zip(FAMILIES) {
            let members = [(address(&server, family), 8080)];
            cluster
                .put(&[ServiceSpec::new(number, vip(family), ServiceProtocol::Tcp, 80, &members).object()]);
        }
        Self { cluster, client, server }
    }

    fn send(&mut self, family: Family, by: By, flags: u8) -> Vec<vrouter_forward::sim::Delivery> {
        let (to, port) = match by {
            By::Address => (address(&self.server, family), 8080),
            By::Service => (vip(family), 80),
        };
        // Two connections that must not be taken for one.
        let from_port = if matches!(by, By::Service) { 4000 } else { 5000 };
        let frame = packet(address(&self.client, family), to, ServiceProtocol::Tcp, (from_port, port), flags);
        self.cluster.send(&self.client.clone(), &frame)
    }

    fn assert_reaches_server(&mut self, family: Family, by: By, flags: u8) {
        let delivered = self.send(family, by, flags);
        let label = format!("{family:?} {by:?} {flags}");
        assert_eq!(only(&delivered).destination, address(&self.server, family), "{label}");
        assert_eq!((delivered[0].node, delivered[0].port), (self.server.node, self.server.port), "{label}");
        assert_eq!(delivered[0].frame[..6], self.server.mac.0, "{label}");
    }
}

#[test]
fn cni_5_an_address_used_again_has_the_new_mac() {
    for client_node in [0, 1] {
        for (family, by) in
            FAMILIES.into_iter().flat_map(|family| [(family, By::Address), (family, By::Service)])
        {
            let mut scene = Scene::new(client_node, 0);
            scene.assert_reaches_server(family, by, SYN);
            let old = scene.server.clone();
            detach(&mut scene.cluster, &old);
            assert_eq!(
                scene.cluster.nodes[0].tables.interfaces().filter(|(vmi, _)| vmi.id == old.vmi).count(),
                0
            );
            scene.server = scene.cluster.pod_at(0, old.v4, old.v6);
            assert_ne!(scene.server.mac, old.mac);
            scene.assert_reaches_server(family, by, ACK);
            scene.assert_reaches_server(family, by, SYN);
        }
    }
}

/// The port of a pod that is gone speaks for nobody, also where its number is used again.
#[test]
fn cni_5_a_port_used_again_is_the_new_pods() {
    let mut scene = Scene::new(0, 0);
    let old = scene.client.clone();
    scene.assert_reaches_server(Family::V4, By::Address, SYN);
    detach(&mut scene.cluster, &old);
    assert_eq!(scene.send(Family::V4, By::Address, ACK), []);
    assert_eq!(dropped(&scene.cluster, 0, DropReason::UnknownPort), 1);
}

#[test]
fn cni_6_a_moved_pod_is_found_at_once() {
    for (from, to) in [(1, 2), (0, 1), (1, 0)] {
        for (family, by) in
            FAMILIES.into_iter().flat_map(|family| [(family, By::Address), (family, By::Service)])
        {
            let mut scene = Scene::new(0, from);
            scene.assert_reaches_server(family, by, SYN);
            let old = scene.server.clone();
            detach(&mut scene.cluster, &old);
            scene.server = scene.cluster.pod_at(to, old.v4, old.v6);
            let routes = routes_to(&scene.server);
            scene.cluster.put(&routes);
            scene.assert_reaches_server(family, by, ACK);
            // What it answers from there comes as from where the client sent to.
            let ports = if matches!(by, By::Service) { (8080, 4000) } else { (8080, 5000) };
            let (server, client) = (scene.server.clone(), scene.client.clone());
            let answer =
                packet(address(&server, family), address(&client, family), ServiceProtocol::Tcp, ports, ACK);
            let back = scene.cluster.send(&server, &answer);
            let expected = if matches!(by, By::Service) { vip(family) } else { address(&server, family) };
            assert_eq!(only(&back).source, expected, "{from} to {to}, {family:?} {by:?}");
            assert_eq!((back[0].node, back[0].port), (client.node, client.port));
        }
    }
}

/// A node that is told late sends to the old place, which neither delivers nor sends on.
#[test]
fn cni_6_the_old_node_does_not_send_on() {
    let mut scene = Scene::new(0, 1);
    scene.assert_reaches_server(Family::V4, By::Address, SYN);
    let old = scene.server.clone();
    detach(&mut scene.cluster, &old);
    scene.server = scene.cluster.pod_at(2, old.v4, old.v6);
    let routes = routes_to(&scene.server);
    publish(&mut scene.cluster, 1, &routes);
    assert_eq!(scene.send(Family::V4, By::Address, ACK), []);
    assert_eq!(dropped(&scene.cluster, 1, DropReason::RouteLoop), 1);
    publish(&mut scene.cluster, 0, &routes);
    scene.assert_reaches_server(Family::V4, By::Address, ACK);
}

/// Whoever is pinged pings back by the same number, after the other has gone to another node: what belongs to one ping is no
/// answer for the other.
#[test]
fn a_ping_back_goes_where_the_address_is_now() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(3);
        let (client, server) = (cluster.pod(1), cluster.pod(0));
        let ping = Conversation::of(&client, Voice::Ping, address(&server, family), 0);
        ping.must_open(&mut cluster);
        detach(&mut cluster, &client);
        cluster.put(&routes_to(&PodHandle { node: 2, ..client.clone() }));
        let moved = cluster.pod_at(2, client.v4, client.v6);
        let back = Conversation::of(&server, Voice::Ping, address(&client, family), 0);
        let delivery = back.heard(&mut cluster, SYN).expect("it is there");
        assert_eq!((delivery.node, delivery.port), (moved.node, moved.port), "{family:?}");
        assert!(back.is_answered(&mut cluster, &delivery, ACK), "{family:?}");
    }
}
