//! The node's own packets and those from outside, by `vhost0`.

mod support;

use std::net::IpAddr;

use support::{
    ACK, ALL_PROTOCOLS, CLIENT_PORT, Client, ClientKind, FAMILIES, FRONTENDS, Frontend, MEMBER_PORT, SYN,
    Scene, address, answer, drops, gateway, is_refusal, node_address, node_mac, only, outside, packet,
    publish, read, scenes, scenes_of, vip, vtep,
};
use vrouter_forward::Family;
use vrouter_forward::flow::{ConnectionState, Direction, FlowRecord, Origin};
use vrouter_forward::frame::{Frame, Ingress};
use vrouter_forward::sim::{Cluster, HOST_PORT, PacketBuilder, ServiceSpec};
use vrouter_objects::{
    AddressLease, DropReason, LeaseId, MemberId, NextHop, Object, Port, RouterId, RouterKind,
    ServiceProtocol, VirtualRouter, VmiId, Vni, VrfId,
};

const HERE_AND_THERE: &[usize] = &[0, 1];

fn vrf(number: u32) -> VrfId {
    VrfId::new(number).unwrap()
}

fn router(node: usize) -> RouterId {
    RouterId::new(node as u32 + 1).unwrap()
}

/// Both directions of the one connection at a node.
fn connection(cluster: &Cluster, node: usize) -> [FlowRecord; 2] {
    let mut flows = cluster.nodes[node].flows(cluster.now);
    assert_eq!(flows.len(), 2, "node {node}: {flows:#?}");
    flows.sort_by_key(|flow| flow.direction == Direction::Responder);
    flows.try_into().expect("two")
}

#[test]
fn a_client_from_outside_is_known_to_the_member_and_answered_by_the_node_it_came_to() {
    for mut scene in scenes_of(&FRONTENDS, &[ClientKind::Outside], HERE_AND_THERE) {
        for member in 0..2 {
            scene.delete_service();
            scene.cluster.now = scene.cluster.now.plus_millis(100_000_000);
            let now = scene.cluster.now;
            scene.cluster.nodes.iter_mut().for_each(|node| node.age(now));
            scene.put_members(&[member]);
            let (_, delivery) = scene.connect();
            let (family, label) = (scene.family, scene.label());
            let (client, (to, port)) = (outside(family), scene.place());
            let pod = scene.pods[member].clone();
            let got = read(&delivery.frame);
            assert_eq!((got.source, got.ports.0), (client, CLIENT_PORT), "{label}");

            let [there, back] = connection(&scene.cluster, 0);
            assert_eq!((there.key.vrf, there.key.origin), (vrf(3), Origin::Host), "{label}");
            assert_eq!(
                (IpAddr::from(there.key.destination), there.key.destination_port),
                (to, port),
                "{label}"
            );
            let translated = (IpAddr::from(there.translated_destination), there.translated_destination_port);
            assert_eq!(translated, (address(&pod, family), MEMBER_PORT), "{label}");
            assert_eq!(IpAddr::from(there.translated_source), client, "{label}");
            assert_eq!(there.egress_vrf, Some(vrf(1)), "{label}");
            let to_member =
                if member == 0 { NextHop::Interface(pod.vmi) } else { NextHop::Tunnel(router(member)) };
            assert_eq!(there.next_hop, to_member, "{label}");
            assert_eq!((back.key.vrf, back.key.origin), (vrf(1), Origin::Cluster), "{label}");
            assert_eq!(back.next_hop, NextHop::Interface(VmiId::HOST), "{label}");
            assert_eq!((there.packets, back.packets), (2, 1), "{label}");
            assert_eq!(there.state.connection, ConnectionState::Established, "{label}");
            if member == 1 {
                let [there, back] = connection(&scene.cluster, 1);
                assert_eq!((there.key.vrf, there.key.origin), (vrf(1), Origin::Router(router(0))), "{label}");
                assert_eq!((there.next_hop, there.service), (NextHop::Interface(pod.vmi), None), "{label}");
                assert_eq!(
                    (back.key.origin, back.next_hop),
                    (Origin::Cluster, NextHop::Tunnel(router(0))),
                    "{label}"
                );
                assert_eq!(IpAddr::from(back.key.destination), client, "{label}");
                assert_eq!(there.state.connection, ConnectionState::Established, "{label}");
            } else {
                assert_eq!(scene.cluster.nodes[1].flows(now), [], "{label}");
            }
        }
    }
}

/// The tables change all the while, which changes no way.
#[test]
fn what_came_by_a_node_goes_back_by_it_also_after_changes() {
    for mut scene in scenes(HERE_AND_THERE) {
        for member in 0..2 {
            scene.delete_service();
            scene.put_members(&[member]);
            let (_, delivery) = scene.connect();
            for _ in 0..3 {
                scene.cluster.nodes.iter_mut().for_each(vrouter_forward::sim::Node::publish);
                let (_, again) = scene.reach(ACK);
                assert_eq!(read(&again.frame).source, read(&delivery.frame).source, "{}", scene.label());
                scene.cluster.nodes.iter_mut().for_each(vrouter_forward::sim::Node::publish);
                scene.answer(&delivery, ACK);
            }
        }
    }
}

#[test]
fn a_process_of_the_node_keeps_its_address_wherever_the_member_is() {
    for mut scene in scenes_of(&FRONTENDS, &[ClientKind::Node], HERE_AND_THERE) {
        for member in 0..2 {
            scene.put_members(&[member]);
            let (_, delivery) = scene.reach_from(4000 + member as u16, SYN);
            assert_eq!(read(&delivery.frame).source, node_address(0, scene.family), "{}", scene.label());
            scene.answer_to(4000 + member as u16, &delivery, SYN | ACK);
        }
    }
}

/// What a node's process sends to another node's node port comes back from there with the node's own address.
#[test]
fn a_process_reaches_a_member_of_its_own_node_by_another_nodes_port() {
    for family in FAMILIES {
        for protocol in ALL_PROTOCOLS {
            let mut cluster = Cluster::new(2);
            let member = cluster.pod(0);
            let members = [(address(&member, family), MEMBER_PORT)];
            let mut service = ServiceSpec::new(1, vip(family), protocol, 80, &members).floating_ip();
            service.listeners[0].node_port = Port::new(30_080).ok();
            cluster.put(&[Object::FloatingIp(service)]);
            let (process, node_port) = (node_address(0, family), node_address(1, family));
            let there = packet(process, node_port, protocol, (CLIENT_PORT, 30_080), SYN);
            let delivered = cluster.send_from_host(1, &there);
            let got = only(&delivered);
            assert_eq!((delivered[0].node, delivered[0].port), (0, member.port), "{protocol} {family:?}");
            assert_eq!(
                (got.source, got.ports),
                (process, (CLIENT_PORT, MEMBER_PORT)),
                "{protocol} {family:?}"
            );
            let ports = (MEMBER_PORT, CLIENT_PORT);
            let back = packet(address(&member, family), process, protocol, ports, SYN | ACK);
            let delivered = cluster.send(&member, &back);
            let got = only(&delivered);
            assert_eq!((delivered[0].node, delivered[0].port), (1, HOST_PORT), "{protocol} {family:?}");
            assert_eq!((got.source, got.ports), (node_port, (30_080, CLIENT_PORT)), "{protocol} {family:?}");
        }
    }
}

/// No other node may speak to a node with that node's own address.
#[test]
fn a_node_is_not_sent_its_own_address_by_another() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(2);
        let own = node_address(0, family);
        let bytes = PacketBuilder::new(own, own).udp(1, 2).macs(node_mac(1), node_mac(0)).build();
        let fabric = Ingress::Tunnel { source: vtep(1), vni: Vni::new(3).unwrap() };
        assert_eq!(cluster.follow(0, Frame::from_bytes(&bytes, fabric)), [], "{family:?}");
        // Nor by way of a service that a process of the node is a member of.
        let members = [(own, MEMBER_PORT)];
        cluster.put(&[ServiceSpec::new(1, vip(family), ServiceProtocol::Udp, 80, &members).object()]);
        let bytes = PacketBuilder::new(own, vip(family)).udp(1, 80).macs(node_mac(1), node_mac(0)).build();
        for vni in 1..=3 {
            let ingress = Ingress::Tunnel { source: vtep(1), vni: Vni::new(vni).unwrap() };
            assert_eq!(cluster.follow(0, Frame::from_bytes(&bytes, ingress)), [], "{family:?} {vni}");
        }
    }
}

/// From nodes and from outside to pods themselves, which need no service.
#[test]
fn pods_are_reached_directly_and_their_answers_go_back_the_same_way() {
    for family in FAMILIES {
        for protocol in ALL_PROTOCOLS {
            for kind in [ClientKind::Node, ClientKind::Outside] {
                let mut cluster = Cluster::new(2);
                let pods = [cluster.pod(0), cluster.pod(1)];
                let client = Client::new(&mut cluster, kind, 0);
                for (number, pod) in pods.iter().enumerate() {
                    let label = format!("{family:?} {protocol} {kind:?} to node {number}");
                    let ports = (4000, 80);
                    let frame = packet(client.address(family), address(pod, family), protocol, ports, SYN);
                    let there = client.send(&mut cluster, &frame);
                    assert_eq!((there[0].node, there[0].port), (pod.node, pod.port), "{label}");
                    assert_eq!(
                        (only(&there).source, only(&there).ports),
                        (client.address(family), ports),
                        "{label}"
                    );
                    let back = answer(&mut cluster, &there[0], protocol, SYN | ACK);
                    assert!(back.len() == 1 && client.is_at(&back[0]), "{label}: {back:?}");
                    assert_eq!(only(&back).source, address(pod, family), "{label}");
                    client.send(
                        &mut cluster,
                        &packet(client.address(family), address(pod, family), protocol, ports, ACK),
                    );
                }
                for node in 0..2 {
                    let flows = cluster.nodes[node].flows(cluster.now);
                    assert_eq!(flows.len(), if node == 0 { 4 } else { 2 }, "{flows:#?}");
                    assert!(
                        flows.iter().all(|flow| flow.state.connection == ConnectionState::Established),
                        "{flows:#?}"
                    );
                }
            }
        }
    }
}

/// A node of another kind, and the blocks of the first.
fn with_a_kernel_node(scene: &mut Scene) {
    let node = VirtualRouter::new(router(1), "n2", vtep(1), node_mac(1));
    let addresses = addresses_of(1);
    publish(
        &mut scene.cluster,
        0,
        &[Object::VirtualRouter(VirtualRouter { kind: RouterKind::Kernel, addresses, ..node })],
    );
    for (number, prefix) in (1..).zip(["10.244.1.0/24", "fd00:10:244:1::/64"]) {
        let lease = AddressLease {
            id: LeaseId::new(number).unwrap(),
            vrf: vrf(1),
            prefix: prefix.parse().unwrap(),
            first_vmi: number * 1000,
            vmi_count: 256,
        };
        publish(&mut scene.cluster, 0, &[Object::AddressLease(lease)]);
    }
}

fn addresses_of(node: usize) -> Vec<IpAddr> {
    FAMILIES.map(|family| node_address(node, family)).to_vec()
}

/// A kernel knows the pod network alone: whoever is to be answered through the tunnel must be of it.
#[test]
fn members_on_a_kernels_node_see_the_block_of_the_node_that_sends() {
    for mut scene in scenes(&[1]) {
        with_a_kernel_node(&mut scene);
        scene.put_members(&[0]);
        let family = scene.family;
        let block = if family == Family::V4 { "10.244.1.0" } else { "fd00:10:244:1::" }.parse().unwrap();
        let expected: IpAddr =
            if scene.kind == ClientKind::Pod { scene.client.address(family) } else { block };
        let (_, delivery) = scene.connect();
        let got = read(&delivery.frame);
        assert_eq!((got.source, got.ports.0), (expected, CLIENT_PORT), "{}", scene.label());
        // By another frontend from the same port, it is another.
        let first = scene.frontend;
        scene.frontend = if first == Frontend::ClusterIp { Frontend::NodePort } else { Frontend::ClusterIp };
        let (_, other) = scene.reach(SYN);
        assert_eq!(read(&other.frame).source, expected, "{}", scene.label());
        assert_ne!(read(&other.frame).ports.0, CLIENT_PORT, "{}", scene.label());
        scene.answer(&other, SYN | ACK);
        scene.frontend = first;
        scene.answer(&delivery, ACK);
    }
}

/// Clients share the block's address. The member may remember who had the port before, for longer than the client does.
#[test]
fn a_port_of_the_blocks_is_not_another_clients_at_once() {
    for family in FAMILIES {
        let mut scene =
            Scene::new(family, ServiceProtocol::Tcp, Frontend::NodePort, ClientKind::Outside, &[1]);
        with_a_kernel_node(&mut scene);
        scene.put_members(&[0]);
        scene.connect();
        scene.reach(support::RST);
        let other = if family == Family::V4 { "203.0.113.10" } else { "2001:db8:99::10" }.parse().unwrap();
        let (to, port) = scene.place();
        let opening = packet(other, to, scene.protocol, (CLIENT_PORT, port), SYN);
        let got = only(&scene.cluster.send_from_host(0, &opening));
        assert_ne!(got.ports.0, CLIENT_PORT, "{family:?}");
        // The client itself may have it again: it knows that the member lets it.
        let (_, again) = scene.reach(SYN);
        assert_eq!(read(&again.frame).ports.0, CLIENT_PORT, "{family:?}");
    }
}

/// All that is steered to the router and is not its own goes back as it came, and nothing is remembered of it.
#[test]
fn what_is_the_nodes_own_goes_back_to_it_untouched() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(2);
        let (node, other) = (node_address(0, family), node_address(1, family));
        let mut frames = Vec::new();
        for (from, to) in
            [(outside(family), node), (other, node), (node, node), (node, other), (outside(family), other)]
        {
            for hops in [1, 64, 255] {
                let to = PacketBuilder::new(from, to).hops(hops);
                frames.push(to.clone().echo_request(7, 1).payload(b"ping").build());
                frames.push(to.clone().protocol(47, &[1; 20]).build());
                for flags in [SYN, ACK, SYN | ACK, support::RST] {
                    frames.push(to.clone().tcp(61_234, 22, flags).build());
                }
                frames.push(to.clone().udp(500, 500).payload(b"same port at both ends").build());
                frames.push(to.clone().sctp(1, 2).payload(&[1, 0, 0, 4]).build());
                let pieces = to
                    .udp(53, 61_000)
                    .payload(&[9; 3000])
                    .identification(u16::from(hops))
                    .build_fragments(1200);
                frames.extend(pieces);
            }
        }
        for frame in &frames {
            let back = cluster.send_from_host(0, frame);
            assert_eq!(
                (back.len(), back[0].node, back[0].port),
                (1, 0, HOST_PORT),
                "{family:?} {frame:02x?}"
            );
            assert_eq!(back[0].frame[14..], frame[14..], "{family:?}");
        }
        assert_eq!(cluster.nodes[0].flows(cluster.now), [], "{family:?}");
        assert_eq!(drops(&cluster, 0), [], "{family:?}");
        // Those whose first comes last wait for it.
        let pieces =
            PacketBuilder::new(outside(family), node).udp(53, 61_001).payload(&[8; 3000]).identification(77);
        let pieces = pieces.build_fragments(1200);
        let back: Vec<_> = pieces.iter().rev().flat_map(|piece| cluster.send_from_host(0, piece)).collect();
        assert_eq!(back.len(), pieces.len(), "{family:?}");
    }
}

#[test]
fn nobody_of_the_cluster_comes_in_from_outside() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(2);
        let (near, far, server) = (cluster.pod(0), cluster.pod(1), cluster.pod(0));
        let mut count = 0;
        for source in [address(&near, family), address(&far, family), gateway(family), vip(family)] {
            for to in
                [address(&server, family), node_address(0, family), outside(family), address(&far, family)]
            {
                if source == to {
                    continue;
                }
                for protocol in ALL_PROTOCOLS {
                    let frame = packet(source, to, protocol, (4000, 80), SYN);
                    assert_eq!(cluster.send_from_host(0, &frame), [], "{family:?} {source} to {to}");
                    count += 1;
                }
            }
        }
        assert_eq!(drops(&cluster, 0), [(DropReason::SpoofedAddress, count)], "{family:?}");
        assert_eq!(cluster.nodes[0].flows(cluster.now), [], "{family:?}");
        // Nor does a pod pass for a node, or for somebody outside.
        for source in [node_address(0, family), node_address(1, family), outside(family)] {
            let frame = packet(source, address(&server, family), ServiceProtocol::Udp, (1, 2), 0);
            assert_eq!(cluster.send(&near, &frame), [], "{family:?} {source}");
        }
        assert_eq!(drops(&cluster, 0), [(DropReason::SpoofedAddress, count + 3)], "{family:?}");
    }
}

/// An established flow is no way around it: whoever takes over a client's address is not taken for it.
#[test]
fn a_pods_flow_is_not_to_be_had_from_outside() {
    for mut scene in scenes_of(&FRONTENDS, &[ClientKind::Pod], HERE_AND_THERE) {
        scene.put_members(&[0, 1]);
        scene.connect();
        for flags in [ACK, SYN] {
            let frame = scene.frame_from(CLIENT_PORT, flags);
            assert_eq!(scene.cluster.send_from_host(0, &frame), [], "{}", scene.label());
        }
        assert_eq!(drops(&scene.cluster, 0), [(DropReason::SpoofedAddress, 2)], "{}", scene.label());
    }
}

#[test]
fn what_is_no_services_any_more_does_not_leave_the_node_again() {
    for mut scene in scenes_of(
        &[Frontend::ExternalIp, Frontend::LoadBalancer],
        &[ClientKind::Node, ClientKind::Outside],
        HERE_AND_THERE,
    ) {
        scene.put_members(&[0, 1]);
        scene.connect();
        scene.delete_service();
        for flags in [ACK, SYN] {
            let told = scene.request(flags);
            scene.assert_refused(&told);
        }
        assert_eq!(drops(&scene.cluster, 0), [(DropReason::NoService, 2)], "{}", scene.label());
        assert_eq!(scene.cluster.nodes[0].flows(scene.cluster.now).len(), 0, "{}", scene.label());
    }
}

#[test]
fn whoever_sends_where_nobody_is_is_told() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(1);
        for protocol in ALL_PROTOCOLS {
            let to: IpAddr =
                if family == Family::V4 { "192.0.2.33" } else { "2001:db8:33::1" }.parse().unwrap();
            let told = cluster.send_from_host(0, &packet(outside(family), to, protocol, (4000, 80), SYN));
            assert_eq!((told.len(), told[0].port), (1, HOST_PORT));
            let told = only(&told);
            assert_eq!((told.source, told.destination), (to, outside(family)), "{family:?} {protocol}");
            assert!(is_refusal(&told, protocol, family), "{family:?} {protocol}");
        }
    }
}

#[test]
fn a_member_counts_every_new_flow_and_nothing_else() {
    for mut scene in scenes(HERE_AND_THERE) {
        scene.put_members(&[0, 1]);
        let mut expected = [0_u64; 2];
        for port in 1000..1020 {
            let (member, delivery) = scene.reach_from(port, SYN);
            expected[member] += 1;
            scene.answer_to(port, &delivery, SYN | ACK);
            scene.reach_from(port, ACK);
        }
        let hits = |scene: &Scene, node: usize| {
            [101, 102].map(|member| scene.cluster.nodes[node].tables.hits(MemberId::new(member).unwrap()))
        };
        assert_eq!(hits(&scene, 0), expected, "{}", scene.label());
        // The nodes that were only on the way chose nobody.
        assert_eq!((hits(&scene, 1), hits(&scene, 2)), ([0; 2], [0; 2]), "{}", scene.label());
        // They go on counting when the service changes.
        scene.put_members(&[1]);
        scene.reach_from(2000, SYN);
        assert_eq!(hits(&scene, 0), [0, expected[1] + 1], "{}: who left is forgotten", scene.label());
        scene.delete_service();
        assert_eq!(hits(&scene, 0), [0; 2], "{}", scene.label());
    }
}

/// Without its place among the nodes, a node has no way out, and says so.
#[test]
fn before_the_node_knows_itself_nothing_leaves_in_its_name() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(1);
        let pod = cluster.pod(0);
        cluster.nodes[0].tables.detach(VmiId::HOST);
        cluster.nodes[0].publish();
        let frame = packet(address(&pod, family), outside(family), ServiceProtocol::Tcp, (4000, 80), SYN);
        assert_eq!(cluster.send(&pod, &frame), [], "{family:?}");
        assert_eq!(drops(&cluster, 0), [(DropReason::InterfaceDown, 1)], "{family:?}");
    }
}
