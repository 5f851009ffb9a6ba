//! What a connection's packets show of its state, and what its end leaves behind.

mod support;

use std::collections::HashSet;
use std::net::IpAddr;

use support::{
    ACK, ClientKind, FAMILIES, FIN, Frontend, MEMBER_PORT, RST, SYN, Scene, address, answer, detach, dropped,
    drops, node_address, only, outside, packet, publish, read, scenes, scenes_of, send_from,
};
use vrouter_forward::Family;
use vrouter_forward::flow::{ConnectionState, Direction, FlowRecord};
use vrouter_forward::frame::PortId;
use vrouter_forward::sim::{Cluster, PacketBuilder, PodHandle};
use vrouter_forward::tables::HostNetwork;
use vrouter_objects::{
    DropReason, MacAddress, MemberState, Object, RoutingInstance, ServiceProtocol, Vmi, VmiId, VmiKind, Vni,
    VrfId,
};

const HERE_AND_THERE: &[usize] = &[0, 1];

fn tcp_scenes() -> impl Iterator<Item = Scene> {
    scenes(HERE_AND_THERE).filter(|scene| scene.protocol == ServiceProtocol::Tcp)
}

/// The state of every connection at a node, each once.
fn states(cluster: &Cluster, node: usize) -> Vec<ConnectionState> {
    let flows = cluster.nodes[node].flows(cluster.now);
    let initiators = flows.iter().filter(|flow| flow.direction == Direction::Initiator);
    initiators.map(|flow| flow.state.connection).collect()
}

/// Moves time, and lets every node forget what is too old.
fn wait(cluster: &mut Cluster, millis: u64) {
    cluster.now = cluster.now.plus_millis(millis);
    let now = cluster.now;
    cluster.nodes.iter_mut().for_each(|node| node.age(now));
}

/// The router judges no sequence numbers: it does not know what both ends agreed on.
#[test]
fn tcp_2_an_answer_out_of_any_window_comes_from_the_service() {
    for mut scene in tcp_scenes() {
        for member in 0..2 {
            scene.delete_service();
            scene.put_members(&[member]);
            let (_, delivery) = scene.connect();
            let got = read(&delivery.frame);
            for (sequence, acknowledged) in
                [(0, 0), (u32::MAX, 1), (1 << 31, u32::MAX), (1000_u32.wrapping_sub(100_000), 7)]
            {
                let stray = PacketBuilder::new(got.destination, got.source)
                    .tcp_segment(MEMBER_PORT, got.ports.0, ACK, sequence, acknowledged, &[])
                    .payload(b"far off");
                let back = send_from(&mut scene.cluster, &delivery, &stray.build());
                assert!(back.len() == 1 && scene.client.is_at(&back[0]), "{}: {back:?}", scene.label());
                let told = only(&back);
                assert_eq!((told.source, told.ports.0), scene.place(), "{}", scene.label());
            }
        }
    }
}

/// The other half went another way; no service and no policy is about it.
#[test]
fn tcp_3_half_of_a_plain_connection_is_forwarded() {
    for family in FAMILIES {
        for flags in [ACK, SYN | ACK, FIN | ACK, RST] {
            let mut cluster = Cluster::new(2);
            let (pod, near, far) = (cluster.pod(0), cluster.pod(0), cluster.pod(1));
            let tcp = ServiceProtocol::Tcp;
            for to in [&near, &far] {
                let frame = packet(address(&pod, family), address(to, family), tcp, (80, 4000), flags);
                let delivered = cluster.send(&pod, &frame);
                assert_eq!(
                    (delivered[0].node, delivered[0].port),
                    (to.node, to.port),
                    "{family:?} {flags:#x}"
                );
                let from_outside = packet(outside(family), address(to, family), tcp, (80, 4000), flags);
                let delivered = cluster.send_from_host(0, &from_outside);
                assert_eq!(
                    (delivered[0].node, delivered[0].port),
                    (to.node, to.port),
                    "{family:?} {flags:#x}"
                );
                assert_eq!(only(&delivered).source, outside(family));
            }
        }
    }
}

/// Every router on the way sees the same.
#[test]
fn tcp_4_a_handshake_is_not_complete_before_the_clients_last_word() {
    for mut scene in tcp_scenes() {
        for member in 0..2 {
            scene.delete_service();
            wait(&mut scene.cluster, 400_000_000);
            scene.put_members(&[member]);
            let on_the_way = 0..=member;
            let all_in = |scene: &Scene, state| {
                for node in on_the_way.clone() {
                    assert_eq!(states(&scene.cluster, node), [state], "{} node {node}", scene.label());
                }
            };
            let (_, delivery) = scene.reach(SYN);
            all_in(&scene, ConnectionState::Unreplied);
            for _ in 0..3 {
                scene.answer(&delivery, SYN | ACK);
                all_in(&scene, ConnectionState::Handshake);
                scene.reach(SYN);
                all_in(&scene, ConnectionState::Handshake);
            }
            let short = scene.cluster.nodes[0].flows(scene.cluster.now)[0].state.timeout;
            assert_eq!(short, 30_000);
            scene.reach(ACK);
            all_in(&scene, ConnectionState::Established);
            scene.reach(FIN | ACK);
            all_in(&scene, ConnectionState::Closing);
            scene.answer(&delivery, FIN | ACK);
            all_in(&scene, ConnectionState::Closed);
        }
    }
}

/// Whoever floods a node by way of a service takes no place of what is established, and after a while the node is rid of
/// it.
#[test]
fn tcp_5_what_is_established_outlasts_a_flood() {
    for kind in [ClientKind::Outside, ClientKind::Pod] {
        for family in FAMILIES {
            let mut scene = Scene::new(family, ServiceProtocol::Tcp, Frontend::NodePort, kind, &[0, 1]);
            scene.put_members(&[0, 1]);
            let established: Vec<_> = (1..=10_u16).map(|port| (port, open(&mut scene, port))).collect();
            for port in 1000..2000 {
                scene.request_from(port, SYN);
            }
            assert!(
                dropped(&scene.cluster, 0, DropReason::FlowTableFull) > 0,
                "{:?}",
                drops(&scene.cluster, 0)
            );
            for (port, member) in &established {
                assert_eq!(scene.reach_from(*port, ACK).0, *member, "{}", scene.label());
            }
            wait(&mut scene.cluster, 31_000);
            assert_eq!(states(&scene.cluster, 0), [ConnectionState::Established; 10], "{}", scene.label());
            scene.reach_from(3000, SYN);
        }
    }
}

/// Opens a connection from a port and returns its member.
fn open(scene: &mut Scene, port: u16) -> usize {
    let (member, delivery) = scene.reach_from(port, SYN);
    scene.answer_to(port, &delivery, SYN | ACK);
    scene.reach_from(port, ACK);
    member
}

#[test]
fn tcp_6_a_port_used_again_gets_a_member_of_now() {
    for mut scene in tcp_scenes() {
        for end in [&[(true, FIN | ACK), (false, FIN | ACK)][..], &[(true, RST)], &[(false, RST | ACK)]] {
            scene.delete_service();
            scene.put_members(&[0]);
            let (_, delivery) = scene.connect();
            for (by_client, flags) in end {
                if *by_client {
                    scene.reach(*flags);
                } else {
                    scene.answer(&delivery, *flags);
                }
            }
            // What was still on its way arrives.
            assert_eq!(scene.reach(ACK).0, 0, "{}", scene.label());
            scene.put_members(&[1]);
            assert_eq!(scene.reach(SYN).0, 1, "{} {end:?}", scene.label());
        }
        // With both there all the while, the connection is another all the same.
        let (_, delivery) = scene.connect();
        scene.reach(RST);
        scene.put_members(&[0, 1]);
        let (_, again) = scene.reach(SYN);
        assert_eq!(read(&again.frame).tcp_flags, SYN, "{} after {delivery:?}", scene.label());
        assert!(states(&scene.cluster, 0).contains(&ConnectionState::Unreplied), "{}", scene.label());
    }
}

/// Where only the client's side is seen, a connection never ends. What it was opened to does.
#[test]
fn tcp_7_an_opening_on_a_connection_to_a_member_that_leaves_gets_another() {
    for mut scene in tcp_scenes() {
        for state in [MemberState::Serving, MemberState::Leaving] {
            scene.delete_service();
            scene.put_members(&[0]);
            scene.reach(SYN);
            scene.reach(ACK);
            scene.put(scene.service_in(&[(0, state), (1, MemberState::Ready)]));
            assert_eq!(scene.reach(ACK).0, 0, "{} {state:?}", scene.label());
            assert_eq!(scene.reach(SYN).0, 1, "{} {state:?}", scene.label());
            assert_eq!(scene.reach(ACK).0, 1, "{} {state:?}", scene.label());
        }
    }
}

/// Puts a node's pool of source ports.
fn set_source_ports(cluster: &mut Cluster, node: usize, source_ports: std::ops::RangeInclusive<u16>) {
    let host = cluster.nodes[node].tables.host().expect("the cluster sets it").clone();
    cluster.nodes[node].tables.set_host(HostNetwork { source_ports, ..host });
    cluster.nodes[node].publish();
}

/// Opens a connection from a pod to the outside and returns the port that it has there.
fn go_out(cluster: &mut Cluster, pod: &PodHandle, to: IpAddr, port: u16) -> Option<u16> {
    let family = if to.is_ipv4() { Family::V4 } else { Family::V6 };
    let syn = packet(address(pod, family), to, ServiceProtocol::Tcp, (port, 1521), SYN);
    let delivered = cluster.send(pod, &syn);
    let got = delivered.first().map(|_| only(&delivered))?;
    assert_eq!((got.source, got.destination), (node_address(pod.node, family), to));
    for (from_peer, flags) in
        [(true, SYN | ACK), (false, ACK), (false, FIN | ACK), (true, FIN | ACK), (false, ACK)]
    {
        if from_peer {
            let back = answer(cluster, &delivered[0], ServiceProtocol::Tcp, flags);
            assert_eq!((back[0].node, back[0].port), (pod.node, pod.port));
            assert_eq!(only(&back).ports, (1521, port));
        } else {
            let frame = packet(address(pod, family), to, ServiceProtocol::Tcp, (port, 1521), flags);
            assert_eq!(only(&cluster.send(pod, &frame)).ports, got.ports, "one connection, one port");
        }
    }
    Some(got.ports.0)
}

#[test]
fn tcp_8_a_port_stays_with_its_peer_while_that_may_remember_it() {
    const PORTS: u16 = 4;
    for family in FAMILIES {
        let mut cluster = Cluster::new(1);
        set_source_ports(&mut cluster, 0, 61_000..=61_000 + PORTS - 1);
        let first = cluster.pod(0);
        let mut given: HashSet<u16> =
            [go_out(&mut cluster, &first, outside(family), 5000).expect("all are free")].into();
        detach(&mut cluster, &first);
        // Whoever comes next gets another, until there is none. Every connection is over at once.
        let mut refused = 0;
        for port in 1..=100 {
            let pod = cluster.pod(0);
            if let Some(port) = go_out(&mut cluster, &pod, outside(family), port) {
                assert!(given.insert(port), "{family:?}: {port} was given to the same peer again");
            } else {
                refused += 1;
            }
            detach(&mut cluster, &pod);
            if refused > 20 {
                break;
            }
        }
        assert_eq!(given.len(), usize::from(PORTS), "{family:?}");
        assert_eq!(dropped(&cluster, 0, DropReason::NatPortsExhausted), refused);
        // Other peers know nothing of it.
        let other = if family == Family::V4 { "203.0.113.77" } else { "2001:db8:99::77" }.parse().unwrap();
        let pod = cluster.pod(0);
        assert!(go_out(&mut cluster, &pod, other, 1).is_some(), "{family:?}");
        wait(&mut cluster, 119_000);
        assert_eq!(go_out(&mut cluster, &pod, outside(family), 7000), None, "{family:?}: still held");
        wait(&mut cluster, 2_000);
        assert!(go_out(&mut cluster, &pod, outside(family), 7001).is_some(), "{family:?}: free again");
    }
}

#[test]
fn tcp_9_what_is_no_opening_makes_no_flow_to_a_service() {
    for mut scene in tcp_scenes() {
        scene.put_members(&[0, 1]);
        for flags in [ACK, SYN | ACK, FIN | ACK] {
            let deliveries = scene.request(flags);
            scene.assert_refused(&deliveries);
            assert_eq!(scene.cluster.nodes[0].flows(scene.cluster.now), [], "{} {flags:#x}", scene.label());
        }
        // What is a reset already needs no other.
        assert_eq!(scene.request(RST), [], "{}", scene.label());
        scene.connect();
    }
}

#[test]
fn tcp_10_who_may_choose_anew_does_and_who_is_established_stays() {
    for mut scene in scenes(HERE_AND_THERE) {
        scene.put_members(&[0]);
        let (_, delivery) = scene.connect();
        scene.put(scene.service_in(&[(0, MemberState::Leaving), (1, MemberState::Ready)]));
        if scene.protocol == ServiceProtocol::Tcp {
            wait(&mut scene.cluster, 3_600_000);
            assert_eq!(scene.reach(ACK).0, 0, "{}: idle, but established", scene.label());
            scene.answer(&delivery, ACK);
        }
        assert_eq!(scene.reach(SYN).0, 1, "{}", scene.label());
    }
    // Nothing but time has passed: whatever is over is chosen by the same rule, so the same.
    for mut scene in scenes_of(&support::FRONTENDS, &support::CLIENT_KINDS, HERE_AND_THERE) {
        scene.put_members(&[0, 1]);
        let (member, _) = scene.connect();
        wait(&mut scene.cluster, 48 * 3_600_000);
        assert_eq!(scene.cluster.nodes[0].flows(scene.cluster.now), [], "{}", scene.label());
        assert_eq!(scene.reach(SYN).0, member, "{}", scene.label());
    }
}

/// A network whose addresses are those of the pods' own, with two interfaces.
fn overlapping_network(cluster: &mut Cluster, like: [&PodHandle; 2]) -> [PodHandle; 2] {
    let vrf = VrfId::new(9).unwrap();
    let network = RoutingInstance::new(vrf, "default/other", Vni::new(9).unwrap(), Vec::new());
    publish(cluster, 0, &[Object::RoutingInstance(network)]);
    [0, 1].map(|number| {
        let port = PortId(500 + number as u16);
        let pod = PodHandle {
            vmi: VmiId::new(5000 + number as u32).unwrap(),
            mac: MacAddress::local(0x50, 5000 + number as u32),
            port,
            ..like[number].clone()
        };
        let interface = Vmi {
            id: pod.vmi,
            name: format!("other/{number}"),
            kind: VmiKind::Pod,
            vrf,
            mac: pod.mac,
            addresses: vec![pod.v4, pod.v6],
            link_local: None,
            uid: String::new(),
            mtu: 1450,
        };
        cluster.nodes[0].attach(interface, port);
        pod
    })
}

#[test]
fn tcp_11_unrelated_changes_cut_no_flow_of_overlapping_networks() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(1);
        let pods = [cluster.pod(0), cluster.pod(0)];
        let others = overlapping_network(&mut cluster, [&pods[0], &pods[1]]);
        let say = |cluster: &mut Cluster, [from, to]: [&PodHandle; 2], ports, flags| {
            let frame =
                packet(address(from, family), address(to, family), ServiceProtocol::Tcp, ports, flags);
            let delivered = cluster.send(from, &frame);
            assert_eq!(only(&delivered).ports, ports);
            assert_eq!((delivered[0].port, &delivered[0].frame[..6]), (to.port, &to.mac.0[..]), "{family:?}");
        };
        for [a, b] in [&pods, &others] {
            say(&mut cluster, [a, b], (4000, 80), SYN);
            say(&mut cluster, [b, a], (80, 4000), SYN | ACK);
        }
        for _ in 0..50 {
            cluster.nodes[0].publish();
            for [a, b] in [&pods, &others] {
                say(&mut cluster, [a, b], (4000, 80), ACK);
                say(&mut cluster, [b, a], (80, 4000), ACK);
            }
        }
        assert_eq!(cluster.nodes[0].flows(cluster.now).len(), 4, "{family:?}");
        assert_eq!(drops(&cluster, 0), []);
    }
}

/// Both directions are one connection, whichever side a reader looks at: its state and its time are the same.
#[test]
fn a_connection_reads_the_same_from_both_sides() {
    for mut scene in tcp_scenes() {
        scene.put_members(&[1]);
        let (_, delivery) = scene.connect();
        scene.reach(FIN | ACK);
        scene.answer(&delivery, FIN | ACK);
        let flows = scene.cluster.nodes[0].flows(scene.cluster.now);
        let of = |direction| {
            flows.iter().find(|flow| flow.direction == direction).map(|flow: &FlowRecord| flow.state)
        };
        assert_eq!(of(Direction::Initiator), of(Direction::Responder), "{}", scene.label());
    }
    // Where the node's name was put in, its port is held longer.
    let mut cluster = Cluster::new(1);
    let pod = cluster.pod(0);
    go_out(&mut cluster, &pod, outside(Family::V4), 5000);
    let timeouts: Vec<_> =
        cluster.nodes[0].flows(cluster.now).iter().map(|flow| flow.state.timeout).collect();
    assert_eq!(timeouts, [120_000; 2]);
}

/// A client's second connection from the port of one that is closed is a new flow of the same name.
#[test]
fn tcp_6_the_same_port_to_the_outside_again_is_another_connection() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(1);
        let pod = cluster.pod(0);
        for _ in 0..3 {
            assert!(go_out(&mut cluster, &pod, outside(family), 5000).is_some(), "{family:?}");
            assert_eq!(states(&cluster, 0), [ConnectionState::Closed], "{family:?}");
        }
    }
}
