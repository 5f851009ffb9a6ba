//! Every fault is named by source, object and field, and everything else is applied.
#![allow(missing_docs)]

mod common;

use common::{Cluster, endpoints, node, service, slice};
use serde_json::json;

#[test]
fn faults_of_services() {
    for (spec, problem, listeners) in [
        (
            json!({ "ports": [{ "name": "a", "port": 80 }, { "name": "b", "port": 70000 }] }),
            "spec.ports[1].port: port 70000 is not in 1-65535",
            1,
        ),
        (json!({ "ports": [{ "port": 0 }] }), "spec.ports[0].port: port 0 is not in 1-65535", 0),
        (json!({ "ports": [{ "port": -1 }] }), "spec.ports[0].port: port -1 is not in 1-65535", 0),
        (
            json!({ "ports": [{ "port": 80, "protocol": "ICMP" }] }),
            "spec.ports[0].protocol: protocol \"ICMP\" is none of TCP, UDP, SCTP",
            0,
        ),
        (
            json!({ "ports": [{ "port": 80, "targetPort": 70000 }] }),
            "spec.ports[0].targetPort: port 70000 is not in 1-65535",
            0,
        ),
        (
            json!({ "ports": [{ "port": 80, "targetPort": "80" }] }),
            "spec.ports[0].targetPort: \"80\" is not a port's name",
            0,
        ),
        (
            json!({ "ports": [{ "name": "a", "port": 80 }, { "name": "b", "port": 80 }] }),
            "spec.ports[1].port: TCP/80 is a port of this Service already",
            1,
        ),
        (
            json!({ "ports": [{ "name": "a", "port": 80 }, { "name": "a", "port": 81 }] }),
            "spec.ports[1].name: \"a\" is the name of TCP/80 already",
            1,
        ),
        (
            json!({ "ports": [{ "name": "a", "port": 80 }, { "port": 81 }] }),
            "spec.ports[1].name: each of several ports needs a name",
            1,
        ),
        (
            json!({ "clusterIP": "10.96.0.10" }),
            "spec.ports: a Service with an address needs at least one port",
            0,
        ),
    ] {
        let mut cluster = Cluster::new();
        cluster.record(service("good", json!({ "ports": [{ "port": 80 }] })));
        cluster.apply(service("web", spec));
        let problems = cluster.problems();
        assert!(
            problems[0].starts_with(&format!("web.yaml: Service default/web: {problem}")),
            "{problems:?}"
        );
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(cluster.floating_ips("default/web")[0].listeners.len(), listeners, "{problem}");
        assert_eq!(cluster.floating_ips("default/good").len(), 1);
    }
}

#[test]
fn services_that_get_no_address() {
    for (more, problem) in [
        (json!({ "clusterIP": "10.96.0.300" }), "spec.clusterIP: \"10.96.0.300\" is not an IP address"),
        (
            json!({ "clusterIPs": ["10.96.0.1", "10.96.0.2"] }),
            "spec.clusterIPs[1]: 10.96.0.2 is a second address of its family",
        ),
        (json!({ "ipFamilies": ["IPv5"] }), "spec.ipFamilies[0]: \"IPv5\" is neither IPv4 nor IPv6"),
        (json!({ "ipFamilyPolicy": "Both" }), "spec.ipFamilyPolicy: \"Both\" is none of SingleStack"),
        (json!({ "type": "Cluster" }), "spec.type: \"Cluster\" is none of ClusterIP"),
    ] {
        let mut spec = json!({ "ports": [{ "port": 80 }] });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut cluster = Cluster::new();
        cluster.apply(service("web", spec));
        let problems = cluster.problems();
        assert!(problems.len() == 1 && problems[0].contains(problem), "{problems:?}");
        assert!(cluster.floating_ips("default/web").is_empty());
    }
}

#[test]
fn faults_of_endpoints() {
    let mut cluster = Cluster::new();
    cluster.record(service("web", json!({ "ports": [{ "port": 80 }] })));
    let list = endpoints(&["10.244.1.1", "10.244.1", "127.0.0.1", "169.254.1.1", "0.0.0.0", "fd00::1"]);
    cluster.apply(slice("web", "web", json!([{ "port": 80 }, { "name": "x", "port": 70000 }]), list));
    assert_eq!(cluster.active("default/web", "TCP/80"), ["10.244.1.1:80"]);
    let fields: Vec<_> = cluster.model.problems().into_iter().map(|problem| problem.field).collect();
    let endpoints = (1..6).map(|i| format!("endpoints[{i}].addresses[0]"));
    assert_eq!(fields, endpoints.chain(["ports[1].port".to_owned()]).collect::<Vec<_>>());
    assert!(
        cluster.problems()[0].starts_with("web.yaml: EndpointSlice default/web: endpoints[1].addresses[0]: ")
    );
}

#[test]
fn faults_of_nodes() {
    let annotated = |name: &str, value: &str| {
        let mut node = node("n1", "172.30.0.1");
        node["metadata"]["annotations"] = json!({ name: value });
        node
    };
    for (node, problem, leases) in [
        (
            json!({ "kind": "Node", "apiVersion": "v1", "metadata": { "name": "n1" } }),
            "status.addresses: no usable InternalIP",
            2,
        ),
        (node("n1", "172.30.0"), "status.addresses[0].address: \"172.30.0\" is not an IP address", 2),
        (
            annotated("flannel.alpha.coreos.com/backend-data", "{"),
            "metadata.annotations[flannel.alpha.coreos.com/backend-data]: not flannel's VXLAN data",
            0,
        ),
        (
            annotated("flannel.alpha.coreos.com/backend-data", "{\"VtepMAC\":\"02:xx\"}"),
            "metadata.annotations[flannel.alpha.coreos.com/backend-data]: VtepMAC: \"02:xx\" is not a MAC address",
            0,
        ),
        (
            annotated("flannel.alpha.coreos.com/public-ip", "here"),
            "metadata.annotations[flannel.alpha.coreos.com/public-ip]: \"here\" is not an IP address",
            2,
        ),
    ] {
        let mut cluster = Cluster::new();
        cluster.apply(node);
        let problems = cluster.problems();
        assert!(
            problems.iter().any(|line| line.contains(&format!("n1.yaml: Node n1: {problem}"))),
            "{problems:?}"
        );
        assert_eq!(cluster.leases("n1").len(), leases, "{problem}");
    }
}

#[test]
fn a_problem_ends_with_its_cause() {
    let mut cluster = Cluster::new();
    let with_port = |port: u32| service("web", json!({ "ports": [{ "port": port }] }));
    cluster.apply(with_port(70000));
    assert_eq!(cluster.problems().len(), 1);
    cluster.apply(with_port(80));
    assert_eq!(cluster.problems(), Vec::<String>::new());
    cluster.apply(with_port(70000));
    cluster.delete(vrouter_control_model::Kind::Service, "default/web");
    assert_eq!(cluster.problems(), Vec::<String>::new());
}
