//! ICMP errors about packets that a service or the node's own name stands in the way of, and packets of ICMP's own that
//! leave in the node's name.

mod support;

use std::net::IpAddr;

use support::{
    ACK, ALL_PROTOCOLS, CLIENT_PORT, ClientKind, FAMILIES, FRONTENDS, Frontend, SYN, Scene, address, dropped,
    drops, error_about, from_tunnel, node_address, node_mac, only, outside, packet, quoted, read, scenes,
    scenes_of, send_from, vtep,
};
use vrouter_forward::Family;
use vrouter_forward::parse::IcmpTypes;
use vrouter_forward::sim::{Cluster, HOST_PORT, PacketBuilder, PodHandle};
use vrouter_objects::{DropReason, ServiceProtocol};

const HERE_AND_THERE: &[usize] = &[0, 1];
const MTU: u32 = 1280;

/// A router somewhere out there.
fn router(family: Family) -> IpAddr {
    if family == Family::V4 { "192.0.2.254" } else { "2001:db8:fe::1" }.parse().unwrap()
}

/// What two packets have in common that a router does not change, SCTP's checksum aside: what is quoted of it is of
/// the packet as it was on the way.
fn identity(frame: &[u8]) -> (IpAddr, IpAddr, u8, (u16, u16)) {
    let mut frame = frame.to_vec();
    let (transport, protocol) = if frame[12] == 8 { (34, frame[23]) } else { (54, frame[20]) };
    if protocol == 132 {
        let crc =
            support::crc32c(&[&frame[transport..transport + 8], &[0; 4], &frame[transport + 12..]].concat());
        frame[transport + 8..transport + 12].copy_from_slice(&crc.to_le_bytes());
    }
    let got = read(&frame);
    (got.source, got.destination, got.protocol, got.ports)
}

#[test]
fn icmp_2_the_quoted_packet_is_the_one_that_was_sent_to_the_frontend() {
    for mut scene in scenes(HERE_AND_THERE) {
        for member in 0..2 {
            scene.delete_service();
            scene.put_members(&[member]);
            let sent = scene.frame_from(CLIENT_PORT, SYN);
            let (_, delivery) = scene.reach(SYN);
            let host = address(&scene.pods[member], scene.family);
            let error = error_about(&delivery.frame, host, IcmpTypes::of(scene.family).too_big, MTU);
            let told = send_from(&mut scene.cluster, &delivery, &error);
            assert!(told.len() == 1 && scene.client.is_at(&told[0]), "{}: {told:#?}", scene.label());
            let told = only(&told);
            // The translated host itself goes by the name that the client knows.
            assert_eq!(
                (told.source, told.destination),
                (scene.place().0, scene.client.address(scene.family))
            );
            assert_eq!(told.payload[4..8], MTU.to_be_bytes(), "{}", scene.label());
            assert_eq!(identity(&quoted(&told)), identity(&sent), "{}", scene.label());
        }
    }
}

/// A pod's packets to the outside, of every kind that there is.
fn to_outside(pod: &PodHandle, family: Family) -> Vec<Vec<u8>> {
    let to = PacketBuilder::new(address(pod, family), outside(family));
    let mut frames: Vec<_> = ALL_PROTOCOLS
        .map(|protocol| packet(address(pod, family), outside(family), protocol, (5000, 53), SYN))
        .to_vec();
    frames.push(to.echo_request(5000, 1).payload(b"ping").build());
    frames
}

#[test]
fn icmp_3_an_error_about_what_left_in_the_nodes_name_reaches_the_pod() {
    for family in FAMILIES {
        for number in 0..4 {
            let mut cluster = Cluster::new(2);
            let pod = cluster.pod(0);
            let sent = to_outside(&pod, family).remove(number);
            let left = cluster.send(&pod, &sent);
            assert_eq!((left[0].node, left[0].port), (0, HOST_PORT), "{family:?} {number}");
            assert_eq!(only(&left).source, node_address(0, family));
            for from in [router(family), outside(family)] {
                let error = error_about(&left[0].frame, from, IcmpTypes::of(family).too_big, MTU);
                let told = cluster.send_from_host(0, &error);
                assert_eq!((told.len(), told[0].node, told[0].port), (1, 0, pod.port), "{family:?} {number}");
                let told = only(&told);
                // No service, no other name: whoever speaks keeps theirs (icmp_6).
                assert_eq!((told.source, told.destination), (from, address(&pod, family)));
                assert_eq!(identity(&quoted(&told)), identity(&sent), "{family:?} {number}");
                if number == 3 {
                    let id_at = quoted(&told).len() - b"ping".len() - 4;
                    assert_eq!(quoted(&told)[id_at..id_at + 2], 5000_u16.to_be_bytes(), "{family:?}");
                }
            }
        }
    }
}

/// The client's path takes less than the member's packets have. Its router tells the node they seem to come from.
#[test]
fn icmp_4_an_error_about_an_answer_reaches_the_member_wherever_it_is() {
    for mut scene in scenes_of(&FRONTENDS, &[ClientKind::Outside], HERE_AND_THERE) {
        for member in 0..2 {
            scene.delete_service();
            scene.put_members(&[member]);
            let (_, delivery) = scene.reach(SYN);
            let got = read(&delivery.frame);
            let ports = (got.ports.1, got.ports.0);
            let sent = packet(got.destination, got.source, scene.protocol, ports, SYN | ACK);
            let back = send_from(&mut scene.cluster, &delivery, &sent);
            for from in [router(scene.family), outside(scene.family)] {
                let error = error_about(&back[0].frame, from, IcmpTypes::of(scene.family).too_big, MTU);
                let told = scene.cluster.send_from_host(0, &error);
                assert_eq!(scene.reached(&told), Some(member), "{}: {told:#?}", scene.label());
                let told = only(&told);
                assert_eq!((told.source, told.destination), (from, got.destination), "{}", scene.label());
                assert_eq!(told.payload[4..8], MTU.to_be_bytes(), "{}", scene.label());
                assert_eq!(identity(&quoted(&told)), identity(&sent), "{}", scene.label());
            }
        }
    }
}

#[test]
fn icmp_5_an_error_is_the_nodes_unless_it_is_about_a_flow() {
    for mut scene in scenes_of(&[Frontend::NodePort], &[ClientKind::Outside], HERE_AND_THERE) {
        scene.put_members(&[1]);
        scene.reach(SYN);
        let (family, node) = (scene.family, node_address(0, scene.family));
        let (kind, code) = IcmpTypes::of(family).too_big;
        let error = PacketBuilder::new(router(family), node).icmp(kind, code, MTU.to_be_bytes());
        let about = |from, to, ports| packet(from, to, scene.protocol, ports, ACK)[14..].to_vec();
        let ours = about(node, outside(family), (support::NODE_PORT, CLIENT_PORT));
        let later_fragment =
            PacketBuilder::new(node, outside(family)).udp(1, 2).payload(&[0; 64]).build_fragments(32);
        // What the node itself sent, in whatever shape it is quoted.
        for quote in [
            about(node, outside(family), (22, 40_000)),
            about(node, outside(family), (support::NODE_PORT, CLIENT_PORT + 1)),
            about(outside(family), node, (CLIENT_PORT, support::NODE_PORT)),
            PacketBuilder::new(node, outside(family)).protocol(50, &[7; 16]).build_ip(),
            ours[..ours.len().min(if family == Family::V4 { 24 } else { 44 })].to_vec(),
            later_fragment[1][14..].to_vec(),
            vec![0xff; 40],
            Vec::new(),
        ] {
            let frame = error.clone().payload(&quote).build();
            let handed = scene.cluster.send_from_host(0, &frame);
            let label = format!("{} {quote:02x?}", scene.label());
            assert_eq!((handed.len(), handed[0].node, handed[0].port), (1, 0, HOST_PORT), "{label}");
            assert_eq!(handed[0].frame[14..], frame[14..], "{label}: as it was");
        }
        let told = scene.cluster.send_from_host(0, &error.clone().payload(&ours).build());
        assert_eq!(scene.reached(&told), Some(1), "{}", scene.label());
        // Once the flow is void, it is none.
        scene.delete_service();
        let handed = scene.cluster.send_from_host(0, &error.payload(&ours).build());
        assert_eq!((handed.len(), handed[0].port), (1, HOST_PORT), "{}", scene.label());
        assert_eq!(drops(&scene.cluster, 0), [], "{}", scene.label());
    }
}

/// To others than the node, an error about nothing is nobody's.
#[test]
fn icmp_5_an_error_about_no_flow_reaches_no_pod() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(2);
        let pod = cluster.pod(0);
        let about = packet(address(&pod, family), outside(family), ServiceProtocol::Udp, (1, 2), 0);
        let (kind, code) = IcmpTypes::of(family).too_big;
        let error =
            PacketBuilder::new(router(family), address(&pod, family)).icmp(kind, code, MTU.to_be_bytes());
        let error = error.payload(&about[14..]);
        assert_eq!(cluster.send_from_host(0, &error.build()), []);
        let tunnelled = error.macs(node_mac(1), node_mac(0)).build();
        assert_eq!(cluster.follow(0, from_tunnel(&tunnelled, vtep(1))), []);
        assert_eq!(dropped(&cluster, 0, DropReason::IcmpUnrelated), 2, "{family:?}");
    }
}

#[test]
fn icmp_8_errors_about_sctp_have_a_sound_checksum_wherever_they_go() {
    // `only` has checked it for each of these already, in all tests of this file; here with less of the packet quoted.
    for mut scene in scenes(HERE_AND_THERE) {
        scene.put_members(&[1]);
        let (_, delivery) = scene.reach(SYN);
        let host = address(&scene.pods[1], scene.family);
        let headers = 14 + if scene.family == Family::V4 { 20 } else { 40 };
        for len in [8, 9, 11, 12] {
            let cut = &delivery.frame[14..headers + len];
            let (kind, code) = IcmpTypes::of(scene.family).port_unreachable;
            let error =
                PacketBuilder::new(host, read(&delivery.frame).source).icmp(kind, code, [0; 4]).payload(cut);
            let told = send_from(&mut scene.cluster, &delivery, &error.build());
            assert_eq!(only(&told).source, scene.place().0, "{} {len} bytes", scene.label());
        }
    }
}

#[test]
fn icmp_9_what_came_by_the_node_and_is_too_big_is_told_by_the_node() {
    for mut scene in scenes_of(&FRONTENDS, &[ClientKind::Node, ClientKind::Outside], &[1]) {
        scene.put_members(&[0]);
        let (family, (to, port)) = (scene.family, scene.place());
        let source = scene.client.address(family);
        let large = PacketBuilder::new(source, to).udp(CLIENT_PORT, port).payload(&[7; 1430]).dont_fragment();
        if scene.protocol == ServiceProtocol::Udp {
            let told = scene.cluster.send_from_host(0, &large.build());
            assert_eq!((told.len(), told[0].node, told[0].port), (1, 0, HOST_PORT), "{}", scene.label());
            let told = only(&told);
            assert_eq!(
                (told.source, told.destination),
                (node_address(0, family), source),
                "{}",
                scene.label()
            );
            assert_eq!(identity_of_start(&told), (source, to), "{}", scene.label());
            assert_eq!(told.payload[4..8], 1450_u32.to_be_bytes(), "{}", scene.label());
        }
    }
}

/// The addresses of a quoted packet that is cut short.
fn identity_of_start(error: &support::Read) -> (IpAddr, IpAddr) {
    let quoted = &error.payload[8..];
    let v4 = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&quoted[at..at + 4]).unwrap());
    let v6 = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&quoted[at..at + 16]).unwrap());
    if error.source.is_ipv4() { (v4(12), v4(16)) } else { (v6(8), v6(24)) }
}

/// With this many hops left, from every kind of client.
fn with_hops(scene: &Scene, hops: u8) -> Vec<u8> {
    let mut frame = scene.frame_from(CLIENT_PORT, SYN);
    if scene.family == Family::V6 {
        frame[21] = hops;
        return frame;
    }
    let (to, port) = scene.place();
    let packet = PacketBuilder::new(scene.client.address(scene.family), to).hops(hops);
    match scene.protocol {
        ServiceProtocol::Tcp => packet.tcp(CLIENT_PORT, port, SYN),
        ServiceProtocol::Udp => packet.udp(CLIENT_PORT, port),
        ServiceProtocol::Sctp => packet.sctp(CLIENT_PORT, port).payload(&[1, 0, 0, 4]),
    }
    .build()
}

#[test]
fn icmp_10_who_has_no_hops_left_is_told_by_the_router_it_met() {
    for mut scene in scenes(HERE_AND_THERE) {
        let family = scene.family;
        let by = match scene.kind {
            ClientKind::Pod => support::gateway(family),
            ClientKind::Node | ClientKind::Outside => node_address(0, family),
        };
        for member in 0..2 {
            scene.delete_service();
            scene.put_members(&[member]);
            let (sent, client) = (with_hops(&scene, 1), scene.client.clone());
            let told = client.send(&mut scene.cluster, &sent);
            assert!(told.len() == 1 && client.is_at(&told[0]), "{}: {told:#?}", scene.label());
            let told = only(&told);
            let (kind, code) = IcmpTypes::of(family).time_exceeded;
            assert_eq!((told.source, &told.payload[..2]), (by, &[kind, code][..]), "{}", scene.label());
            assert_eq!(identity(&quoted(&told)), identity(&sent), "{}", scene.label());
            // Each router on the way takes one.
            let routers = member as u8 + 1;
            let sent = with_hops(&scene, routers + 1);
            let delivered = client.send(&mut scene.cluster, &sent);
            assert_eq!(scene.reached(&delivered), Some(member), "{}: {delivered:#?}", scene.label());
            assert_eq!(only(&delivered).hops, 1, "{}", scene.label());
        }
        // The member's router tells the client by way of the client's, as about what it sent.
        let (sent, client) = (with_hops(&scene, 2), scene.client.clone());
        let told = client.send(&mut scene.cluster, &sent);
        assert!(told.len() == 1 && client.is_at(&told[0]), "{}: {told:#?}", scene.label());
        let told = only(&told);
        assert_eq!(told.source, support::gateway(family), "{}", scene.label());
        assert_eq!(identity(&quoted(&told)), identity(&sent), "{}", scene.label());
    }
}
