//! ARP and neighbour discovery: whom the router answers for, and what it takes from nobody.

mod support;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use support::{drops, from_tunnel, gateway, node_mac, read, vip, vtep};
use vrouter_forward::Family;
use vrouter_forward::frame::{Frame, Ingress};
use vrouter_forward::sim::{Cluster, Delivery, PacketBuilder, PodHandle};
use vrouter_objects::{DropReason, MacAddress};

fn v4(address: IpAddr) -> Ipv4Addr {
    let IpAddr::V4(address) = address else { panic!("{address} is no IPv4 address") };
    address
}

fn v6(address: IpAddr) -> Ipv6Addr {
    let IpAddr::V6(address) = address else { panic!("{address} is no IPv6 address") };
    address
}

/// An ARP packet to be; by default the pod's request.
#[derive(Debug, Clone)]
struct Arp {
    kinds: [u8; 6],
    operation: u16,
    sender: (MacAddress, Ipv4Addr),
    target: Ipv4Addr,
}

impl Arp {
    fn request(pod: &PodHandle, target: IpAddr) -> Self {
        Self { kinds: [0, 1, 8, 0, 6, 4], operation: 1, sender: (pod.mac, v4(pod.v4)), target: v4(target) }
    }

    fn build(&self, from: MacAddress) -> Vec<u8> {
        let mut frame = [MacAddress::BROADCAST.0, from.0].concat();
        frame.extend_from_slice(&[0x08, 0x06]);
        frame.extend_from_slice(&self.kinds);
        frame.extend_from_slice(&self.operation.to_be_bytes());
        frame.extend_from_slice(&self.sender.0.0);
        frame.extend_from_slice(&self.sender.1.octets());
        frame.extend_from_slice(&[0; 6]);
        frame.extend_from_slice(&self.target.octets());
        frame
    }
}

/// A neighbour solicitation to be; by default the pod's, with its own link-layer address.
#[derive(Debug, Clone)]
struct Solicitation {
    source: IpAddr,
    destination: IpAddr,
    target: Ipv6Addr,
    hops: u8,
    code: u8,
    options: Vec<u8>,
}

impl Solicitation {
    fn new(pod: &PodHandle, target: IpAddr) -> Self {
        let target = v6(target);
        let [.., a, b, c] = target.octets();
        let group = Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]);
        let options = [&[1, 1][..], &pod.mac.0].concat();
        Self { source: pod.v6, destination: group.into(), target, hops: 255, code: 0, options }
    }

    fn build(&self, from: MacAddress) -> Vec<u8> {
        PacketBuilder::new(self.source, self.destination)
            .macs(from, MacAddress([0x33, 0x33, 0xff, 0, 0, 1]))
            .hops(self.hops)
            .icmp(135, self.code, [0; 4])
            .payload(&[&self.target.octets()[..], &self.options].concat())
            .build()
    }
}

fn from_pod(cluster: &mut Cluster, pod: &PodHandle, bytes: &[u8]) -> Vec<Delivery> {
    cluster.follow(pod.node, Frame::from_bytes(bytes, Ingress::Port(pod.port)))
}

#[test]
fn the_router_answers_for_whatever_it_has_a_route_to() {
    let mut cluster = Cluster::new(2);
    let (pod, near, far) = (cluster.pod(0), cluster.pod(0), cluster.pod(1));
    for target in [gateway(Family::V4), near.v4, far.v4, vip(Family::V4)] {
        let answer = from_pod(&mut cluster, &pod, &Arp::request(&pod, target).build(pod.mac));
        assert_eq!((answer.len(), answer[0].port), (1, pod.port), "{target}");
        let expected =
            Arp { operation: 2, sender: (MacAddress::GATEWAY, v4(target)), ..Arp::request(&pod, pod.v4) };
        let mut expected = expected.build(MacAddress::GATEWAY);
        expected[..6].copy_from_slice(&pod.mac.0);
        expected[32..38].copy_from_slice(&pod.mac.0);
        assert_eq!(answer[0].frame, expected, "{target}");
    }
    for target in [gateway(Family::V6), near.v6, far.v6, vip(Family::V6)] {
        let answer = from_pod(&mut cluster, &pod, &Solicitation::new(&pod, target).build(pod.mac));
        assert_eq!((answer.len(), answer[0].port), (1, pod.port), "{target}");
        assert_eq!(answer[0].frame[..12], [pod.mac.0, MacAddress::GATEWAY.0].concat(), "{target}");
        let got = read(&answer[0].frame);
        assert_eq!((got.source, got.destination, got.hops), (target, pod.v6, 255), "{target}");
        // From a router, solicited, to replace what was known.
        assert_eq!(got.payload[..8], [136, 0, got.payload[2], got.payload[3], 0xe0, 0, 0, 0], "{target}");
        assert_eq!(got.payload[8..24], v6(target).octets(), "{target}");
        assert_eq!(got.payload[24..], [&[2, 1][..], &MacAddress::GATEWAY.0].concat(), "{target}");
    }
    assert_eq!(cluster.nodes[0].flows(cluster.now), []);
    assert_eq!(drops(&cluster, 0), []);
}

#[test]
fn cni_8_who_has_no_address_yet_is_answered_by_way_of_all_nodes() {
    let mut cluster = Cluster::new(1);
    let pod = cluster.pod(0);
    let unspecified = IpAddr::from([0_u16; 8]);
    let solicitation = Solicitation {
        source: unspecified,
        options: Vec::new(),
        ..Solicitation::new(&pod, gateway(Family::V6))
    };
    let answer = from_pod(&mut cluster, &pod, &solicitation.build(pod.mac));
    assert_eq!(answer.len(), 1);
    assert_eq!(answer[0].frame[..6], [0x33, 0x33, 0, 0, 0, 1]);
    let got = read(&answer[0].frame);
    assert_eq!((got.source, got.hops), (gateway(Family::V6), 255));
    assert_eq!(got.destination, "ff02::1".parse::<IpAddr>().unwrap());
    // From a router, to replace what was known, but not solicited.
    assert_eq!(got.payload[4..8], [0xa0, 0, 0, 0]);
}

/// Detecting duplicates (RFC 4862 section 5.4, RFC 5227), a pod asks for its own address: nobody else has it.
#[test]
fn nobody_is_told_that_its_own_address_is_taken() {
    let mut cluster = Cluster::new(2);
    let (pod, other) = (cluster.pod(0), cluster.pod(0));
    let nobody = Ipv4Addr::UNSPECIFIED;
    let own = Arp::request(&pod, pod.v4);
    let unspecified = IpAddr::from([0_u16; 8]);
    let own6 = Solicitation { source: unspecified, options: Vec::new(), ..Solicitation::new(&pod, pod.v6) };
    let link_local = "fe80::50ff:fe00:1".parse().unwrap();
    for frame in [
        own.build(pod.mac),
        Arp { sender: (pod.mac, nobody), ..own.clone() }.build(pod.mac),
        Arp { operation: 2, ..own }.build(pod.mac),
        own6.build(pod.mac),
        // A default route leads to nobody on the pod's own link.
        Arp { sender: (pod.mac, nobody), ..Arp::request(&pod, "169.254.7.7".parse().unwrap()) }
            .build(pod.mac),
        Solicitation { target: v6(link_local), ..own6 }.build(pod.mac),
        Solicitation::new(&pod, link_local).build(pod.mac),
    ] {
        assert_eq!(from_pod(&mut cluster, &pod, &frame), [], "{frame:02x?}");
    }
    let elsewhere = [
        Arp::request(&pod, "192.0.2.1".parse().unwrap()).build(pod.mac),
        Solicitation::new(&pod, "2001:db8::1".parse().unwrap()).build(pod.mac),
    ];
    for frame in &elsewhere {
        assert_eq!(from_pod(&mut cluster, &pod, frame).len(), 1, "the way out is ours");
    }
    support::remove_default_routes(&mut cluster);
    for frame in &elsewhere {
        assert_eq!(from_pod(&mut cluster, &pod, frame), [], "no route, nobody to answer for: {frame:02x?}");
    }
    assert_eq!(drops(&cluster, 0), [], "heard, and nothing to say");
    // The address of another is taken.
    let probe = Arp { sender: (pod.mac, nobody), ..Arp::request(&pod, other.v4) };
    assert_eq!(from_pod(&mut cluster, &pod, &probe.build(pod.mac)).len(), 1);
}

#[test]
fn arp_that_lies_or_makes_no_sense_is_dropped() {
    use DropReason::{InvalidArp, PacketTruncated, SpoofedAddress, SpoofedMac};
    let mut cluster = Cluster::new(2);
    let (pod, other) = (cluster.pod(0), cluster.pod(0));
    let request = Arp::request(&pod, gateway(Family::V4));
    let cut_short = request.build(pod.mac)[..41].to_vec();
    let table = [
        ("another's frame", request.build(other.mac), SpoofedMac),
        (
            "another's MAC inside",
            Arp { sender: (other.mac, v4(pod.v4)), ..request.clone() }.build(pod.mac),
            InvalidArp,
        ),
        (
            "another's address",
            Arp { sender: (pod.mac, v4(other.v4)), ..request.clone() }.build(pod.mac),
            SpoofedAddress,
        ),
        (
            "announcing the gateway",
            Arp { operation: 2, sender: (pod.mac, v4(gateway(Family::V4))), ..request.clone() }
                .build(pod.mac),
            SpoofedAddress,
        ),
        ("not Ethernet", Arp { kinds: [0, 6, 8, 0, 6, 4], ..request.clone() }.build(pod.mac), InvalidArp),
        ("not IPv4", Arp { kinds: [0, 1, 0x86, 0xdd, 6, 4], ..request.clone() }.build(pod.mac), InvalidArp),
        ("long addresses", Arp { kinds: [0, 1, 8, 0, 8, 4], ..request.clone() }.build(pod.mac), InvalidArp),
        ("reverse ARP", Arp { operation: 3, ..request.clone() }.build(pod.mac), InvalidArp),
        ("no operation", Arp { operation: 0, ..request.clone() }.build(pod.mac), InvalidArp),
        ("cut short", cut_short, PacketTruncated),
    ];
    check_drops(&mut cluster, &pod, &table);
    // Nobody asks for addresses through a tunnel.
    let mut frame = request.build(node_mac(1));
    frame[..6].copy_from_slice(&node_mac(0).0);
    assert_eq!(cluster.follow(0, from_tunnel(&frame, vtep(1))), []);
    assert_eq!(support::dropped(&cluster, 0, InvalidArp), 7);
}

#[test]
fn solicitations_that_lie_or_make_no_sense_are_dropped() {
    use DropReason::{InvalidArp, SpoofedAddress, SpoofedMac};
    let mut cluster = Cluster::new(2);
    let (pod, other) = (cluster.pod(0), cluster.pod(0));
    let honest = Solicitation::new(&pod, gateway(Family::V6));
    let others = [&[1, 1][..], &other.mac.0].concat();
    let built = |change: fn(&mut Solicitation)| {
        let mut solicitation = honest.clone();
        change(&mut solicitation);
        solicitation.build(pod.mac)
    };
    let table = [
        ("another's frame", honest.build(other.mac), SpoofedMac),
        (
            "another's MAC inside",
            Solicitation { options: others, ..honest.clone() }.build(pod.mac),
            InvalidArp,
        ),
        (
            "another's address",
            Solicitation { source: other.v6, ..honest.clone() }.build(pod.mac),
            SpoofedAddress,
        ),
        ("a router was on the way", built(|to| to.hops = 254), InvalidArp),
        ("code 1", built(|to| to.code = 1), InvalidArp),
        ("option of no length", built(|to| to.options[1] = 0), InvalidArp),
        ("option longer than the message", built(|to| to.options[1] = 2), InvalidArp),
        ("half an option", built(|to| to.options.truncate(7)), InvalidArp),
        ("one byte of option", built(|to| to.options.truncate(1)), InvalidArp),
        ("no address yet, but a MAC", built(|to| to.source = IpAddr::from([0_u16; 8])), InvalidArp),
        (
            "no target",
            PacketBuilder::new(pod.v6, honest.destination)
                .macs(pod.mac, MacAddress::GATEWAY)
                .hops(255)
                .icmp(135, 0, [0; 4])
                .build(),
            InvalidArp,
        ),
    ];
    check_drops(&mut cluster, &pod, &table);
}

fn check_drops(cluster: &mut Cluster, pod: &PodHandle, table: &[(&str, Vec<u8>, DropReason)]) {
    for (name, frame, reason) in table {
        let before = support::dropped(cluster, 0, *reason);
        assert_eq!(from_pod(cluster, pod, frame), [], "{name}");
        assert_eq!(support::dropped(cluster, 0, *reason), before + 1, "{name}: {:?}", drops(cluster, 0));
    }
    assert_eq!(cluster.nodes[0].flows(cluster.now), []);
}

/// Neighbour messages are of one link: none is sent on, whoever it is addressed to.
#[test]
fn advertisements_and_redirects_reach_nobody() {
    let mut cluster = Cluster::new(2);
    let (pod, near, far) = (cluster.pod(0), cluster.pod(0), cluster.pod(1));
    for kind in [133, 134, 136, 137] {
        for to in [near.v6, far.v6, "ff02::1".parse().unwrap()] {
            let claim = [&v6(gateway(Family::V6)).octets()[..], &[2, 1], &pod.mac.0].concat();
            let packet = PacketBuilder::new(pod.v6, to).macs(pod.mac, MacAddress::GATEWAY).hops(255);
            let frame = packet.icmp(kind, 0, [0x20, 0, 0, 0]).payload(&claim).build();
            assert_eq!(from_pod(&mut cluster, &pod, &frame), [], "type {kind} to {to}");
        }
    }
    assert_eq!((cluster.wire.len(), cluster.nodes[0].flows(cluster.now)), (0, Vec::new()));
}

/// A priority tag or the padding of short frames is no reason not to answer.
#[test]
fn tagged_and_padded_requests_are_answered() {
    let mut cluster = Cluster::new(1);
    let pod = cluster.pod(0);
    let request = Arp::request(&pod, gateway(Family::V4)).build(pod.mac);
    let tagged = [&request[..12], &[0x81, 0, 0xa0, 0], &request[12..]].concat();
    let mut padded = request.clone();
    padded.resize(60, 0);
    for frame in [tagged, padded] {
        let answer = from_pod(&mut cluster, &pod, &frame);
        let frame = &answer[0].frame;
        let offset = if frame[12] == 0x81 { 4 } else { 0 };
        assert_eq!(frame[offset + 20..offset + 22], [0, 2]);
        assert_eq!(frame[offset + 28..offset + 32], v4(gateway(Family::V4)).octets());
    }
}
