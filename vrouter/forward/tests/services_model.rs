//! What leads to which members: protocols, ports, families, names and numbers, in whatever order they change.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use support::{
    ACK, ALL_PROTOCOLS, CLIENT_KINDS, Client, FAMILIES, Frontend, NODE_PORT, SERVICE_PORT, SYN, Scene,
    address, is_refusal, local_outside, only, packet, read, scenes, vip,
};
use vrouter_forward::Family;
use vrouter_forward::sim::{Cluster, Delivery, ServiceSpec};
use vrouter_objects::{
    FloatingIp, FloatingIpId, Listener, ListenerId, Member, MemberId, MemberState, Object, ServiceProtocol,
};

const HERE_AND_THERE: &[usize] = &[0, 1];

/// Another port mapping of a service: its number, protocol, port, node port and members' port.
fn listener(
    service: &FloatingIp,
    number: u32,
    protocol: ServiceProtocol,
    (port, node_port, member_port): (u16, u16, u16),
) -> Listener {
    let member = |member: &Member| Member {
        id: MemberId::new(member.id.get() + number * 10_000).unwrap(),
        port: support::port(member_port),
        ..member.clone()
    };
    let first = &service.listeners[0];
    Listener {
        id: ListenerId::new(1000 + number).unwrap(),
        protocol,
        port: support::port(port),
        node_port: Some(support::port(node_port)),
        members: first.members.iter().map(member).collect(),
        ..first.clone()
    }
}

#[test]
fn svc_2_every_member_has_its_share() {
    for mut scene in scenes(&[0, 1, 2]).filter(|scene| scene.protocol == ServiceProtocol::Udp) {
        scene.put_members(&[0, 1, 2]);
        let mut shares = [0; 3];
        // Few slots: flows are forgotten in between.
        for port in 1..=600 {
            shares[scene.reach_from(port, SYN).0] += 1;
            if port % 100 == 0 {
                scene.cluster.now = scene.cluster.now.plus_millis(31_000);
                let now = scene.cluster.now;
                scene.cluster.nodes.iter_mut().for_each(|node| node.age(now));
            }
        }
        assert!(shares.iter().all(|share| (150..=250).contains(share)), "{}: {shares:?}", scene.label());
    }
}

/// Also svc_4 and svc_5: the same number of another protocol is another service's, or nobody's, at every frontend.
#[test]
fn svc_3_ports_of_two_protocols_are_two() {
    for mut scene in scenes(HERE_AND_THERE) {
        let mut service = scene.service(&[0]);
        let others: Vec<_> =
            ALL_PROTOCOLS.into_iter().filter(|protocol| *protocol != scene.protocol).collect();
        for (number, protocol) in (1..).zip(&others) {
            let ports = (SERVICE_PORT, NODE_PORT, 9000 + number as u16);
            service.listeners.push(listener(&service, number, *protocol, ports));
        }
        let own = scene.protocol;
        scene.put(service.clone());
        scene.connect();
        for (number, protocol) in (1..).zip(&others) {
            scene.protocol = *protocol;
            let got = only(&scene.request(SYN));
            assert_eq!(got.ports.1, 9000 + number, "{}", scene.label());
        }
        // One goes, the others stay.
        service.listeners.truncate(2);
        scene.put(service.clone());
        scene.protocol = own;
        scene.reach(ACK);
        scene.protocol = others[1];
        let gone = scene.request(SYN);
        if scene.frontend != Frontend::NodePort {
            scene.assert_refused(&gone);
        }
        assert_eq!(scene.reached(&gone), None, "{}", scene.label());
        scene.protocol = others[0];
        assert_eq!(only(&scene.request(SYN)).ports.1, 9001, "{}", scene.label());
    }
}

#[test]
fn svc_5_services_share_an_address_and_each_has_its_port() {
    for mut scene in scenes(HERE_AND_THERE).filter(|scene| scene.frontend != Frontend::ClusterIp) {
        scene.put_members(&[0]);
        let family = scene.family;
        // The same external addresses, the same ports, another protocol and another service.
        let other_protocol = ALL_PROTOCOLS.into_iter().find(|protocol| *protocol != scene.protocol).unwrap();
        let cluster_ip: IpAddr =
            if family == Family::V4 { "10.96.0.77" } else { "fd00:10:96::77" }.parse().unwrap();
        let members = [(address(&scene.pods[1], family), support::MEMBER_PORT)];
        let spec = ServiceSpec::new(2, cluster_ip, other_protocol, SERVICE_PORT, &members);
        let other = support::by_all_frontends(spec.floating_ip(), NODE_PORT);
        scene.put(other.clone());
        let own = scene.protocol;
        assert_eq!(scene.connect().0, 0, "{}", scene.label());
        scene.protocol = other_protocol;
        assert_eq!(scene.reach(SYN).0, 1, "{}", scene.label());
        support::remove_object(&mut scene.cluster, &Object::FloatingIp(other));
        let gone = scene.request(SYN);
        assert_eq!(scene.reached(&gone), None, "{}", scene.label());
        if scene.frontend != Frontend::NodePort {
            scene.assert_refused(&gone);
        }
        scene.protocol = own;
        assert_eq!(scene.reach(ACK).0, 0, "{}", scene.label());
    }
}

#[test]
fn svc_6_services_of_one_name_are_two() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(1);
        let (client, first, second) = (cluster.pod(0), cluster.pod(0), cluster.pod(0));
        let service = |number: u32, pod, host: &str| {
            let (v4, v6) = (format!("10.96.5.{host}"), format!("fd00:10:96::5:{host}"));
            let address_of = if family == Family::V4 { v4 } else { v6 };
            let members = [(address(pod, family), 6379)];
            let spec =
                ServiceSpec::new(number, address_of.parse().unwrap(), ServiceProtocol::Tcp, 6379, &members);
            FloatingIp { name: format!("ns{number}/redis"), ..spec.floating_ip() }
        };
        let (one, other) = (service(1, &first, "1"), service(2, &second, "2"));
        cluster.put(&[Object::FloatingIp(one.clone()), Object::FloatingIp(other.clone())]);
        support::remove_object(&mut cluster, &Object::FloatingIp(one.clone()));
        let syn = |to| packet(address(&client, family), to, ServiceProtocol::Tcp, (4000, 6379), SYN);
        assert!(is_refusal(&only(&cluster.send(&client, &syn(one.address))), ServiceProtocol::Tcp, family));
        assert_eq!(cluster.send(&client, &syn(other.address))[0].port, second.port);
    }
}

/// Also svc_10: a name stands for another port at each pod; and the other way round, two names for two ports of one.
#[test]
fn svc_9_ports_are_the_members_own() {
    for mut scene in scenes(HERE_AND_THERE) {
        let mut service = scene.service(&[0, 1]);
        service.listeners[0].members[0].port = support::port(80);
        service.listeners[0].members[1].port = support::port(8080);
        service.listeners.push(listener(&service, 1, scene.protocol, (81, 30_081, 9090)));
        scene.put(service);
        let mut seen = BTreeSet::new();
        for port in 5000..5040 {
            let deliveries = scene.request_from(port, SYN);
            let member = scene.reached(&deliveries).expect("one of them");
            seen.insert((member, only(&deliveries).ports.1));
        }
        assert_eq!(seen, [(0, 80), (1, 8080)].into(), "{}", scene.label());
        let (to, port) = match scene.frontend {
            Frontend::NodePort => (scene.place().0, 30_081),
            _ => (scene.place().0, 81),
        };
        let client = scene.client.clone();
        let frame = packet(client.address(scene.family), to, scene.protocol, (4000, port), SYN);
        assert_eq!(only(&client.send(&mut scene.cluster, &frame)).ports.1, 9090, "{}", scene.label());
    }
}

#[test]
fn svc_10_a_service_whose_members_have_no_port_is_rejected() {
    for mut scene in scenes(HERE_AND_THERE) {
        let mut service = scene.service(&[0, 1]);
        service.listeners[0].members.clear();
        scene.put(service);
        let told = scene.request(SYN);
        scene.assert_refused(&told);
    }
}

#[test]
fn svc_11_a_port_by_another_name_keeps_its_connections() {
    for mut scene in scenes(HERE_AND_THERE) {
        scene.put_members(&[0]);
        let (_, delivery) = scene.connect();
        let mut service = scene.service(&[0]);
        service.listeners[0].name = "b".to_owned();
        scene.put(service);
        assert_eq!(scene.reach(ACK).0, 0, "{}", scene.label());
        scene.answer(&delivery, ACK);
    }
}

#[test]
fn svc_13_only_the_latest_target_port_counts() {
    for mut scene in scenes(HERE_AND_THERE) {
        for (number, port) in (1..).zip([80, 81, 443]) {
            let mut service = scene.service(&[0]);
            let member = &mut service.listeners[0].members[0];
            (member.id, member.port) = (MemberId::new(number).unwrap(), support::port(port));
            scene.put(service);
            for client_port in 4000..4010 {
                assert_eq!(only(&scene.request_from(client_port, SYN)).ports.1, port, "{}", scene.label());
            }
        }
    }
}

#[test]
fn svc_14_a_policy_that_changes_to_and_fro_counts_at_once() {
    for mut scene in scenes(HERE_AND_THERE) {
        for round in 0..10 {
            forget_all(&mut scene);
            let cluster_wide = scene.service(&[0, 1]);
            scene.put(cluster_wide);
            let reached: BTreeSet<_> = (0..20).map(|port| scene.reach_from(5000 + port, SYN).0).collect();
            assert_eq!(reached, [0, 1].into(), "{} round {round}", scene.label());
            let local = support::local_inside(local_outside(scene.service(&[0, 1])));
            scene.put(local);
            let reached: BTreeSet<_> = (0..20).map(|port| scene.reach_from(5000 + port, SYN).0).collect();
            let is_bound =
                scene.frontend == Frontend::ClusterIp || matches!(scene.client, Client::Outside(_));
            let expected = if is_bound { [0].into() } else { BTreeSet::from([0, 1]) };
            assert_eq!(reached, expected, "{} round {round}", scene.label());
            let flows = scene.cluster.nodes[0].flows(scene.cluster.now).len();
            assert!(flows <= 40, "{}: {flows} flows", scene.label());
        }
    }
}

#[test]
fn svc_15_a_service_of_thousands_leaves_the_others_alone() {
    const MEMBERS: u32 = 5000;
    for family in FAMILIES {
        let mut cluster = Cluster::with_slots(2, 65_536);
        let (client, small) = (cluster.pod(0), cluster.pod(0));
        let mut spec = ServiceSpec::new(1, vip(family), ServiceProtocol::Udp, 80, &[]);
        let host = |number: u32| -> IpAddr {
            match family {
                Family::V4 => [10, 244, 2, 2 + (number % 250) as u8].into(),
                Family::V6 => [0xfd00, 0x10, 0x244, 2, 0, 0, 0, 2 + number as u16 % 250].into(),
            }
        };
        let member = |number: u32| (number, host(number), 8000 + (number / 250) as u16, MemberState::Ready);
        spec.members = (1..=MEMBERS).map(member).collect();
        cluster.put(&[spec.object()]);
        let other: IpAddr =
            if family == Family::V4 { "10.96.0.11" } else { "fd00:10:96::11" }.parse().unwrap();
        let members = [(address(&small, family), 8080)];
        cluster.put(&[ServiceSpec::new(9000, other, ServiceProtocol::Udp, 80, &members).object()]);
        let ask = |cluster: &mut Cluster, to, port| {
            let frame = packet(address(&client, family), to, ServiceProtocol::Udp, (port, 80), 0);
            cluster.send(&client, &frame)
        };
        assert_eq!(ask(&mut cluster, other, 1)[0].port, small.port, "{family:?}");
        for port in 1..=20_000 {
            ask(&mut cluster, vip(family), port);
        }
        let counted =
            (1..=MEMBERS).map(|number| cluster.nodes[0].tables.hits(MemberId::new(100 + number).unwrap()));
        let hits: Vec<_> = counted.collect();
        assert_eq!(hits.iter().sum::<u64>(), 20_000, "{family:?}: each flow counts once");
        let chosen = hits.iter().filter(|hits| **hits > 0).count();
        assert!(chosen > 4800, "{family:?}: {chosen} of {MEMBERS}");
    }
}

/// What is ready where the slices say so, serving or not, is the controller's to say; what the states mean is the node's.
#[test]
fn svc_17_serving_members_stand_in_where_nobody_is_ready() {
    use MemberState::{Leaving, Ready, Serving};
    for mut scene in scenes(HERE_AND_THERE) {
        let is_bound = scene.frontend == Frontend::ClusterIp || matches!(scene.client, Client::Outside(_));
        for (here, there, expected, expected_local) in [
            (Ready, Ready, &[0, 1][..], &[0][..]),
            (Serving, Ready, &[1], &[0]),
            (Ready, Serving, &[0], &[0]),
            (Serving, Serving, &[0, 1], &[0]),
            (Leaving, Serving, &[1], &[]),
            (Serving, Leaving, &[0], &[0]),
            (Leaving, Ready, &[1], &[]),
        ] {
            for is_local in [false, true] {
                let service = scene.service_in(&[(0, here), (1, there)]);
                let local = |service| support::local_inside(local_outside(service));
                scene.put(if is_local { local(service) } else { service });
                let expected = if is_local && is_bound { expected_local } else { expected };
                forget_all(&mut scene);
                let reached: BTreeSet<_> =
                    (0..16).filter_map(|port| reached(&mut scene, 5000 + port)).collect();
                let label = format!("{} {here:?} {there:?} {is_local}", scene.label());
                assert_eq!(reached, expected.iter().copied().collect(), "{label}");
            }
        }
    }
}

/// Lets so much time pass that no flow is left.
fn forget_all(scene: &mut Scene) {
    scene.cluster.now = scene.cluster.now.plus_millis(48 * 3_600_000);
    let now = scene.cluster.now;
    scene.cluster.nodes.iter_mut().for_each(|node| node.age(now));
}

fn reached(scene: &mut Scene, port: u16) -> Option<usize> {
    let deliveries = scene.request_from(port, SYN);
    scene.reached(&deliveries)
}

#[test]
fn svc_18_a_family_without_members_is_rejected_and_not_crossed() {
    for mut scene in scenes(HERE_AND_THERE) {
        scene.put_members(&[0]);
        // The other family's service, of its own number, has none.
        let other = if scene.family == Family::V4 { Family::V6 } else { Family::V4 };
        let spec = ServiceSpec::new(2, vip(other), scene.protocol, SERVICE_PORT, &[]);
        scene.put(support::by_all_frontends(spec.floating_ip(), NODE_PORT));
        scene.connect();
        scene.family = other;
        let told = scene.request(SYN);
        scene.assert_refused(&told);
    }
}

/// A number, to be followed by others that look like chance.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// Whatever comes and goes, what is served at last is what is there.
#[test]
fn svc_19_after_any_changes_the_tables_are_what_they_should_be() {
    for kind in CLIENT_KINDS {
        let mut cluster = Cluster::with_slots(1, 8192);
        let client = Client::new(&mut cluster, kind, 0);
        let pods: Vec<_> = (0..8).map(|_| cluster.pod(0)).collect();
        let mut there: BTreeMap<u32, (usize, Option<u16>)> = BTreeMap::new();
        let mut numbers = Numbers(7);
        let address_of = |place: u32| IpAddr::from([10, 96, 3, place as u8]);
        // Places are few and used again by services with other ids.
        let service = |id: u32, place: u32, pod: usize, node_port: Option<u16>| {
            let spec =
                ServiceSpec::new(id, address_of(place), ServiceProtocol::Udp, 80, &[(pods[pod].v4, 8080)]);
            let mut service = spec.floating_ip();
            service.listeners[0].node_port = node_port.map(support::port);
            service
        };
        let mut ids = BTreeMap::new();
        for step in 0..600_u32 {
            let place = numbers.next(40) as u32 + 1;
            if let Some(id) = ids.remove(&place) {
                there.remove(&place);
                let key = vrouter_objects::ObjectKey::FloatingIp(FloatingIpId::new(id).unwrap());
                support::remove(&mut cluster, 0, key);
            }
            if numbers.next(3) > 0 {
                let (id, pod) = (step + 1, numbers.next(8) as usize);
                let node_port = (numbers.next(2) == 0).then_some(30_000 + place as u16);
                cluster.put(&[Object::FloatingIp(service(id, place, pod, node_port))]);
                ids.insert(place, id);
                there.insert(place, (pod, node_port));
            }
        }
        for place in 1..=40 {
            let ask = |cluster: &mut Cluster, to, port| -> Vec<Delivery> {
                let frame = packet(client.address(Family::V4), to, ServiceProtocol::Udp, (4000, port), 0);
                client.send(cluster, &frame)
            };
            let deliveries = ask(&mut cluster, address_of(place), 80);
            let by_node_port = ask(&mut cluster, support::node_address(0, Family::V4), 30_000 + place as u16);
            let at = |deliveries: &[Delivery]| pods.iter().position(|pod| pod.port == deliveries[0].port);
            match there.get(&place) {
                Some((pod, node_port)) => {
                    assert_eq!(at(&deliveries), Some(*pod), "{kind:?} {place}");
                    assert_eq!(at(&by_node_port), node_port.map(|_| *pod), "{kind:?} {place}");
                }
                None => {
                    assert!(is_refusal(&read(&deliveries[0].frame), ServiceProtocol::Udp, Family::V4));
                    assert_eq!(at(&by_node_port), None, "{kind:?} {place}");
                }
            }
        }
    }
}
