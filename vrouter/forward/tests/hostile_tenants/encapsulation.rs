//! Packets within packets: what a pod puts into a tunnel's envelope stays an envelope of its own.

use std::net::IpAddr;

use vrouter_forward::Family;
use vrouter_forward::sim::{Cluster, Delivery, HOST_PORT, PacketBuilder};
use vrouter_objects::{
    DropReason, FloatingIp, MacAddress, Member, MemberId, Object, ObjectKey, RouteKey, RouterKind,
    ServiceProtocol, VirtualRouter,
};

use crate::frames::{vxlan, with_macs};
use crate::stage::{DEFAULT, ISOLATED, Stage, stages_of_families};
use crate::support::{
    FAMILIES, MEMBER_PORT, SYN, address, dropped, drops, fabric, is_at_host, node_address, node_mac, nth,
    outside, packet, port, prefixes, publish, published, read, remove, router, vtep,
};

const VXLAN: u16 = 4789;
const GENEVE: u16 = 6081;

/// Frames that would do harm, were they to come out of a tunnel: in each network, from one of its pods to another.
fn inner_frames(stage: &Stage, family: Family) -> Vec<(u32, Vec<u8>)> {
    let networks = stage.pods.iter().zip(&stage.tenancy.networks);
    networks
        .map(|([near, _, far], network)| {
            let ends = (address(far, family), address(near, family));
            let inner = packet(ends.0, ends.1, ServiceProtocol::Tcp, (666, MEMBER_PORT), SYN);
            (network.vni().get(), with_macs(&inner, node_mac(1), node_mac(0)))
        })
        .collect()
}

/// Whatever comes out at a node from this port on must not have a node's name, or others would believe it.
fn is_believed(delivery: &Delivery, family: Family) -> bool {
    let got = read(&delivery.frame);
    let is_nodes = (0..2).any(|node| node_address(node, family) == got.source);
    delivery.port == HOST_PORT && is_nodes && got.protocol == 17 && got.ports.1 == VXLAN
}

#[test]
fn what_a_pod_says_to_a_tunnels_end_never_has_a_nodes_name() {
    for (mut stage, family) in stages_of_families() {
        let (attacker, home) = (stage.attacker(), stage.home);
        let own = address(&attacker, family);
        let targets = [node_address(0, family), node_address(1, family), outside(family)];
        for ((vni, inner), to) in
            inner_frames(&stage, family).iter().flat_map(|inner| targets.map(|to| (inner, to)))
        {
            for from_port in [VXLAN, 7000] {
                let envelope = PacketBuilder::new(own, to)
                    .macs(attacker.mac, MacAddress::GATEWAY)
                    .udp(from_port, VXLAN)
                    .payload(&vxlan(*vni, inner));
                let mut frames = vec![envelope.build()];
                frames.extend(envelope.identification(9).build_fragments(64));
                for frame in frames {
                    for delivery in stage.throw(&frame) {
                        assert!(
                            is_at_host(&delivery, 0) || is_at_host(&delivery, 1),
                            "network {home}: {delivery:?}"
                        );
                        let source = source_of(&delivery.frame, family);
                        assert_eq!(source, own, "network {home} to {to}: in another name than its own");
                    }
                }
            }
        }
        // Whoever would have spoken in the node's name is told why not, by a counter.
        assert!(dropped(&stage.tenancy.cluster, 0, DropReason::TunnelPort) > 0, "network {home}");
        stage.assert_all_is_well();
    }
}

/// Of a fragment, too, of which no parser reads the ports.
fn source_of(frame: &[u8], family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::from(<[u8; 4]>::try_from(&frame[26..30]).unwrap()),
        Family::V6 => IpAddr::from(<[u8; 16]>::try_from(&frame[22..38]).unwrap()),
    }
}

/// A service of a network, by all its frontends, whose member is this.
fn service(stage: &Stage, network: usize, family: Family, member: Member) -> FloatingIp {
    let [v4, v6] = prefixes(crate::support::SERVICES);
    let address = nth(if family == Family::V4 { v4 } else { v6 }, 77);
    let external = if family == Family::V4 { "198.51.100.7" } else { "2001:db8:51::7" };
    let service = stage.tenancy.networks[network].service(1, address, 53, &[member]);
    published(service, 30_053, external.parse().unwrap())
}

/// A process of a node as a member.
fn process(node: usize, family: Family, at: u16) -> Member {
    let id = MemberId::new(1).unwrap();
    Member { router: Some(router(node)), ..Member::new(id, fabric(), node_address(node, family), port(at)) }
}

/// A service leads where its endpoints say, and whoever makes one may say anything.
#[test]
fn no_service_leads_to_a_tunnels_end() {
    for (mut stage, family) in stages_of_families() {
        let (attacker, home) = (stage.attacker(), stage.home);
        for (node, member_port) in [(0, VXLAN), (1, VXLAN), (0, 5353), (1, 5353)] {
            let fip = service(&stage, home, family, process(node, family, member_port));
            let places =
                [(fip.address, 53), (fip.external[0].address, 53), (node_address(0, family), 30_053)];
            stage.cluster().put(&[Object::FloatingIp(fip)]);
            for (to, at) in places {
                for (vni, inner) in inner_frames(&stage, family) {
                    let envelope = PacketBuilder::new(address(&attacker, family), to)
                        .macs(attacker.mac, MacAddress::GATEWAY)
                        .udp(7000 + node as u16, at)
                        .payload(&vxlan(vni, &inner));
                    let deliveries = stage.throw(&envelope.build());
                    let label =
                        format!("network {home} to {to} for node {node} port {member_port}: {deliveries:?}");
                    assert!(deliveries.iter().all(|delivery| !is_believed(delivery, family)), "{label}");
                    // Another port of the same node is nothing special.
                    let is_reached = deliveries.iter().any(|delivery| delivery.port == HOST_PORT);
                    assert_eq!(is_reached, member_port != VXLAN || !is_in_nodes_name(home, node), "{label}");
                    for fragment in envelope.identification(3).build_fragments(64) {
                        let deliveries = stage.throw(&fragment);
                        assert!(
                            member_port != VXLAN
                                || deliveries.iter().all(|delivery| {
                                    (0..2).all(|node| {
                                        source_of(&delivery.frame, family) != node_address(node, family)
                                    })
                                }),
                            "{label}: in fragments {deliveries:?}"
                        );
                    }
                }
            }
        }
        stage.assert_all_is_well();
    }
}

/// In whose name a pod speaks to a process of a node: pods that nodes know by their own, all others by the node's.
fn is_in_nodes_name(network: usize, _node: usize) -> bool {
    !matches!(network, DEFAULT | ISOLATED)
}

/// Who comes from outside speaks to a process of another node in the node's name, too.
#[test]
fn no_stranger_gets_to_a_tunnels_end_through_a_service() {
    for (family, node) in FAMILIES.into_iter().flat_map(|family| [(family, 0), (family, 1)]) {
        let mut stage = Stage::new(DEFAULT);
        let fip = service(&stage, DEFAULT, family, process(node, family, VXLAN));
        let to = fip.external[0].address;
        stage.cluster().put(&[Object::FloatingIp(fip)]);
        let (vni, inner) = inner_frames(&stage, family).remove(0);
        let envelope =
            PacketBuilder::new(outside(family), to).udp(7000, 53).payload(&vxlan(vni, &inner)).build();
        for entry in 0..2 {
            let deliveries = stage.cluster().send_from_host(entry, &envelope);
            assert!(
                deliveries.iter().all(|delivery| !is_believed(delivery, family)),
                "{family:?}: {deliveries:?}"
            );
        }
        let told: Vec<_> = (0..2).map(|node| drops(&stage.tenancy.cluster, node)).collect();
        assert!(told.iter().flatten().any(|(reason, _)| *reason == DropReason::TunnelPort), "{told:?}");
    }
}

/// A flow that began in the pod's own name may come to go in the node's: when who it is to is a kernel's node now, or no
/// node at all. It is looked at again.
#[test]
fn a_flow_does_not_slip_into_a_nodes_name() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(2);
        let pod = cluster.pod(0);
        let to = node_address(1, family);
        let say = || packet(address(&pod, family), to, ServiceProtocol::Udp, (7000, VXLAN), 0);
        let there = cluster.send(&pod, &say());
        assert_eq!(
            read(&there[0].frame).source,
            address(&pod, family),
            "in its own name, which nobody believes"
        );
        let kernels = VirtualRouter {
            kind: RouterKind::Kernel,
            addresses: FAMILIES.map(|family| node_address(1, family)).to_vec(),
            ..VirtualRouter::new(router(1), "n2", vtep(1), node_mac(1))
        };
        publish(&mut cluster, 0, &[Object::VirtualRouter(kernels)]);
        remove(&mut cluster, 0, ObjectKey::Route(RouteKey { vrf: fabric(), prefix: to.into() }));
        for _ in 0..2 {
            let left = cluster.send(&pod, &say());
            assert!(left.iter().all(|delivery| !is_believed(delivery, family)), "{family:?}: {left:?}");
        }
    }
}

/// GRE, IP in IP, IPv6 in IPv4, ESP, L2TP, and Geneve and VXLAN to pods: they arrive as what they are, from who sent them,
/// and nothing is ever taken out of them.
#[test]
fn envelopes_are_never_opened() {
    for (mut stage, family) in stages_of_families() {
        let (attacker, far, home) = (stage.attacker(), stage.far(), stage.home);
        let own = address(&attacker, family);
        for (vni, inner) in inner_frames(&stage, family) {
            let to_far =
                PacketBuilder::new(own, address(&far, family)).macs(attacker.mac, MacAddress::GATEWAY);
            let gre = [&[0, 0, inner[12], inner[13]][..], &inner[14..]].concat();
            let transparent_gre = [&[0, 0, 0x65, 0x58][..], &inner].concat();
            let geneve = [&[0, 0, 0x65, 0x58][..], &(vni << 8).to_be_bytes(), &inner].concat();
            for envelope in [
                to_far.clone().protocol(47, &gre),
                to_far.clone().protocol(47, &transparent_gre),
                to_far.clone().protocol(4, &inner[14..]),
                to_far.clone().protocol(41, &inner[14..]),
                to_far.clone().protocol(50, &inner),
                to_far.clone().protocol(97, &inner),
                to_far.clone().protocol(115, &inner),
                to_far.clone().udp(7000, GENEVE).payload(&geneve),
                to_far.clone().udp(7000, VXLAN).payload(&vxlan(vni, &inner)),
            ] {
                let sent = envelope.build();
                stage.cluster().wire.clear();
                stage.assert_passes(&sent, &far, "an envelope");
                let crossed: Vec<_> =
                    stage.tenancy.cluster.wire.iter().map(|tunnelled| tunnelled.frame.len()).collect();
                assert_eq!(crossed, [sent.len()], "network {home}: it crosses once, as it is");
            }
        }
        stage.assert_all_is_well();
    }
}

/// To nodes as well, and beyond them: in whoever's name, only the sender's own node is where they come out.
#[test]
fn envelopes_to_nodes_come_out_at_their_stack_alone() {
    for (mut stage, family) in stages_of_families() {
        let (attacker, home) = (stage.attacker(), stage.home);
        let own = address(&attacker, family);
        for to in [node_address(0, family), node_address(1, family), outside(family)] {
            for (vni, inner) in inner_frames(&stage, family) {
                let envelope = PacketBuilder::new(own, to).macs(attacker.mac, MacAddress::GATEWAY);
                let geneve = [&[0, 0, 0x65, 0x58][..], &(vni << 8).to_be_bytes(), &inner].concat();
                for envelope in [
                    envelope.clone().protocol(4, &inner[14..]),
                    envelope.clone().protocol(41, &inner[14..]),
                    envelope.clone().protocol(47, &[&[0, 0, 0x65, 0x58][..], &inner].concat()),
                    envelope.clone().udp(7000, GENEVE).payload(&geneve),
                ] {
                    for delivery in stage.throw(&envelope.build()) {
                        assert!(delivery.port == HOST_PORT, "network {home} to {to}: {delivery:?}");
                    }
                }
            }
        }
        stage.assert_all_is_well();
    }
}
