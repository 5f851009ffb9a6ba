//! Pods that get an address which another had before, with connections of the other's still in the table: they are judged
//! by their own policies.

mod support;

use support::{
    ACK, Conversation, MEMBER_PORT, SYN, Voice, address, allow, binding, both_ways, egress, hold, in_set,
    ingress, is_at, peer_set, pod_name, publish, remove, select, voices, vrf,
};
use vrouter_forward::Family;
use vrouter_forward::frame::PortId;
use vrouter_forward::sim::{Cluster, Delivery, PodHandle};
use vrouter_objects::{NextHop, Object, ObjectKey, Peers, Policy, Ports, Route, RouteKey};

struct Scene {
    cluster: Cluster,
    client: PodHandle,
    server: PodHandle,
    asked: Conversation,
    delivery: Delivery,
    label: String,
}

/// A connection of two pods on one node and on two, without any policy.
fn scenes() -> impl Iterator<Item = Scene> {
    voices().flat_map(|case| [0, 1].map(|far| Scene::new(case, far)))
}

impl Scene {
    fn new((family, voice): (Family, Voice), far: usize) -> Self {
        let mut cluster = Cluster::new(2);
        let (client, server) = (cluster.pod(0), cluster.pod(far));
        let asked = Conversation::of(&client, voice, address(&server, family), MEMBER_PORT);
        let delivery = asked.must_open(&mut cluster);
        let label = format!("{family:?} {voice:?} to node {far}");
        Self { cluster, client, server, asked, delivery, label }
    }

    /// Takes a pod away and attaches another with its addresses, which this policy selects from the first.
    fn succeed(&mut self, pod: &PodHandle, policy: Policy) -> PodHandle {
        support::detach(&mut self.cluster, pod);
        remove(&mut self.cluster, pod.node, ObjectKey::PodBinding(pod_name(pod)));
        let next = PodHandle { port: PortId(3), ..pod.clone() };
        let number = policy.id.get();
        hold(&mut self.cluster, policy);
        publish(&mut self.cluster, pod.node, &[Object::PodBinding(binding(&next, &[number]))]);
        let heir = self.cluster.pod_at(pod.node, pod.v4, pod.v6);
        assert_eq!(heir.port, next.port, "the binding is its own");
        heir
    }

    /// What the server got, as if its heir had got it.
    fn at(&self, heir: &PodHandle) -> Delivery {
        let mut delivery = Delivery { port: heir.port, ..self.delivery.clone() };
        delivery.frame[..6].copy_from_slice(&heir.mac.0);
        delivery
    }
}

/// Its predecessor's clients come to it, and it may not be spoken to.
#[test]
fn a_server_that_inherits_an_address_does_not_inherit_the_connections() {
    for mut scene in scenes() {
        let server = scene.server.clone();
        let heir = scene.succeed(&server, ingress(1, &[]));
        for flags in [ACK, SYN, ACK] {
            assert_eq!(scene.asked.heard(&mut scene.cluster, flags), None, "{}", scene.label);
        }
        let from_heir = scene.at(&heir);
        assert!(!scene.asked.is_answered(&mut scene.cluster, &from_heir, ACK), "{}", scene.label);
    }
}

/// It may say nothing, and what it says has the ports of what its predecessor answered.
#[test]
fn a_server_that_inherits_an_address_may_not_answer_for_its_predecessor() {
    for mut scene in scenes() {
        let server = scene.server.clone();
        let heir = scene.succeed(&server, both_ways(1, &[]));
        let from_heir = scene.at(&heir);
        for flags in [ACK, SYN | ACK] {
            assert!(!scene.asked.is_answered(&mut scene.cluster, &from_heir, flags), "{}", scene.label);
        }
    }
}

/// Nor where its predecessor's connections led nowhere meanwhile.
#[test]
fn a_server_that_inherits_an_address_from_nobody_may_not_answer_for_its_predecessor() {
    for mut scene in scenes() {
        let server = scene.server.clone();
        support::detach(&mut scene.cluster, &server);
        let hosts = [server.v4, server.v6].map(|address| RouteKey { vrf: vrf(1), prefix: address.into() });
        let nowhere = hosts.map(|key| Object::Route(Route { key, next_hop: NextHop::Discard }));
        publish(&mut scene.cluster, server.node, &nowhere);
        assert_eq!(scene.asked.heard(&mut scene.cluster, ACK), None, "{}", scene.label);
        for key in hosts {
            remove(&mut scene.cluster, server.node, ObjectKey::Route(key));
        }
        let heir = scene.succeed(&server, both_ways(1, &[]));
        let from_heir = scene.at(&heir);
        assert!(!scene.asked.is_answered(&mut scene.cluster, &from_heir, ACK), "{}", scene.label);
    }
}

/// It may not speak to anybody, and goes on by its predecessor's ports.
#[test]
fn a_client_that_inherits_an_address_does_not_inherit_what_its_predecessor_might() {
    for mut scene in scenes() {
        let client = scene.client.clone();
        let heir = scene.succeed(&client, egress(1, &[]));
        scene.asked = Conversation::of(&heir, scene.asked.voice, scene.asked.to, MEMBER_PORT);
        for flags in [ACK, SYN, ACK] {
            assert_eq!(scene.asked.heard(&mut scene.cluster, flags), None, "{}", scene.label);
        }
    }
}

/// Nor does it get the answers that its predecessor asked for, where it is to get nothing.
#[test]
fn a_client_that_inherits_an_address_is_governed_at_once() {
    for mut scene in scenes() {
        let client = scene.client.clone();
        let heir = scene.succeed(&client, both_ways(1, &[]));
        let answer = scene.asked.voice.answer(&support::read(&scene.delivery.frame), ACK);
        let back = support::send_from(&mut scene.cluster, &scene.delivery, &answer);
        assert!(back.iter().all(|delivery| !is_at(delivery, &heir)), "{}: {back:?}", scene.label);
    }
}

/// A set means whoever has the address now: the controller says who that is.
#[test]
fn a_peers_address_is_the_peers_as_long_as_it_is_in_the_set() {
    for mut scene in scenes() {
        let (client, server) = (scene.client.clone(), scene.server.clone());
        scene.cluster.put(&peer_set(1, &[&client]));
        hold(&mut scene.cluster, ingress(2, &[allow(in_set(1), Ports::Any)]));
        select(&mut scene.cluster, &server, &[2]);
        scene.asked.must_go_on(&mut scene.cluster, &scene.delivery);
        let heir = scene.succeed(&client, egress(1, &[allow(Peers::Any, Ports::Any)]));
        for address in support::peer_addresses(1, support::vrf(1), &heir) {
            support::remove_object(&mut scene.cluster, &address);
        }
        scene.asked = Conversation::of(&heir, scene.asked.voice, scene.asked.to, MEMBER_PORT);
        scene.asked.must_be_cut(&mut scene.cluster, &scene.delivery);
        assert!(!scene.asked.clone().by(4001).is_open(&mut scene.cluster), "{}", scene.label);
    }
}

/// What is refused takes no room: nobody fills the table for others by what they may not say.
#[test]
fn what_policy_refuses_takes_no_room_in_the_table() {
    for (family, voice) in voices() {
        let mut cluster = Cluster::with_slots(2, 64);
        let (client, server, other) = (cluster.pod(0), cluster.pod(1), cluster.pod(1));
        hold(&mut cluster, ingress(1, &[]));
        select(&mut cluster, &server, &[1]);
        hold(&mut cluster, egress(2, &[]));
        for port in 5000..5500 {
            let refused = Conversation::of(&other, voice, address(&server, family), MEMBER_PORT).by(port);
            assert_eq!(refused.heard(&mut cluster, SYN), None, "{family:?} {voice:?}");
        }
        assert_eq!(cluster.nodes[1].flows(cluster.now), [], "{family:?} {voice:?}");
        Conversation::of(&client, voice, address(&other, family), MEMBER_PORT).must_open(&mut cluster);
    }
}
