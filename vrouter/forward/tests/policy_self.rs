//! Pods that reach themselves, directly or through a service: always allowed, whatever the policies say.

mod support;

use std::collections::BTreeSet;

use support::{
    Conversation, MEMBER_PORT, NODE_PORT, SERVICE_PORT, SYN, Voice, address, allow, both_ways,
    by_all_frontends, egress, gateway, govern, hold, in_set, ingress, is_at, node_address, own_port,
    peer_set, protocols, read, select, select_with_port, vip,
};
use vrouter_forward::Family;
use vrouter_forward::sim::{Cluster, PodHandle, ServiceSpec};
use vrouter_objects::{Object, ServiceProtocol};

/// A service by all its frontends with these members.
fn serve(cluster: &mut Cluster, (family, protocol): (Family, ServiceProtocol), members: &[&PodHandle]) {
    let members: Vec<_> = members.iter().map(|pod| (address(pod, family), MEMBER_PORT)).collect();
    let service = ServiceSpec::new(1, vip(family), protocol, SERVICE_PORT, &members).floating_ip();
    cluster.put(&[Object::FloatingIp(by_all_frontends(service, NODE_PORT))]);
}

/// Which of these pods a client reaches at a place, over many connections.
fn reached(
    cluster: &mut Cluster,
    client: &PodHandle,
    (voice, to, port): (Voice, std::net::IpAddr, u16),
    pods: &[&PodHandle],
) -> BTreeSet<usize> {
    let of = |from_port| Conversation::of(client, voice, to, port).by(from_port);
    let delivered = (4000..4040).filter_map(|from_port| of(from_port).open(cluster));
    delivered
        .map(|delivery| {
            let at = pods.iter().position(|pod| is_at(&delivery, pod));
            at.unwrap_or_else(|| panic!("a stranger got it: {delivery:?}"))
        })
        .collect()
}

/// Self-traffic is allowed, whatever policy there is; the others are judged as who they are, not by the source that a
/// hairpin gives them.
#[test]
fn snat_4_a_hairpin_is_allowed_and_nobody_else_is_taken_for_it() {
    for (case, far) in protocols().flat_map(|case| [(case, 0), (case, 1)]) {
        let (family, protocol) = case;
        let mut cluster = Cluster::new(2);
        let (a, b, c) = (cluster.pod(0), cluster.pod(far), cluster.pod(0));
        serve(&mut cluster, case, &[&a, &b, &c]);
        cluster.put(&peer_set(1, &[&c]));
        hold(&mut cluster, ingress(1, &[allow(in_set(1), vrouter_objects::Ports::Any)]));
        [&a, &b, &c].iter().for_each(|pod| select(&mut cluster, pod, &[1]));
        let pods = [&a, &b, &c];
        for (to, port) in [(vip(family), SERVICE_PORT), (node_address(0, family), NODE_PORT)] {
            let place = (Voice::Service(protocol), to, port);
            assert_eq!(
                reached(&mut cluster, &a, place, &pods),
                BTreeSet::from([0]),
                "{case:?}: itself alone"
            );
            assert_eq!(
                reached(&mut cluster, &b, place, &pods),
                BTreeSet::from([1]),
                "{case:?}: itself alone"
            );
            assert_eq!(reached(&mut cluster, &c, place, &pods), BTreeSet::from([0, 1, 2]), "{case:?}: all");
        }
    }
}

/// The same where nothing at all is allowed, in either direction.
#[test]
fn snat_4_a_hairpin_needs_no_rule() {
    for case in protocols() {
        let (family, protocol) = case;
        let mut cluster = Cluster::new(1);
        let pod = cluster.pod(0);
        serve(&mut cluster, case, &[&pod]);
        govern(&mut cluster, &pod, both_ways(1, &[]));
        let asked = Conversation::of(&pod, Voice::Service(protocol), vip(family), SERVICE_PORT);
        let there = asked.must_open(&mut cluster);
        assert_eq!(read(&there.frame).source, gateway(family), "{case:?}");
        // While it stands, policies come and go.
        govern(&mut cluster, &pod, egress(1, &[]));
        asked.must_go_on(&mut cluster, &there);
    }
}

#[test]
fn snat_6_a_pod_reaches_itself_by_a_named_port_that_is_for_its_own_kind() {
    for (case, far) in protocols().flat_map(|case| [(case, 0), (case, 1)]) {
        let (family, protocol) = case;
        let mut cluster = Cluster::new(2);
        let (pod, sibling, stranger) = (cluster.pod(0), cluster.pod(far), cluster.pod(far));
        serve(&mut cluster, case, &[&pod]);
        cluster.put(&peer_set(1, &[&pod, &sibling]));
        hold(&mut cluster, ingress(1, &[allow(in_set(1), own_port(protocol, "http"))]));
        select_with_port(&mut cluster, &pod, &[1], ("http", protocol, MEMBER_PORT));
        for (client, is_open) in [(&pod, true), (&sibling, true), (&stranger, false)] {
            let asked = Conversation::of(client, Voice::Service(protocol), vip(family), SERVICE_PORT);
            assert_eq!(asked.is_open(&mut cluster), is_open, "{asked:?}");
        }
        // The name stands for that port, and no other, and of that protocol.
        for other in [9090, SERVICE_PORT] {
            let asked = Conversation::of(&sibling, Voice::Service(protocol), address(&pod, family), other);
            assert_eq!(asked.say(&mut cluster, SYN), [], "{asked:?}");
        }
        for other in support::ALL_PROTOCOLS.into_iter().filter(|other| *other != protocol) {
            let asked = Conversation::of(&sibling, Voice::Service(other), address(&pod, family), MEMBER_PORT);
            assert_eq!(asked.say(&mut cluster, SYN), [], "{asked:?}");
        }
    }
}
