//! Whose name packets bear as they leave, and how answers find back to whom they are for.

mod support;

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use support::{
    ACK, ALL_PROTOCOLS, CLIENT_KINDS, CLIENT_PORT, Client, ClientKind, FAMILIES, FRONTENDS, Frontend,
    MEMBER_PORT, SERVICE_PORT, SYN, Scene, address, answer, by_all_frontends, drops, gateway, node_address,
    only, outside, packet, read, scenes_of, send_from, vip,
};
use vrouter_forward::flow::{ConnectionState, Direction, FlowConfig, FlowTable, Slot};
use vrouter_forward::frame::{Frame, Ingress, Time};
use vrouter_forward::sim::{Cluster, Delivery, HOST_PORT, PacketBuilder, PodHandle, ServiceSpec};
use vrouter_forward::tables::{Epoch, Snapshot};
use vrouter_forward::{Burst, Family, ForwardConfig, NoObserver, Shared, Worker};
use vrouter_objects::{DropReason, MemberState};

const SOURCE_PORTS: std::ops::RangeInclusive<u16> = 61_000..=u16::MAX;

/// The client's port is the same by both nodes.
#[test]
fn snat_2_one_client_by_two_nodes_to_one_member_keeps_both() {
    for mut scene in scenes_of(&[Frontend::NodePort], &[ClientKind::Outside], &[0, 1, 2]) {
        for member in 0..3 {
            scene.delete_service();
            scene.put_members(&[member]);
            let by_node: Vec<_> = (0..3)
                .map(|node| {
                    scene.client = Client::Outside(node);
                    (node, scene.reach(SYN).1)
                })
                .collect();
            let seen: HashSet<_> =
                by_node.iter().map(|(_, delivery)| read(&delivery.frame).ports.0).collect();
            assert_eq!(seen.len(), 3, "{}: the member must be able to tell them apart", scene.label());
            for (node, delivery) in by_node.iter().chain(by_node.iter().rev()) {
                assert_eq!(read(&delivery.frame).source, outside(scene.family), "{}", scene.label());
                scene.client = Client::Outside(*node);
                scene.answer(delivery, SYN | ACK);
                let (_, again) = scene.reach(ACK);
                assert_eq!(read(&again.frame).ports, read(&delivery.frame).ports, "{}", scene.label());
            }
        }
    }
}

/// The client's port is the same by all of them, at once, and past the service as well.
#[test]
fn snat_2_one_client_by_all_frontends_to_one_member_keeps_all() {
    for mut scene in scenes_of(&[Frontend::ClusterIp], &CLIENT_KINDS, &[0, 1]) {
        for member in 0..2 {
            scene.delete_service();
            scene.put_members(&[member]);
            let reach = |scene: &mut Scene, frontend| {
                scene.frontend = frontend;
                (frontend, scene.reach(SYN).1)
            };
            let all: Vec<_> = FRONTENDS.into_iter().map(|frontend| reach(&mut scene, frontend)).collect();
            let (family, client) = (scene.family, scene.client.clone());
            let pod = address(&scene.pods[member], family);
            let direct = packet(client.address(family), pod, scene.protocol, (CLIENT_PORT, MEMBER_PORT), SYN);
            let direct = client.send(&mut scene.cluster, &direct);
            let ports: HashSet<_> = all
                .iter()
                .map(|(_, delivery)| delivery)
                .chain(&direct)
                .map(|of| read(&of.frame).ports.0)
                .collect();
            assert_eq!(ports.len(), 5, "{}", scene.label());
            for (frontend, delivery) in &all {
                scene.frontend = *frontend;
                scene.answer(delivery, SYN | ACK);
                let (_, again) = scene.reach(ACK);
                assert_eq!(read(&again.frame).ports, read(&delivery.frame).ports, "{}", scene.label());
            }
            let back = answer(&mut scene.cluster, &direct[0], scene.protocol, SYN | ACK);
            assert!(client.is_at(&back[0]), "{}", scene.label());
            let got = only(&back);
            assert_eq!((got.source, got.ports), (pod, (MEMBER_PORT, CLIENT_PORT)), "{}", scene.label());
        }
    }
}

/// What a pod may say to the outside: of every protocol, from one port, and a ping.
#[derive(Debug, Clone, Copy)]
enum Say {
    Service(vrouter_objects::ServiceProtocol),
    Ping,
}

fn sayings() -> impl Iterator<Item = (Family, Say)> {
    let all = ALL_PROTOCOLS.map(Say::Service).into_iter().chain([Say::Ping]);
    all.flat_map(|say| FAMILIES.map(|family| (family, say)))
}

impl Say {
    fn frame(self, from: IpAddr, to: IpAddr, ports: (u16, u16), flags: u8) -> Vec<u8> {
        match self {
            Self::Service(protocol) => packet(from, to, protocol, ports, flags),
            Self::Ping => PacketBuilder::new(from, to).echo_request(ports.0, 1).payload(b"ping").build(),
        }
    }

    /// What it comes from, as seen outside: a port, or a ping's number.
    fn port(self, delivery: &Delivery) -> u16 {
        let got = read(&delivery.frame);
        match self {
            Self::Service(_) => got.ports.0,
            Self::Ping => u16::from_be_bytes([got.payload[4], got.payload[5]]),
        }
    }

    /// Lets whoever got it answer, to the sender's port or number.
    fn answered(self, cluster: &mut Cluster, delivery: &Delivery) -> Vec<Delivery> {
        let got = read(&delivery.frame);
        match self {
            Self::Service(protocol) => answer(cluster, delivery, protocol, SYN | ACK),
            Self::Ping => {
                let kind = if got.source.is_ipv4() { 0 } else { 129 };
                let rest = [got.payload[4], got.payload[5], 0, 1];
                let reply =
                    PacketBuilder::new(got.destination, got.source).icmp(kind, 0, rest).payload(b"ping");
                send_from(cluster, delivery, &reply.build())
            }
        }
    }

    /// Where an answer arrives: a port, or a ping's number.
    fn port_answered(self, delivery: &Delivery) -> u16 {
        let got = read(&delivery.frame);
        match self {
            Self::Service(_) => got.ports.1,
            Self::Ping => u16::from_be_bytes([got.payload[4], got.payload[5]]),
        }
    }
}

#[test]
fn snat_3_no_two_connections_leave_by_one_port() {
    for (family, say) in sayings() {
        let mut cluster = Cluster::new(1);
        let pods: Vec<PodHandle> = (0..100).map(|_| cluster.pod(0)).collect();
        let said: Vec<_> = pods
            .iter()
            .map(|pod| {
                let left =
                    cluster.send(pod, &say.frame(address(pod, family), outside(family), (5000, 53), SYN));
                assert_eq!((left[0].node, left[0].port), (0, HOST_PORT), "{family:?} {say:?}");
                assert_eq!(only(&left).source, node_address(0, family));
                left[0].clone()
            })
            .collect();
        let ports: HashSet<u16> = said.iter().map(|delivery| say.port(delivery)).collect();
        assert_eq!(ports.len(), pods.len(), "{family:?} {say:?}");
        assert!(ports.iter().all(|port| SOURCE_PORTS.contains(port)), "{family:?} {say:?}: {ports:?}");
        for (pod, delivery) in pods.iter().zip(&said).rev() {
            let back = say.answered(&mut cluster, delivery);
            assert_eq!((back[0].node, back[0].port), (0, pod.port), "{family:?} {say:?}");
            let got = only(&back);
            assert_eq!((got.source, got.destination), (outside(family), address(pod, family)));
            assert_eq!(say.port_answered(&back[0]), 5000, "{family:?} {say:?}");
        }
    }
}

#[test]
fn snat_5_a_pod_reaches_itself_by_every_frontend() {
    for mut scene in scenes_of(&FRONTENDS, &[ClientKind::Pod], &[]) {
        let Client::Pod(pod) = scene.client.clone() else { panic!("the client is a pod") };
        scene.pods = vec![pod];
        scene.put_members(&[0]);
        let (_, delivery) = scene.reach(SYN);
        assert_eq!(read(&delivery.frame).source, gateway(scene.family), "{}", scene.label());
        scene.answer(&delivery, SYN | ACK);
        scene.reach(ACK);
        scene.answer(&delivery, ACK);
        let flows = scene.cluster.nodes[0].flows(scene.cluster.now);
        assert_eq!(flows.len(), 2, "{}: {flows:#?}", scene.label());
        assert!(
            flows.iter().all(|flow| flow.state.connection == ConnectionState::Established),
            "{}",
            scene.label()
        );
    }
}

/// Of a question for a name and one for its other address, which leave together.
#[test]
fn snat_7_two_packets_that_begin_one_flow_go_one_way() {
    for mut scene in scenes_of(&FRONTENDS, &CLIENT_KINDS, &[0, 0, 0, 0]) {
        scene.put_members(&[0, 1, 2, 3]);
        for port in 1000..1020 {
            let mut bytes = scene.frame_from(port, SYN);
            let (ingress, mac) = match &scene.client {
                Client::Pod(pod) => (pod.port, pod.mac),
                _ => (HOST_PORT, vrouter_objects::MacAddress::local(0x48, 1)),
            };
            bytes[6..12].copy_from_slice(&mac.0);
            let frame = || Frame::from_bytes(&bytes, Ingress::Port(ingress));
            let sent = scene.cluster.nodes[0].process(scene.cluster.now, [frame(), frame()]);
            assert_eq!(sent.len(), 2, "{}", scene.label());
            assert_eq!(
                (sent[0].bytes(), sent[0].egress),
                (sent[1].bytes(), sent[1].egress),
                "{}",
                scene.label()
            );
        }
    }
}

/// Two workers of one node and a snapshot of its tables.
fn two_workers(cluster: &mut Cluster) -> ([Worker; 2], std::sync::Arc<Snapshot>) {
    let slots: &'static [Slot] = Box::leak((0..1 << 15).map(|_| Slot::new()).collect());
    let (flows, _) = FlowTable::recover(slots, Box::leak(Box::default()), FlowConfig::default(), cluster.now);
    let shared = Shared::new(flows, 2, ForwardConfig::default());
    let node = &mut cluster.nodes[0];
    let snapshot = node.tables.publish(Epoch(node.epoch().0 + 1));
    ([0, 1].map(|id| Worker::new(id, std::sync::Arc::clone(&shared))), snapshot)
}

/// What a worker makes of each of these frames, in bursts.
fn run(mut worker: Worker, snapshot: &Snapshot, now: Time, frames: &[Frame]) -> Vec<Option<Vec<u8>>> {
    let mut all = Vec::new();
    for some in frames.chunks(16) {
        let mut burst = Burst::default();
        burst.frames.extend(some.iter().map(|frame| Frame::from_bytes(frame.bytes(), frame.ingress)));
        worker.begin_burst();
        worker.process(now, snapshot, &mut burst, &mut NoObserver);
        all.extend(burst.frames.iter().map(|frame| frame.egress.map(|_| frame.bytes().to_vec())));
    }
    worker.idle();
    all
}

#[test]
fn snat_7_workers_that_race_for_ports_lose_nothing() {
    const FLOWS: u16 = 2000;
    for family in FAMILIES {
        let mut cluster = Cluster::new(1);
        let pods = [cluster.pod(0), cluster.pod(0)];
        // Both pods' flows, each by both workers, all to one peer.
        let frames: Vec<_> = (0..FLOWS)
            .map(|number| {
                let pod = &pods[usize::from(number) % 2];
                let question =
                    PacketBuilder::new(address(pod, family), outside(family)).udp(10_000 + number / 2, 53);
                let mut bytes = question.payload(b"who").build();
                bytes[6..12].copy_from_slice(&pod.mac.0);
                Frame::from_bytes(&bytes, Ingress::Port(pod.port))
            })
            .collect();
        let ([one, other], snapshot) = two_workers(&mut cluster);
        let now = cluster.now;
        let results = std::thread::scope(|scope| {
            let other = scope.spawn(|| run(other, &snapshot, now, &frames));
            [run(one, &snapshot, now, &frames), other.join().expect("it does not panic")]
        });
        let mut ports = HashMap::new();
        for (number, (mine, others)) in results[0].iter().zip(&results[1]).enumerate() {
            let (Some(mine), Some(others)) = (mine, others) else {
                panic!("{family:?}: flow {number} is lost")
            };
            assert_eq!(mine, others, "{family:?}: flow {number} goes one way");
            let before = ports.insert(read(mine).ports.0, number);
            assert_eq!(before, None, "{family:?}: flow {number} has its port alone");
        }
    }
}

#[test]
fn snat_8_nodes_know_pods_and_nobody_else_does() {
    for (family, say) in sayings() {
        let mut cluster = Cluster::new(3);
        let pod = cluster.pod(0);
        for node in 0..3 {
            let to = node_address(node, family);
            let there = cluster.send(&pod, &say.frame(address(&pod, family), to, (5000, 22), SYN));
            assert_eq!(
                (there.len(), there[0].node, there[0].port),
                (1, node, HOST_PORT),
                "{family:?} {say:?}"
            );
            let got = only(&there);
            assert_eq!((got.source, got.destination), (address(&pod, family), to), "{family:?} {say:?}");
            assert_eq!(say.port(&there[0]), 5000);
            for _ in 0..2 {
                let back = say.answered(&mut cluster, &there[0]);
                assert_eq!((back.len(), back[0].node, back[0].port), (1, 0, pod.port), "{family:?} {say:?}");
                assert_eq!(
                    (only(&back).source, say.port_answered(&back[0])),
                    (to, 5000),
                    "{family:?} {say:?}"
                );
            }
            // The answers are the same connection's, at every node on the way.
            for at in [0, node] {
                let flows = cluster.nodes[at].flows(cluster.now);
                let of_this = flows.iter().filter(|flow| IpAddr::from(flow.key.destination) == to);
                let states: Vec<_> = of_this.map(|flow| (flow.direction, flow.state.connection)).collect();
                let label = format!("{family:?} {say:?} to node {node} at {at}: {flows:#?}");
                assert!(
                    matches!(states[..], [(Direction::Initiator, state)] if state != ConnectionState::Unreplied),
                    "{label}"
                );
            }
        }
        let left = cluster.send(&pod, &say.frame(address(&pod, family), outside(family), (5000, 22), SYN));
        assert_eq!(only(&left).source, node_address(0, family), "{family:?} {say:?}");
        assert!(SOURCE_PORTS.contains(&say.port(&left[0])), "{family:?} {say:?}");
    }
}

/// Also where the pod's node is the one that the port is at, and whoever the member is.
#[test]
fn snat_9_an_answer_comes_from_where_the_question_went() {
    for mut scene in scenes_of(&[Frontend::NodePort], &[ClientKind::Pod], &[0, 1, 2]) {
        for member in 0..3 {
            scene.put_members(&[member]);
            for node in 0..3 {
                let (family, client) = (scene.family, scene.client.clone());
                let (to, port) = (node_address(node, family), 6000 + 10 * member as u16 + node as u16);
                let frame =
                    packet(client.address(family), to, scene.protocol, (port, support::NODE_PORT), SYN);
                let there = client.send(&mut scene.cluster, &frame);
                assert_eq!(scene.reached(&there), Some(member), "{}", scene.label());
                assert_eq!(only(&there).source, client.address(family), "{}", scene.label());
                let back = answer(&mut scene.cluster, &there[0], scene.protocol, SYN | ACK);
                assert!(client.is_at(&back[0]), "{}", scene.label());
                let got = only(&back);
                assert_eq!((got.source, got.ports), (to, (support::NODE_PORT, port)), "{}", scene.label());
            }
        }
    }
}

/// Where whoever is to answer is no pod, everybody's answer comes back: the node's own processes, another node's, and
/// somebody out there.
#[test]
fn members_that_are_no_pods_are_reached_and_their_answers_come_back() {
    for mut scene in scenes_of(&FRONTENDS, &CLIENT_KINDS, &[]) {
        let family = scene.family;
        let elsewhere: IpAddr =
            if family == Family::V4 { "192.0.2.80" } else { "2001:db8:80::1" }.parse().unwrap();
        let members = [node_address(0, family), node_address(1, family), elsewhere];
        for (number, member) in members.into_iter().enumerate() {
            let mut spec = ServiceSpec::new(1, vip(family), scene.protocol, SERVICE_PORT, &[]);
            spec.members = vec![(number as u32 + 1, member, MEMBER_PORT, MemberState::Ready)];
            scene.delete_service();
            scene.put(by_all_frontends(spec.floating_ip(), support::NODE_PORT));
            let there = scene.request(SYN);
            let label = format!("{} to {member}: {:?}", scene.label(), drops(&scene.cluster, 0));
            assert_eq!(there.len(), 1, "{label}");
            // Pods get to another node by tunnel, and nodes as they get to each other.
            let is_pod = scene.kind == ClientKind::Pod;
            let at = if is_pod && number == 1 { 1 } else { 0 };
            assert_eq!((there[0].node, there[0].port), (at, HOST_PORT), "{label}");
            let got = only(&there);
            assert_eq!((got.destination, got.ports.1), (member, MEMBER_PORT), "{label}");
            if is_pod && number < 2 {
                assert_eq!((got.source, got.ports.0), (scene.client.address(family), CLIENT_PORT), "{label}");
            } else {
                assert_eq!(got.source, node_address(0, family), "{label}");
                assert!(SOURCE_PORTS.contains(&got.ports.0), "{label}");
            }
            scene.answer(&there[0], SYN | ACK);
            let again = only(&scene.request(ACK));
            assert_eq!(again.ports, got.ports, "{label}");
            scene.answer(&there[0], ACK);
            let flows = scene.cluster.nodes[0].flows(scene.cluster.now);
            let service: Vec<_> = flows.iter().filter(|flow| flow.service.is_some()).collect();
            assert!(
                service.iter().any(|flow| flow.state.connection == ConnectionState::Established),
                "{label}"
            );
        }
        assert_eq!(support::dropped(&scene.cluster, 0, DropReason::NoFlow), 0);
    }
}
