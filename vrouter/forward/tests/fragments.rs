//! Datagrams in fragments through services: one member, one translation, in whatever order the pieces come.

mod support;

use support::{FAMILIES, address, drops, read_datagram, vip};
use vrouter_forward::Family;
use vrouter_forward::sim::{Cluster, PacketBuilder, PodHandle, ServiceSpec};
use vrouter_objects::{DropReason, ServiceProtocol};

struct Scene {
    cluster: Cluster,
    client: PodHandle,
    server: PodHandle,
}

/// A service of this family with one member on another node, or on the client's own.
fn scene(family: Family, server_node: usize) -> Scene {
    let mut cluster = Cluster::new(2);
    let (client, server) = (cluster.pod(0), cluster.pod(server_node));
    let members = [(address(&server, family), 5353)];
    cluster.put(&[ServiceSpec::new(1, vip(family), ServiceProtocol::Udp, 53, &members).object()]);
    Scene { cluster, client, server }
}

#[test]
fn frag_2_pieces_in_any_order_reach_one_member() {
    let orders: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for family in FAMILIES {
        for (order, server_node) in orders.into_iter().flat_map(|order| [(order, 0), (order, 1)]) {
            let Scene { mut cluster, client, server } = scene(family, server_node);
            let packet =
                PacketBuilder::new(address(&client, family), vip(family)).udp(4000, 53).payload(&[6; 3000]);
            let fragments = packet.build_fragments(1200);
            let delivered: Vec<_> =
                order.iter().flat_map(|at| cluster.send(&client, &fragments[*at])).collect();
            let got = read_datagram(&delivered);
            assert_eq!((got.destination, got.ports), (address(&server, family), (4000, 5353)), "{order:?}");
            assert_eq!(got.payload, [6; 3000], "{family:?} {order:?} to node {server_node}");
            assert_eq!(cluster.nodes[0].shared.totals().held, 0);
        }
    }
}

#[test]
fn frag_5_a_large_question_and_a_large_answer_both_arrive() {
    for family in FAMILIES {
        let Scene { mut cluster, client, server } = scene(family, 1);
        let question =
            PacketBuilder::new(address(&client, family), vip(family)).udp(4000, 53).payload(&[1; 3000]);
        let there: Vec<_> = question
            .build_fragments(1400)
            .iter()
            .flat_map(|fragment| cluster.send(&client, fragment))
            .collect();
        assert_eq!(read_datagram(&there).payload, [1; 3000]);
        let answer = PacketBuilder::new(address(&server, family), address(&client, family))
            .udp(5353, 4000)
            .payload(&[2; 4000])
            .build_fragments(1400);
        let back: Vec<_> = answer.iter().flat_map(|fragment| cluster.send(&server, fragment)).collect();
        let got = read_datagram(&back);
        assert_eq!(
            (got.source, got.ports, got.payload),
            (vip(family), (53, 4000), vec![2; 4000]),
            "{family:?}"
        );
    }
}

#[test]
fn frag_7_only_the_header_of_a_later_fragment_changes() {
    for family in FAMILIES {
        let Scene { mut cluster, client, .. } = scene(family, 0);
        let payload: Vec<u8> = (0..2000_u32).map(|at| (at * 13) as u8).collect();
        let packet =
            PacketBuilder::new(address(&client, family), vip(family)).udp(4000, 53).payload(&payload);
        for (number, sent) in packet.build_fragments(800).iter().enumerate() {
            let got = cluster.send(&client, sent).remove(0).frame;
            let header = if family == Family::V4 { 34 } else { 62 };
            let transport = if number == 0 { 8 } else { 0 };
            assert_eq!(got[header + transport..], sent[header + transport..], "{family:?} fragment {number}");
        }
    }
}

#[test]
fn frag_10_an_atomic_fragment_is_a_whole_packet() {
    let Scene { mut cluster, client, server } = scene(Family::V6, 1);
    let packet = PacketBuilder::new(client.v6, vip(Family::V6)).udp(4000, 53).payload(b"whole");
    let atomic = packet.clone().extension(44, &[0, 0, 0, 0, 0, 0, 0, 9]).build();
    let got = support::only(&cluster.send(&client, &atomic));
    assert_eq!((got.destination, got.ports), (server.v6, (4000, 5353)));
    // It waits for nothing, and nothing for it.
    let later = packet.payload(&[0; 200]).identification(9).build_fragments(128).remove(1);
    assert_eq!(cluster.send(&client, &later), []);
    assert_eq!(cluster.nodes[0].shared.totals().held, 1);
}

/// A later IPv6 fragment names the first header of what was cut, here destination options; the transport is
/// known from the first fragment only.
#[test]
fn frag_10_options_in_what_was_cut_hide_no_fragment() {
    for backwards in [vec![0, 1], vec![1, 0]] {
        let Scene { mut cluster, client, server } = scene(Family::V6, 1);
        let datagram =
            PacketBuilder::new(client.v6, vip(Family::V6)).udp(4000, 53).payload(&[4; 300]).build_ip();
        let cut = [&[17, 0, 1, 4, 0, 0, 0, 0], &datagram[40..]].concat();
        let fragments =
            PacketBuilder::new(client.v6, vip(Family::V6)).protocol(60, &cut).build_fragments(160);
        let delivered: Vec<_> =
            backwards.iter().flat_map(|at| cluster.send(&client, &fragments[*at])).collect();
        assert_eq!(delivered.len(), 2, "{backwards:?}: {:?}", drops(&cluster, 0));
        assert!(delivered.iter().all(|piece| (piece.node, piece.port) == (server.node, server.port)));
    }
}

#[test]
fn fragments_whose_first_never_comes_are_given_up() {
    for family in FAMILIES {
        let Scene { mut cluster, client, .. } = scene(family, 0);
        let packet =
            PacketBuilder::new(address(&client, family), vip(family)).udp(4000, 53).payload(&[0; 500]);
        for fragment in &packet.build_fragments(160)[1..] {
            assert_eq!(cluster.send(&client, fragment), []);
        }
        assert_eq!(cluster.nodes[0].shared.totals().held, 3);
        let later = cluster.now.plus_millis(3000);
        cluster.nodes[0].age(later);
        assert_eq!(cluster.nodes[0].shared.totals().held, 0);
        assert_eq!(drops(&cluster, 0), [(DropReason::FragmentTimeout, 3)], "{family:?}");
    }
}

#[test]
fn the_rest_of_a_refused_datagram_is_dropped_with_it() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(1);
        let client = cluster.pod(0);
        let packet =
            PacketBuilder::new(address(&client, family), vip(family)).udp(4000, 53).payload(&[0; 500]);
        let answers: usize =
            packet.build_fragments(160).iter().map(|fragment| cluster.send(&client, fragment).len()).sum();
        assert_eq!(answers, 1, "one datagram, one answer");
        assert_eq!(drops(&cluster, 0), [(DropReason::NoService, 4)], "{family:?}");
    }
}

/// Where more pieces come before the first than may wait, the whole datagram is given up, the first included.
#[test]
fn frag_6_what_cannot_be_kept_whole_is_dropped_whole() {
    for family in FAMILIES {
        let Scene { mut cluster, client, .. } = scene(family, 0);
        let packet =
            PacketBuilder::new(address(&client, family), vip(family)).udp(4000, 53).payload(&[0; 1500]);
        let fragments = packet.build_fragments(16);
        let backwards = fragments.iter().rev();
        let delivered: usize = backwards.map(|fragment| cluster.send(&client, fragment).len()).sum();
        assert_eq!(delivered, 0, "{family:?}");
        assert_eq!(cluster.nodes[0].shared.totals().held, 0, "{family:?}");
        assert_eq!(drops(&cluster, 0), [(DropReason::FragmentLimit, fragments.len() as u64)], "{family:?}");
        // The next datagram is another matter.
        let next = packet.identification(2).build_fragments(800);
        assert_eq!(next.iter().map(|fragment| cluster.send(&client, fragment).len()).sum::<usize>(), 2);
    }
}
