//! Node ports and health check ports: given, picked, fought over.
#![allow(missing_docs)]

mod common;

use common::{Cluster, config_with_pool, made, service};
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

fn with_pool() -> Cluster {
    Cluster::with_config(config_with_pool())
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
