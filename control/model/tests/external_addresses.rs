//! Load balancers' addresses and external IPs, and which type of service has which frontends.
#![allow(missing_docs)]

mod common;

use common::{Cluster, config_with_pool, endpoints, made, service, slice};
use serde_json::{Value, json};
use vrouter_control_model::Kind;

fn spec(kind: &str, more: Value) -> Value {
    let mut spec = json!({ "type": kind, "ports": [{ "port": 80 }] });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

fn external(name: &str, address: &str, ports: &[u16]) -> Value {
    let ports: Value = ports.iter().map(|port| json!({ "name": format!("p{port}"), "port": port })).collect();
    service(name, json!({ "externalIPs": [address], "ports": ports }))
}

fn with_pool() -> Cluster {
    Cluster::with_config(config_with_pool())
}

fn balanced(name: &str, more: Value, ingress: Value) -> Value {
    let mut service = service(name, spec("LoadBalancer", more));
    service["status"] = json!({ "loadBalancer": { "ingress": ingress } });
    service
}

#[test]
fn each_type_has_its_frontends() {
    for (kind, more, node_ports, external) in [
        ("ClusterIP", json!({}), 0, &[][..]),
        ("ClusterIP", json!({ "externalIPs": ["198.51.100.1"] }), 0, &["ip 198.51.100.1"]),
        ("NodePort", json!({}), 1, &[]),
        ("NodePort", json!({ "externalIPs": ["198.51.100.1"] }), 1, &["ip 198.51.100.1"]),
        ("LoadBalancer", json!({}), 1, &["lb 192.0.2.9"]),
        ("LoadBalancer", json!({ "allocateLoadBalancerNodePorts": false }), 0, &["lb 192.0.2.9"]),
        ("LoadBalancer", json!({ "loadBalancerClass": "x/y" }), 1, &[]),
        ("LoadBalancer", json!({ "loadBalancerIP": "192.0.2.12" }), 1, &["lb 192.0.2.12"]),
        ("LoadBalancer", json!({ "externalIPs": ["198.51.100.1"] }), 1, &["lb 192.0.2.9", "ip 198.51.100.1"]),
        (
            "LoadBalancer",
            json!({ "ipFamilyPolicy": "PreferDualStack" }),
            1,
            &["lb 192.0.2.9", "lb 2001:db8::9"],
        ),
        ("ExternalName", json!({ "externalName": "example.com" }), 0, &[]),
        ("ClusterIP", json!({ "clusterIP": "None" }), 0, &[]),
    ] {
        let mut cluster = with_pool();
        cluster.apply(service("web", spec(kind, more.clone())));
        assert_eq!(cluster.node_ports("default/web").len(), node_ports, "{kind} {more}");
        assert_eq!(cluster.external("default/web"), external, "{kind} {more}");
        assert!(cluster.problems().is_empty(), "{kind} {more}: {:?}", cluster.problems());
    }
}

#[test]
fn a_type_is_changed_between_any_two() {
    let types = [
        ("ClusterIP", json!({})),
        ("ClusterIP", json!({ "clusterIP": "None" })),
        ("NodePort", json!({})),
        ("LoadBalancer", json!({})),
        ("ExternalName", json!({ "externalName": "example.com" })),
    ];
    let shown = |cluster: &Cluster| {
        let (name, listeners) = ("default/web", cluster.listeners("default/web", "TCP/80"));
        let members: usize = listeners.iter().map(|listener| listener.members.len()).sum();
        (
            cluster.floating_ips(name).len(),
            cluster.node_ports(name).len(),
            cluster.external(name).len(),
            members,
        )
    };
    let begin = || {
        let mut cluster = with_pool();
        cluster.apply(slice("web", "web", json!([{ "port": 80 }]), endpoints(&["10.244.1.1"])));
        cluster
    };
    for (before, before_more) in &types {
        for (after, after_more) in &types {
            let mut cluster = begin();
            cluster.apply(service("web", spec(before, before_more.clone())));
            cluster.apply(service("web", spec(after, after_more.clone())));
            let mut at_once = begin();
            at_once.apply(service("web", spec(after, after_more.clone())));
            let change = format!("{before} {before_more} to {after} {after_more}");
            assert_eq!(shown(&cluster), shown(&at_once), "{change}");
            assert!(cluster.problems().is_empty(), "{change}: {:?}", cluster.problems());
            cluster.delete(Kind::Service, "default/web");
            let left = serde_json::to_value(cluster.saved_state()).unwrap();
            assert_eq!(left["exposures"]["by_service"], json!({}), "{change}");
        }
    }
}

#[test]
fn svc_5_one_load_balancer_address_shared_by_two_services() {
    let mut cluster = with_pool();
    let ingress = json!([{ "ip": "203.0.113.5" }]);
    let of = |protocol: &str| json!({ "ports": [{ "port": 443, "protocol": protocol }] });
    cluster.record(balanced("tcp", of("TCP"), ingress.clone()));
    cluster.record(balanced("udp", of("UDP"), ingress));
    // By the field, out of the pool.
    let named = |protocol: &str| json!({ "ports": [{ "port": 443, "protocol": protocol }], "loadBalancerIP": "192.0.2.14" });
    cluster.record(service("pool-tcp", spec("LoadBalancer", named("TCP"))));
    cluster.apply(service("pool-udp", spec("LoadBalancer", named("UDP"))));
    for name in ["default/tcp", "default/udp"] {
        assert_eq!(cluster.external(name), ["lb 203.0.113.5"]);
    }
    for name in ["default/pool-tcp", "default/pool-udp"] {
        assert_eq!(cluster.external(name), ["lb 192.0.2.14"]);
    }
    let untouched = cluster.floating_ips("default/tcp");
    cluster.delete(Kind::Service, "default/udp");
    assert_eq!(cluster.floating_ips("default/tcp"), untouched);
    assert!(cluster.problems().is_empty());
}

#[test]
fn addresses_that_no_service_can_have() {
    for (address, part) in [
        ("127.0.0.1", "cannot be a Service's address"),
        ("::1", "cannot be a Service's address"),
        ("224.0.0.1", "cannot be a Service's address"),
        ("ff02::1", "cannot be a Service's address"),
        ("169.254.1.1", "cannot be a Service's address"),
        ("fe80::1", "cannot be a Service's address"),
        ("0.0.0.0", "cannot be a Service's address"),
        ("255.255.255.255", "cannot be a Service's address"),
        ("192.0.2", "is not an IP address"),
        ("10.244.7.7", "is an address of the pod network"),
        ("10.96.7.7", "is an address of the service network"),
        ("2001:db8::77", "is IPv6, and the Service has no IPv6 cluster address"),
    ] {
        let mut cluster = with_pool();
        let ips = json!({ "externalIPs": ["198.51.100.1", address] });
        cluster.apply(service("web", spec("ClusterIP", ips)));
        assert_eq!(cluster.external("default/web"), ["ip 198.51.100.1"], "{address}");
        let problems = cluster.problems();
        assert!(
            problems.len() == 1
                && problems[0].contains("spec.externalIPs[1]: ")
                && problems[0].contains(part),
            "{problems:?}"
        );
        cluster.apply(balanced("web", json!({}), json!([{ "ip": address }])));
        assert!(cluster.external("default/web").is_empty(), "{address}");
        let problems = cluster.problems();
        assert!(
            problems.len() == 1 && problems[0].contains("status.loadBalancer.ingress[0].ip: "),
            "{problems:?}"
        );
    }
}

#[test]
fn an_external_address_is_shared_by_protocol_and_port() {
    for reversed in [false, true] {
        let mut cluster = Cluster::new();
        let mut all = vec![
            made(2023, external("a", "192.0.2.1", &[80])),
            made(2022, external("b", "192.0.2.1", &[80, 443])),
            made(2021, external("c", "192.0.2.1", &[443])),
            made(2024, external("d", "192.0.2.2", &[80])),
        ];
        if reversed {
            all.reverse();
        }
        for one in all {
            cluster.apply(one);
        }
        let has = |cluster: &Cluster| -> Vec<&str> {
            let names = ["a", "b", "c", "d"].into_iter();
            names.filter(|name| !cluster.external(&format!("default/{name}")).is_empty()).collect()
        };
        // The oldest has its port; who lost that one is in nobody's way at the other.
        assert_eq!(has(&cluster), ["a", "c", "d"]);
        assert_eq!(
            cluster.problems(),
            [
                "b.yaml: Service default/b: spec.externalIPs[0]: 192.0.2.1 at TCP/443 is Service default/c's already"
            ]
        );
        cluster.delete(Kind::Service, "default/c");
        assert_eq!(has(&cluster), ["b", "d"]);
        assert!(cluster.problems()[0].contains("192.0.2.1 at TCP/80 is Service default/b's already"));
        // It ends with the conflict, also by a change of ports.
        cluster.apply(made(2022, external("b", "192.0.2.1", &[443])));
        assert_eq!(has(&cluster), ["a", "b", "d"]);
        assert!(cluster.problems().is_empty());
    }
}

#[test]
fn tpol_9_an_address_that_is_a_nodes_own_is_had_as_well() {
    let mut cluster = Cluster::with_two_nodes();
    cluster.apply(external("web", "172.30.0.2", &[80]));
    assert_eq!(cluster.external("default/web"), ["ip 172.30.0.2"]);
    assert!(cluster.problems().is_empty());
}

#[test]
fn a_load_balancers_addresses_come_from_its_status() {
    let mut cluster = with_pool();
    let ingress = json!([
        { "ip": "203.0.113.1" }, { "ip": "203.0.113.2", "ipMode": "VIP" }, { "ip": "203.0.113.3", "ipMode": "Proxy" },
        { "hostname": "lb.example.com" }, { "ip": "2001:db8::1" },
    ]);
    cluster.apply(balanced("web", json!({ "ipFamilyPolicy": "PreferDualStack" }), ingress));
    assert_eq!(cluster.external("default/web"), ["lb 203.0.113.1", "lb 203.0.113.2", "lb 2001:db8::1"]);
    // A name alone means that somebody else is in charge.
    cluster.apply(balanced("web", json!({}), json!([{ "hostname": "lb.example.com" }])));
    assert!(cluster.external("default/web").is_empty());
    // Of another type, it has none.
    let mut other = balanced("web", json!({}), json!([{ "ip": "203.0.113.1" }]));
    other["spec"]["type"] = "NodePort".into();
    cluster.apply(other);
    assert!(cluster.external("default/web").is_empty());
    assert!(cluster.problems().is_empty());
}

#[test]
fn a_pool_gives_each_load_balancer_an_address_of_its_own() {
    let mut cluster = with_pool();
    for name in ["a", "b"] {
        cluster.apply(service(name, spec("LoadBalancer", json!({}))));
    }
    assert_eq!(cluster.external("default/a"), ["lb 192.0.2.9"]);
    assert_eq!(cluster.external("default/b"), ["lb 192.0.2.10"]);
    // Once its status states what was picked, it is still that.
    cluster.apply(balanced("a", json!({}), json!([{ "ip": "192.0.2.9" }])));
    cluster.apply(made(1999, external("thief", "192.0.2.9", &[80])));
    assert_eq!(cluster.external("default/a"), ["lb 192.0.2.9"]);
    assert!(cluster.problems()[0].contains("192.0.2.9 at TCP/80 is Service default/a's already"));
    // None that anybody names is picked.
    cluster.apply(external("named", "192.0.2.11", &[8080]));
    cluster.apply(service("c", spec("LoadBalancer", json!({}))));
    assert_eq!(cluster.external("default/c"), ["lb 192.0.2.12"]);
    let mut restarted = Cluster::build(config_with_pool(), cluster.saved_state());
    restarted.record(service("first", spec("LoadBalancer", json!({}))));
    restarted.record(service("b", spec("LoadBalancer", json!({}))));
    restarted.settle();
    assert_eq!(restarted.external("default/b"), ["lb 192.0.2.10"]);
    assert_eq!(restarted.external("default/first"), ["lb 192.0.2.13"]);
}

#[test]
fn a_pool_that_is_used_up_or_lacks_the_address() {
    let mut cluster = with_pool();
    for i in 0..7 {
        cluster.apply(service(&format!("s{i}"), spec("LoadBalancer", json!({}))));
    }
    assert_eq!(cluster.external("default/s5"), ["lb 192.0.2.14"]);
    assert!(cluster.external("default/s6").is_empty());
    assert_eq!(
        cluster.problems(),
        ["s6.yaml: Service default/s6: spec.type: no IPv4 address of the load-balancer pool is free"]
    );
    assert_eq!(cluster.node_ports("default/s6").len(), 1, "the rest of it is served");
    cluster.apply(service("s6", spec("LoadBalancer", json!({ "loadBalancerIP": "203.0.113.9" }))));
    assert!(
        cluster.problems()[0]
            .contains("spec.loadBalancerIP: 203.0.113.9 is no address of the load-balancer pool")
    );
    // Without a pool, it is somebody else's business.
    let mut cluster = Cluster::new();
    cluster.apply(service("web", spec("LoadBalancer", json!({ "loadBalancerIP": "203.0.113.9" }))));
    assert!(cluster.external("default/web").is_empty() && cluster.problems().is_empty());
}

#[test]
fn an_address_of_the_pool_that_becomes_free_is_given_to_who_waits() {
    let mut cluster = with_pool();
    for i in 0..6 {
        cluster.apply(service(&format!("s{i}"), spec("LoadBalancer", json!({}))));
    }
    cluster.apply(service("late", spec("LoadBalancer", json!({}))));
    assert!(cluster.external("default/late").is_empty());
    cluster.delete(Kind::Service, "default/s3");
    assert_eq!(cluster.external("default/late"), ["lb 192.0.2.12"]);
    assert!(cluster.problems().is_empty());
}
