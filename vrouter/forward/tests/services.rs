//! ClusterIPs: translation there and back.

mod support;

use std::collections::BTreeMap;

use support::{ACK, ALL_PROTOCOLS, FAMILIES, SYN, address, only, packet, read, vip};
use vrouter_forward::Family;
use vrouter_forward::parse::IcmpTypes;
use vrouter_forward::sim::{Cluster, Delivery, PacketBuilder, PodHandle, ServiceSpec};
use vrouter_objects::{DropReason, MemberState, ServiceProtocol};

#[test]
fn every_protocol_and_family_goes_there_and_back() {
    for protocol in ALL_PROTOCOLS {
        for family in FAMILIES {
            for member_node in [0, 1] {
                let mut cluster = Cluster::new(2);
                let (client, server) = (cluster.pod(0), cluster.pod(member_node));
                let service =
                    ServiceSpec::new(1, vip(family), protocol, 80, &[(address(&server, family), 8080)]);
                cluster.put(&[service.object()]);
                let label = format!("{protocol} {family:?} node {member_node}");

                let there = cluster
                    .send(&client, &packet(address(&client, family), vip(family), protocol, (4000, 80), SYN));
                let got = only(&there);
                assert_eq!((there[0].node, there[0].port), (server.node, server.port), "{label}");
                assert_eq!(
                    (got.source, got.destination),
                    (address(&client, family), address(&server, family)),
                    "{label}"
                );
                assert_eq!(got.ports, (4000, 8080), "{label}");

                let answer = packet(
                    address(&server, family),
                    address(&client, family),
                    protocol,
                    (8080, 4000),
                    SYN | ACK,
                );
                let back = cluster.send(&server, &answer);
                let got = only(&back);
                assert_eq!((back[0].node, back[0].port), (client.node, client.port), "{label}");
                assert_eq!((got.source, got.destination), (vip(family), address(&client, family)), "{label}");
                assert_eq!(got.ports, (80, 4000), "{label}");
            }
        }
    }
}

#[test]
fn nobody_there_is_told_at_once() {
    let mut cluster = Cluster::new(1);
    let client = cluster.pod(0);
    let empty = ServiceSpec::new(1, vip(Family::V4), ServiceProtocol::Tcp, 80, &[]);
    cluster.put(&[empty.object()]);
    let syn =
        |to: &str, port| packet(client.v4, to.parse().unwrap(), ServiceProtocol::Tcp, (4000, port), SYN);
    for (to, port) in [("10.96.0.10", 80), ("10.96.0.10", 81), ("10.96.0.99", 80)] {
        let got = only(&cluster.send(&client, &syn(to, port)));
        assert_eq!((got.source.to_string(), got.tcp_flags), (to.to_owned(), 4 | ACK), "{to}:{port}");
    }
    let udp = packet(client.v4, vip(Family::V4), ServiceProtocol::Udp, (4000, 80), 0);
    let told = only(&cluster.send(&client, &udp));
    assert_eq!((told.protocol, &told.payload[..2]), (1, &[3, 3][..]), "port unreachable");
    let ping = PacketBuilder::new(client.v4, vip(Family::V4)).echo_request(1, 1).build();
    assert_eq!(only(&cluster.send(&client, &ping)).protocol, 1);
    assert_eq!(cluster.nodes[0].flows(cluster.now), [], "nothing is remembered of a rejected packet");
    assert_eq!(cluster.nodes[0].shared.totals().dropped_for(DropReason::NoMembers), 1);
}

#[test]
fn snat_5_a_pod_reaches_itself_through_its_own_service() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(1);
        let pod = cluster.pod(0);
        let service =
            ServiceSpec::new(1, vip(family), ServiceProtocol::Tcp, 80, &[(address(&pod, family), 8080)]);
        cluster.put(&[service.object()]);
        let syn = packet(address(&pod, family), vip(family), ServiceProtocol::Tcp, (4000, 80), SYN);
        let got = only(&cluster.send(&pod, &syn));
        assert_ne!(got.source, address(&pod, family), "the answer must come back through the router");
        assert_eq!((got.destination, got.ports), (address(&pod, family), (4000, 8080)));
        let answer = packet(address(&pod, family), got.source, ServiceProtocol::Tcp, (8080, 4000), SYN | ACK);
        let got = only(&cluster.send(&pod, &answer));
        assert_eq!((got.source, got.destination), (vip(family), address(&pod, family)));
        assert_eq!(got.ports, (80, 4000));
    }
}

#[test]
fn aff_7_connections_spread_and_stay_when_members_come_and_go() {
    let mut cluster = Cluster::with_slots(1, 16_384);
    let client = cluster.pod(0);
    let servers: Vec<PodHandle> = (0..4).map(|_| cluster.pod(0)).collect();
    let service = |members: &[usize]| {
        let mut spec = ServiceSpec::new(1, vip(Family::V4), ServiceProtocol::Tcp, 80, &[]);
        spec.members = members
            .iter()
            .map(|member| (*member as u32 + 1, servers[*member].v4, 8080, MemberState::Ready))
            .collect();
        spec.object()
    };
    cluster.put(&[service(&[0, 1])]);
    let send = |cluster: &mut Cluster, port: u16, flags| -> Delivery {
        let frame = packet(client.v4, vip(Family::V4), ServiceProtocol::Tcp, (port, 80), flags);
        cluster.send(&client, &frame).pop().expect("delivered")
    };
    let mut chosen = BTreeMap::new();
    for port in 10_000..12_000 {
        chosen.insert(port, send(&mut cluster, port, SYN).port);
    }
    for server in &servers[..2] {
        let share = chosen.values().filter(|port| **port == server.port).count();
        assert!((900..=1100).contains(&share), "{share} of 2000");
    }
    cluster.put(&[service(&[0, 1, 2, 3])]);
    for (port, member) in &chosen {
        assert_eq!(send(&mut cluster, *port, ACK).port, *member, "an addition moves nobody");
    }
    cluster.put(&[service(&[0, 1, 3])]);
    for (port, member) in &chosen {
        assert_eq!(send(&mut cluster, *port, ACK).port, *member, "a removal moves its own only");
    }
}

#[test]
fn a_client_that_goes_direct_and_by_the_service_from_one_port_keeps_both() {
    let mut cluster = Cluster::new(1);
    let (client, server) = (cluster.pod(0), cluster.pod(0));
    let service = ServiceSpec::new(1, vip(Family::V4), ServiceProtocol::Tcp, 80, &[(server.v4, 8080)]);
    cluster.put(&[service.object()]);
    let tcp = ServiceProtocol::Tcp;
    let by_service = only(&cluster.send(&client, &packet(client.v4, vip(Family::V4), tcp, (4000, 80), SYN)));
    let direct = only(&cluster.send(&client, &packet(client.v4, server.v4, tcp, (4000, 8080), SYN)));
    assert_ne!(by_service.ports.0, direct.ports.0, "the server must be able to tell them apart");
    for (seen, expected_source, expected_port) in
        [(by_service, vip(Family::V4), 80), (direct, server.v4, 8080)]
    {
        let answer = packet(server.v4, client.v4, tcp, (8080, seen.ports.0), SYN | ACK);
        let back = only(&cluster.send(&server, &answer));
        assert_eq!((back.source, back.ports), (expected_source, (expected_port, 4000)));
    }
}

#[test]
fn an_error_about_a_translated_packet_reaches_its_sender_translated() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(2);
        let (client, server) = (cluster.pod(0), cluster.pod(1));
        let service =
            ServiceSpec::new(1, vip(family), ServiceProtocol::Udp, 53, &[(address(&server, family), 5353)]);
        cluster.put(&[service.object()]);
        let question = packet(address(&client, family), vip(family), ServiceProtocol::Udp, (4000, 53), 0);
        let there = cluster.send(&client, &question);
        let (kind, code) = IcmpTypes::of(family).port_unreachable;
        let error = PacketBuilder::new(address(&server, family), address(&client, family))
            .icmp(kind, code, [0; 4])
            .payload(&there[0].frame[14..]);
        let told = only(&cluster.send(&server, &error.build()));
        assert_eq!((told.source, told.destination), (vip(family), address(&client, family)));
        // Behind the ICMP header stands the whole question, framed again to be read.
        let at = told.payload.len() - (question.len() - 14);
        let quoted = [&question[..14], &told.payload[at..]].concat();
        let mut expected = read(&question);
        let mut got = read(&quoted);
        (expected.hops, got.hops) = (0, 0);
        assert_eq!(got, expected, "what is quoted is what was sent");
    }
}

/// What one client is told leaves the others theirs.
#[test]
fn a_client_that_asks_too_often_costs_the_others_nothing() {
    let mut cluster = Cluster::new(1);
    let (loud, quiet) = (cluster.pod(0), cluster.pod(0));
    let empty = ServiceSpec::new(1, vip(Family::V4), ServiceProtocol::Tcp, 80, &[]);
    cluster.put(&[empty.object()]);
    let syn =
        |from: &PodHandle, port| packet(from.v4, vip(Family::V4), ServiceProtocol::Tcp, (port, 80), SYN);
    let told = (1..=3000).map(|port| cluster.send(&loud, &syn(&loud, port)).len()).sum::<usize>();
    assert!(told < 3000, "there is a limit");
    assert_eq!(cluster.send(&quiet, &syn(&quiet, 1)).len(), 1);
}
