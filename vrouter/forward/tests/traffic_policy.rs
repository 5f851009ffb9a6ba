//! Which members a client gets by which address, and who gets none.

mod support;

use support::{
    ACK, CLIENT_KINDS, CLIENT_PORT, Client, ClientKind, EXTERNAL_FRONTENDS, FAMILIES, Frontend, NODE_PORT,
    SERVICE_PORT, SYN, Scene, address, dropped, drops, external_ip, is_refusal, load_balancer_ip,
    local_inside, local_outside, node_address, only, outside, packet, read, remove, scenes, scenes_of, vip,
};
use vrouter_forward::Family;
use vrouter_forward::parse::IcmpTypes;
use vrouter_forward::sim::{HOST_PORT, PacketBuilder, ServiceSpec, node_addresses};
use vrouter_forward::tables::HostNetwork;
use vrouter_objects::{
    DropReason, ExternalAddress, ExternalKind, FloatingIp, IpNet, MemberState, Object, ObjectKey, RouterId,
    ServiceProtocol,
};

/// On the client's node, and on another.
const HERE_AND_THERE: &[usize] = &[0, 1];
const THERE: &[usize] = &[1];
const CLUSTER_IP: &[Frontend] = &[Frontend::ClusterIp];

#[test]
fn tpol_2_external_policy_is_not_about_the_cluster_address() {
    for mut scene in scenes_of(CLUSTER_IP, &CLIENT_KINDS, THERE) {
        scene.put(local_outside(scene.service(&[0])));
        let (_, delivery) = scene.reach(SYN);
        scene.answer(&delivery, SYN | ACK);
    }
}

/// Nor is it about who is in the cluster, by whatever address, as with kube-proxy; nor internal policy about the others.
#[test]
fn tpol_2_policies_bind_whom_they_are_about() {
    for mut scene in scenes_of(&EXTERNAL_FRONTENDS, &[ClientKind::Pod, ClientKind::Node], THERE) {
        scene.put(local_inside(local_outside(scene.service(&[0]))));
        let (_, delivery) = scene.reach(SYN);
        scene.answer(&delivery, SYN | ACK);
    }
    for mut scene in scenes_of(&EXTERNAL_FRONTENDS, &[ClientKind::Outside], THERE) {
        scene.put(local_inside(scene.service(&[0])));
        let (_, delivery) = scene.reach(SYN);
        scene.answer(&delivery, SYN | ACK);
    }
    // Another node's process is outside, as seen from here.
    for mut scene in scenes_of(&[Frontend::NodePort], &[ClientKind::Outside], THERE) {
        scene.put(local_outside(scene.service(&[0])));
        let frame = packet(
            node_address(2, scene.family),
            scene.place().0,
            scene.protocol,
            (CLIENT_PORT, NODE_PORT),
            SYN,
        );
        assert_eq!(scene.cluster.send_from_host(0, &frame), [], "{}", scene.label());
        assert_eq!(drops(&scene.cluster, 0), [(DropReason::NoMembers, 1)], "{}", scene.label());
    }
}

#[test]
fn tpol_3_internal_policy_keeps_clients_on_their_node() {
    for mut scene in scenes_of(CLUSTER_IP, &CLIENT_KINDS, HERE_AND_THERE) {
        scene.put(local_inside(scene.service(&[0, 1])));
        for port in 5000..5050 {
            assert_eq!(scene.reach_from(port, SYN).0, 0, "{}", scene.label());
        }
        scene.put(local_inside(scene.service(&[1])));
        assert_eq!(scene.request(SYN), [], "{}", scene.label());
        assert_eq!(drops(&scene.cluster, 0), [(DropReason::NoMembers, 1)], "{}", scene.label());
        assert_eq!(scene.cluster.wire, [], "{}", scene.label());
    }
}

#[test]
fn tpol_4_nobody_there_is_told_at_every_frontend() {
    for mut scene in scenes(HERE_AND_THERE) {
        for state in [None, Some(MemberState::Leaving)] {
            let members: Vec<_> = state.into_iter().map(|state| (0, state)).collect();
            scene.put(scene.service_in(&members));
            let deliveries = scene.request(SYN);
            scene.assert_refused(&deliveries);
            assert_eq!(scene.cluster.nodes[0].flows(scene.cluster.now), [], "{}", scene.label());
        }
        assert_eq!(drops(&scene.cluster, 0), [(DropReason::NoMembers, 2)], "{}", scene.label());
    }
}

#[test]
fn tpol_5_none_at_all_is_rejected_none_local_is_dropped() {
    let external = scenes_of(&EXTERNAL_FRONTENDS, &[ClientKind::Outside], HERE_AND_THERE);
    for mut scene in external.chain(scenes_of(CLUSTER_IP, &CLIENT_KINDS, HERE_AND_THERE)) {
        let local = |service| local_inside(local_outside(service));
        for state in [MemberState::Ready, MemberState::Serving] {
            scene.put(local(scene.service_in(&[(1, state)])));
            assert_eq!(scene.request(SYN), [], "{} {state:?}", scene.label());
        }
        for members in [&[][..], &[(1, MemberState::Leaving)], &[(0, MemberState::Leaving)]] {
            scene.put(local(scene.service_in(members)));
            let deliveries = scene.request(SYN);
            scene.assert_refused(&deliveries);
        }
    }
}

#[test]
fn tpol_6_what_no_service_is_at_is_rejected_and_leads_nowhere() {
    for mut scene in scenes(HERE_AND_THERE).filter(|scene| scene.frontend != Frontend::NodePort) {
        scene.put_members(&[0, 1]);
        let (family, (to, _), client) = (scene.family, scene.place(), scene.client.clone());
        let from = client.address(family);
        for port in [81, NODE_PORT] {
            let told =
                client.send(&mut scene.cluster, &packet(from, to, scene.protocol, (CLIENT_PORT, port), SYN));
            scene.assert_refused(&told);
        }
        let ping = PacketBuilder::new(from, to).echo_request(1, 1).build();
        let told = client.send(&mut scene.cluster, &ping);
        assert!(told.len() == 1 && client.is_at(&told[0]), "{}", scene.label());
        let (kind, code) = IcmpTypes::of(family).port_unreachable;
        assert_eq!(only(&told).payload[..2], [kind, code], "{}", scene.label());
        assert_eq!(drops(&scene.cluster, 0), [(DropReason::NoService, 3)], "{}", scene.label());
        assert_eq!(
            (&scene.cluster.wire[..], scene.cluster.nodes[0].flows(scene.cluster.now)),
            (&[][..], Vec::new())
        );
    }
}

/// Not even where the node has something at that port.
#[test]
fn tpol_7_a_nodes_own_ports_are_not_at_service_addresses() {
    for mut scene in scenes(HERE_AND_THERE).filter(|scene| scene.frontend != Frontend::NodePort) {
        scene.put_members(&[0]);
        let (family, (to, _), client) = (scene.family, scene.place(), scene.client.clone());
        let told = client
            .send(&mut scene.cluster, &packet(client.address(family), to, scene.protocol, (1, 22), SYN));
        scene.assert_refused(&told);
    }
}

#[test]
fn tpol_8_node_ports_are_at_the_nodes_addresses_alone() {
    for mut scene in scenes_of(&[Frontend::NodePort], &CLIENT_KINDS, HERE_AND_THERE) {
        scene.put_members(&[0]);
        let (family, client, protocol) = (scene.family, scene.client.clone(), scene.protocol);
        for to in [vip(family), external_ip(family), load_balancer_ip(family)] {
            let frame = packet(client.address(family), to, protocol, (CLIENT_PORT, NODE_PORT), SYN);
            let told = client.send(&mut scene.cluster, &frame);
            assert!(client.is_at(&told[0]), "{}", scene.label());
            assert!(is_refusal(&only(&told), protocol, family), "{}", scene.label());
        }
        // Every node's address does, for who is in the cluster.
        for node in 0..3 {
            let frame = packet(
                client.address(family),
                node_address(node, family),
                protocol,
                (node as u16 + 1, NODE_PORT),
                SYN,
            );
            let delivered = client.send(&mut scene.cluster, &frame);
            assert_eq!(scene.reached(&delivered), Some(0), "{} by node {node}", scene.label());
        }
        scene.reach(SYN);
    }
}

/// `--node-port-addresses`
#[test]
fn tpol_8_node_ports_are_where_they_are_wanted() {
    for mut scene in scenes_of(&[Frontend::NodePort], &CLIENT_KINDS, HERE_AND_THERE) {
        scene.put_members(&[0]);
        set_host(&mut scene, |host| host.node_port_addresses = vec!["192.0.2.0/24".parse().unwrap()]);
        let handed = scene.request(SYN);
        assert_eq!((handed.len(), handed[0].node, handed[0].port), (1, 0, HOST_PORT), "{}", scene.label());
        assert_eq!(only(&handed).ports.1, NODE_PORT, "{}: the node's own affair", scene.label());
        set_host(&mut scene, |host| {
            host.node_port_addresses =
                vec!["172.30.0.0/16".parse().unwrap(), "fd00:172:30::/48".parse().unwrap()];
        });
        scene.reach(SYN);
    }
}

/// Changes what the client's node says of itself.
fn set_host(scene: &mut Scene, change: impl FnOnce(&mut HostNetwork)) {
    let node = &mut scene.cluster.nodes[0];
    let mut host = node.tables.host().expect("the cluster sets it").clone();
    change(&mut host);
    node.tables.set_host(host);
    node.publish();
}

#[test]
fn tpol_9_a_nodes_address_as_external_address_gives_away_one_port_of_it() {
    for kind in [ExternalKind::ExternalIp, ExternalKind::LoadBalancer] {
        for (mut scene, of) in
            scenes_of(CLUSTER_IP, &CLIENT_KINDS, HERE_AND_THERE).flat_map(|scene| [(scene, 0)]).chain(
                scenes_of(CLUSTER_IP, &[ClientKind::Pod, ClientKind::Node], HERE_AND_THERE)
                    .map(|scene| (scene, 1)),
            )
        {
            let (family, protocol, client) = (scene.family, scene.protocol, scene.client.clone());
            let (from, to) = (client.address(family), node_address(of, family));
            let service =
                FloatingIp { external: vec![ExternalAddress { address: to, kind }], ..scene.service(&[1]) };
            scene.put(service);
            let send = |scene: &mut Scene, frame: &[u8]| client.send(&mut scene.cluster, frame);
            let delivered = send(&mut scene, &packet(from, to, protocol, (CLIENT_PORT, SERVICE_PORT), SYN));
            assert_eq!(scene.reached(&delivered), Some(1), "{} {kind:?}", scene.label());
            // The rest is the node's: it comes out at that node, or goes to it as the sender's node sends.
            let at = if matches!(client, Client::Pod(_)) { of } else { 0 };
            let ssh = send(&mut scene, &packet(from, to, protocol, (CLIENT_PORT, 6443), SYN));
            assert_eq!(ssh.len(), 1, "{} {kind:?}: {:?}", scene.label(), drops(&scene.cluster, 0));
            assert_eq!((ssh[0].node, ssh[0].port), (at, HOST_PORT), "{} {kind:?}", scene.label());
            let got = only(&ssh);
            assert_eq!(
                (got.source, got.destination, got.ports),
                (from, to, (CLIENT_PORT, 6443)),
                "{}",
                scene.label()
            );
            let ping = PacketBuilder::new(from, to).echo_request(1, 1).build();
            let ping = send(&mut scene, &ping);
            assert_eq!(ping.len(), 1, "{} {kind:?}: {:?}", scene.label(), drops(&scene.cluster, 0));
            assert_eq!((ping[0].node, ping[0].port), (at, HOST_PORT), "{} {kind:?}", scene.label());
        }
    }
}

/// Ranges that nobody of these is in.
fn guarded(service: FloatingIp) -> FloatingIp {
    let source_ranges = vec!["192.0.2.0/24".parse().unwrap(), "2001:db8:192::/48".parse().unwrap()];
    FloatingIp { source_ranges, ..service }
}

#[test]
fn tpol_11_source_ranges_guard_load_balancer_addresses_alone() {
    for mut scene in scenes(HERE_AND_THERE) {
        scene.put(guarded(scene.service(&[0, 1])));
        if scene.frontend == Frontend::LoadBalancer {
            // Nobody is told anything, whatever it is that they send.
            for flags in [SYN, ACK] {
                assert_eq!(scene.request(flags), [], "{}", scene.label());
            }
            assert_eq!(drops(&scene.cluster, 0), [(DropReason::SourceRange, 2)], "{}", scene.label());
            let mut service = guarded(scene.service(&[0, 1]));
            service.source_ranges.push(scene.client.address(scene.family).into());
            scene.put(service);
        }
        let (_, delivery) = scene.reach(SYN);
        scene.answer(&delivery, SYN | ACK);
    }
}

#[test]
fn tpol_11_ranges_that_come_later_end_what_they_do_not_admit() {
    for mut scene in scenes_of(&[Frontend::LoadBalancer], &CLIENT_KINDS, HERE_AND_THERE) {
        scene.put_members(&[0]);
        scene.connect();
        scene.put(guarded(scene.service(&[0])));
        for flags in [ACK, SYN] {
            assert_eq!(scene.request(flags), [], "{}", scene.label());
        }
        assert_eq!(drops(&scene.cluster, 0), [(DropReason::SourceRange, 2)], "{}", scene.label());
    }
}

/// As kube-proxy does, and unlike others, which guard these as well.
#[test]
fn tpol_12_source_ranges_do_not_guard_external_ips() {
    for mut scene in scenes_of(&[Frontend::ExternalIp], &CLIENT_KINDS, HERE_AND_THERE) {
        scene.put(guarded(scene.service(&[0, 1])));
        scene.reach(SYN);
    }
}

#[test]
fn tpol_13_pods_are_admitted_like_anybody() {
    for mut scene in scenes_of(&[Frontend::LoadBalancer], &[ClientKind::Pod], HERE_AND_THERE) {
        scene.put(guarded(scene.service(&[0])));
        assert_eq!(scene.request(SYN), [], "{}", scene.label());
        let mut service = guarded(scene.service(&[0]));
        let pods = ["10.244.0.0/16", "fd00:10:244::/48"].map(|prefix| prefix.parse().unwrap());
        service.source_ranges.extend::<[IpNet; 2]>(pods);
        scene.put(service);
        scene.reach(SYN);
    }
}

#[test]
fn tpol_14_nothing_leaves_from_a_loopback_address() {
    for mut scene in scenes(HERE_AND_THERE) {
        scene.put_members(&[0, 1]);
        let loopback = if scene.family == Family::V4 { "127.0.0.1" } else { "::1" }.parse().unwrap();
        let ports = (CLIENT_PORT, scene.place().1);
        let client = scene.client.clone();
        for (from, to) in
            [(loopback, scene.place().0), (loopback, loopback), (client.address(scene.family), loopback)]
        {
            let frame = packet(from, to, scene.protocol, ports, SYN);
            assert_eq!(client.send(&mut scene.cluster, &frame), [], "{} {from} to {to}", scene.label());
        }
        assert_eq!(scene.cluster.nodes[0].flows(scene.cluster.now), [], "{}", scene.label());
    }
}

#[test]
fn tpol_15_a_node_serves_at_the_addresses_it_has_now() {
    for mut scene in scenes_of(&[Frontend::NodePort], &CLIENT_KINDS, HERE_AND_THERE) {
        scene.put_members(&[1]);
        let family = scene.family;
        let added = if family == Family::V4 { "172.31.9.9" } else { "fd00:172:31::9" }.parse().unwrap();
        let client = scene.client.clone();
        let frame = packet(client.address(family), added, scene.protocol, (CLIENT_PORT, NODE_PORT), SYN);
        for _ in 0..2 {
            let before = client.send(&mut scene.cluster, &frame);
            assert_eq!(scene.reached(&before), None, "{}: {before:#?}", scene.label());
            set_host(&mut scene, |host| host.addresses.push(added));
            let delivered = client.send(&mut scene.cluster, &frame);
            assert_eq!(scene.reached(&delivered), Some(1), "{}", scene.label());
            set_host(&mut scene, |host| host.addresses = node_addresses(0).to_vec());
        }
    }
}

#[test]
fn tpol_16_who_is_local_is_told_by_the_node_and_by_nothing_else() {
    for mut scene in scenes_of(&EXTERNAL_FRONTENDS, &[ClientKind::Outside], HERE_AND_THERE) {
        let mut service = local_outside(scene.service(&[0, 1]));
        // The pod here is said to be there, and the other way round.
        let members = &mut service.listeners[0].members;
        members[0].router = RouterId::new(2).ok();
        members[1].router = RouterId::new(1).ok();
        scene.put(service);
        assert_eq!(scene.reach(SYN).0, 1, "{}", scene.label());
        // Without itself, a node has nobody.
        remove(&mut scene.cluster, 0, ObjectKey::VirtualRouter(RouterId::new(1).unwrap()));
        assert_eq!(scene.request_from(5000, SYN), [], "{}", scene.label());
        assert_eq!(dropped(&scene.cluster, 0, DropReason::NoMembers), 1, "{}", scene.label());
    }
}

#[test]
fn tpol_17_a_node_port_is_one_service_per_family_and_protocol() {
    for kind in CLIENT_KINDS {
        let mut cluster = vrouter_forward::sim::Cluster::new(2);
        let client = Client::new(&mut cluster, kind, 0);
        let mut places = Vec::new();
        for family in FAMILIES {
            for protocol in support::ALL_PROTOCOLS {
                let pod = cluster.pod(1);
                let number = places.len() as u32 + 1;
                let address_of = match family {
                    Family::V4 => format!("10.96.7.{number}"),
                    Family::V6 => format!("fd00:10:96::7:{number}"),
                };
                let members = [(address(&pod, family), 8000 + number as u16)];
                let spec = ServiceSpec::new(number, address_of.parse().unwrap(), protocol, 80, &members);
                let mut service = spec.floating_ip();
                service.listeners[0].node_port = Some(support::port(NODE_PORT));
                cluster.put(&[Object::FloatingIp(service)]);
                places.push((family, protocol, pod));
            }
        }
        for (number, (family, protocol, pod)) in places.iter().enumerate() {
            let to = node_address(0, *family);
            let frame = packet(client.address(*family), to, *protocol, (CLIENT_PORT, NODE_PORT), SYN);
            let delivered = client.send(&mut cluster, &frame);
            assert_eq!(
                (delivered[0].node, delivered[0].port),
                (1, pod.port),
                "{kind:?} {family:?} {protocol}"
            );
            assert_eq!(read(&delivered[0].frame).ports.1, 8001 + number as u16);
        }
    }
}

/// What is outside stays what it is on the way: the member's node keeps the same rules.
#[test]
fn tpol_5_policy_is_kept_where_packets_come_into_the_cluster() {
    for family in FAMILIES {
        for node in 0..3 {
            let mut scene =
                Scene::new(family, ServiceProtocol::Udp, Frontend::NodePort, ClientKind::Outside, &[0, 1]);
            scene.client = Client::Outside(node);
            scene.put(local_outside(scene.service(&[0, 1])));
            match node {
                2 => assert_eq!(scene.request(SYN), []),
                member => {
                    let (reached, delivery) = scene.reach(SYN);
                    assert_eq!(reached, member);
                    assert_eq!(read(&delivery.frame).source, outside(family), "who the client is");
                    scene.answer(&delivery, 0);
                }
            }
        }
    }
}
