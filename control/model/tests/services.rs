//! Services: frontends, ports and members. Tests are named after the entries of the list of cases they show.
#![allow(missing_docs)]

mod common;

use common::{Cluster, endpoints, pod, running, service, slice};
use serde_json::{Value, json};
use vrouter_control_model::Kind;

fn http(port: u32) -> Value {
    json!({ "ports": [{ "port": port }] })
}

fn ports(port: u32) -> Value {
    json!([{ "port": port }])
}

#[test]
fn svc_2_slices_are_merged_without_doubles() {
    let mut cluster = Cluster::new();
    cluster.record(service("web", http(80)));
    cluster.record(slice("web-1", "web", ports(8080), endpoints(&["10.244.1.1", "10.244.1.2"])));
    cluster.apply(slice("web-2", "web", ports(8080), endpoints(&["10.244.1.2", "10.244.1.3"])));
    assert_eq!(
        cluster.active("default/web", "TCP/80"),
        ["10.244.1.1:8080", "10.244.1.2:8080", "10.244.1.3:8080"]
    );
}

#[test]
fn svc_3_one_number_with_two_protocols() {
    let both = json!({ "ports": [
        { "name": "tcp", "port": 53, "protocol": "TCP", "targetPort": 8053 },
        { "name": "udp", "port": 53, "protocol": "UDP", "targetPort": 9053 },
    ], "selector": { "app": "dns" } });
    let mut cluster = Cluster::with_two_nodes();
    cluster.record(pod("dns-0", "dns", "n1", running("10.244.1.5", true)));
    cluster.apply(service("dns", both));
    assert_eq!(cluster.active("default/dns", "TCP/53"), ["10.244.1.5:8053"]);
    assert_eq!(cluster.active("default/dns", "UDP/53"), ["10.244.1.5:9053"]);
    let one = json!({ "ports": [{ "port": 53, "protocol": "UDP", "targetPort": 9053 }], "selector": { "app": "dns" } });
    cluster.apply(service("dns", one));
    assert!(cluster.listeners("default/dns", "TCP/53").is_empty());
    assert_eq!(cluster.active("default/dns", "UDP/53"), ["10.244.1.5:9053"]);
}

#[test]
fn svc_6_equal_names_in_two_namespaces() {
    let mut cluster = Cluster::new();
    for (namespace, address) in [("ns1", "10.244.1.1"), ("ns2", "10.244.1.2")] {
        cluster.record(service(&format!("{namespace}/redis"), http(6379)));
        cluster.apply(slice(&format!("{namespace}/redis"), "redis", ports(6379), endpoints(&[address])));
    }
    let untouched = cluster.floating_ips("ns2/redis");
    cluster.delete(Kind::Service, "ns1/redis");
    assert!(cluster.floating_ips("ns1/redis").is_empty());
    assert_eq!(cluster.floating_ips("ns2/redis"), untouched);
    assert_eq!(cluster.active("ns2/redis", "TCP/6379"), ["10.244.1.2:6379"]);
}

#[test]
fn svc_7_ports_belong_together_by_the_service_ports_name() {
    let mut cluster = Cluster::new();
    let named = json!({ "ports": [{ "name": "http", "port": 80, "targetPort": "web" }] });
    cluster.record(service("named", named));
    cluster.record(service("plain", http(80)));
    cluster.record(slice(
        "named",
        "named",
        json!([{ "name": "http", "port": 8080 }]),
        endpoints(&["10.244.1.1"]),
    ));
    cluster.apply(slice("plain", "plain", json!([{ "name": "", "port": 8080 }]), endpoints(&["10.244.1.2"])));
    assert_eq!(cluster.active("default/named", "TCP/80"), ["10.244.1.1:8080"]);
    assert_eq!(cluster.active("default/plain", "TCP/80"), ["10.244.1.2:8080"]);
    cluster.apply(slice(
        "named",
        "named",
        json!([{ "name": "web", "port": 8080 }]),
        endpoints(&["10.244.1.1"]),
    ));
    assert!(cluster.active("default/named", "TCP/80").is_empty());
}

#[test]
fn svc_8_a_slice_without_a_port_number_gives_no_backend() {
    let mut cluster = Cluster::new();
    cluster.record(service("web", http(80)));
    cluster.record(slice("a", "web", ports(8080), endpoints(&["10.244.1.1"])));
    cluster.record(slice("b", "web", json!([{ "name": "" }]), endpoints(&["10.244.1.2"])));
    cluster.apply(slice("c", "web", Value::Null, endpoints(&["10.244.1.3"])));
    assert_eq!(cluster.active("default/web", "TCP/80"), ["10.244.1.1:8080"]);
    assert!(cluster.problems().is_empty());
}

#[test]
fn svc_9_one_address_in_slices_with_different_ports() {
    let mut cluster = Cluster::new();
    let two = json!({ "ports": [{ "name": "http", "port": 80 }, { "name": "metrics", "port": 9100 }] });
    cluster.record(service("web", two));
    cluster.record(slice("a", "web", json!([{ "name": "http", "port": 8080 }]), endpoints(&["10.244.1.1"])));
    cluster.apply(slice(
        "b",
        "web",
        json!([{ "name": "metrics", "port": 9090 }]),
        endpoints(&["10.244.1.1"]),
    ));
    assert_eq!(cluster.active("default/web", "TCP/80"), ["10.244.1.1:8080"]);
    assert_eq!(cluster.active("default/web", "TCP/9100"), ["10.244.1.1:9090"]);
}

#[test]
fn svc_10_a_named_target_port_is_looked_up_on_each_pod() {
    let mut cluster = Cluster::with_two_nodes();
    let spec = json!({ "ports": [{ "port": 80, "targetPort": "http" }], "selector": { "app": "web" } });
    cluster.record(service("web", spec));
    let mut with_port = |name: &str, address: &str, ports: Value| {
        let mut pod = pod(name, "web", "n1", running(address, true));
        pod["spec"]["containers"][0]["ports"] = ports;
        cluster.record(pod);
    };
    with_port("a", "10.244.1.1", json!([{ "name": "http", "containerPort": 80 }]));
    with_port("b", "10.244.1.2", json!([{ "name": "http", "containerPort": 8080 }]));
    with_port("none", "10.244.1.3", json!([{ "containerPort": 80 }]));
    with_port("udp", "10.244.1.4", json!([{ "name": "http", "containerPort": 80, "protocol": "UDP" }]));
    cluster.settle();
    assert_eq!(cluster.active("default/web", "TCP/80"), ["10.244.1.1:80", "10.244.1.2:8080"]);
    // The same by slices: addresses whose pods lack the port.
    cluster.apply(slice("web", "web", Value::Null, endpoints(&["10.244.1.3"])));
    assert!(cluster.active("default/web", "TCP/80").is_empty());
}

#[test]
fn svc_11_renaming_a_port_keeps_what_is_established() {
    let mut cluster = Cluster::with_two_nodes();
    let named = |name: &str| json!({ "type": "NodePort", "ports": [{ "name": name, "port": 80 }] });
    let of_slice =
        |name: &str| slice("web", "web", json!([{ "name": name, "port": 80 }]), endpoints(&["10.244.1.5"]));
    cluster.record(service("web", named("a")));
    cluster.record(of_slice("a"));
    cluster.attach("n1", 1, "default/web-0", &["10.244.1.5"]);
    let before = cluster.listeners("default/web", "TCP/80")[0].clone();
    cluster.apply(service("web", named("b")));
    assert!(cluster.active("default/web", "TCP/80").is_empty());
    assert_eq!(cluster.draining("default/web", "TCP/80"), ["10.244.1.5:80"]);
    cluster.apply(of_slice("b"));
    let after = cluster.listeners("default/web", "TCP/80");
    assert_eq!((after.len(), after[0].id, &after[0].members), (1, before.id, &before.members));
    assert_eq!((after[0].name.as_str(), after[0].node_port), ("b", before.node_port));
}

#[test]
fn svc_12_an_external_name_has_no_frontend_until_it_is_something_else() {
    let mut cluster = Cluster::with_two_nodes();
    let typed = |kind: &str| {
        let ports = json!([{ "port": 80 }]);
        json!({ "type": kind, "externalName": "example.com", "selector": { "app": "web" }, "ports": ports })
    };
    cluster.record(pod("web-0", "web", "n1", running("10.244.1.5", true)));
    cluster.apply(service("web", typed("ExternalName")));
    assert!(cluster.floating_ips("default/web").is_empty());
    cluster.apply(service("web", typed("ClusterIP")));
    assert_eq!(cluster.active("default/web", "TCP/80"), ["10.244.1.5:80"]);
    cluster.apply(service("web", typed("ExternalName")));
    assert!(cluster.floating_ips("default/web").is_empty());
}

#[test]
fn svc_13_only_the_latest_target_port_counts() {
    let mut cluster = Cluster::with_two_nodes();
    cluster.record(pod("web-0", "web", "n1", running("10.244.1.5", true)));
    for target in [80, 81, 443] {
        let port = json!([{ "port": 80, "targetPort": target }]);
        cluster.apply(service("web", json!({ "selector": { "app": "web" }, "ports": port })));
        assert_eq!(cluster.active("default/web", "TCP/80"), [format!("10.244.1.5:{target}")]);
    }
    // Connections to the former ports go on for as long as their pod lives.
    assert_eq!(cluster.draining("default/web", "TCP/80"), ["10.244.1.5:80", "10.244.1.5:81"]);
    cluster.delete(Kind::Pod, "default/web-0");
    assert!(cluster.draining("default/web", "TCP/80").is_empty());
}

#[test]
fn svc_15_large_services_work_beside_small_ones() {
    let mut cluster = Cluster::new();
    let address = |i: usize| format!("10.200.{}.{}", i / 250, i % 250 + 1);
    cluster.record(service("large", http(80)));
    for (name, range) in [("a", 0..2500), ("b", 2500..5000)] {
        let list: Value = range.map(|i| json!({ "addresses": [address(i)] })).collect();
        cluster.record(slice(name, "large", ports(80), list));
    }
    cluster.record(service("small", http(80)));
    cluster.apply(slice("small", "small", ports(80), endpoints(&["10.244.1.1"])));
    assert_eq!(cluster.active("default/large", "TCP/80").len(), 5000);
    assert_eq!(cluster.active("default/small", "TCP/80").len(), 1);
    // Beyond the bound: used up to it, with a message, and without harm to others.
    let list: Value = (0..40_000).map(|i| json!({ "addresses": [address(i)] })).collect();
    cluster.apply(slice("a", "large", ports(80), list));
    assert_eq!(cluster.active("default/large", "TCP/80").len(), 16_384);
    assert_eq!(cluster.active("default/small", "TCP/80").len(), 1);
    assert!(cluster.problems()[0].contains("40000 endpoints at port 80: 16384 of them are used"));
}

#[test]
fn svc_16_ready_counts_as_published() {
    let mut cluster = Cluster::new();
    cluster.record(service("web", http(80)));
    let conditions = json!({ "ready": true, "serving": false });
    let list = json!([{ "addresses": ["10.244.1.1"], "conditions": conditions }]);
    cluster.apply(slice("web", "web", ports(80), list));
    assert_eq!(cluster.active("default/web", "TCP/80"), ["10.244.1.1:80"]);
}

#[test]
fn svc_17_terminating_endpoints_are_the_last_resort() {
    let all = [true, false];
    for ready in all {
        for serving in all {
            for terminating in all {
                let conditions = json!({ "ready": ready, "serving": serving, "terminating": terminating });
                let mut cluster = Cluster::new();
                cluster.record(service("web", http(80)));
                let one = json!({ "addresses": ["10.244.1.1"], "conditions": conditions });
                cluster.apply(slice("web", "web", ports(80), json!([one])));
                let alone = ready || (serving && terminating);
                assert_eq!(!cluster.active("default/web", "TCP/80").is_empty(), alone, "alone: {conditions}");
                cluster.apply(slice("web", "web", ports(80), json!([one, { "addresses": ["10.244.1.2"] }])));
                let beside: &[&str] =
                    if ready { &["10.244.1.1:80", "10.244.1.2:80"] } else { &["10.244.1.2:80"] };
                assert_eq!(
                    cluster.active("default/web", "TCP/80"),
                    beside,
                    "beside a ready one: {conditions}"
                );
            }
        }
    }
}

#[test]
fn svc_18_each_family_has_its_own_endpoints() {
    let mut cluster = Cluster::new();
    let dual = json!({ "ipFamilyPolicy": "RequireDualStack", "ports": [{ "port": 80 }] });
    cluster.record(service("web", dual));
    cluster.apply(slice("v4", "web", ports(80), endpoints(&["10.244.1.1"])));
    let of_family = |cluster: &Cluster, v4: bool| {
        let mut floating_ips = cluster.floating_ips("default/web").into_iter();
        let floating_ip = floating_ips.find(|floating_ip| floating_ip.address.is_ipv4() == v4).unwrap();
        floating_ip.listeners[0].members.iter().map(|member| member.address.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(of_family(&cluster, true), ["10.244.1.1"]);
    assert!(of_family(&cluster, false).is_empty());
    let mut v6 = slice("v6", "web", ports(80), endpoints(&["fd00:10:244:1::1"]));
    v6["addressType"] = "IPv6".into();
    cluster.apply(v6);
    assert_eq!(of_family(&cluster, true), ["10.244.1.1"]);
    assert_eq!(of_family(&cluster, false), ["fd00:10:244:1::1"]);
}

#[test]
fn ctrl_16_the_last_endpoint_leaves() {
    let mut cluster = Cluster::new();
    cluster.record(service("web", http(80)));
    for emptied in [Some(json!([])), Some(Value::Null), None] {
        cluster.apply(slice("web", "web", ports(80), endpoints(&["10.244.1.1"])));
        assert_eq!(cluster.active("default/web", "TCP/80").len(), 1);
        match emptied {
            Some(list) => cluster.apply(slice("web", "web", ports(80), list)),
            None => cluster.delete(Kind::EndpointSlice, "default/web"),
        };
        assert!(cluster.listeners("default/web", "TCP/80")[0].members.is_empty());
    }
}

#[test]
fn endpoints_come_from_slices_or_else_endpoints_or_else_pods() {
    let mut cluster = Cluster::with_two_nodes();
    cluster.record(pod("web-0", "web", "n1", running("10.244.1.5", true)));
    cluster.apply(service("web", json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }] })));
    assert_eq!(cluster.active("default/web", "TCP/80"), ["10.244.1.5:80"]);
    let subset = json!({ "addresses": [{ "ip": "192.0.2.1" }], "notReadyAddresses": [{ "ip": "192.0.2.2" }], "ports": [{ "port": 81 }] });
    let object = json!({ "kind": "Endpoints", "apiVersion": "v1", "metadata": { "name": "web" }, "subsets": [subset] });
    cluster.apply(object);
    assert_eq!(cluster.active("default/web", "TCP/80"), ["192.0.2.1:81"]);
    cluster.apply(slice("web", "web", ports(82), endpoints(&["192.0.2.3"])));
    assert_eq!(cluster.active("default/web", "TCP/80"), ["192.0.2.3:82"]);
    cluster.delete(Kind::EndpointSlice, "default/web");
    cluster.delete(Kind::Endpoints, "default/web");
    assert_eq!(cluster.active("default/web", "TCP/80"), ["10.244.1.5:80"]);
}

#[test]
fn frontends_by_type() {
    for (spec, frontends) in [
        (json!({ "ports": [{ "port": 80 }] }), 1),
        (json!({ "type": "NodePort", "ports": [{ "port": 80, "nodePort": 30080 }] }), 1),
        (json!({ "type": "LoadBalancer", "ports": [{ "port": 80 }] }), 1),
        (json!({ "clusterIP": "None", "ports": [{ "port": 80 }] }), 0),
        (json!({ "clusterIPs": ["None"], "clusterIP": "None" }), 0),
        (json!({ "type": "ExternalName", "externalName": "example.com" }), 0),
    ] {
        let mut cluster = Cluster::new();
        cluster.apply(service("web", spec.clone()));
        assert_eq!(cluster.floating_ips("default/web").len(), frontends, "{spec}");
        assert!(cluster.problems().is_empty(), "{spec}: {:?}", cluster.problems());
    }
    let mut others = service("web", http(80));
    others["metadata"]["labels"] = json!({ "service.kubernetes.io/service-proxy-name": "other" });
    let mut cluster = Cluster::new();
    cluster.apply(others);
    assert!(cluster.floating_ips("default/web").is_empty());
}

#[test]
fn an_unready_member_keeps_its_tcp_connections_while_its_interface_lives() {
    let mut cluster = Cluster::with_two_nodes();
    let both = json!({ "selector": { "app": "web" }, "ports": [
        { "name": "tcp", "port": 80 }, { "name": "udp", "port": 80, "protocol": "UDP" },
    ] });
    cluster.record(service("web", both));
    cluster.record(pod("web-0", "web", "n1", running("10.244.1.5", true)));
    cluster.attach("n1", 1, "default/web-0", &["10.244.1.5"]);
    let id = cluster.listeners("default/web", "TCP/80")[0].members[0].id;
    cluster.apply(pod("web-0", "web", "n1", running("10.244.1.5", false)));
    assert_eq!(cluster.draining("default/web", "TCP/80"), ["10.244.1.5:80"]);
    assert!(cluster.draining("default/web", "UDP/80").is_empty());
    // It leaves by its label, and comes back: it is still the same member.
    cluster.apply(pod("web-0", "other", "n1", running("10.244.1.5", true)));
    assert_eq!(cluster.draining("default/web", "TCP/80"), ["10.244.1.5:80"]);
    cluster.apply(pod("web-0", "web", "n1", running("10.244.1.5", true)));
    assert_eq!(cluster.active("default/web", "TCP/80"), ["10.244.1.5:80"]);
    assert_eq!(cluster.listeners("default/web", "TCP/80")[0].members[0].id, id);
    // Its interface goes: nothing is left of it, and who comes next is somebody else.
    cluster.apply(pod("web-0", "other", "n1", running("10.244.1.5", true)));
    cluster.detach("n1", 1);
    assert!(cluster.draining("default/web", "TCP/80").is_empty());
    cluster.apply(pod("web-0", "web", "n1", running("10.244.1.5", true)));
    assert!(cluster.listeners("default/web", "TCP/80")[0].members[0].id > id);
}

#[test]
fn an_address_that_went_to_another_pod_is_no_longer_the_member_that_left() {
    let mut cluster = Cluster::with_two_nodes();
    cluster.record(service("web", json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }] })));
    cluster.record(pod("web-0", "web", "n1", json!({})));
    cluster.attach("n1", 1, "default/web-0", &["10.244.1.5"]);
    assert_eq!(cluster.draining("default/web", "TCP/80").len(), 0);
    cluster.model.delete(&common::reference(Kind::Pod, "default/web-0"));
    cluster.model.detach("n1", vrouter_objects::VmiId::new(1).unwrap());
    cluster.attach("n1", 2, "default/other", &["10.244.1.5"]);
    assert!(cluster.listeners("default/web", "TCP/80")[0].members.is_empty());
}

#[test]
fn what_is_asked_for_and_not_served_is_no_fault() {
    let fields = |service: Value| -> Vec<String> {
        let mut cluster = Cluster::new();
        cluster.apply(service.clone());
        assert!(cluster.problems().is_empty(), "{:?}", cluster.problems());
        common::object(service).unserved().into_iter().map(|finding| finding.field).collect()
    };
    let all = json!({
        "ports": ports(80), "type": "LoadBalancer", "externalIPs": ["192.0.2.1"], "sessionAffinity": "ClientIP",
        "externalTrafficPolicy": "Local", "internalTrafficPolicy": "Local", "trafficDistribution": "PreferClose",
        "loadBalancerSourceRanges": ["192.0.2.0/24"],
    });
    assert!(fields(service("web", all)).is_empty());
    let mut more =
        service("web", json!({ "ports": ports(80), "type": "LoadBalancer", "loadBalancerClass": "x/y" }));
    more["metadata"]["annotations"] = json!({ "service.kubernetes.io/topology-mode": "Auto" });
    more["status"] = json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.9", "ipMode": "Proxy" }] } });
    let expected = [
        "spec.loadBalancerClass",
        "status.loadBalancer.ingress[0].ipMode",
        "metadata.annotations[service.kubernetes.io/topology-mode]",
    ];
    assert_eq!(fields(more), expected);
}
