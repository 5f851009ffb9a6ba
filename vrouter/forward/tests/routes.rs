//! Every kind of next hop, and what a packet meets whose route leads nowhere.

mod support;

use std::collections::BTreeMap;
use std::net::IpAddr;

use support::{ACK, FAMILIES, RST, SYN, address, drops, gateway, only};
use vrouter_forward::Family;
use vrouter_forward::parse::IcmpTypes;
use vrouter_forward::sim::{Cluster, PacketBuilder, PodHandle};
use vrouter_objects::{
    DropReason, NextHop, Object, Route, RouteKey, RouterId, RoutingInstance, VmiId, VrfId,
};

/// Where no other route leads.
fn elsewhere(family: Family) -> IpAddr {
    let text = if family == Family::V4 { "192.0.2.7" } else { "2001:db8::7" };
    text.parse().unwrap()
}

fn route(vrf: u32, family: Family, next_hop: NextHop) -> Object {
    let prefix = if family == Family::V4 { "192.0.2.0/24" } else { "2001:db8::/64" };
    let key = RouteKey { vrf: VrfId::new(vrf).unwrap(), prefix: prefix.parse().unwrap() };
    Object::Route(Route { key, next_hop })
}

fn tunnel(router: u32) -> NextHop {
    NextHop::Tunnel(RouterId::new(router).unwrap())
}

fn syn(from: &PodHandle, family: Family, port: u16) -> Vec<u8> {
    PacketBuilder::new(address(from, family), elsewhere(family)).tcp(port, 80, SYN).build()
}

#[test]
fn a_route_to_nowhere_has_its_reason() {
    let translate = |vrf| NextHop::VrfTranslate(VrfId::new(vrf).unwrap());
    let table = [
        ("discard", NextHop::Discard, DropReason::DiscardRoute),
        ("a node nobody knows", tunnel(99), DropReason::InvalidNextHop),
        ("this node itself", tunnel(1), DropReason::RouteLoop),
        ("a network nobody knows", translate(99), DropReason::InvalidNextHop),
        ("the network it is in", translate(1), DropReason::RouteLoop),
        (
            "an interface that is not there",
            NextHop::Interface(VmiId::new(999).unwrap()),
            DropReason::InterfaceDown,
        ),
        ("the host, without vhost0", NextHop::Receive, DropReason::InterfaceDown),
    ];
    for family in FAMILIES {
        for (name, next_hop, reason) in &table {
            let mut cluster = Cluster::new(2);
            let pod = cluster.pod(0);
            cluster.nodes[0].tables.detach(VmiId::HOST);
            cluster.put(&[route(1, family, next_hop.clone())]);
            assert_eq!(cluster.send(&pod, &syn(&pod, family, 4000)), [], "{family:?} {name}");
            assert_eq!(drops(&cluster, 0), [(*reason, 1)], "{family:?} {name}");
        }
    }
}

#[test]
fn networks_that_hand_a_packet_to_each_other_drop_it() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(1);
        let pod = cluster.pod(0);
        let to = |vrf| NextHop::VrfTranslate(VrfId::new(vrf).unwrap());
        cluster.put(&[route(1, family, to(2)), route(2, family, to(1))]);
        assert_eq!(cluster.send(&pod, &syn(&pod, family, 4000)), []);
        assert_eq!(drops(&cluster, 0), [(DropReason::RouteLoop, 1)], "{family:?}");
        assert_eq!(cluster.nodes[0].flows(cluster.now), []);
    }
}

#[test]
fn a_leak_from_network_to_network_leads_on() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(1);
        let (pod, target) = (cluster.pod(0), cluster.pod(0));
        let networks = cluster.nodes[0].tables.routing_instances();
        let pods = networks.into_iter().find(|network| network.id.get() == 1).cloned().unwrap();
        cluster.put(&[
            Object::RoutingInstance(RoutingInstance { known_in: vec![VrfId::new(2).unwrap()], ..pods }),
            route(1, family, NextHop::VrfTranslate(VrfId::new(2).unwrap())),
            route(2, family, NextHop::Interface(target.vmi)),
        ]);
        let delivered = cluster.send(&pod, &syn(&pod, family, 4000));
        assert_eq!((only(&delivered).destination, delivered[0].port), (elsewhere(family), target.port));
    }
}

#[test]
fn a_rejecting_route_tells_the_sender() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(1);
        let pod = cluster.pod(0);
        cluster.put(&[route(1, family, NextHop::Reject)]);
        let reset = only(&cluster.send(&pod, &syn(&pod, family, 4000)));
        assert_eq!((reset.source, reset.tcp_flags), (elsewhere(family), RST | ACK));
        let datagram = PacketBuilder::new(address(&pod, family), elsewhere(family)).udp(1, 2).build();
        let told = only(&cluster.send(&pod, &datagram));
        let (kind, code) = IcmpTypes::of(family).port_unreachable;
        assert_eq!((told.source, &told.payload[..2]), (elsewhere(family), &[kind, code][..]));
    }
}

#[test]
fn no_route_is_told_by_the_gateway() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(1);
        let pod = cluster.pod(0);
        support::remove_default_routes(&mut cluster);
        let told = only(&cluster.send(&pod, &syn(&pod, family, 4000)));
        let (kind, code) = IcmpTypes::of(family).no_route;
        assert_eq!((told.source, &told.payload[..2]), (gateway(family), &[kind, code][..]), "{family:?}");
        assert_eq!(drops(&cluster, 0), [(DropReason::NoRoute, 1)]);
    }
}

/// Where each of these connections goes: the node and port it reaches.
fn reached(cluster: &mut Cluster, pod: &PodHandle, family: Family, flags: u8) -> BTreeMap<u16, (usize, u16)> {
    let mut reached = BTreeMap::new();
    for port in 10_000..10_400 {
        let packet = PacketBuilder::new(address(pod, family), elsewhere(family)).tcp(port, 80, flags);
        let delivered = cluster.send(pod, &packet.build());
        assert_eq!(delivered.len(), 1, "{family:?} port {port}: {:?}", drops(cluster, 0));
        reached.insert(port, (delivered[0].node, delivered[0].port.0));
    }
    reached
}

#[test]
fn ecmp_spreads_connections_and_keeps_each() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(3);
        let (pod, near) = (cluster.pod(0), cluster.pod(0));
        let others = [cluster.pod(1), cluster.pod(2)];
        for other in &others {
            let local = route(1, family, NextHop::Interface(other.vmi));
            support::publish(&mut cluster, other.node, &[local]);
        }
        let over = |parts: &[NextHop]| route(1, family, NextHop::Composite(parts.to_vec()));
        let parts = [NextHop::Interface(near.vmi), tunnel(2), tunnel(3)];
        let set = |cluster: &mut Cluster, parts: &[NextHop]| support::publish(cluster, 0, &[over(parts)]);

        set(&mut cluster, &parts[..2]);
        let first = reached(&mut cluster, &pod, family, SYN);
        for node in [0, 1] {
            let share = first.values().filter(|(to, _)| *to == node).count();
            assert!((150..=250).contains(&share), "{family:?}: {share} of 400 to node {node}");
        }
        set(&mut cluster, &parts);
        assert_eq!(reached(&mut cluster, &pod, family, ACK), first, "{family:?}: another part moves nobody");
        set(&mut cluster, &parts[1..]);
        for (port, (node, _)) in reached(&mut cluster, &pod, family, ACK) {
            assert_ne!(node, 0, "{family:?}: the part is gone");
            if first[&port].0 != 0 {
                assert_eq!(node, first[&port].0, "{family:?}: only the gone part's connections move");
            }
        }
    }
}

#[test]
fn ecmp_over_nothing_or_over_ecmp_is_refused() {
    let mut cluster = Cluster::new(1);
    let pod = cluster.pod(0);
    let nested = NextHop::Composite(vec![NextHop::Interface(pod.vmi)]);
    for parts in [vec![], vec![nested], vec![NextHop::Discard], vec![tunnel(1), NextHop::Reject]] {
        let refusals = cluster.nodes[0].put([route(1, Family::V4, NextHop::Composite(parts.clone()))]);
        assert_eq!(refusals.len(), 1, "{parts:?}");
    }
}
