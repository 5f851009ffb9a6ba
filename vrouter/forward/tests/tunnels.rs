//! What passes between nodes: who may send, what tells flows apart on the underlay, and what is too big for
//! it.

mod support;

use std::collections::HashSet;
use std::net::IpAddr;

use support::{
    ACK, FAMILIES, SYN, address, dropped, from_tunnel, gateway, leave_checksum, node_mac, only, publish,
    read, read_datagram, remove, vtep,
};
use vrouter_forward::Family;
use vrouter_forward::frame::{Egress, Offload, SegmentKind, Segmentation};
use vrouter_forward::parse::IcmpTypes;
use vrouter_forward::sim::{Cluster, PacketBuilder, PodHandle};
use vrouter_objects::{DropReason, MacAddress, Object, RouterId, VirtualRouter};

/// The largest inner packet of the simulated underlay.
const TUNNEL_MTU: usize = 1450;

fn node(number: usize) -> VirtualRouter {
    let id = RouterId::new(number as u32 + 1).unwrap();
    VirtualRouter::new(id, &format!("n{}", number + 1), vtep(number), node_mac(number))
}

fn entropy_of(egress: Egress) -> u32 {
    match egress {
        Egress::Tunnel { entropy, .. } => entropy,
        Egress::Port(port) => panic!("not by tunnel but by {port:?}"),
    }
}

#[test]
fn vxlan_2_only_nodes_may_send() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(2);
        let (pod, far) = (cluster.pod(0), cluster.pod(1));
        let packet = PacketBuilder::new(address(&far, family), address(&pod, family)).udp(1, 2);
        let bytes = packet.macs(node_mac(1), node_mac(0)).build();
        let stranger = vtep(8);
        let arrive = |cluster: &mut Cluster, source| cluster.follow(0, from_tunnel(&bytes, source)).len();

        assert_eq!(arrive(&mut cluster, vtep(1)), 1, "a node");
        assert_eq!(arrive(&mut cluster, stranger), 0, "nobody's address");
        assert_eq!(dropped(&cluster, 0, DropReason::UnknownVtep), 1);
        // Its flow is established, which is no way around the check.
        let added = VirtualRouter { name: "n9".to_owned(), id: RouterId::new(9).unwrap(), ..node(8) };
        let added = Object::VirtualRouter(added);
        publish(&mut cluster, 0, std::slice::from_ref(&added));
        assert_eq!(arrive(&mut cluster, stranger), 1, "a node now");
        remove(&mut cluster, 0, added.key());
        assert_eq!(arrive(&mut cluster, stranger), 0, "no node any more");
        assert_eq!(dropped(&cluster, 0, DropReason::UnknownVtep), 2);
    }
}

#[test]
fn vxlan_2_a_node_that_changed_its_address_has_one_address() {
    let mut cluster = Cluster::new(2);
    let (pod, far) = (cluster.pod(0), cluster.pod(1));
    publish(&mut cluster, 0, &[Object::VirtualRouter(VirtualRouter { address: vtep(8), ..node(1) })]);
    let bytes = PacketBuilder::new(far.v4, pod.v4).udp(1, 2).macs(node_mac(1), node_mac(0)).build();
    assert_eq!(cluster.follow(0, from_tunnel(&bytes, vtep(1))), []);
    assert_eq!(cluster.follow(0, from_tunnel(&bytes, vtep(8))).len(), 1);
    cluster.send(&pod, &PacketBuilder::new(pod.v4, far.v4).udp(2, 1).build());
    let destination = match cluster.wire.last().unwrap().egress {
        Egress::Tunnel { destination, .. } => destination,
        Egress::Port(_) => unreachable!("the wire is between nodes"),
    };
    assert_eq!(destination, vtep(8));
}

#[test]
fn what_is_not_to_this_node_by_its_tunnel_mac_is_dropped() {
    let mut cluster = Cluster::new(2);
    let (pod, far) = (cluster.pod(0), cluster.pod(1));
    let packet = PacketBuilder::new(far.v4, pod.v4).udp(1, 2);
    for mac in [MacAddress::GATEWAY, MacAddress::BROADCAST, node_mac(1), pod.mac] {
        let bytes = packet.clone().macs(node_mac(1), mac).build();
        assert_eq!(cluster.follow(0, from_tunnel(&bytes, vtep(1))), [], "to {mac}");
    }
    assert_eq!(dropped(&cluster, 0, DropReason::UnknownRouterMac), 4);
    // Nor does it go out by another tunnel.
    let neighbour = IpAddr::from([10, 244, 2, 99]);
    let elsewhere = PacketBuilder::new(neighbour, far.v4).udp(1, 2).macs(node_mac(1), node_mac(0)).build();
    assert_eq!(cluster.follow(0, from_tunnel(&elsewhere, vtep(1))), []);
    assert_eq!(dropped(&cluster, 0, DropReason::RouteLoop), 1);
}

#[test]
fn a_node_speaks_for_no_address_that_is_not_routed_to_it() {
    let mut cluster = Cluster::new(3);
    let (pod, far) = (cluster.pod(0), cluster.pod(1));
    let bystander = cluster.pod(0);
    // A local pod's, one of the third node's block, a service's, and the gateway's.
    let sources = [
        bystander.v4,
        IpAddr::from([10, 244, 3, 2]),
        IpAddr::from([10, 96, 0, 10]),
        IpAddr::from([10, 244, 0, 1]),
    ];
    for source in sources {
        let bytes = PacketBuilder::new(source, pod.v4).udp(1, 2).macs(node_mac(1), node_mac(0)).build();
        assert_eq!(cluster.follow(0, from_tunnel(&bytes, vtep(1))), [], "from {source}");
    }
    assert_eq!(dropped(&cluster, 0, DropReason::SpoofedAddress), 4);
    // What is its pods', and what came from outside, or from a node, this one too, by way of it.
    for source in [far.v4, IpAddr::from([203, 0, 113, 1]), vtep(0), vtep(1), vtep(2)] {
        let honest = PacketBuilder::new(source, pod.v4).udp(1, 2).macs(node_mac(1), node_mac(0)).build();
        assert_eq!(cluster.follow(0, from_tunnel(&honest, vtep(1))).len(), 1, "from {source}");
    }
}

#[test]
fn vxlan_4_entropy_tells_flows_apart_and_keeps_each_together() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(2);
        let (pod, far) = (cluster.pod(0), cluster.pod(1));
        let packet = PacketBuilder::new(address(&pod, family), address(&far, family));
        let mut spread = HashSet::new();
        for port in 10_000..10_100 {
            let mut of_flow = HashSet::new();
            for payload in [10, 500, 1000] {
                cluster.send(&pod, &packet.clone().udp(port, 53).payload(&vec![1; payload]).build());
                of_flow.insert(entropy_of(cluster.wire.last().unwrap().egress));
            }
            assert_eq!(of_flow.len(), 1, "{family:?} port {port}");
            spread.extend(of_flow);
        }
        // As source ports of the ephemeral range.
        let ports: HashSet<u32> = spread.iter().map(|entropy| 32_768 + entropy % 28_232).collect();
        assert!(ports.len() > 95, "{family:?}: {} ports for 100 flows", ports.len());
        // As places in a pool of sockets.
        let sockets: HashSet<u32> = spread.iter().map(|entropy| entropy % 256).collect();
        assert!(sockets.len() > 74, "{family:?}: {} of 256 sockets for 100 flows", sockets.len());
    }
}

#[test]
fn vxlan_4_a_datagrams_fragments_go_the_same_way() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(2);
        let (pod, far) = (cluster.pod(0), cluster.pod(1));
        let packet = PacketBuilder::new(address(&pod, family), address(&far, family));
        for fragment in packet.udp(1, 2).payload(&[7; 4000]).build_fragments(1200) {
            cluster.send(&pod, &fragment);
        }
        let ways: HashSet<u32> = cluster.wire.iter().map(|tunnelled| entropy_of(tunnelled.egress)).collect();
        assert_eq!((cluster.wire.len(), ways.len()), (4, 1), "{family:?}");
    }
}

#[test]
fn vxlan_6_a_new_mac_counts_from_the_next_frame() {
    let mut cluster = Cluster::new(2);
    let (pod, far) = (cluster.pod(0), cluster.pod(1));
    let bytes = PacketBuilder::new(pod.v4, far.v4).udp(1, 2).build();
    assert_eq!(cluster.send(&pod, &bytes).len(), 1);
    assert_eq!(&cluster.wire[0].frame[..12], [node_mac(1).0, node_mac(0).0].concat());
    // The node was made anew: same name, same address, and it says so to everybody.
    let mac = MacAddress::local(0x56, 0xbeef);
    cluster.put(&[Object::VirtualRouter(VirtualRouter { mac, ..node(1) })]);
    assert_eq!(cluster.send(&pod, &bytes).len(), 1, "the established flow's next packet arrives");
    assert_eq!(cluster.wire[1].frame[..6], mac.0);
}

/// A datagram whose IP packet has this length.
fn datagram(from: &PodHandle, to: &PodHandle, family: Family, len: usize) -> PacketBuilder {
    let headers = if family == Family::V4 { 28 } else { 48 };
    PacketBuilder::new(address(from, family), address(to, family))
        .udp(4000, 53)
        .payload(&vec![9; len - headers])
}

#[test]
fn icmp_9_what_may_not_be_fragmented_is_told_how_large_it_may_be() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(2);
        let (pod, far) = (cluster.pod(0), cluster.pod(1));
        let fits = datagram(&pod, &far, family, TUNNEL_MTU).dont_fragment().build();
        assert_eq!(only(&cluster.send(&pod, &fits)).destination, address(&far, family));
        let larger = datagram(&pod, &far, family, TUNNEL_MTU + 1).dont_fragment().build();
        let answer = cluster.send(&pod, &larger);
        assert_eq!((answer[0].node, answer[0].port), (0, pod.port), "{family:?}");
        let told = only(&answer);
        assert_eq!((told.source, told.destination), (gateway(family), address(&pod, family)));
        let (kind, code) = IcmpTypes::of(family).too_big;
        assert_eq!(told.payload[..2], [kind, code], "{family:?}");
        assert_eq!(told.payload[4..8], (TUNNEL_MTU as u32).to_be_bytes(), "{family:?}");
        let quoted = &told.payload[8..];
        assert_eq!(quoted, &larger[14..14 + quoted.len()], "{family:?}: what is quoted is what was sent");
        assert_eq!(dropped(&cluster, 0, DropReason::TooBig), 1);
    }
}

/// Outer packets are never fragmented: what is cut is the inner packet, and only IPv4's.
#[test]
fn vxlan_8_what_may_be_fragmented_is_fragmented_inside() {
    for len in [TUNNEL_MTU + 1, 2000, 2 * TUNNEL_MTU, 1400 * 4 + 28] {
        let mut cluster = Cluster::new(2);
        let (pod, far) = (cluster.pod(0), cluster.pod(1));
        let sent = datagram(&pod, &far, Family::V4, len).identification(77).build();
        let fragments = cluster.send(&pod, &sent);
        assert_eq!(fragments.len(), (len - 20).div_ceil((TUNNEL_MTU - 20) & !7), "{len} bytes");
        assert!(cluster.wire.iter().all(|tunnelled| tunnelled.frame.len() <= TUNNEL_MTU + 14), "{len} bytes");
        let got = read_datagram(&fragments);
        assert_eq!((got.ports, got.payload), ((4000, 53), read(&sent).payload), "{len} bytes");
    }
}

#[test]
fn vxlan_8_a_fragment_too_big_is_cut_further() {
    let mut cluster = Cluster::new(2);
    let (pod, far) = (cluster.pod(0), cluster.pod(1));
    let packet = PacketBuilder::new(pod.v4, far.v4).udp(4000, 53).payload(&[5; 5000]);
    let mut delivered = Vec::new();
    for fragment in packet.build_fragments(2000) {
        delivered.extend(cluster.send(&pod, &fragment));
    }
    assert!(delivered.iter().all(|delivery| delivery.frame.len() <= TUNNEL_MTU + 14));
    assert_eq!(read_datagram(&delivered).payload, [5; 5000]);
}

#[test]
fn offl_14_a_super_frame_is_as_big_as_its_segments() {
    for family in FAMILIES {
        let headers = if family == Family::V4 { 40 } else { 60 };
        let mut cluster = Cluster::new(2);
        let (pod, far) = (cluster.pod(0), cluster.pod(1));
        let packet = PacketBuilder::new(address(&pod, family), address(&far, family)).dont_fragment();
        cluster.send(&pod, &packet.clone().tcp(4000, 80, SYN).build());
        let mut bytes = packet.tcp(4000, 80, ACK).payload(&[3; 20_000]).build();
        let checksum = leave_checksum(&mut bytes, SegmentKind::Tcp);
        let largest = (TUNNEL_MTU - headers) as u16;
        for (size, passes) in [(largest, true), (largest + 1, false)] {
            let size = size.try_into().unwrap();
            let offload =
                Offload { checksum, segmentation: Some(Segmentation { kind: SegmentKind::Tcp, size }) };
            let got = cluster.send_with(&pod, &bytes, offload);
            assert_eq!(
                (got.len(), got[0].port == far.port && got[0].node == 1),
                (1, passes),
                "{family:?} by {size}"
            );
            if passes {
                assert_eq!(got[0].offload, offload, "{family:?}: whole all the way");
            }
        }
    }
}
