//! ICMP errors about packets that a service translated: they reach the sender as if about what it sent.

mod support;

use std::net::IpAddr;

use support::{
    ACK, ALL_PROTOCOLS, FAMILIES, SYN, address, drops, from_tunnel, gateway, node_mac, only, packet, read,
    remove_object, vip, vtep,
};
use vrouter_forward::Family;
use vrouter_forward::parse::IcmpTypes;
use vrouter_forward::sim::{Cluster, Delivery, PacketBuilder, PodHandle, ServiceSpec};
use vrouter_objects::{DropReason, Object, ServiceProtocol};

/// More than any packet here has.
const WHOLE: usize = 2000;

/// A client whose packet went through a service to another node's pod.
struct Scene {
    cluster: Cluster,
    client: PodHandle,
    server: PodHandle,
    service: Object,
    /// The packet as sent, and as it arrived.
    sent: Vec<u8>,
    arrived: Vec<u8>,
    family: Family,
}

impl Scene {
    fn new(family: Family, protocol: ServiceProtocol) -> Self {
        let mut cluster = Cluster::new(2);
        let (client, server) = (cluster.pod(0), cluster.pod(1));
        let service =
            ServiceSpec::new(1, vip(family), protocol, 80, &[(address(&server, family), 8080)]).object();
        cluster.put(std::slice::from_ref(&service));
        let sent = packet(address(&client, family), vip(family), protocol, (4000, 80), SYN);
        let arrived = cluster.send(&client, &sent).remove(0).frame;
        Self { cluster, client, server, service, sent, arrived, family }
    }

    /// Lets the server say that the packet, of which it quotes so many bytes, was too big.
    fn too_big(&mut self, quoted: usize) -> Vec<Delivery> {
        let (kind, code) = IcmpTypes::of(self.family).too_big;
        let from = address(&self.server, self.family);
        let quote = &self.arrived[14..self.arrived.len().min(14 + quoted)];
        let error =
            PacketBuilder::new(from, address(&self.client, self.family)).icmp(kind, code, [0, 0, 5, 0]);
        self.cluster.send(&self.server.clone(), &error.payload(quote).build())
    }
}

#[test]
fn icmp_2_the_quoted_packet_is_the_one_that_was_sent() {
    for (family, protocol) in
        FAMILIES.into_iter().flat_map(|family| ALL_PROTOCOLS.map(|protocol| (family, protocol)))
    {
        let mut scene = Scene::new(family, protocol);
        let told = only(&scene.too_big(WHOLE));
        let label = format!("{family:?} {protocol}");
        assert_eq!((told.source, told.destination), (vip(family), address(&scene.client, family)), "{label}");
        assert_eq!(told.payload[4..8], [0, 0, 5, 0], "{label}: the MTU");
        let quoted = [&scene.sent[..14], &told.payload[8..]].concat();
        let (mut got, mut expected) = (quoted.clone(), read(&scene.sent));
        if protocol == ServiceProtocol::Sctp {
            // A quoted CRC is not made anew: nobody checks it, and it may be cut off.
            let crc = if family == Family::V4 { 42 } else { 62 };
            got[crc..crc + 4].copy_from_slice(&scene.sent[crc..crc + 4]);
        }
        let mut got = read(&got);
        (got.hops, expected.hops) = (0, 0);
        assert_eq!(got, expected, "{label}");
    }
}

/// ICMPv6's checksum covers what is quoted, also where the quoted checksum does not make up for the quoted
/// address, because it is SCTP's or is cut off. [`only`] checks it.
#[test]
fn icmp_8_the_errors_own_checksum_is_right_whatever_is_quoted() {
    for (family, protocol) in
        FAMILIES.into_iter().flat_map(|family| ALL_PROTOCOLS.map(|protocol| (family, protocol)))
    {
        let headers = if family == Family::V4 { 20 } else { 40 };
        for transport in [8, 9, 12, 16, 17, 18, 19, 20] {
            let mut scene = Scene::new(family, protocol);
            let told = only(&scene.too_big(headers + transport));
            assert_eq!(told.source, vip(family), "{family:?} {protocol}, {transport} bytes of transport");
        }
        // Less says not which connection it is about.
        let mut scene = Scene::new(family, protocol);
        assert_eq!(scene.too_big(headers + 7), []);
        assert_eq!(drops(&scene.cluster, 1), [(DropReason::InvalidTransport, 1)]);
    }
}

/// An IPv6 packet with extension headers, such as a first fragment, is found again in the error about it.
#[test]
fn icmp_2_a_quoted_packet_with_extension_headers_is_found() {
    let mut scene = Scene::new(Family::V6, ServiceProtocol::Udp);
    let packet = PacketBuilder::new(scene.client.v6, vip(Family::V6)).udp(4000, 80).payload(&[1; 100]);
    let fragments = packet.clone().build_fragments(64);
    for sent in [packet.extension(60, &[0; 8]).build(), fragments[0].clone()] {
        let client = scene.client.clone();
        scene.arrived = scene.cluster.send(&client, &sent).remove(0).frame;
        let told = only(&scene.too_big(WHOLE));
        assert_eq!((told.source, told.destination), (vip(Family::V6), scene.client.v6));
        let (mut quoted, mut expected) = (told.payload[8..].to_vec(), sent[14..].to_vec());
        (quoted[7], expected[7]) = (0, 0);
        assert_eq!(quoted, expected, "what is quoted is what was sent");
    }
}

#[test]
fn icmp_6_a_router_on_the_way_keeps_its_name() {
    for family in FAMILIES {
        let mut scene = Scene::new(family, ServiceProtocol::Udp);
        // The other node's: pods are on nobody's way.
        let router = gateway(family);
        let (kind, code) = IcmpTypes::of(family).time_exceeded;
        let error = PacketBuilder::new(router, address(&scene.client, family)).icmp(kind, code, [0; 4]);
        let error = error.macs(node_mac(1), node_mac(0)).payload(&scene.arrived[14..]).build();
        let told = only(&scene.cluster.follow(0, from_tunnel(&error, vtep(1))));
        assert_eq!((told.source, told.destination), (router, address(&scene.client, family)));
        let destination = if family == Family::V4 { 24..28 } else { 32..48 };
        assert_eq!(
            told.payload[destination],
            match vip(family) {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            }
        );
    }
}

#[test]
fn icmp_7_a_flow_that_the_tables_ended_translates_no_error() {
    for family in FAMILIES {
        let mut scene = Scene::new(family, ServiceProtocol::Tcp);
        let service = scene.service.clone();
        remove_object(&mut scene.cluster, &service);
        assert_eq!(scene.too_big(WHOLE), [], "{family:?}");
        assert_eq!(drops(&scene.cluster, 0), [(DropReason::IcmpUnrelated, 1)], "{family:?}");
        // The client learns from its own next packet.
        let data = packet(address(&scene.client, family), vip(family), ServiceProtocol::Tcp, (4000, 80), ACK);
        let reset = only(&scene.cluster.send(&scene.client, &data));
        assert_eq!(reset.tcp_flags & support::RST, support::RST, "{family:?}");
    }
}

/// An error finds its way to where the address now is.
#[test]
fn icmp_7_an_error_goes_by_the_routes_of_now() {
    for family in FAMILIES {
        let mut scene = Scene::new(family, ServiceProtocol::Tcp);
        let old = scene.client.clone();
        support::detach(&mut scene.cluster, &old);
        scene.client = scene.cluster.pod_at(0, old.v4, old.v6);
        let told = scene.too_big(WHOLE);
        assert_eq!((told.len(), told[0].port), (1, scene.client.port), "{family:?}");
        assert_eq!(told[0].frame[..6], scene.client.mac.0, "{family:?}");
    }
}

/// Who quotes another's packet reaches neither that other nor anybody else.
#[test]
fn an_error_goes_to_the_sender_of_what_it_quotes_or_to_nobody() {
    for family in FAMILIES {
        let mut scene = Scene::new(family, ServiceProtocol::Udp);
        let (liar, other) = (scene.cluster.pod(1), scene.cluster.pod(0));
        let (kind, code) = IcmpTypes::of(family).port_unreachable;
        let error = PacketBuilder::new(address(&liar, family), address(&other, family))
            .icmp(kind, code, [0; 4])
            .payload(&scene.arrived[14..]);
        assert_eq!(scene.cluster.send(&liar, &error.build()), []);
        assert_eq!(drops(&scene.cluster, 1), [(DropReason::IcmpUnrelated, 1)]);
        // Nor does it reach who sent it, though routers on the way may tell of it: a pod is none.
        let error = PacketBuilder::new(address(&liar, family), address(&scene.client, family))
            .icmp(kind, code, [0; 4])
            .payload(&scene.arrived[14..]);
        assert_eq!(scene.cluster.send(&liar, &error.build()), []);
        assert_eq!(drops(&scene.cluster, 1), [(DropReason::IcmpUnrelated, 2)]);
    }
}
