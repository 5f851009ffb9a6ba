//! Clients that stay with their members, and those that do not.

mod support;

use std::collections::BTreeSet;
use std::net::IpAddr;

use support::{
    ACK, ALL_PROTOCOLS, CLIENT_KINDS, ClientKind, Conversation, FAMILIES, FIN, FRONTENDS, Frontend,
    MEMBER_PORT, NODE_PORT, Network, SERVICE_PORT, SYN, Scene, Tenancy, Voice, address, by_all_frontends,
    node_address, nth, packet, protocols, read, scenes, scenes_of, vip,
};
use vrouter_forward::Family;
use vrouter_forward::sim::ServiceSpec;
use vrouter_objects::{AffinityTimeout, FloatingIp, IpNet, MemberState, Object, ServiceProtocol};

/// Pods on every node, on some more than one.
const PODS: &[usize] = &[0, 0, 1, 1, 2, 2];
const ALL: &[usize] = &[0, 1, 2, 3, 4, 5];

fn sticky(service: FloatingIp, seconds: u32) -> FloatingIp {
    FloatingIp { affinity: Some(AffinityTimeout::new(seconds).unwrap()), ..service }
}

/// The members that new flows from so many ports get.
fn members_of(scene: &mut Scene, ports: std::ops::Range<u16>) -> BTreeSet<usize> {
    ports.map(|port| scene.reach_from(port, SYN).0).collect()
}

fn wait(scene: &mut Scene, millis: u64) {
    scene.cluster.now = scene.cluster.now.plus_millis(millis);
    let now = scene.cluster.now;
    scene.cluster.nodes.iter_mut().for_each(|node| node.age(now));
}

#[test]
fn aff_2_three_hours_and_no_more() {
    for mut scene in scenes(PODS) {
        scene.put(sticky(scene.service(ALL), AffinityTimeout::DEFAULT_SECONDS));
        let first = members_of(&mut scene, 1000..1030);
        assert_eq!(first.len(), 1, "{}", scene.label());
        wait(&mut scene, 10_799_000);
        assert_eq!(
            members_of(&mut scene, 2000..2001),
            first,
            "{}: it counts from the last new flow",
            scene.label()
        );
        wait(&mut scene, 10_799_000);
        assert_eq!(members_of(&mut scene, 3000..3001), first, "{}", scene.label());
        // From another place it is another choice, which this client has only once it is free.
        let later: BTreeSet<_> = (4000..4012)
            .flat_map(|port| {
                wait(&mut scene, 10_801_000);
                members_of(&mut scene, port..port + 1)
            })
            .collect();
        assert!(later.len() > 1, "{}: {later:?}", scene.label());
    }
}

#[test]
fn aff_3_what_a_closed_connection_leaves_prolongs_nothing() {
    for mut scene in scenes(PODS).filter(|scene| scene.protocol == ServiceProtocol::Tcp) {
        scene.put(sticky(scene.service(ALL), 5));
        let members: BTreeSet<_> = (5000..5012)
            .map(|port| {
                let (member, delivery) = scene.reach_from(port, SYN);
                scene.answer_to(port, &delivery, SYN | ACK);
                // Packets of the connection are no new one.
                for _ in 0..5 {
                    wait(&mut scene, 1_000);
                    scene.reach_from(port, ACK);
                }
                scene.reach_from(port, FIN | ACK);
                scene.answer_to(port, &delivery, FIN | ACK);
                wait(&mut scene, 1_000);
                member
            })
            .collect();
        assert!(members.len() > 1, "{}: {members:?}", scene.label());
    }
}

#[test]
fn aff_4_it_outlasts_that_there_was_nobody() {
    for mut scene in scenes(PODS) {
        scene.put(sticky(scene.service(ALL), 600));
        let before = members_of(&mut scene, 1000..1010);
        assert_eq!(before.len(), 1, "{}", scene.label());
        scene.put(sticky(scene.service(&[]), 600));
        let told = scene.request(SYN);
        scene.assert_refused(&told);
        scene.put(sticky(scene.service(ALL), 600));
        assert_eq!(members_of(&mut scene, 2000..2050).len(), 1, "{}", scene.label());
        // Whom it had is gone: another is chosen, and kept.
        let others: Vec<_> = ALL.iter().copied().filter(|member| !before.contains(member)).collect();
        scene.put(sticky(scene.service(&others), 600));
        let after = members_of(&mut scene, 3000..3030);
        assert_eq!(after.len(), 1, "{}", scene.label());
        scene.put(sticky(scene.service(ALL), 600));
        assert_eq!(members_of(&mut scene, 4000..4030), after, "{}", scene.label());
        // One that only serves out takes no new flows.
        let gone = *after.first().unwrap();
        let states: Vec<_> = ALL
            .iter()
            .map(|pod| (*pod, if *pod == gone { MemberState::Serving } else { MemberState::Ready }))
            .collect();
        scene.put(sticky(scene.service_in(&states), 600));
        assert!(!members_of(&mut scene, 5000..5010).contains(&gone), "{}", scene.label());
    }
}

#[test]
fn aff_5_without_it_one_client_has_all_members() {
    for mut scene in scenes(&[0, 0, 1, 1]) {
        scene.put_members(&[0, 1, 2, 3]);
        let mut shares = [0; 4];
        for port in 1000..1100 {
            shares[scene.reach_from(port, SYN).0] += 1;
        }
        assert!(shares.iter().all(|share| *share > 5), "{}: {shares:?}", scene.label());
    }
}

#[test]
fn aff_6_every_service_has_its_own_time() {
    for family in FAMILIES {
        for protocol in ALL_PROTOCOLS {
            let mut scene = Scene::new(family, protocol, Frontend::ClusterIp, ClientKind::Pod, PODS);
            scene.put(sticky(scene.service(ALL), 100));
            let other = if family == Family::V4 { "10.96.0.66" } else { "fd00:10:96::66" }.parse().unwrap();
            let members: Vec<_> =
                scene.pods.iter().map(|pod| (support::address(pod, family), 8080)).collect();
            let spec = ServiceSpec::new(2, other, protocol, 80, &members);
            scene.put(sticky(spec.floating_ip(), 10));
            let (mut of_one, mut of_other) = (BTreeSet::new(), BTreeSet::new());
            for port in 1000..1030 {
                let client = scene.client.clone();
                let frame = packet(client.address(family), other, protocol, (port, 80), SYN);
                let delivered = client.send(&mut scene.cluster, &frame);
                of_other.insert(scene.reached(&delivered));
                of_one.insert(scene.reach_from(port, SYN).0);
                wait(&mut scene, 11_000);
            }
            assert_eq!((of_one.len(), of_other.len() > 1), (1, true), "{} {of_other:?}", scene.label());
        }
    }
}

/// A client is one and the same by whatever frontend of the service it comes.
#[test]
fn aff_6_all_frontends_of_a_service_lead_a_client_to_its_member() {
    for mut scene in scenes_of(&[Frontend::ClusterIp], &CLIENT_KINDS, PODS) {
        scene.put(sticky(scene.service(ALL), 600));
        let mut members = BTreeSet::new();
        for (round, frontend) in (0..4).zip(FRONTENDS).flat_map(|of| [of, of]) {
            scene.frontend = frontend;
            members.append(&mut members_of(&mut scene, 1000 + round * 10..1010 + round * 10));
        }
        assert_eq!(members.len(), 1, "{}", scene.label());
    }
}

#[test]
fn aff_7_members_that_come_and_go_move_their_own_flows_only() {
    for mut scene in scenes(&[0, 0, 1, 1]) {
        scene.put_members(&[0, 1, 2]);
        let first: Vec<_> = (1000..1060).map(|port| (port, scene.reach_from(port, SYN).0)).collect();
        let flags = if scene.protocol == ServiceProtocol::Tcp { ACK } else { SYN };
        scene.put_members(&[0, 1, 2, 3]);
        for (port, member) in &first {
            assert_eq!(scene.reach_from(*port, flags).0, *member, "{}", scene.label());
        }
        scene.put_members(&[0, 2, 3]);
        for (port, member) in first.iter().filter(|(_, member)| *member != 1) {
            assert_eq!(scene.reach_from(*port, flags).0, *member, "{}", scene.label());
        }
    }
}

/// The choice is by what a packet is, not by when it comes or what else does: on nodes alike it is the same.
#[test]
fn aff_8_a_packet_sent_again_goes_where_it_went() {
    for mut scene in scenes(PODS) {
        scene.put_members(ALL);
        let first: Vec<_> = (1000..1020).map(|port| scene.reach_from(port, SYN).0).collect();
        // All is forgotten meanwhile.
        wait(&mut scene, 48 * 3_600_000);
        assert_eq!(scene.cluster.nodes[0].flows(scene.cluster.now), []);
        let again: Vec<_> = (1000..1020).rev().map(|port| scene.reach_from(port, SYN).0).collect();
        assert!(first.iter().eq(again.iter().rev()), "{}: {first:?} {again:?}", scene.label());
    }
}

/// Only the client's side is seen.
#[test]
fn aff_9_an_idle_connection_of_which_one_half_is_seen_stays() {
    for mut scene in scenes(PODS).filter(|scene| scene.protocol != ServiceProtocol::Tcp) {
        scene.put_members(ALL);
        for port in 1000..1010 {
            let (member, _) = scene.reach_from(port, SYN);
            wait(&mut scene, 60_000);
            assert_eq!(scene.reach_from(port, ACK).0, member, "{}", scene.label());
        }
    }
    for mut scene in scenes(PODS).filter(|scene| scene.protocol == ServiceProtocol::Tcp) {
        scene.put_members(ALL);
        let (member, _) = scene.reach(SYN);
        scene.reach(ACK);
        // Within the time of what nobody answered.
        wait(&mut scene, 29_000);
        assert_eq!(scene.reach(ACK).0, member, "{}", scene.label());
    }
}

/// Clients are told apart by their addresses, however many there are.
#[test]
fn aff_6_every_client_has_its_own_member() {
    for family in FAMILIES {
        let mut scene =
            Scene::new(family, ServiceProtocol::Udp, Frontend::NodePort, ClientKind::Outside, PODS);
        scene.put(sticky(scene.service(ALL), 600));
        let ask = |scene: &mut Scene, client: u16, port| {
            let from: IpAddr = match family {
                Family::V4 => [198, 18, 0, client as u8].into(),
                Family::V6 => [0x2001, 0xdb8, 0x98, 0, 0, 0, 0, client].into(),
            };
            let (to, to_port) = scene.place();
            let frame = packet(from, to, scene.protocol, (port, to_port), 0);
            let delivered = scene.cluster.send_from_host(0, &frame);
            scene.reached(&delivered).expect("a member")
        };
        let first: Vec<_> = (1..100).map(|client| ask(&mut scene, client, 1)).collect();
        assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), ALL.len(), "{family:?}");
        wait(&mut scene, 300_000);
        let again: Vec<_> = (1..100).map(|client| ask(&mut scene, client, 2)).collect();
        assert_eq!(first, again, "{family:?}");
    }
}

/// Whoever has the same address in another network is another client.
#[test]
fn a_client_is_not_kept_where_its_double_is() {
    for (family, protocol) in protocols() {
        let twins = ["192.168.0.0/24", "fd00:192:168::/64"];
        let networks = vec![Network::default_pods(), Network::custom(1, twins), Network::custom(2, twins)];
        let mut tenancy = Tenancy::new(1, networks, BTreeSet::new());
        let members =
            [1, 2].map(|number| tenancy.cluster.pod_at(0, nth(pods_v4(), number), nth(pods_v6(), number)));
        let served = members.each_ref().map(|pod| (address(pod, family), MEMBER_PORT));
        let service = ServiceSpec::new(1, vip(family), protocol, SERVICE_PORT, &served).floating_ip();
        let service = sticky(by_all_frontends(service, NODE_PORT), 100);
        tenancy.cluster.put(&[Object::FloatingIp(service)]);
        let alike = (1..=24).filter(|&number| {
            let [one, other] = [1, 2].map(|network| {
                let [v4, v6] = tenancy.addresses(network, number);
                let pod = tenancy.pod(network, 0, v4, v6);
                let voice = Voice::Service(protocol);
                let asked = Conversation::of(&pod, voice, node_address(0, family), NODE_PORT);
                read(&asked.must_open(&mut tenancy.cluster).frame).destination
            });
            one == other
        });
        assert!(alike.count() < 24, "{family:?} {protocol}: as if the other's choice were theirs");
    }
}

fn pods_v4() -> IpNet {
    "10.244.1.0/24".parse().expect("a literal prefix")
}

fn pods_v6() -> IpNet {
    "fd00:10:244:1::/64".parse().expect("a literal prefix")
}
