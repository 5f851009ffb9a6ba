//! What the router says itself: pings of the gateway, resets and ICMP errors, and when it keeps silent.

mod support;

use std::net::IpAddr;

use support::{
    ACK, FAMILIES, FIN, RST, SYN, address, dropped, drops, from_tunnel, gateway, node_mac, only, packet,
    read, vip, vtep,
};
use vrouter_forward::Family;
use vrouter_forward::parse::IcmpTypes;
use vrouter_forward::sim::{Cluster, PacketBuilder, ServiceSpec};
use vrouter_objects::{DropReason, ServiceProtocol};

#[test]
fn the_gateway_answers_pings_of_any_size() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(1);
        let pod = cluster.pod(0);
        for len in [0, 1, 56, 1401] {
            for hops in [1, 2, 255] {
                let payload = vec![0xee; len];
                let ping = PacketBuilder::new(address(&pod, family), gateway(family)).hops(hops);
                let sent = ping.echo_request(0x1234, 7).payload(&payload).build();
                let got = only(&cluster.send(&pod, &sent));
                let mut expected = read(&sent);
                std::mem::swap(&mut expected.source, &mut expected.destination);
                expected.payload[0] = IcmpTypes::of(family).echo_reply;
                expected.payload[2..4].copy_from_slice(&got.payload[2..4]);
                expected.hops = 64;
                assert_eq!(got, expected, "{family:?} {len} bytes, {hops} hops");
            }
        }
        assert_eq!(cluster.nodes[0].flows(cluster.now), []);
    }
}

#[test]
fn the_gateway_has_no_other_service() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(2);
        let pod = cluster.pod(0);
        let packet = PacketBuilder::new(address(&pod, family), gateway(family));
        let reply = IcmpTypes::of(family).echo_reply;
        for (frame, answers) in [
            (packet.clone().tcp(1, 80, SYN).build(), 1),
            (packet.clone().udp(1, 53).build(), 1),
            (packet.clone().icmp(reply, 0, [0, 1, 0, 1]).build(), 0),
            (packet.clone().protocol(47, &[0; 8]).build(), 1),
        ] {
            let told = cluster.send(&pod, &frame);
            assert_eq!(told.len(), answers, "{frame:02x?}");
            for delivery in told {
                assert_eq!(read(&delivery.frame).source, gateway(family));
            }
        }
        assert_eq!(drops(&cluster, 0), [(DropReason::NoService, 4)]);
        // Every node has the gateway; one that comes out of a tunnel means another's.
        let ping = packet.echo_request(1, 1).macs(node_mac(1), node_mac(0)).build();
        assert!(cluster.follow(0, from_tunnel(&ping, vtep(1))).is_empty());
    }
}

/// Sequence numbers by RFC 9293 section 3.10.7.1: a receiver takes no other reset.
#[test]
fn a_reset_is_one_that_its_receiver_takes() {
    let (sequence, acknowledged) = (0xffff_fff0_u32, 0x0102_0304_u32);
    // Flags and payload sent; flags, sequence and acknowledgement of the reset.
    let table = [
        (SYN, 0, RST | ACK, 0, sequence.wrapping_add(1)),
        (SYN, 100, RST | ACK, 0, sequence.wrapping_add(101)),
        (SYN | ACK, 0, RST, acknowledged, 0),
        (ACK, 0, RST, acknowledged, 0),
        (ACK, 500, RST, acknowledged, 0),
        (FIN | ACK, 3, RST, acknowledged, 0),
    ];
    for family in FAMILIES {
        let mut cluster = Cluster::new(1);
        let pod = cluster.pod(0);
        for (flags, len, expected_flags, expected_sequence, expected_acknowledged) in table {
            let options = if flags == SYN { &[2, 4, 5, 0xb4][..] } else { &[1; 12] };
            let builder = PacketBuilder::new(address(&pod, family), vip(family)).payload(&vec![1; len]);
            let frame = builder.tcp_segment(4000, 80, flags, sequence, acknowledged, options).build();
            let answer = cluster.send(&pod, &frame);
            let got = only(&answer);
            let transport = if family == Family::V4 { 34 } else { 54 };
            let word = |at: usize| {
                let bytes = &answer[0].frame[transport + at..transport + at + 4];
                u32::from_be_bytes(bytes.try_into().unwrap())
            };
            let label = format!("{family:?} flags {flags} with {len} bytes");
            assert_eq!((got.source, got.ports, got.payload.len()), (vip(family), (80, 4000), 0), "{label}");
            assert_eq!(got.tcp_flags, expected_flags, "{label}");
            assert_eq!((word(4), word(8)), (expected_sequence, expected_acknowledged), "{label}");
        }
    }
}

#[test]
fn nothing_is_said_about_what_must_not_be_answered() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(1);
        let pod = cluster.pod(0);
        let to_service = PacketBuilder::new(address(&pod, family), vip(family));
        let (kind, code) = IcmpTypes::of(family).port_unreachable;
        let quoted = to_service.clone().udp(1, 2).build_ip();
        let group: IpAddr = if family == Family::V4 { "224.0.0.251" } else { "ff02::fb" }.parse().unwrap();
        let table = [
            ("a reset", to_service.clone().tcp(1, 2, RST).build()),
            ("a reset with ACK", to_service.clone().tcp(1, 2, RST | ACK).build()),
            ("an error", to_service.clone().icmp(kind, code, [0; 4]).payload(&quoted).build()),
            ("a later fragment", to_service.udp(1, 2).payload(&[0; 100]).build_fragments(64).remove(1)),
            ("a group", PacketBuilder::new(address(&pod, family), group).udp(5353, 5353).build()),
            (
                "a group, hops used up",
                PacketBuilder::new(address(&pod, family), group).hops(1).udp(1, 2).build(),
            ),
        ];
        for (name, frame) in table {
            assert_eq!(cluster.send(&pod, &frame), [], "{family:?}: {name}");
        }
    }
}

#[test]
fn errors_quote_as_much_as_keeps_them_small() {
    for (family, largest) in [(Family::V4, 576), (Family::V6, 1280)] {
        let mut cluster = Cluster::new(1);
        let pod = cluster.pod(0);
        for len in [0, 7, 500, 1400] {
            let packet =
                PacketBuilder::new(address(&pod, family), vip(family)).udp(1, 2).payload(&vec![8; len]);
            let sent = packet.build_ip();
            let answer = cluster.send(&pod, &packet.build());
            let headers = if family == Family::V4 { 28 } else { 48 };
            assert_eq!(answer[0].frame.len() - 14, (sent.len() + headers).min(largest), "{family:?} {len}");
            let quoted = &only(&answer).payload[8..];
            assert_eq!(quoted, &sent[..quoted.len()], "{family:?} {len}");
        }
    }
}

#[test]
fn answers_are_limited_and_drops_are_not() {
    for protocol in [ServiceProtocol::Tcp, ServiceProtocol::Udp] {
        let mut cluster = Cluster::new(1);
        let pod = cluster.pod(0);
        let frame = packet(pod.v4, vip(Family::V4), protocol, (4000, 80), SYN);
        let answered =
            |cluster: &mut Cluster| (0..1500).filter(|_| !cluster.send(&pod, &frame).is_empty()).count();
        assert_eq!(answered(&mut cluster), 1000, "{protocol}");
        cluster.now = cluster.now.plus_millis(500);
        assert_eq!(answered(&mut cluster), 500, "{protocol}");
        assert_eq!(dropped(&cluster, 0, DropReason::NoService), 3000, "{protocol}");
        // Pings of the gateway and neighbour discovery are no errors.
        let ping = PacketBuilder::new(pod.v4, gateway(Family::V4)).echo_request(1, 1).build();
        assert_eq!(cluster.send(&pod, &ping).len(), 1, "{protocol}");
    }
}

/// A refusal on the member's node travels back through the client's, where it becomes the service's.
#[test]
fn a_refusal_from_another_node_comes_from_the_service() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(2);
        let client = cluster.pod(0);
        let nobody: IpAddr =
            if family == Family::V4 { "10.244.2.200" } else { "fd00:10:244:2::200" }.parse().unwrap();
        let services = [(1, ServiceProtocol::Tcp, 80), (2, ServiceProtocol::Udp, 80)];
        for (number, protocol, port) in services {
            let mut service = ServiceSpec::new(number, vip(family), protocol, port, &[(nobody, 8080)]);
            service.number = 1;
            cluster.put(&[service.object()]);
            let frame = packet(address(&client, family), vip(family), protocol, (4000, port), SYN);
            let told = only(&cluster.send(&client, &frame));
            assert_eq!(
                (told.source, told.destination),
                (vip(family), address(&client, family)),
                "{protocol}"
            );
            match protocol {
                ServiceProtocol::Tcp => assert_eq!((told.tcp_flags, told.ports), (RST | ACK, (80, 4000))),
                _ => {
                    let quoted = &told.payload[8..];
                    assert_eq!(quoted[quoted.len() - 8..], b"datagram"[..], "the whole packet is quoted");
                }
            }
        }
    }
}
