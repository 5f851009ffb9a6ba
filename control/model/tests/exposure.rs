//! How services are reached from outside: node ports, load balancers' addresses, external IPs.
#![allow(missing_docs)]

mod common;

use common::{Cluster, config_with_pool, endpoints, made, service, slice};
use serde_json::{Value, json};
use vrouter_control_model::{Kind, State};
use vrouter_objects::TrafficPolicy;

fn spec(kind: &str, more: Value) -> Value {
    let mut spec = json!({ "type": kind, "ports": [{ "port": 80 }] });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

fn node_port(name: &str, port: u16) -> Value {
    service(name, spec("NodePort", json!({ "ports": [{ "port": 80, "nodePort": port }] })))
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
fn node_ports_are_given_or_picked_and_kept_over_a_restart() {
    let mut cluster = with_pool();
    let ports = json!({ "ports": [
        { "name": "a", "port": 80, "nodePort": 30080 - 50 },
        { "name": "b", "port": 443 },
        { "name": "c", "port": 443, "protocol": "UDP" },
        { "name": "d", "port": 53, "protocol": "SCTP" },
    ] });
    cluster.apply(service("web", spec("NodePort", ports.clone())));
    let given = ["SCTP/53:30017", "TCP/443:30016", "TCP/80:30030", "UDP/443:30016"];
    assert_eq!(cluster.node_ports("default/web"), given, "one number for both protocols of a port");
    let mut restarted = Cluster::build(config_with_pool(), cluster.saved_state());
    restarted.record(service("early", spec("NodePort", json!({}))));
    restarted.record(service("web", spec("NodePort", ports.clone())));
    restarted.settle();
    assert_eq!(restarted.node_ports("default/web"), given);
    assert_eq!(restarted.node_ports("default/early"), ["TCP/80:30018"], "a freed one comes last");
    // A port that is gone gives back what was picked for it.
    cluster.apply(service("web", spec("NodePort", json!({}))));
    assert_eq!(cluster.node_ports("default/web"), ["TCP/80:30018"]);
    cluster.apply(node_port("other", 30016));
    assert_eq!(cluster.node_ports("default/other"), ["TCP/80:30016"]);
    assert!(cluster.problems().is_empty());
}

#[test]
fn a_state_that_knew_no_node_ports_is_gone_on_from() {
    let mut cluster = with_pool();
    cluster.apply(service("web", spec("NodePort", json!({}))));
    let mut old = serde_json::to_value(cluster.saved_state()).unwrap();
    old.as_object_mut().unwrap().remove("exposures").unwrap();
    let state: State = serde_json::from_value(old).unwrap();
    let mut restarted = Cluster::build(config_with_pool(), state);
    restarted.apply(service("web", spec("NodePort", json!({}))));
    assert_eq!(restarted.tables, cluster.tables);
}

#[test]
fn a_port_outside_the_range_is_a_finding_and_no_other_is_picked() {
    let mut cluster = with_pool();
    cluster.apply(node_port("web", 31000));
    assert!(cluster.node_ports("default/web").is_empty());
    assert_eq!(
        cluster.problems(),
        [
            "web.yaml: Service default/web: spec.ports[0].nodePort: 31000 is not in 30000-30063, where node ports are"
        ]
    );
    assert_eq!(cluster.floating_ips("default/web").len(), 1, "the rest of it is served");
    let local = json!({ "externalTrafficPolicy": "Local", "healthCheckNodePort": 29999 });
    cluster.apply(service("web", spec("LoadBalancer", local)));
    assert_eq!(cluster.floating_ip("default/web", true).health_check_port, None);
    assert!(cluster.problems()[0].contains("spec.healthCheckNodePort: 29999 is not in 30000-30063"));
}

#[test]
fn a_range_that_is_used_up_is_a_finding_until_a_port_is_free() {
    let mut cluster = Cluster::with_config(common::config().with_node_ports("30000-30001".parse().unwrap()));
    for name in ["a", "b", "c"] {
        cluster.apply(service(name, spec("NodePort", json!({}))));
    }
    assert!(cluster.node_ports("default/c").is_empty());
    assert_eq!(
        cluster.problems(),
        ["c.yaml: Service default/c: spec.ports: no node port is free for TCP/80"]
    );
    // Another protocol has numbers of its own.
    let udp = json!({ "ports": [{ "port": 53, "protocol": "UDP" }] });
    cluster.apply(service("d", spec("NodePort", udp)));
    assert_eq!(cluster.node_ports("default/d").len(), 1);
}

#[test]
fn svc_4_one_node_port_with_two_protocols() {
    let mut cluster = with_pool();
    let both = json!({ "ports": [
        { "name": "tcp", "port": 53, "nodePort": 30053, "targetPort": 8053 },
        { "name": "udp", "port": 53, "nodePort": 30053, "protocol": "UDP", "targetPort": 9053 },
    ] });
    cluster.apply(service("dns", spec("NodePort", both)));
    assert_eq!(cluster.node_ports("default/dns"), ["TCP/53:30053", "UDP/53:30053"]);
    // Also between services.
    let one = |protocol: &str| json!({ "ports": [{ "port": 5, "nodePort": 30005, "protocol": protocol }] });
    cluster.record(service("t", spec("NodePort", one("TCP"))));
    cluster.record(service("u", spec("NodePort", one("UDP"))));
    cluster.apply(service("s", spec("NodePort", one("SCTP"))));
    for (name, port) in
        [("default/t", "TCP/5:30005"), ("default/u", "UDP/5:30005"), ("default/s", "SCTP/5:30005")]
    {
        assert_eq!(cluster.node_ports(name), [port]);
    }
    assert!(cluster.problems().is_empty());
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
fn the_older_service_has_a_node_port_whatever_came_first() {
    for reversed in [false, true] {
        let mut cluster = with_pool();
        let mut both = vec![made(2021, node_port("a", 30010)), made(2020, node_port("b", 30010))];
        if reversed {
            both.reverse();
        }
        for one in both {
            cluster.apply(one);
        }
        assert!(cluster.node_ports("default/a").is_empty());
        assert_eq!(cluster.node_ports("default/b"), ["TCP/80:30010"]);
        assert_eq!(
            cluster.problems(),
            ["a.yaml: Service default/a: spec.ports[0].nodePort: TCP/30010 is Service default/b's already"]
        );
        assert_eq!(cluster.floating_ips("default/a").len(), 1, "it keeps its cluster address");
        cluster.delete(Kind::Service, "default/b");
        assert_eq!(cluster.node_ports("default/a"), ["TCP/80:30010"]);
        assert!(cluster.problems().is_empty());
    }
}

#[test]
fn what_was_picked_is_not_taken_away() {
    let mut cluster = with_pool();
    cluster.apply(service("picked", spec("NodePort", json!({}))));
    assert_eq!(cluster.node_ports("default/picked"), ["TCP/80:30016"]);
    cluster.apply(made(1999, node_port("late", 30016)));
    assert_eq!(cluster.node_ports("default/picked"), ["TCP/80:30016"]);
    assert!(cluster.problems()[0].contains("TCP/30016 is Service default/picked's already"));
    // Together, those that are named come first.
    let mut cluster = with_pool();
    cluster.record(service("picked", spec("NodePort", json!({}))));
    cluster.apply(node_port("late", 30016));
    assert_eq!(cluster.node_ports("default/picked"), ["TCP/80:30017"]);
    assert!(cluster.problems().is_empty());
}

#[test]
fn tpol_17_node_ports_are_kept_apart_by_family() {
    let mut cluster = with_pool();
    let of = |families: &[&str]| {
        spec("NodePort", json!({ "ipFamilies": families, "ports": [{ "port": 80, "nodePort": 30084 - 40 }] }))
    };
    cluster.record(service("v4", of(&["IPv4"])));
    cluster.apply(service("v6", of(&["IPv6"])));
    for name in ["default/v4", "default/v6"] {
        assert_eq!(cluster.node_ports(name), ["TCP/80:30044"]);
    }
    assert!(cluster.problems().is_empty());
    // Who wants both has the one that nobody else has.
    cluster.delete(Kind::Service, "default/v4");
    cluster.apply(service("z", of(&["IPv4", "IPv6"])));
    let of_family =
        |is_v4| cluster.floating_ip("default/z", is_v4).listeners[0].node_port.map(|port| port.get());
    assert_eq!((of_family(true), of_family(false)), (Some(30044), None));
    assert_eq!(cluster.problems().len(), 1);
    // A picked one is free in both.
    cluster.apply(service("picked", spec("NodePort", json!({ "ipFamilyPolicy": "RequireDualStack" }))));
    assert_eq!(cluster.node_ports("default/picked").len(), 1);
}

#[test]
fn tpol_10_a_health_check_port_is_a_tcp_node_port() {
    let local = |port: u16| {
        spec("LoadBalancer", json!({ "externalTrafficPolicy": "Local", "healthCheckNodePort": port }))
    };
    for reversed in [false, true] {
        let mut cluster = with_pool();
        cluster.apply(service("bystander", spec("NodePort", json!({}))));
        let bystander = cluster.floating_ips("default/bystander");
        let mut both = vec![made(2020, service("health", local(30033))), made(2021, node_port("web", 30033))];
        if reversed {
            both.reverse();
        }
        for one in both {
            cluster.apply(one);
        }
        let health = |cluster: &Cluster| cluster.floating_ip("default/health", true).health_check_port;
        assert_eq!(health(&cluster).unwrap().get(), 30033);
        assert!(cluster.node_ports("default/web").is_empty());
        assert_eq!(
            cluster.problems(),
            [
                "web.yaml: Service default/web: spec.ports[0].nodePort: TCP/30033 is Service default/health's already"
            ]
        );
        assert_eq!(cluster.floating_ips("default/bystander"), bystander);
        // UDP is no TCP, and the other way round the older node port stays.
        let udp = json!({ "ports": [{ "port": 80, "protocol": "UDP", "nodePort": 30033 }] });
        cluster.apply(service("web", spec("NodePort", udp)));
        assert_eq!(cluster.node_ports("default/web"), ["UDP/80:30033"]);
        cluster.apply(made(2019, node_port("web", 30033)));
        assert_eq!(health(&cluster), None);
        assert!(
            cluster.problems()[0].contains("spec.healthCheckNodePort: TCP/30033 is Service default/web's")
        );
        assert_eq!(cluster.external("default/health").len(), 1, "the rest of it is served");
    }
    // Within one service.
    let mut cluster = with_pool();
    let own = json!({
        "externalTrafficPolicy": "Local", "healthCheckNodePort": 30033,
        "ports": [{ "name": "http", "port": 80, "nodePort": 30033 }],
    });
    cluster.apply(service("web", spec("LoadBalancer", own)));
    assert_eq!(cluster.node_ports("default/web"), ["TCP/80:30033"]);
    assert!(cluster.problems()[0].contains("spec.healthCheckNodePort: 30033 is port \"http\"'s already"));
}

#[test]
fn a_health_check_port_is_had_where_it_is_needed() {
    let port = |cluster: &Cluster| cluster.floating_ip("default/web", true).health_check_port;
    let mut cluster = with_pool();
    cluster.apply(service("web", spec("LoadBalancer", json!({ "externalTrafficPolicy": "Local" }))));
    let picked = port(&cluster).unwrap();
    assert!((30000..30064).contains(&picked.get()));
    assert_eq!(cluster.floating_ip("default/web", true).external_policy, TrafficPolicy::Local);
    let mut restarted = Cluster::build(config_with_pool(), cluster.saved_state());
    restarted.apply(service("web", spec("LoadBalancer", json!({ "externalTrafficPolicy": "Local" }))));
    assert_eq!(port(&restarted), Some(picked));
    for (kind, policy) in [("LoadBalancer", "Cluster"), ("NodePort", "Local")] {
        let spec = spec(kind, json!({ "externalTrafficPolicy": policy, "healthCheckNodePort": 30050 }));
        cluster.apply(service("web", spec));
        assert_eq!(port(&cluster), None, "{kind} {policy}");
        assert!(
            cluster.problems()[0]
                .contains("only a LoadBalancer whose externalTrafficPolicy is Local has one")
        );
    }
}

#[test]
fn svc_14_a_policy_that_is_toggled_leaves_nothing_behind() {
    let mut cluster = with_pool();
    let with = |policy: &str| {
        let more = json!({ "externalTrafficPolicy": policy, "ports": [{ "port": 80, "nodePort": 30040 }] });
        service("web", spec("LoadBalancer", more))
    };
    cluster.apply(with("Cluster"));
    let (tables, state) = (cluster.tables.clone(), serde_json::to_value(cluster.saved_state()).unwrap());
    for _ in 0..10 {
        cluster.apply(with("Local"));
        assert_eq!(cluster.floating_ip("default/web", true).external_policy, TrafficPolicy::Local);
        assert_eq!(cluster.tables.len(), tables.len());
        cluster.apply(with("Cluster"));
        assert_eq!(cluster.tables, tables);
    }
    let after = serde_json::to_value(cluster.saved_state()).unwrap();
    assert_eq!(after["exposures"]["by_service"], state["exposures"]["by_service"]);
    assert_eq!(after["floating_ips"], state["floating_ips"]);
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

#[test]
fn node_ports_of_a_service_that_has_none() {
    let mut cluster = with_pool();
    cluster.apply(service("web", json!({ "ports": [{ "port": 80, "nodePort": 30010 }] })));
    assert!(cluster.node_ports("default/web").is_empty());
    assert!(
        cluster.problems()[0]
            .contains("spec.ports[0].nodePort: a Service of type ClusterIP has no node ports")
    );
    cluster.apply(service("web", spec("NodePort", json!({ "clusterIP": "None" }))));
    assert!(
        cluster.problems()[0]
            .contains("spec.clusterIP: a headless Service has no frontend, also as NodePort")
    );
    let twice = json!({ "ports": [
        { "name": "a", "port": 80, "nodePort": 30010 }, { "name": "b", "port": 81, "nodePort": 30010 },
    ] });
    cluster.apply(service("web", spec("NodePort", twice)));
    assert_eq!(cluster.node_ports("default/web"), ["TCP/80:30010"]);
    assert!(cluster.problems()[0].contains("spec.ports[1].nodePort: TCP/30010 is port \"a\"'s already"));
    // Another proxy's Service is nobody's business.
    let mut other = node_port("web", 30010);
    other["metadata"]["labels"] = json!({ "service.kubernetes.io/service-proxy-name": "other" });
    cluster.apply(other);
    cluster.apply(node_port("mine", 30010));
    assert_eq!(cluster.node_ports("default/mine"), ["TCP/80:30010"]);
    assert!(cluster.problems().is_empty());
}
