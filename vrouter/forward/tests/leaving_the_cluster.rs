//! What leaves the cluster in the node's name, or to a node, while it changes who the nodes are and what is a service's.

mod support;

use std::net::IpAddr;

use support::{
    ACK, ALL_PROTOCOLS, CLIENT_PORT, FAMILIES, SYN, address, answer, by_all_frontends, drops, external_ip,
    is_refusal, node_address, node_mac, only, outside, packet, publish, remove, vip, vtep,
};
use vrouter_forward::Family;
use vrouter_forward::sim::{Cluster, Delivery, HOST_PORT, PacketBuilder, ServiceSpec};
use vrouter_forward::tables::HostNetwork;
use vrouter_objects::{
    DropReason, Object, ObjectKey, RouteKey, RouterId, RouterKind, ServiceProtocol, VirtualRouter, VrfId,
};

const SOURCE_PORTS: std::ops::RangeInclusive<u16> = 61_000..=u16::MAX;

/// Of both families, addresses that no node has at first.
const NEW_ADDRESSES: [&str; 2] = ["192.0.2.201", "2001:db8:2::201"];

fn cases() -> impl Iterator<Item = (Family, ServiceProtocol)> {
    FAMILIES.into_iter().flat_map(|family| ALL_PROTOCOLS.map(|protocol| (family, protocol)))
}

fn of(family: Family, [v4, v6]: [&str; 2]) -> IpAddr {
    if family == Family::V4 { v4 } else { v6 }.parse().expect("a literal address")
}

fn fabric() -> VrfId {
    VrfId::new(3).expect("not 0")
}

/// Gives the first node these addresses and no others.
fn set_addresses(cluster: &mut Cluster, addresses: Vec<IpAddr>) {
    let id = RouterId::new(1).expect("not 0");
    let router = VirtualRouter::new(id, "n1", vtep(0), node_mac(0));
    let router = VirtualRouter { addresses: addresses.clone(), ..router };
    cluster.nodes[0].tables.set_host(HostNetwork {
        vrf: fabric(),
        addresses,
        node_port_addresses: Vec::new(),
        source_ports: SOURCE_PORTS,
    });
    publish(cluster, 0, &[Object::VirtualRouter(router)]);
    remove_routes(cluster, 0);
}

/// Takes a node, and the routes to it, off the first one.
fn remove_node(cluster: &mut Cluster, node: usize) {
    let id = RouterId::new(node as u32 + 1).expect("not 0");
    remove(cluster, 0, ObjectKey::VirtualRouter(id));
    remove_routes(cluster, node);
}

/// Takes what leads to a node's first addresses off the first node. Those of its own it does not need.
fn remove_routes(cluster: &mut Cluster, node: usize) {
    for family in FAMILIES {
        let key = RouteKey { vrf: fabric(), prefix: node_address(node, family).into() };
        remove(cluster, 0, ObjectKey::Route(key));
    }
}

/// Expects that a frame left the first node in this name, by a port of the router's.
fn assert_left_as(left: &[Delivery], name: IpAddr, label: &str) {
    let got = only(left);
    assert_eq!((left[0].node, left[0].port), (0, HOST_PORT), "{label}");
    assert_eq!(got.source, name, "{label}");
    assert!(SOURCE_PORTS.contains(&got.ports.0), "{label}: {got:?}");
}

/// Or who keeps one socket would go on with an address that no answer finds.
#[test]
fn what_left_in_the_name_of_an_address_that_is_gone_goes_on_in_another() {
    for (family, protocol) in cases() {
        let mut cluster = Cluster::new(1);
        let pod = cluster.pod(0);
        let say = |flags| packet(address(&pod, family), outside(family), protocol, (CLIENT_PORT, 53), flags);
        let label = format!("{family:?} {protocol}");
        let left = cluster.send(&pod, &say(SYN));
        assert_left_as(&left, node_address(0, family), &label);
        answer(&mut cluster, &left[0], protocol, SYN | ACK);

        // Another one besides changes nothing.
        let (old, new) = (FAMILIES.map(|family| node_address(0, family)), NEW_ADDRESSES);
        let new = new.map(|text| text.parse::<IpAddr>().expect("a literal address"));
        set_addresses(&mut cluster, [old, new].concat());
        let again = cluster.send(&pod, &say(ACK));
        assert_eq!(only(&again).ports, only(&left).ports, "{label}");
        assert_left_as(&again, node_address(0, family), &label);

        set_addresses(&mut cluster, new.to_vec());
        let left = cluster.send(&pod, &say(ACK));
        assert_left_as(&left, of(family, NEW_ADDRESSES), &label);
        let back = answer(&mut cluster, &left[0], protocol, ACK);
        assert_eq!((back[0].node, back[0].port), (0, pod.port), "{label}");
        assert_eq!(only(&back).ports, (53, CLIENT_PORT), "{label}");
        assert_eq!(cluster.nodes[0].flows(cluster.now).len(), 2, "{label}: the old one is forgotten");
    }
}

/// Nodes know pods, and nobody else does.
#[test]
fn a_pods_address_does_not_leave_for_who_is_a_node_no_more() {
    for (family, protocol) in cases() {
        for node in 0..2 {
            let mut cluster = Cluster::new(2);
            let pod = cluster.pod(0);
            let (from, to) = (address(&pod, family), node_address(node, family));
            let label = format!("{family:?} {protocol} to node {node}");
            let there = cluster.send(&pod, &packet(from, to, protocol, (CLIENT_PORT, 22), SYN));
            assert_eq!((there[0].node, only(&there).source), (node, from), "{label}");
            answer(&mut cluster, &there[0], protocol, SYN | ACK);
            let name = match node {
                0 => {
                    let new = NEW_ADDRESSES.map(|text| text.parse().expect("a literal address"));
                    set_addresses(&mut cluster, new.to_vec());
                    of(family, NEW_ADDRESSES)
                }
                other => {
                    remove_node(&mut cluster, other);
                    node_address(0, family)
                }
            };
            let left = cluster.send(&pod, &packet(from, to, protocol, (CLIENT_PORT, 22), ACK));
            assert_left_as(&left, name, &label);
        }
    }
}

/// It would answer a pod by its tunnel, where nobody asked it anything.
#[test]
fn a_kernels_node_is_spoken_to_in_the_nodes_name() {
    for (family, protocol) in cases() {
        let mut cluster = Cluster::new(2);
        let pod = cluster.pod(0);
        let (to, label) = (node_address(1, family), format!("{family:?} {protocol}"));
        let say = |flags| packet(address(&pod, family), to, protocol, (CLIENT_PORT, 6443), flags);
        // While it is a vRouter's, pods speak to it in their own.
        assert_eq!(only(&cluster.send(&pod, &say(SYN))).source, address(&pod, family), "{label}");
        let id = RouterId::new(2).expect("not 0");
        let router = VirtualRouter::new(id, "n2", vtep(1), node_mac(1));
        let addresses = FAMILIES.map(|family| node_address(1, family)).to_vec();
        let router = VirtualRouter { kind: RouterKind::Kernel, addresses, ..router };
        publish(&mut cluster, 0, &[Object::VirtualRouter(router)]);
        remove_routes(&mut cluster, 1);
        for flags in [SYN, ACK] {
            let left = cluster.send(&pod, &say(flags));
            assert_left_as(&left, node_address(0, family), &label);
            let back = answer(&mut cluster, &left[0], protocol, SYN | ACK);
            assert_eq!((back[0].node, back[0].port), (0, pod.port), "{label}");
            assert_eq!((only(&back).source, only(&back).ports), (to, (6443, CLIENT_PORT)), "{label}");
        }
    }
}

/// Also where the service has nothing at the port: it is a service's address from now on, and leads nowhere else.
#[test]
fn an_address_that_becomes_a_services_is_no_way_out_any_more() {
    for (family, protocol) in cases() {
        let mut cluster = Cluster::new(1);
        let (pod, server) = (cluster.pod(0), cluster.pod(0));
        let to = external_ip(family);
        let say = |flags| packet(address(&pod, family), to, protocol, (CLIENT_PORT, 443), flags);
        let label = format!("{family:?} {protocol}");
        let left = cluster.send(&pod, &say(SYN));
        assert_left_as(&left, node_address(0, family), &label);
        answer(&mut cluster, &left[0], protocol, SYN | ACK);
        assert_left_as(&cluster.send(&pod, &say(ACK)), node_address(0, family), &label);

        let members = [(address(&server, family), 8080)];
        let service = ServiceSpec::new(1, vip(family), protocol, 80, &members).floating_ip();
        cluster.put(&[Object::FloatingIp(by_all_frontends(service, 30_080))]);
        let told = cluster.send(&pod, &say(ACK));
        assert_eq!((told.len(), told[0].port), (1, pod.port), "{label}");
        assert!(is_refusal(&only(&told), protocol, family), "{label}: {told:?}");
        assert_eq!(drops(&cluster, 0), [(DropReason::NoService, 1)], "{label}");
        assert_eq!(cluster.nodes[0].flows(cluster.now), [], "{label}");
    }
}

/// It would mean somebody else on the next link. A cloud tells its machines about themselves at one of IPv4's.
#[test]
fn a_link_local_address_is_nobody_beyond_the_link() {
    let mut cluster = Cluster::new(1);
    let pod = cluster.pod(0);
    let [on_v4, on_v6] = ["169.254.169.254", "fe80::1"].map(|text| text.parse::<IpAddr>().unwrap());
    let told = cluster.send(&pod, &PacketBuilder::new(pod.v6, on_v6).udp(1, 2).build());
    assert!(told.iter().all(|told| told.port == pod.port), "{told:?}");
    assert_eq!(drops(&cluster, 0), [(DropReason::NoRoute, 1)]);
    let asking = PacketBuilder::new(pod.v4, on_v4).tcp(CLIENT_PORT, 80, SYN).build();
    assert_left_as(&cluster.send(&pod, &asking), vtep(0), "who tells about the machine");
}
