//! The tables follow from what there is, and not from what came first.
#![allow(missing_docs)]

mod common;

use std::collections::BTreeMap;

use common::{Cluster, config_with_pool, endpoints, made, node, service, slice};
use proptest::prelude::*;
use serde_json::{Value, json};
use vrouter_control_model::Kind;
use vrouter_objects::{FloatingIp, Object};

/// What a service looks like from outside, without the ids, which tell who came first.
fn shown(floating_ip: &FloatingIp) -> String {
    let FloatingIp { address, external, internal_policy, external_policy, affinity, .. } = floating_ip;
    let FloatingIp { source_ranges, health_check_port, listeners, .. } = floating_ip;
    let mut listeners: Vec<_> = listeners
        .iter()
        .map(|listener| {
            let members = listener.members.iter();
            let mut members: Vec<_> = members
                .map(|member| format!("{}:{} {:?}", member.address, member.port, member.state))
                .collect();
            members.sort();
            let at = format!("{} {} {}", listener.name, listener.protocol, listener.port);
            format!("{at} {:?} {members:?}", listener.node_port)
        })
        .collect();
    listeners.sort();
    format!(
        "{address} {external:?} {internal_policy:?} {external_policy:?} {affinity:?} {source_ranges:?} \
         {health_check_port:?} {listeners:?}"
    )
}

fn all_shown(cluster: &Cluster) -> BTreeMap<(String, bool), String> {
    let floating_ips = cluster.tables.values().filter_map(|object| match &**object {
        Object::FloatingIp(floating_ip) => Some(floating_ip),
        _ => None,
    });
    floating_ips.map(|one| ((one.name.clone(), one.address.is_ipv4()), shown(one))).collect()
}

/// One state of one of a few services that get in each other's way: everything is named, and nothing picked.
fn a_service(name: u8) -> impl Strategy<Value = Value> {
    let node_port = prop_oneof![Just(0_u16), 30_001..30_004_u16];
    let kind = prop_oneof![Just("ClusterIP"), Just("NodePort"), Just("LoadBalancer"), Just("ExternalName")];
    (
        kind,
        prop::collection::btree_map(80..83_u16, (node_port, any::<bool>()), 1..3),
        prop::collection::vec(1..3_u8, 0..2),
        prop::collection::vec(3..5_u8, 0..2),
        (2020..2023_u32, any::<bool>(), any::<bool>(), 30_001..30_004_u16),
    )
        .prop_map(move |(kind, ports, ips, ingress, (year, is_dual, is_local, health_check))| {
            let has_node_ports = matches!(kind, "NodePort" | "LoadBalancer");
            let ports: Value = ports
                .into_iter()
                .map(|(port, (node_port, is_udp))| {
                    let protocol = if is_udp { "UDP" } else { "TCP" };
                    // None is to be picked.
                    let node_port = if has_node_ports { node_port.max(30_001) } else { 0 };
                    json!({ "name": format!("p{port}"), "port": port, "protocol": protocol, "nodePort": node_port })
                })
                .collect();
            let addresses = |hosts: Vec<u8>| hosts.into_iter().map(|host| format!("198.51.100.{host}"));
            let mut spec = json!({
                "type": kind, "ports": ports, "externalName": "example.com", "clusterIP": format!("10.96.0.{name}"),
                "externalIPs": addresses(ips).collect::<Vec<_>>(),
            });
            if is_dual {
                spec["clusterIPs"] = json!([format!("10.96.0.{name}"), format!("fd00:10:96::{name}")]);
            }
            if is_local && has_node_ports {
                spec["externalTrafficPolicy"] = "Local".into();
                spec["healthCheckNodePort"] = if kind == "LoadBalancer" { health_check } else { 0 }.into();
            }
            let mut service = made(year, service(&format!("s{name}"), spec));
            let ingress: Value = addresses(ingress).map(|address| json!({ "ip": address })).collect();
            service["status"] = json!({ "loadBalancer": { "ingress": ingress } });
            // So that nothing is picked out of the pool.
            service["spec"]["loadBalancerClass"] = "elsewhere".into();
            service
        })
}

/// Some earlier states of services, then the last one of each; which one of those are deleted; and an order.
fn a_history() -> impl Strategy<Value = (Vec<Value>, Vec<Option<Value>>)> {
    let earlier = prop::collection::vec((1..6_u8).prop_flat_map(a_service), 0..12);
    let last: Vec<_> = (1..6_u8).map(|name| prop::option::weighted(0.8, a_service(name))).collect();
    (earlier, last)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_order_of_events_gives_the_same_tables(
        (earlier, last) in a_history(),
        order in Just((1..6_u8).collect::<Vec<_>>()).prop_shuffle(),
        settles in any::<u32>(),
    ) {
        let mut wandered = Cluster::new();
        for (i, service) in earlier.into_iter().enumerate() {
            wandered.record(service);
            if settles >> (i % 32) & 1 == 1 {
                wandered.settle();
            }
        }
        for name in order {
            match &last[usize::from(name) - 1] {
                Some(service) => { wandered.apply(service.clone()); }
                None => { wandered.delete(Kind::Service, &format!("default/s{name}")); }
            }
        }
        let mut direct = Cluster::new();
        last.into_iter().flatten().for_each(|service| direct.record(service));
        direct.settle();
        prop_assert_eq!(all_shown(&wandered), all_shown(&direct));
        prop_assert_eq!(wandered.problems(), direct.problems());
    }
}

/// What a service should look like, told by the simplest means.
#[derive(Clone, PartialEq, Debug)]
struct Wish {
    kind: &'static str,
    name: &'static str,
    port: u16,
    address: String,
}

#[test]
fn svc_19_random_churn_of_all_types_ends_in_what_is_wanted() {
    let mut cluster =
        Cluster::with_config(config_with_pool().with_node_ports("30000-32767".parse().unwrap()));
    cluster.apply(node("n1", "172.30.0.1"));
    let mut wanted: BTreeMap<String, Wish> = BTreeMap::new();
    let mut seed = 2026_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    for round in 0..3000_u64 {
        let name = format!("s{}", random(200));
        if random(3) == 0 {
            cluster.model.delete(&common::reference(Kind::Service, &format!("default/{name}")));
            cluster.model.delete(&common::reference(Kind::EndpointSlice, &format!("default/{name}")));
            wanted.remove(&name);
        } else {
            // Added, or changed in type, port, or the port's name.
            let wish = Wish {
                kind: ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"][random(4) as usize],
                name: ["a", "b"][random(2) as usize],
                port: [80, 81][random(2) as usize],
                address: format!("10.244.{}.{}", round / 250, round % 250 + 1),
            };
            let ports = json!([{ "name": wish.name, "port": wish.port }]);
            let spec = json!({ "type": wish.kind, "externalName": "example.com", "ports": ports.clone() });
            cluster.record(service(&name, spec));
            cluster.record(slice(&name, &name, ports, endpoints(&[&wish.address])));
            wanted.insert(name, wish);
        }
        if round % 11 == 0 {
            cluster.settle();
        }
    }
    cluster.settle();
    let mut node_ports = std::collections::BTreeSet::new();
    for i in 0..200 {
        let name = format!("s{i}");
        let full = format!("default/{name}");
        let Some(wish) = wanted.get(&name).filter(|wish| wish.kind != "ExternalName") else {
            assert!(cluster.floating_ips(&full).is_empty(), "{name}");
            continue;
        };
        let floating_ip = cluster.floating_ip(&full, true);
        assert_eq!(floating_ip.listeners.len(), 1, "{name}");
        let listener = &floating_ip.listeners[0];
        assert_eq!((listener.name.as_str(), listener.port.get()), (wish.name, wish.port));
        assert_eq!(listener.node_port.is_some(), wish.kind != "ClusterIP", "{name}: {wish:?}");
        if let Some(port) = listener.node_port {
            assert!(node_ports.insert(port), "{port} was given twice");
        }
        let members: Vec<_> = listener.members.iter().map(|member| member.address.to_string()).collect();
        assert_eq!(members, std::slice::from_ref(&wish.address));
    }
    let kind = |kind: &str| wanted.values().filter(|wish| wish.kind == kind).count();
    let external: usize = (0..200).map(|i| cluster.external(&format!("default/s{i}")).len()).sum();
    assert_eq!(external, kind("LoadBalancer").min(6), "as many as the pool has");
    assert_eq!(node_ports.len(), kind("LoadBalancer") + kind("NodePort"));
}
