//! What binds policies to pods, where part of it is missing: nobody is let free by it.

mod support;

use std::collections::BTreeSet;

use support::{
    Client, Conversation, MEMBER_PORT, Network, SYN, Tenancy, Voice, address, allow, binding, both_ways,
    drop_policy, egress, govern, hold, in_set, ingress, peer_set, pod_name, policy, publish, remove,
    remove_object, rule, select, voices,
};
use vrouter_forward::Family;
use vrouter_forward::sim::{Cluster, PodHandle};
use vrouter_objects::{Object, ObjectKey, Peers, PodBinding, Policy, PolicyAction, Ports, Tier, Vmi};

/// Conversations of a pod with another, in both directions.
fn both(pod: &PodHandle, other: &PodHandle, (family, voice): (Family, Voice)) -> [Conversation; 2] {
    [
        Conversation::of(pod, voice, address(other, family), MEMBER_PORT),
        Conversation::of(other, voice, address(pod, family), MEMBER_PORT),
    ]
}

#[track_caller]
fn are_open(cluster: &mut Cluster, asked: &[Conversation; 2], from_port: u16) -> [bool; 2] {
    asked.clone().map(|asked| asked.by(from_port).is_open(cluster))
}

#[test]
fn a_policy_that_is_not_held_denies_everything() {
    for (case, far) in voices().flat_map(|case| [(case, 0), (case, 1)]) {
        let mut cluster = Cluster::new(2);
        let (pod, other) = (cluster.pod(0), cluster.pod(far));
        let asked = both(&pod, &other, case);
        let standing = asked[0].must_open(&mut cluster);
        hold(&mut cluster, both_ways(1, &[allow(Peers::Any, Ports::Any)]));
        // Of the two, one is missing: what the other allows does not count.
        select(&mut cluster, &pod, &[1, 2]);
        asked[0].must_be_cut(&mut cluster, &standing);
        assert_eq!(are_open(&mut cluster, &asked, 4001), [false; 2], "{case:?}");
        hold(&mut cluster, ingress(2, &[]));
        assert_eq!(are_open(&mut cluster, &asked, 4002), [true; 2], "{case:?}: held, the two allow it");
        drop_policy(&mut cluster, 2);
        assert_eq!(are_open(&mut cluster, &asked, 4003), [false; 2], "{case:?}: it is gone again");
    }
}

/// It may be the one that is asked first.
#[test]
fn nothing_comes_before_a_policy_that_is_not_held() {
    for case in voices() {
        let mut cluster = Cluster::new(1);
        let (pod, other) = (cluster.pod(0), cluster.pod(0));
        let rules = Some(vec![allow(Peers::Any, Ports::Any)]);
        hold(&mut cluster, Policy { ingress: rules.clone(), egress: rules, ..policy(1, Tier::Admin(0)) });
        select(&mut cluster, &pod, &[1, 2]);
        assert_eq!(are_open(&mut cluster, &both(&pod, &other, case), 4000), [false; 2], "{case:?}");
    }
}

/// Its pod is about to end; until then it stays as it was.
#[test]
fn a_binding_that_goes_leaves_the_interface_as_it_was() {
    for (case, far) in voices().flat_map(|case| [(case, 0), (case, 1)]) {
        let mut cluster = Cluster::new(2);
        let (pod, other) = (cluster.pod(0), cluster.pod(far));
        let asked = both(&pod, &other, case);
        govern(&mut cluster, &pod, egress(1, &[]));
        assert_eq!(are_open(&mut cluster, &asked, 4000), [false, true], "{case:?}");
        remove(&mut cluster, 0, ObjectKey::PodBinding(pod_name(&pod)));
        assert_eq!(are_open(&mut cluster, &asked, 4001), [false, true], "{case:?}");
        // Other things change meanwhile.
        govern(&mut cluster, &other, ingress(2, &[allow(Peers::Any, Ports::Any)]));
        assert_eq!(are_open(&mut cluster, &asked, 4002), [false, true], "{case:?}");
    }
}

/// What such a pod was never to reach it does not reach when nobody can tell any more who that was.
#[test]
fn a_binding_that_goes_opens_nothing_that_an_administrator_denies() {
    for (case, far) in voices().flat_map(|case| [(case, 0), (case, 1)]) {
        let mut cluster = Cluster::new(2);
        let (pod, other) = (cluster.pod(0), cluster.pod(far));
        let asked = Conversation::of(&pod, case.1, address(&other, case.0), MEMBER_PORT);
        cluster.put(&peer_set(1, &[&other]));
        let deny = rule(PolicyAction::Deny, in_set(1), Ports::Any);
        govern(&mut cluster, &pod, Policy { egress: Some(vec![deny]), ..policy(1, Tier::Admin(1)) });
        assert!(!asked.clone().is_open(&mut cluster), "{case:?}");
        // Nothing else on the node is about it.
        remove(&mut cluster, 0, ObjectKey::PodBinding(pod_name(&pod)));
        drop_policy(&mut cluster, 1);
        peer_set(1, &[&other]).iter().for_each(|object| remove_object(&mut cluster, object));
        assert!(!asked.by(4001).is_open(&mut cluster), "{case:?} to node {far}");
    }
}

/// As an interface is that is given other link-local addresses.
#[test]
fn an_interface_that_is_attached_again_after_its_binding_went_stays_as_it_was() {
    for case in voices() {
        let mut cluster = Cluster::new(1);
        let (pod, other) = (cluster.pod(0), cluster.pod(0));
        let asked = both(&pod, &other, case);
        govern(&mut cluster, &pod, egress(1, &[]));
        remove(&mut cluster, 0, ObjectKey::PodBinding(pod_name(&pod)));
        let node = &mut cluster.nodes[0];
        let (held, port) = node.tables.interfaces().find(|(vmi, _)| vmi.id == pod.vmi).expect("attached");
        node.attach(held.clone(), port);
        assert_eq!(are_open(&mut cluster, &asked, 4000), [false, true], "{case:?}");
    }
}

/// The binding may be there before its pod is attached.
#[test]
fn a_pod_that_attaches_is_governed_from_its_first_packet_on() {
    for case in voices() {
        let mut cluster = Cluster::new(2);
        let other = cluster.pod(1);
        let next = PodHandle { port: vrouter_forward::frame::PortId(2), ..other.clone() };
        hold(&mut cluster, both_ways(1, &[]));
        publish(&mut cluster, 0, &[Object::PodBinding(binding(&next, &[1]))]);
        let pod = cluster.pod(0);
        assert_eq!(pod.port, next.port, "the binding is this pod's");
        let asked = both(&pod, &other, case);
        assert_eq!(are_open(&mut cluster, &asked, 4000), [false; 2], "{case:?}");
        // It is attached anew, as after a restart.
        select(&mut cluster, &pod, &[]);
        assert_eq!(are_open(&mut cluster, &asked, 4001), [true; 2], "{case:?}");
    }
}

/// It would speak in a network that its pod has nothing to do with.
#[test]
fn a_pod_in_another_network_than_its_own_is_cut_off() {
    const SUBNETS: [&str; 2] = ["10.50.0.0/24", "fd00:50::/64"];
    for case in voices() {
        let networks = vec![Network::default_pods(), Network::custom(1, SUBNETS)];
        let own = networks[1].pods;
        let mut tenancy = Tenancy::new(2, networks, BTreeSet::new());
        let (pod, other) = (tenancy.cluster.pod(0), tenancy.cluster.pod(1));
        let asked = both(&pod, &other, case);
        let standing = asked[0].must_open(&mut tenancy.cluster);
        let bound = PodBinding { vrf: own, ..binding(&pod, &[]) };
        publish(&mut tenancy.cluster, 0, &[Object::PodBinding(bound)]);
        asked[0].must_be_cut(&mut tenancy.cluster, &standing);
        assert_eq!(are_open(&mut tenancy.cluster, &asked, 4001), [false; 2], "{case:?}");
        let outside = Conversation::of(&pod, case.1, support::outside(case.0), MEMBER_PORT);
        assert_eq!(outside.say(&mut tenancy.cluster, SYN), [], "{case:?}");
        // Where it belongs, it is let free.
        support::detach(&mut tenancy.cluster, &pod);
        let [v4, v6] = tenancy.addresses(1, 0);
        let [other_v4, other_v6] = tenancy.addresses(1, 1);
        let moved = tenancy.pod(1, 0, v4, v6);
        let neighbour = tenancy.pod(1, 1, other_v4, other_v6);
        let bound = PodBinding { vrf: own, ..binding(&moved, &[]) };
        publish(&mut tenancy.cluster, 0, &[Object::PodBinding(bound)]);
        let asked = both(&moved, &neighbour, case);
        assert_eq!(are_open(&mut tenancy.cluster, &asked, 4002), [true; 2], "{case:?}");
    }
}

/// A pod without a binding at all is nobody's to judge: an older controller's, or one whose node came before it.
#[test]
fn a_pod_without_a_binding_is_free() {
    for case in voices() {
        let mut cluster = Cluster::new(1);
        let (pod, other) = (cluster.pod(0), cluster.pod(0));
        hold(&mut cluster, both_ways(1, &[]));
        assert_eq!(are_open(&mut cluster, &both(&pod, &other, case), 4000), [true; 2], "{case:?}");
        let from_node = Conversation::new(Client::Node(0), case.1, address(&pod, case.0), MEMBER_PORT);
        assert!(from_node.is_open(&mut cluster), "{case:?}");
    }
}

/// A pod of the same name that comes after it is another pod, though the old one's interface may still be there.
#[test]
fn a_binding_of_a_later_namesake_says_nothing_of_the_pod_before() {
    for case in voices() {
        let mut cluster = Cluster::new(1);
        let (old, other) = (cluster.pod(0), cluster.pod(0));
        let interfaces = cluster.nodes[0].tables.interfaces();
        let (vmi, port) =
            interfaces.map(|(vmi, port)| (vmi.clone(), port)).find(|(vmi, _)| vmi.id == old.vmi).unwrap();
        cluster.nodes[0].attach(Vmi { uid: "old".to_owned(), ..vmi.clone() }, port);
        hold(&mut cluster, both_ways(1, &[]));
        let is_bound = |uid: &str, policies: &[u32]| {
            Object::PodBinding(PodBinding { uid: uid.to_owned(), ..binding(&old, policies) })
        };
        publish(&mut cluster, 0, &[is_bound("old", &[1])]);
        assert_eq!(are_open(&mut cluster, &both(&old, &other, case), 4000), [false; 2], "{case:?}");
        publish(&mut cluster, 0, &[is_bound("new", &[])]);
        assert_eq!(are_open(&mut cluster, &both(&old, &other, case), 4001), [false; 2], "{case:?}");
        let new = cluster.pod(0);
        let node = &mut cluster.nodes[0];
        let id = new.vmi;
        let addresses = vec![new.v4, new.v6];
        node.attach(Vmi { id, mac: new.mac, addresses, uid: "new".to_owned(), ..vmi }, new.port);
        assert_eq!(are_open(&mut cluster, &both(&new, &other, case), 4002), [true; 2], "{case:?}");
        publish(&mut cluster, 0, &[is_bound("new", &[1])]);
        assert_eq!(are_open(&mut cluster, &both(&new, &other, case), 4003), [false; 2], "{case:?}");
    }
}
