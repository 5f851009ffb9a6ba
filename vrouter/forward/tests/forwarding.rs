//! Pods on one node and on two, without services.

mod support;

use std::net::IpAddr;

use support::{FAMILIES, address, gateway, only, read};
use vrouter_forward::Family;
use vrouter_forward::frame::{Frame, Ingress};
use vrouter_forward::sim::{Cluster, PacketBuilder};
use vrouter_objects::{DropReason, MacAddress};

/// Every transport that pods speak to each other.
fn transports(packet: PacketBuilder) -> Vec<(&'static str, PacketBuilder)> {
    vec![
        ("tcp", packet.clone().tcp(40_000, 80, 2)),
        ("udp", packet.clone().udp(40_000, 53).payload(b"question")),
        ("sctp", packet.clone().sctp(40_000, 9_000).payload(&[1, 0, 0, 4])),
        ("ping", packet.clone().echo_request(7, 1).payload(&[0xa5; 56])),
        ("gre", packet.protocol(47, &[0; 16])),
    ]
}

#[test]
fn pods_reach_each_other_on_one_node_and_on_two() {
    for (from_node, to_node) in [(0, 0), (0, 1), (1, 0)] {
        for family in FAMILIES {
            let mut cluster = Cluster::new(2);
            let (from, to) = (cluster.pod(from_node), cluster.pod(to_node));
            let packet = PacketBuilder::new(address(&from, family), address(&to, family));
            for (name, packet) in transports(packet) {
                let sent = packet.build();
                let delivered = cluster.send(&from, &sent);
                let got = only(&delivered);
                assert_eq!((delivered[0].node, delivered[0].port), (to.node, to.port), "{name}");
                assert_eq!(&delivered[0].frame[..6], to.mac.0, "{name}");
                assert_eq!(&delivered[0].frame[6..12], MacAddress::GATEWAY.0, "{name}");
                let expected = read(&sent);
                // One hop less for each router.
                let routers = if from_node == to_node { 1 } else { 2 };
                assert_eq!(got.hops, expected.hops - routers, "{name}");
                assert_eq!((got.source, got.destination), (expected.source, expected.destination), "{name}");
                assert_eq!(got.payload, expected.payload, "{name}");
            }
        }
    }
}

#[test]
fn the_gateway_answers_arp_neighbour_solicitation_and_ping() {
    let mut cluster = Cluster::new(1);
    let pod = cluster.pod(0);
    let arp = |target: [u8; 4]| {
        let mut frame = [MacAddress::BROADCAST.0, pod.mac.0].concat();
        frame.extend_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        frame.extend_from_slice(&pod.mac.0);
        let IpAddr::V4(own) = pod.v4 else { unreachable!("the IPv4 address") };
        frame.extend_from_slice(&own.octets());
        frame.extend_from_slice(&[0; 6]);
        frame.extend_from_slice(&target);
        frame
    };
    let reply = cluster.send(&pod, &arp([10, 244, 0, 1]));
    assert_eq!(reply.len(), 1);
    assert_eq!(&reply[0].frame[22..28], MacAddress::GATEWAY.0);
    assert_eq!(&reply[0].frame[28..32], [10, 244, 0, 1]);
    // Asked about the pod's own address, the router stays silent, or the pod would think it taken.
    let IpAddr::V4(own) = pod.v4 else { unreachable!("the IPv4 address") };
    assert_eq!(cluster.send(&pod, &arp(own.octets())), []);

    for family in FAMILIES {
        let ping =
            PacketBuilder::new(address(&pod, family), gateway(family)).echo_request(9, 1).payload(b"hello");
        let got = only(&cluster.send(&pod, &ping.build()));
        assert_eq!((got.source, got.destination), (gateway(family), address(&pod, family)));
        // A large ping comes back in its fragments.
        let large = ping.payload(&[1; 3000]).build_fragments(1400);
        for fragment in large {
            assert_eq!(cluster.send(&pod, &fragment).len(), 1);
        }
    }
}

#[test]
fn ping_larger_than_the_mtu_passes_in_fragments_in_any_order() {
    for (to_node, family) in [(0, Family::V4), (1, Family::V4), (0, Family::V6), (1, Family::V6)] {
        let mut cluster = Cluster::new(2);
        let (from, to) = (cluster.pod(0), cluster.pod(to_node));
        let ping = PacketBuilder::new(address(&from, family), address(&to, family))
            .echo_request(9, 1)
            .payload(&[7; 3000]);
        let fragments = ping.build_fragments(1400);
        assert_eq!(fragments.len(), 3);
        let mut in_order = 0;
        for fragment in &fragments {
            in_order += cluster.send(&from, fragment).len();
        }
        assert_eq!(in_order, 3, "to node {to_node}");
        let backwards = ping.identification(2).build_fragments(1400);
        let mut received = 0;
        for fragment in backwards.iter().rev() {
            received += cluster.send(&from, fragment).len();
        }
        assert_eq!(received, 3, "to node {to_node}, backwards");
    }
}

#[test]
fn a_pod_cannot_pretend_to_be_another() {
    let mut cluster = Cluster::new(1);
    let (pod, other) = (cluster.pod(0), cluster.pod(0));
    let spoofed = PacketBuilder::new(other.v4, "10.244.1.99".parse::<IpAddr>().unwrap()).udp(1, 2).build();
    assert_eq!(cluster.send(&pod, &spoofed), []);
    let honest = PacketBuilder::new(pod.v4, other.v4).macs(other.mac, MacAddress::GATEWAY).udp(1, 2).build();
    let frame = Frame::from_bytes(&honest, Ingress::Port(pod.port));
    assert_eq!(cluster.follow(0, frame), []);
    let totals = cluster.nodes[0].shared.totals();
    assert_eq!(totals.dropped_for(DropReason::SpoofedAddress), 1);
    assert_eq!(totals.dropped_for(DropReason::SpoofedMac), 1);
}

#[test]
fn hops_run_out_at_the_router_and_the_sender_is_told() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(1);
        let (from, to) = (cluster.pod(0), cluster.pod(0));
        let packet =
            PacketBuilder::new(address(&from, family), address(&to, family)).udp(1000, 33_434).payload(b"x");
        let told = only(&cluster.send(&from, &packet.clone().hops(1).build()));
        assert_eq!((told.source, told.destination), (gateway(family), address(&from, family)));
        let passed = cluster.send(&from, &packet.hops(2).build());
        assert_eq!((passed[0].port, only(&passed).hops), (to.port, 1));
    }
}

#[test]
fn an_address_of_the_block_that_nobody_has_is_answered() {
    let mut cluster = Cluster::new(2);
    let pod = cluster.pod(0);
    for (destination, from_other) in [("10.244.1.200", false), ("10.244.2.200", true)] {
        let destination: IpAddr = destination.parse().unwrap();
        let syn = PacketBuilder::new(pod.v4, destination).tcp(1000, 80, 2).build();
        let got = only(&cluster.send(&pod, &syn));
        assert_eq!(
            got.source, destination,
            "reset by the node that owns the block; other node: {from_other}"
        );
        assert_eq!(got.tcp_flags & 4, 4);
    }
}
