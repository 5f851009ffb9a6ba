//! What flows depend on changes in the tables as soon as it changes, and for all frontends at once.
#![allow(missing_docs)]

mod common;

use std::sync::Arc;

use common::{Cluster, config_with_pool, endpoints, object, reference, service, slice};
use serde_json::{Value, json};
use vrouter_control_model::{Change, Kind};
use vrouter_objects::{FloatingIp, Object};

/// A service with every kind of frontend, at one port of each protocol.
fn everywhere() -> Value {
    let ports = json!([
        { "name": "t", "port": 80 }, { "name": "u", "port": 80, "protocol": "UDP" },
        { "name": "s", "port": 80, "protocol": "SCTP" },
    ]);
    service("web", json!({ "type": "LoadBalancer", "externalIPs": ["198.51.100.1"], "ports": ports }))
}

fn answered_by(addresses: &[&str]) -> Value {
    let ports = json!([
        { "name": "t", "port": 8080 }, { "name": "u", "port": 8081, "protocol": "UDP" },
        { "name": "s", "port": 8082, "protocol": "SCTP" },
    ]);
    slice("web", "web", ports, endpoints(addresses))
}

fn cluster() -> Cluster {
    let mut cluster = Cluster::with_config(config_with_pool());
    cluster.apply(everywhere());
    cluster
}

/// The floating IPs that one event changes.
fn changed(cluster: &mut Cluster, event: Value) -> Vec<FloatingIp> {
    cluster.model.apply(&object(event), "event.yaml".into());
    let changes = cluster.model.settle().changes;
    let floating_ip = |change: Change| match change.object.as_ref().map(Arc::as_ref) {
        Some(Object::FloatingIp(floating_ip)) => Some(floating_ip.clone()),
        _ => None,
    };
    changes.into_iter().filter_map(floating_ip).collect()
}

fn members(floating_ip: &FloatingIp) -> Vec<Vec<String>> {
    let members = |listener: &vrouter_objects::Listener| {
        listener.members.iter().map(|member| format!("{}:{}", member.address, member.port)).collect()
    };
    floating_ip.listeners.iter().map(members).collect()
}

#[test]
fn stale_2_the_first_member_is_there_with_the_next_tables() {
    let mut cluster = cluster();
    cluster.apply(answered_by(&[]));
    let after = changed(&mut cluster, answered_by(&["10.244.1.1"]));
    assert_eq!(members(&after[0]), [["10.244.1.1:8080"], ["10.244.1.1:8081"], ["10.244.1.1:8082"]]);
}

#[test]
fn stale_3_a_service_that_is_deleted_leaves_nothing() {
    let mut cluster = cluster();
    cluster.apply(answered_by(&["10.244.1.1"]));
    cluster.model.delete(&reference(Kind::Service, "default/web"));
    let changes = cluster.model.settle().changes;
    assert_eq!(changes.len(), 1);
    assert!(changes[0].object.is_none());
}

#[test]
fn stale_6_all_frontends_lose_a_member_at_once() {
    let mut cluster = cluster();
    cluster.apply(answered_by(&["10.244.1.1", "10.244.1.2"]));
    let after = changed(&mut cluster, answered_by(&["10.244.1.2"]));
    assert_eq!(after.len(), 1, "one object has them all");
    assert_eq!(members(&after[0]), [["10.244.1.2:8080"], ["10.244.1.2:8081"], ["10.244.1.2:8082"]]);
    assert_eq!(after[0].external.len(), 2);
    assert!(after[0].listeners.iter().all(|listener| listener.node_port.is_some()));
}

#[test]
fn stale_7_a_member_comes_with_its_place() {
    let mut cluster = cluster();
    cluster.apply(common::node("n1", "172.30.0.1"));
    let mut list = answered_by(&["10.244.1.1"]);
    list["endpoints"][0]["nodeName"] = "n1".into();
    let after = changed(&mut cluster, list);
    let routers =
        after[0].listeners.iter().flat_map(|listener| &listener.members).map(|member| member.router);
    assert!(routers.eq([cluster.router("n1").map(|router| router.id); 3]));
}

#[test]
fn stale_10_who_comes_next_at_an_address_is_another_member() {
    let mut cluster = cluster();
    cluster.apply(answered_by(&["10.244.1.1"]));
    let ids = |floating_ip: &FloatingIp| -> Vec<_> {
        floating_ip.listeners.iter().flat_map(|listener| &listener.members).map(|member| member.id).collect()
    };
    let before = ids(&cluster.floating_ip("default/web", true));
    cluster.apply(answered_by(&[]));
    cluster.apply(answered_by(&["10.244.1.1"]));
    let after = ids(&cluster.floating_ip("default/web", true));
    assert!(after.iter().all(|id| !before.contains(id)), "{before:?} {after:?}");
}

#[test]
fn stale_12_a_node_port_is_the_frontends_and_a_target_port_the_members() {
    let mut cluster = cluster();
    let node_ports = cluster.node_ports("default/web");
    cluster.apply(answered_by(&["10.244.1.1"]));
    for address in ["10.244.1.2", "10.244.1.3"] {
        cluster.apply(answered_by(&[address]));
        assert_eq!(cluster.node_ports("default/web"), node_ports);
        assert_eq!(cluster.active("default/web", "TCP/80"), [format!("{address}:8080")]);
    }
}

#[test]
fn tpol_4_every_frontend_is_there_without_members() {
    let cluster = cluster();
    let floating_ip = cluster.floating_ip("default/web", true);
    assert_eq!((floating_ip.external.len(), floating_ip.listeners.len()), (2, 3));
    assert!(floating_ip.listeners.iter().all(|listener| listener.node_port.is_some()));
    assert!(floating_ip.listeners.iter().all(|listener| listener.members.is_empty()));
}
