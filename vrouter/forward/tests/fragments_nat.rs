//! Datagrams in fragments by way of the host path: node ports, external addresses, and what leaves in the node's name.

mod support;

use support::{
    CLIENT_KINDS, CLIENT_PORT, Client, ClientKind, FAMILIES, FRONTENDS, Frontend, MEMBER_PORT, NODE_PORT,
    Scene, address, drops, node_address, outside, read, read_datagram, reassemble, scenes_of,
};
use vrouter_forward::frame::{Frame, Ingress};
use vrouter_forward::sim::{Cluster, Delivery, HOST_PORT, PacketBuilder};
use vrouter_objects::{DropReason, ServiceProtocol};

const HERE_AND_THERE: &[usize] = &[0, 1];
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

fn udp_scenes() -> impl Iterator<Item = Scene> {
    scenes_of(&FRONTENDS, &CLIENT_KINDS, HERE_AND_THERE)
        .filter(|scene| scene.protocol == ServiceProtocol::Udp)
}

/// A large question of the client's, in three pieces.
fn question(scene: &Scene, id: u16) -> Vec<Vec<u8>> {
    let (to, port) = scene.place();
    let packet = PacketBuilder::new(scene.client.address(scene.family), to).identification(id);
    packet.udp(CLIENT_PORT, port).payload(&[6; 3000]).build_fragments(1200)
}

/// Sends pieces from where a frame came out.
fn answer_in_pieces(scene: &mut Scene, delivery: &Delivery, pieces: &[Vec<u8>]) -> Vec<Delivery> {
    let send = |piece: &Vec<u8>| support::send_from(&mut scene.cluster, delivery, piece);
    pieces.iter().flat_map(send).collect()
}

#[test]
fn frag_2_pieces_in_any_order_reach_one_member_by_every_frontend() {
    for mut scene in udp_scenes() {
        for member in 0..2 {
            scene.delete_service();
            scene.put_members(&[member]);
            for (id, order) in (1 + 10 * member as u16..).zip(ORDERS) {
                let (pieces, client) = (question(&scene, id), scene.client.clone());
                let delivered: Vec<_> =
                    order.iter().flat_map(|at| client.send(&mut scene.cluster, &pieces[*at])).collect();
                let label = format!("{} {order:?} {:?}", scene.label(), drops(&scene.cluster, 0));
                let pod = &scene.pods[member];
                assert_eq!(delivered.len(), 3, "{label}");
                assert!(
                    delivered.iter().all(|piece| (piece.node, piece.port) == (pod.node, pod.port)),
                    "{label}"
                );
                let got = read_datagram(&delivered);
                assert_eq!(
                    (got.destination, got.ports.1),
                    (address(pod, scene.family), MEMBER_PORT),
                    "{label}"
                );
                assert_eq!(got.payload, [6; 3000], "{label}");
                assert!(scene.cluster.nodes.iter().all(|node| node.shared.totals().held == 0), "{label}");
            }
        }
    }
}

#[test]
fn frag_5_a_large_question_and_a_large_answer_both_arrive_by_every_frontend() {
    for mut scene in udp_scenes() {
        for member in 0..2 {
            scene.put_members(&[member]);
            let (pieces, client) = (question(&scene, 1 + member as u16), scene.client.clone());
            let there: Vec<_> =
                pieces.iter().flat_map(|piece| client.send(&mut scene.cluster, piece)).collect();
            let got = read_datagram(&there);
            let answer = PacketBuilder::new(got.destination, got.source).udp(got.ports.1, got.ports.0);
            let answer = answer.payload(&[2; 4000]).identification(40 + member as u16).build_fragments(1400);
            let back = answer_in_pieces(&mut scene, &there[0], &answer);
            assert!(
                back.len() == 3 && back.iter().all(|piece| client.is_at(piece)),
                "{}: {back:?}",
                scene.label()
            );
            let got = read_datagram(&back);
            let (from, port) = scene.place();
            assert_eq!((got.source, got.ports), (from, (port, CLIENT_PORT)), "{}", scene.label());
            assert_eq!(got.payload, [2; 4000], "{}", scene.label());
        }
    }
}

/// Identifications stay what they are: two senders' may not get mixed up by it, for their addresses differ.
#[test]
fn frag_5_what_leaves_in_the_nodes_name_and_its_answer_may_come_in_pieces() {
    for family in FAMILIES {
        for order in ORDERS {
            let mut cluster = Cluster::new(1);
            let pod = cluster.pod(0);
            let question = PacketBuilder::new(address(&pod, family), outside(family)).udp(5000, 53);
            let pieces = question.payload(&[3; 3000]).identification(9).build_fragments(1200);
            let left: Vec<_> = order.iter().flat_map(|at| cluster.send(&pod, &pieces[*at])).collect();
            assert!(left.iter().all(|piece| piece.port == HOST_PORT), "{family:?} {order:?}");
            let got = read_datagram(&left);
            assert_eq!(
                (got.source, got.payload),
                (node_address(0, family), vec![3; 3000]),
                "{family:?} {order:?}"
            );
            let answer = PacketBuilder::new(outside(family), got.source).udp(53, got.ports.0);
            let pieces = answer.payload(&[4; 3000]).identification(10).build_fragments(1200);
            let back: Vec<_> = order.iter().flat_map(|at| cluster.send_from_host(0, &pieces[*at])).collect();
            assert!(back.iter().all(|piece| piece.port == pod.port), "{family:?} {order:?}: {back:?}");
            let got = read_datagram(&back);
            assert_eq!(
                (got.destination, got.ports),
                (address(&pod, family), (53, 5000)),
                "{family:?} {order:?}"
            );
            assert_eq!(got.payload, [4; 3000], "{family:?} {order:?}");
        }
    }
}

#[test]
fn frag_3_plain_pieces_arrive_in_any_order() {
    for family in FAMILIES {
        for (order, node) in ORDERS.into_iter().flat_map(|order| [(order, 0), (order, 1)]) {
            let mut cluster = Cluster::new(2);
            let (pod, other) = (cluster.pod(0), cluster.pod(node));
            let packet = PacketBuilder::new(address(&pod, family), address(&other, family)).udp(1, 2);
            let pieces = packet.payload(&[5; 3000]).build_fragments(1200);
            let delivered: Vec<_> = order.iter().flat_map(|at| cluster.send(&pod, &pieces[*at])).collect();
            assert_eq!(read_datagram(&delivered).payload, [5; 3000], "{family:?} {order:?} to node {node}");
        }
    }
}

/// However they come to be looked at, one by one or together, the short way or the long.
#[test]
fn frag_8_pieces_fare_alike_on_every_way() {
    for mut scene in udp_scenes() {
        scene.put_members(&[0]);
        let mac = match &scene.client {
            support::Client::Pod(pod) => pod.mac,
            _ => vrouter_objects::MacAddress::local(0x48, 1),
        };
        let port = if let support::Client::Pod(pod) = &scene.client { pod.port } else { HOST_PORT };
        let frames = |id| {
            let framed = |mut piece: Vec<u8>| {
                piece[6..12].copy_from_slice(&mac.0);
                Frame::from_bytes(&piece, Ingress::Port(port))
            };
            question(&scene, id).into_iter().rev().map(framed).collect::<Vec<_>>()
        };
        let (one, other) = (frames(1), frames(2));
        let now = scene.cluster.now;
        let short = scene.cluster.nodes[0].process(now, one);
        let long = scene.cluster.nodes[0].process_the_long_way(now, other);
        for sent in [&short, &long] {
            assert_eq!(sent.len(), 3, "{}", scene.label());
            let whole = reassemble(sent.iter().map(Frame::bytes)).expect("all of it");
            assert_eq!(read(&whole).payload, [6; 3000], "{}", scene.label());
        }
    }
}

#[test]
fn frag_9_a_large_ping_is_answered() {
    for family in FAMILIES {
        for node in [0, 1] {
            let mut cluster = Cluster::new(2);
            let (pod, other) = (cluster.pod(0), cluster.pod(node));
            let reply = if family == vrouter_forward::Family::V4 { 0 } else { 129 };
            let ping = PacketBuilder::new(address(&pod, family), address(&other, family)).echo_request(7, 1);
            let pong = PacketBuilder::new(address(&other, family), address(&pod, family)).icmp(
                reply,
                0,
                [0, 7, 0, 1],
            );
            let ping = ping.payload(&[1; 3000]).build_fragments(1400);
            let there: Vec<_> = ping.iter().flat_map(|piece| cluster.send(&pod, piece)).collect();
            assert!(there.iter().all(|piece| (piece.node, piece.port) == (other.node, other.port)));
            assert_eq!(read_datagram(&there).payload.len(), 3008, "{family:?}");
            let pong = pong.payload(&[1; 3000]).build_fragments(1400);
            let back: Vec<_> = pong.iter().flat_map(|piece| cluster.send(&other, piece)).collect();
            assert!(back.iter().all(|piece| (piece.node, piece.port) == (pod.node, pod.port)));
            assert_eq!(read_datagram(&back).payload.len(), 3008, "{family:?}");
        }
        // And one that leaves in the node's name, by another number.
        let mut cluster = Cluster::new(1);
        let pod = cluster.pod(0);
        let ping = PacketBuilder::new(address(&pod, family), outside(family)).echo_request(7, 1);
        let left: Vec<_> = ping
            .payload(&[1; 3000])
            .build_fragments(1400)
            .iter()
            .flat_map(|piece| cluster.send(&pod, piece))
            .collect();
        let got = read_datagram(&left);
        assert_eq!(got.source, node_address(0, family));
        let reply = if family == vrouter_forward::Family::V4 { 0 } else { 129 };
        let rest = [got.payload[4], got.payload[5], 0, 1];
        let pong = PacketBuilder::new(outside(family), got.source).icmp(reply, 0, rest).payload(&[1; 3000]);
        let back: Vec<_> =
            pong.build_fragments(1400).iter().flat_map(|piece| cluster.send_from_host(0, piece)).collect();
        let got = read_datagram(&back);
        assert_eq!((got.destination, &got.payload[4..6]), (address(&pod, family), &[0, 7][..]), "{family:?}");
    }
}

#[test]
fn frag_10_an_atomic_piece_is_a_whole_packet_at_every_frontend() {
    for mut scene in udp_scenes().filter(|scene| scene.family == vrouter_forward::Family::V6) {
        scene.put_members(&[0, 1]);
        let (to, port) = scene.place();
        let packet = PacketBuilder::new(scene.client.address(scene.family), to).udp(CLIENT_PORT, port);
        let atomic = packet.payload(b"whole").extension(44, &[0, 0, 0, 0, 0, 0, 0, 9]).build();
        let client = scene.client.clone();
        let delivered = client.send(&mut scene.cluster, &atomic);
        let member = scene.reached(&delivered).expect("a member");
        scene.answer(&delivered[0], 0);
        assert_eq!(scene.reach(0).0, member, "{}", scene.label());
    }
}

/// The host would not put them together either.
#[test]
fn frag_6_pieces_without_a_first_are_given_up_also_from_outside() {
    for mut scene in udp_scenes() {
        scene.put_members(&[0]);
        let (pieces, client) = (question(&scene, 3), scene.client.clone());
        for piece in &pieces[1..] {
            assert_eq!(client.send(&mut scene.cluster, piece), [], "{}", scene.label());
        }
        let later = scene.cluster.now.plus_millis(3_000);
        scene.cluster.nodes[0].age(later);
        assert_eq!(drops(&scene.cluster, 0), [(DropReason::FragmentTimeout, 2)], "{}", scene.label());
        assert_eq!(scene.cluster.nodes[0].shared.totals().held, 0, "{}", scene.label());
    }
}

/// One client's datagrams by two nodes may bear the same identification.
#[test]
fn pieces_by_two_nodes_are_of_two_datagrams() {
    for mut scene in udp_scenes().filter(|scene| scene.frontend == Frontend::NodePort) {
        if scene.kind != ClientKind::Outside {
            continue;
        }
        let member = scene.cluster.pod(2);
        scene.pods.push(member);
        scene.put_members(&[2]);
        let clients = [Client::Outside(0), Client::Outside(1)];
        let pieces: Vec<_> = [(0, 4000), (1, 4001)]
            .map(|(node, port)| {
                let to = PacketBuilder::new(outside(scene.family), node_address(node, scene.family));
                let datagram = to.identification(7).udp(port, NODE_PORT).payload(&[port as u8; 3000]);
                datagram.build_fragments(1200)
            })
            .into();
        let mut delivered = [Vec::new(), Vec::new()];
        for piece in 0..3 {
            for (client, (pieces, delivered)) in clients.iter().zip(pieces.iter().zip(&mut delivered)) {
                delivered.extend(client.send(&mut scene.cluster, &pieces[piece]));
            }
        }
        for (delivered, port) in delivered.iter().zip([4000, 4001]) {
            let got = read_datagram(delivered);
            assert_eq!((got.ports, &got.payload[..]), ((port, MEMBER_PORT), &[port as u8; 3000][..]));
        }
        let flows = scene.cluster.nodes[2].flows(scene.cluster.now);
        assert_eq!(flows.len(), 4, "no piece began a flow of its own: {flows:#?}");
    }
}
