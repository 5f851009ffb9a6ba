//! The node's own stack, as the agent sees to it.

use ipnet::IpNet;
use vrouter_objects::{
    ExternalAddress, ExternalKind, FloatingIp, FloatingIpId, Listener, ListenerId, NetworkKind, NextHop,
    Object, Port, Route, RouteKey, RoutingInstance, ServiceProtocol, Subnet, VmiId, VmiKind, Vni, VrfId,
};

use crate::host_path::HostPath;
use crate::testing::{TestNode, Told, anywhere, basics, ip, lease, request, vrf};

fn fabric() -> VrfId {
    VrfId::new(3).unwrap()
}

fn prefix(text: &str) -> IpNet {
    text.parse().unwrap()
}

/// The node, the pod network and the fabric with its routes.
fn objects() -> Vec<Object> {
    let leak =
        |prefix: IpNet, next_hop| Object::Route(Route { key: RouteKey { vrf: fabric(), prefix }, next_hop });
    let mut objects = basics();
    objects.extend([
        lease(1, "10.244.0.0/24"),
        Object::RoutingInstance(RoutingInstance {
            kind: NetworkKind::Fabric,
            ..RoutingInstance::new(fabric(), "default/ip-fabric", Vni::new(3).unwrap(), Vec::new())
        }),
        leak(prefix("10.244.0.0/16"), NextHop::VrfTranslate(vrf())),
        leak(prefix("fd00:10:244::/48"), NextHop::VrfTranslate(vrf())),
        leak(prefix("0.0.0.0/0"), NextHop::Receive),
    ]);
    objects
}

/// A service at node port 30080 and at these external addresses.
fn service(external: &[&str]) -> Object {
    let id = FloatingIpId::new(1).unwrap();
    let mut fip = FloatingIp::new(id, "default/web", vrf(), ip("10.96.0.1"), fabric());
    let kind = ExternalKind::LoadBalancer;
    fip.external = external.iter().map(|address| ExternalAddress { address: ip(address), kind }).collect();
    fip.listeners.push(Listener {
        id: ListenerId::new(1).unwrap(),
        name: String::new(),
        protocol: ServiceProtocol::Tcp,
        port: Port::new(80).unwrap(),
        node_port: Some(Port::new(30_080).unwrap()),
        members: Vec::new(),
    });
    Object::FloatingIp(fip)
}

fn set_addresses(node: &TestNode, addresses: &[&str]) {
    *node.plane.own_addresses.lock().unwrap() = addresses.iter().map(|address| ip(address)).collect();
}

fn path(node: &TestNode) -> Option<HostPath> {
    node.plane.host_path.lock().unwrap().clone()
}

fn node() -> TestNode {
    let node = TestNode::new();
    set_addresses(&node, &["10.9.9.9", "172.30.0.1"]);
    node.agent.tend();
    node.apply(1, &objects()).unwrap();
    node
}

#[test]
fn with_the_fabric_comes_vhost0_after_it_is_in_the_tables_in_force() {
    let node = node();
    let state = node.agent.state();
    let (vmi, port) = state.tables.interfaces().next().unwrap();
    assert_eq!((vmi.id, vmi.kind, vmi.vrf, vmi.mtu), (VmiId::HOST, VmiKind::Host, fabric(), 1500));
    assert_eq!(vmi.mac.to_string(), "02:48:00:00:00:01");
    let told: Vec<_> = node.plane.told.lock().unwrap().iter().copied().rev().take(4).collect();
    let tunnels = Told::SetTunnels(ip("172.30.0.1"));
    assert_eq!(told, [Told::SetHostPath, Told::OpenPort(port), tunnels, Told::Publish]);
    let host = state.tables.host().unwrap();
    assert_eq!(host.addresses, ["172.30.0.1", "10.9.9.9"].map(ip), "the tunnel end's comes first");
    let path = path(&node).unwrap();
    assert_eq!(path.routes, [(prefix("10.244.0.0/16"), ip("172.30.0.1"))].into(), "it has no IPv6 address");
    drop(state);

    let pod = node.attach(request("web", "c1"), &anywhere()).unwrap();
    assert!(node.agent.state().tables.interfaces().count() == 2 && node.open_ports() == 2, "{pod:?}");
}

#[test]
fn tpol_15_an_address_that_comes_is_in_tables_and_stack_at_once() {
    let node = node();
    set_addresses(&node, &["172.30.0.1", "fd00::1"]);
    node.agent.tend();
    let path = path(&node).unwrap();
    assert_eq!(path.routes[&prefix("fd00:10:244::/48")], ip("fd00::1"));
    assert!(path.steered.own.contains(&ip("fd00::1")) && !path.steered.own.contains(&ip("10.9.9.9")));
    let state = node.agent.state();
    assert_eq!(state.tables.host().unwrap().addresses, ["172.30.0.1", "fd00::1"].map(ip));
}

#[test]
fn pods_of_tenants_add_no_route_to_the_nodes_own() {
    let node = node();
    let before = path(&node).unwrap().routes;
    let mut with = objects();
    let network = |id: u32, prefix, gateway| {
        let subnet = Subnet { prefix: self::prefix(prefix), gateway: ip(gateway) };
        let vni = Vni::new(id).unwrap();
        Object::RoutingInstance(RoutingInstance::new(VrfId::new(id).unwrap(), "n/n", vni, vec![subnet]))
    };
    let route = |vrf: VrfId, prefix, to| {
        let next_hop = NextHop::VrfTranslate(VrfId::new(to).unwrap());
        Object::Route(Route { key: RouteKey { vrf, prefix: self::prefix(prefix) }, next_hop })
    };
    with.extend([
        // An isolated namespace, with pods here: the fabric finds each by a route of its own.
        network(7, "10.244.0.0/16", "10.244.0.1"),
        route(fabric(), "10.244.0.8/32", 7),
        route(fabric(), "10.244.0.9/32", 7),
        // A custom network.
        network(8, "10.0.0.0/24", "10.0.0.1"),
        route(VrfId::new(8).unwrap(), "0.0.0.0/0", 3),
    ]);
    node.plane.told.lock().unwrap().clear();
    node.apply(2, &with).unwrap();
    assert_eq!(path(&node).unwrap().routes, before);
    assert!(!node.plane.told.lock().unwrap().contains(&Told::SetHostPath));
}

#[test]
fn services_are_steered_as_they_come_and_go_and_nothing_else_disturbs_the_stack() {
    let node = node();
    let mut with = objects();
    with.push(service(&["203.0.113.7", "10.9.9.9"]));
    node.apply(2, &with).unwrap();
    let steered = path(&node).unwrap().steered;
    assert_eq!(steered.node_ports.len(), 1);
    assert_eq!(steered.external, [ip("203.0.113.7")].into());
    assert_eq!(steered.external_ports.len(), 1, "at the node's own address");
    node.plane.told.lock().unwrap().clear();
    with.push(lease(2, "10.244.7.0/24"));
    node.apply(3, &with).unwrap();
    assert!(!node.plane.told.lock().unwrap().contains(&Told::SetHostPath));
    node.apply(4, &objects()).unwrap();
    assert!(path(&node).unwrap().steered.node_ports.is_empty());
}

#[test]
fn what_fails_is_told_and_tried_again() {
    let node = node();
    *node.plane.host_path_problem.lock().unwrap() = Some("no such luck".to_owned());
    node.agent.tend();
    assert_eq!(node.agent.state().problems(), ["the host path: no such luck"]);
    *node.plane.host_path_problem.lock().unwrap() = None;
    node.agent.tend();
    assert!(node.agent.state().problems().is_empty());
}

#[test]
fn a_device_that_vanished_is_made_anew() {
    let node = node();
    let port = node.agent.state().tables.interfaces().next().unwrap().1;
    node.plane.ports.lock().unwrap().clear();
    node.plane.unplugged.lock().unwrap().push(port);
    node.agent.tend();
    assert_eq!(node.open_ports(), 1);
}

#[test]
fn without_the_fabric_nothing_is_left() {
    let node = node();
    node.apply(2, &basics()).unwrap();
    assert_eq!((node.open_ports(), path(&node)), (0, None));
    assert_eq!(node.agent.state().tables.interfaces().count(), 0);
}

#[test]
fn a_device_that_could_not_be_closed_is_closed_later() {
    let node = node();
    let port = node.agent.state().tables.interfaces().next().unwrap().1;
    *node.plane.refuses_to_close.lock().unwrap() = Some(port);
    node.apply(2, &basics()).unwrap();
    assert_eq!(node.agent.state().problems(), ["the host path: it is in use"]);
    *node.plane.refuses_to_close.lock().unwrap() = None;
    node.agent.tend();
    assert_eq!((node.open_ports(), node.agent.state().problems()), (0, vec![]));
}

#[test]
fn what_a_killed_node_left_stays_until_the_controller_has_said_that_it_is_to_go() {
    let again = TestNode::new();
    let left = path(&node());
    again.plane.host_path.lock().unwrap().clone_from(&left);
    again.agent.tend();
    assert_eq!(path(&again), left);
    *again.plane.refuses_underlay.lock().unwrap() = Some("no such address".to_owned());
    again.apply(1, &objects()).unwrap();
    assert_eq!(path(&again), left, "it is to stay as soon as it can");
    again.apply(2, &basics()).unwrap();
    assert_eq!(path(&again), None);
}

#[test]
fn while_the_kernel_does_not_say_this_nodes_addresses_they_are_as_they_were() {
    let node = node();
    let before = path(&node);
    *node.plane.refuses_addresses.lock().unwrap() = Some("no netlink".to_owned());
    for _ in 0..2 {
        node.agent.tend();
        assert_eq!(node.agent.state().problems(), ["this node's addresses: no netlink"]);
    }
    assert_eq!(path(&node), before);
}

#[test]
fn a_killed_node_goes_on_with_vhost0_as_it_was() {
    let node = node();
    node.agent.store_tables().unwrap();
    let again = node.restarted();
    assert_eq!(again.open_ports(), 1);
    let vmi = |node: &TestNode| node.agent.state().tables.interfaces().next().unwrap().0.clone();
    assert_eq!(vmi(&again), vmi(&node));
}
