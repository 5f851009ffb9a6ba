//! What network policy says of connections: whose ports count, whose name, and what needs no rule.

mod support;

use std::net::IpAddr;

use support::{
    ACK, Client, ClientKind, Conversation, FAMILIES, MEMBER_PORT, NODE_PORT, SERVICE_PORT, SYN, Voice,
    address, allow, both_ways, by_all_frontends, dropped, drops, egress, external_ip, govern, hold, in_set,
    ingress, is_at, is_at_host, load_balancer_ip, nth, one_port, outside, peer_set, prefixes, protocols,
    read, remove_object, select, vip, voices,
};
use vrouter_forward::Family;
use vrouter_forward::parse::IcmpTypes;
use vrouter_forward::sim::{Cluster, PacketBuilder, PodHandle, ServiceSpec};
use vrouter_objects::{DropReason, Object, Peers, Policy, Ports, ServiceProtocol};

/// The address of a service other than the first one.
fn vip_of(number: u16, family: Family) -> IpAddr {
    let [v4, v6] = prefixes(support::SERVICES);
    nth(if family == Family::V4 { v4 } else { v6 }, 100 + number)
}

/// A service of this number, at all frontends only if it is the first.
fn serve(
    cluster: &mut Cluster,
    (number, family, protocol): (u32, Family, ServiceProtocol),
    members: &[(&PodHandle, u16)],
) -> IpAddr {
    let at = vip_of(number as u16, family);
    let members: Vec<_> = members.iter().map(|(pod, port)| (address(pod, family), *port)).collect();
    cluster.put(&[ServiceSpec::new(number, at, protocol, SERVICE_PORT, &members).object()]);
    at
}

/// A service by all its frontends, with one member.
fn publish_service(cluster: &mut Cluster, family: Family, protocol: ServiceProtocol, member: &PodHandle) {
    let members = [(address(member, family), MEMBER_PORT)];
    let service = ServiceSpec::new(1, vip(family), protocol, SERVICE_PORT, &members).floating_ip();
    cluster.put(&[Object::FloatingIp(by_all_frontends(service, NODE_PORT))]);
}

/// A policy for one direction.
type Govern = fn(u32, &[vrouter_objects::PolicyRule]) -> Policy;

#[test]
fn np_7_the_port_that_counts_is_the_members() {
    for ((family, protocol), far) in protocols().flat_map(|case| [(case, 0), (case, 1)]) {
        for (is_egress, direction) in [(true, egress as Govern), (false, ingress as Govern)] {
            let mut cluster = Cluster::new(2);
            let (client, a, b) = (cluster.pod(0), cluster.pod(far), cluster.pod(far));
            let to_a = serve(&mut cluster, (1, family, protocol), &[(&a, 80)]);
            let to_b = serve(&mut cluster, (2, family, protocol), &[(&b, 8080)]);
            hold(&mut cluster, direction(1, &[allow(Peers::Any, one_port(protocol, 80))]));
            let governed: &[&PodHandle] = if is_egress { &[&client] } else { &[&a, &b] };
            governed.iter().for_each(|pod| select(&mut cluster, pod, &[1]));
            let label = format!("{family:?} {protocol} to node {far}, egress: {is_egress}");
            let voice = Voice::Service(protocol);
            let (a_direct, b_direct) = (address(&a, family), address(&b, family));
            for (to, port, is_open) in [
                (to_a, SERVICE_PORT, true),
                (to_b, SERVICE_PORT, false),
                (a_direct, 80, true),
                (b_direct, 80, true),
                (b_direct, 8080, false),
            ] {
                let asked = Conversation::of(&client, voice, to, port);
                assert_eq!(asked.is_open(&mut cluster), is_open, "{label}: {to} port {port}");
            }
        }
    }
}

#[test]
fn np_8_who_may_be_spoken_to_may_be_spoken_to_through_a_service() {
    for ((family, protocol), far) in protocols().flat_map(|case| [(case, 0), (case, 1)]) {
        let mut cluster = Cluster::new(2);
        let (client, dns, other) = (cluster.pod(0), cluster.pod(far), cluster.pod(far));
        let to_dns = serve(&mut cluster, (1, family, protocol), &[(&dns, 53)]);
        let to_other = serve(&mut cluster, (2, family, protocol), &[(&other, 53)]);
        cluster.put(&peer_set(1, &[&dns]));
        govern(&mut cluster, &client, egress(1, &[allow(in_set(1), one_port(protocol, 53))]));
        let voice = Voice::Service(protocol);
        for (to, port, is_open) in [
            (to_dns, SERVICE_PORT, true),
            (address(&dns, family), 53, true),
            (to_other, SERVICE_PORT, false),
            (address(&other, family), 53, false),
        ] {
            let asked = Conversation::of(&client, voice, to, port);
            assert_eq!(asked.is_open(&mut cluster), is_open, "{family:?} {protocol}: {to} port {port}");
        }
    }
}

#[test]
fn np_9_a_service_is_no_way_around_egress_policy() {
    for ((family, protocol), far) in protocols().flat_map(|case| [(case, 0), (case, 1)]) {
        let mut cluster = Cluster::new(2);
        let (client, server) = (cluster.pod(0), cluster.pod(far));
        publish_service(&mut cluster, family, protocol, &server);
        govern(&mut cluster, &client, egress(1, &[]));
        let nodes = [0, 1].map(|node| (support::node_address(node, family), NODE_PORT));
        let addresses = [vip(family), external_ip(family), load_balancer_ip(family)];
        let frontends = addresses.map(|address| (address, SERVICE_PORT));
        let count = frontends.len() + nodes.len();
        for (to, port) in frontends.into_iter().chain(nodes) {
            let asked = Conversation::of(&client, Voice::Service(protocol), to, port);
            assert_eq!(asked.say(&mut cluster, SYN), [], "{family:?} {protocol}: {to} port {port}");
        }
        assert_eq!(drops(&cluster, 0), [(DropReason::PolicyEgress, count as u64)], "{family:?} {protocol}");
        assert_eq!(cluster.wire, [], "nothing has left the node");
    }
}

/// Probes come from the pod's own node, and must get through; from another node they are anybody's.
#[test]
fn np_14_a_pods_own_node_is_always_let_in_and_no_other_node() {
    for (family, voice) in voices() {
        let mut cluster = Cluster::new(2);
        let pod = cluster.pod(0);
        govern(&mut cluster, &pod, both_ways(1, &[]));
        let label = format!("{family:?} {voice:?}");
        let to = address(&pod, family);
        let from_own = Conversation::new(Client::Node(0), voice, to, MEMBER_PORT);
        assert!(is_at(&from_own.must_open(&mut cluster), &pod), "{label}");
        let from_other = Conversation::new(Client::Node(1), voice, to, MEMBER_PORT);
        assert_eq!(from_other.say(&mut cluster, SYN), [], "{label}");
        let from_outside = Conversation::new(Client::Outside(0), voice, to, MEMBER_PORT);
        assert_eq!(from_outside.say(&mut cluster, SYN), [], "{label}");
        assert_eq!(drops(&cluster, 0), [(DropReason::PolicyIngress, 2)], "{label}");
        // And the other way round.
        let to_own = Conversation::of(&pod, voice, support::node_address(0, family), 22);
        assert!(is_at_host(&to_own.must_open(&mut cluster), 0), "{label}");
        let to_other = Conversation::of(&pod, voice, support::node_address(1, family), 22);
        assert_eq!(to_other.say(&mut cluster, SYN), [], "{label}");
        assert_eq!(Conversation::of(&pod, voice, outside(family), 22).say(&mut cluster, SYN), [], "{label}");
        assert_eq!(dropped(&cluster, 0, DropReason::PolicyEgress), 2, "{label}");
    }
}

/// An address that is the node's no more is anybody's, and what stands by it ends.
#[test]
fn np_14_who_was_the_own_node_is_let_in_no_more() {
    for (family, voice) in voices() {
        let mut cluster = Cluster::new(2);
        let pod = cluster.pod(0);
        govern(&mut cluster, &pod, both_ways(1, &[]));
        let to_pod = Conversation::new(Client::Node(0), voice, address(&pod, family), MEMBER_PORT);
        let to_node = Conversation::of(&pod, voice, support::node_address(0, family), 22);
        let stand = [&to_pod, &to_node].map(|asked| asked.must_open(&mut cluster));
        let node = &mut cluster.nodes[0];
        let mut router = node.tables.virtual_routers().find(|router| router.name == "n1").unwrap().clone();
        router.addresses = FAMILIES.map(|family| support::node_address(8, family)).to_vec();
        let mut host = node.tables.host().unwrap().clone();
        host.addresses.clone_from(&router.addresses);
        node.tables.set_host(host);
        assert_eq!(node.put([Object::VirtualRouter(router)]), []);
        for (asked, delivery) in [&to_pod, &to_node].into_iter().zip(&stand) {
            asked.must_be_cut(&mut cluster, delivery);
        }
    }
}

/// What a node's process asks of a service is asked by the node.
#[test]
fn np_14_a_pods_own_node_is_let_in_through_services_too() {
    for (family, protocol) in protocols() {
        let mut cluster = Cluster::new(2);
        let pod = cluster.pod(0);
        publish_service(&mut cluster, family, protocol, &pod);
        govern(&mut cluster, &pod, ingress(1, &[]));
        for (node, is_open) in [(0, true), (1, false)] {
            for (to, port) in [(vip(family), SERVICE_PORT), (support::node_address(node, family), NODE_PORT)]
            {
                let asked = Conversation::new(Client::Node(node), Voice::Service(protocol), to, port);
                assert_eq!(asked.is_open(&mut cluster), is_open, "{family:?} {protocol}: {asked:?}");
            }
        }
    }
}

#[test]
fn np_15_answers_need_no_rule() {
    for (family, far) in FAMILIES.into_iter().flat_map(|family| [(family, 0), (family, 1)]) {
        let mut cluster = Cluster::new(2);
        let (client, server) = (cluster.pod(0), cluster.pod(far));
        let rules = [allow(Peers::Any, one_port(ServiceProtocol::Tcp, 80))];
        govern(&mut cluster, &server, Policy { egress: Some(Vec::new()), ..ingress(1, &rules) });
        let tcp = Voice::Service(ServiceProtocol::Tcp);
        let (from, to) = (address(&client, family), address(&server, family));
        let label = format!("{family:?} to node {far}");
        let asked = Conversation::of(&client, tcp, to, 80);
        let delivery = asked.must_open(&mut cluster);
        asked.must_go_on(&mut cluster, &delivery);
        assert!(!Conversation::of(&client, tcp, to, 81).is_open(&mut cluster), "{label}: another port");
        // What it begins itself.
        for voice in support::VOICES {
            let own = Conversation::of(&server, voice, from, 80);
            assert_eq!(own.say(&mut cluster, SYN), [], "{label} {voice:?}");
        }
        assert_eq!(dropped(&cluster, far, DropReason::PolicyEgress), 4, "{label}");
        // What it says about the connection, and what it says about none.
        let too_big = IcmpTypes::of(family).too_big;
        let told = |quoted: &[u8]| support::error_about(quoted, to, too_big, 1280);
        let back = cluster.send(&server, &told(&delivery.frame));
        assert!(back.len() == 1 && is_at(&back[0], &client), "{label}: {back:?}");
        assert_eq!(read(&back[0].frame).source, to, "{label}");
        let unrelated = PacketBuilder::new(from, to).tcp(4321, 80, ACK).build();
        assert_eq!(cluster.send(&server, &told(&unrelated)), [], "{label}");
    }
}

/// New connections of whoever is no peer any more are refused, and those that stand are cut.
#[test]
fn np_16_a_peer_that_is_removed_is_let_in_no_more() {
    for ((family, voice), far) in voices().flat_map(|case| [(case, 0), (case, 1)]) {
        let mut cluster = Cluster::new(2);
        let (former, remaining, server) = (cluster.pod(0), cluster.pod(0), cluster.pod(far));
        cluster.put(&peer_set(1, &[&former, &remaining]));
        govern(&mut cluster, &server, ingress(1, &[allow(in_set(1), Ports::Any)]));
        let to = address(&server, family);
        let [of_former, of_remaining] =
            [&former, &remaining].map(|pod| Conversation::of(pod, voice, to, MEMBER_PORT));
        let (cut, kept) = (of_former.must_open(&mut cluster), of_remaining.must_open(&mut cluster));
        for address in support::peer_addresses(1, support::vrf(1), &former) {
            remove_object(&mut cluster, &address);
        }
        of_remaining.must_go_on(&mut cluster, &kept);
        of_former.must_be_cut(&mut cluster, &cut);
        assert!(!of_former.clone().by(4001).is_open(&mut cluster), "{of_former:?}");
        of_remaining.must_go_on(&mut cluster, &kept);
        of_remaining.by(4001).must_open(&mut cluster);
    }
}

/// A connection that began before any policy was there is a connection.
#[test]
fn np_17_answers_to_what_began_before_the_policy_are_answers() {
    for ((family, voice), far) in voices().flat_map(|case| [(case, 0), (case, 1)]) {
        let mut cluster = Cluster::new(2);
        let (client, server) = (cluster.pod(0), cluster.pod(far));
        let asked = Conversation::of(&client, voice, address(&server, family), MEMBER_PORT);
        let there = asked.heard(&mut cluster, SYN).expect("no policy is there yet");
        let rules = [allow(Peers::Any, Ports::Any)];
        govern(&mut cluster, &client, Policy { ingress: Some(Vec::new()), ..egress(1, &rules) });
        assert!(asked.is_answered(&mut cluster, &there, SYN | ACK), "{family:?} {voice:?}");
        asked.must_go_on(&mut cluster, &there);
        // And what the server begins is not.
        let begun = Conversation::of(&server, voice, address(&client, family), 9999).by(4001);
        assert!(!begun.is_open(&mut cluster), "{family:?} {voice:?}");
    }
}

#[test]
fn np_18_a_node_port_is_judged_alike_at_every_node() {
    for ((family, protocol), far) in protocols().flat_map(|case| [(case, 0), (case, 1)]) {
        let mut cluster = Cluster::new(3);
        let (client, server, other) = (cluster.pod(0), cluster.pod(far), cluster.pod(0));
        publish_service(&mut cluster, family, protocol, &server);
        cluster.put(&peer_set(1, &[&server]));
        cluster.put(&peer_set(2, &[&other]));
        for (set, is_open) in [(1, true), (2, false)] {
            govern(&mut cluster, &client, egress(1, &[allow(in_set(set), Ports::Any)]));
            for node in 0..3 {
                let to = support::node_address(node, family);
                let asked =
                    Conversation::of(&client, Voice::Service(protocol), to, NODE_PORT).by(5000 + node as u16);
                assert_eq!(asked.is_open(&mut cluster), is_open, "{asked:?}");
            }
        }
    }
}

/// Who comes from outside is judged as who they are, by whatever node they come.
#[test]
fn np_18_who_comes_from_outside_is_judged_by_their_own_address() {
    for ((family, protocol), node) in protocols().flat_map(|case| [(case, 0), (case, 1)]) {
        let mut cluster = Cluster::new(2);
        let server = cluster.pod(0);
        publish_service(&mut cluster, family, protocol, &server);
        let near = if family == Family::V4 { "203.0.113.0/24" } else { "2001:db8:99::/64" };
        let block = |except: &[&str]| ingress(1, &[allow(support::in_block(near, except), Ports::Any)]);
        let client = Client::new(&mut cluster, ClientKind::Outside, node);
        let to = support::node_address(node, family);
        let asked = Conversation::new(client, Voice::Service(protocol), to, NODE_PORT);
        let host = if family == Family::V4 { "203.0.113.9/32" } else { "2001:db8:99::9/128" };
        for (except, is_open) in [(&[][..], true), (&[host][..], false)] {
            govern(&mut cluster, &server, block(except));
            assert_eq!(asked.is_open(&mut cluster), is_open, "{asked:?}, except {except:?}");
        }
    }
}
