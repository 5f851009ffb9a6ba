//! The objects as Contrail documents them.
#![allow(missing_docs)]

mod common;

use common::{Cluster, metadata, pod, running, service};
use serde_json::{Value, json};
use vrouter_control_model::{DocumentKind, Selection};

fn cluster() -> Cluster {
    let mut cluster = Cluster::with_two_nodes();
    let ports = json!([
        { "name": "http", "port": 80, "targetPort": 8080 },
        { "name": "dns", "port": 53, "protocol": "UDP" },
        { "name": "named", "port": 90, "targetPort": "web" },
    ]);
    cluster.record(service(
        "web",
        json!({ "clusterIP": "10.96.0.10", "selector": { "app": "web" }, "ports": ports }),
    ));
    for (i, port) in [(5, 81), (6, 82)] {
        let mut pod = pod(&format!("web-{i}"), "web", "n1", running(&format!("10.244.1.{i}"), true));
        pod["spec"]["containers"][0]["ports"] = json!([{ "name": "web", "containerPort": port }]);
        cluster.record(pod);
        cluster.attach("n1", i, &format!("default/web-{i}"), &[&format!("10.244.1.{i}")]);
    }
    let rule = json!({ "from": [{ "podSelector": {} }] });
    cluster.apply(json!({
        "kind": "NetworkPolicy", "metadata": metadata("own"), "spec": { "podSelector": {}, "ingress": [rule] },
    }));
    let spec = json!({ "type": "mesh", "virtualNetworkSelector": { "matchLabels": { "mesh": "x" } } });
    cluster.apply(json!({ "kind": "VirtualNetworkRouter", "metadata": metadata("mesh"), "spec": spec }));
    cluster
}

#[test]
fn a_floating_ip_shows_its_port_mappings_in_the_documented_shape() {
    let documents = cluster().documents(DocumentKind::FloatingIp);
    assert_eq!(documents.len(), 1);
    let fip = &documents[0];
    assert_eq!(fip["apiVersion"], "core.contrail.juniper.net/v1alpha1");
    assert_eq!(
        (fip["kind"].as_str(), fip["metadata"]["namespace"].as_str()),
        (Some("FloatingIP"), Some("default"))
    );
    assert_eq!(fip["spec"]["address"], "10.96.0.10");
    assert_eq!(
        fip["spec"]["floatingIpPortMappings"],
        json!({ "portMappings": [
            { "srcPort": 80, "dstPort": 8080, "protocol": "TCP" },
            { "srcPort": 53, "dstPort": 53, "protocol": "UDP" },
            { "srcPort": 90, "dstPort": 81, "protocol": "TCP" },
            { "srcPort": 90, "dstPort": 82, "protocol": "TCP" },
        ] })
    );
    assert_eq!(fip["spec"]["parent"]["kind"], "InstanceIP");
    let interfaces = fip["spec"]["virtualMachineInterfaceReferences"].as_array().unwrap();
    let names: Vec<_> = interfaces.iter().map(|reference| reference["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["web-5-eth0", "web-6-eth0"]);
}

#[test]
fn each_address_from_outside_has_a_floating_ip_of_its_own() {
    let mut cluster = Cluster::with_config(common::config_with_pool());
    cluster.record(common::node_in("z1", "n1", "172.30.0.1"));
    let spec = json!({
        "clusterIP": "10.96.0.10", "type": "LoadBalancer", "externalIPs": ["198.51.100.1"],
        "ports": [{ "port": 8080, "targetPort": 80, "nodePort": 30010 }], "selector": { "app": "web" },
        "externalTrafficPolicy": "Local", "healthCheckNodePort": 30011, "sessionAffinity": "ClientIP",
        "loadBalancerSourceRanges": ["203.0.113.0/24"],
    });
    cluster.record(pod("web-0", "web", "n1", running("10.244.1.5", true)));
    cluster.apply(service("web", spec));
    let fips = cluster.documents(DocumentKind::FloatingIp);
    let shown: Vec<_> = fips
        .iter()
        .map(|fip| (fip["metadata"]["name"].as_str().unwrap(), fip["spec"]["address"].as_str().unwrap()))
        .collect();
    let expected = [
        ("web-clusterip-v4", "10.96.0.10"),
        ("web-externalip-198.51.100.1", "198.51.100.1"),
        ("web-loadbalancer-192.0.2.9", "192.0.2.9"),
    ];
    assert_eq!(shown, expected);
    for fip in &fips {
        let mapping = json!({ "portMappings": [{ "srcPort": 8080, "dstPort": 80, "protocol": "TCP" }] });
        assert_eq!(fip["spec"]["floatingIpPortMappings"], mapping);
        let parent = fip["spec"]["parent"]["name"].as_str().unwrap();
        let iips = cluster.documents(DocumentKind::InstanceIp);
        let iip = iips.iter().find(|iip| iip["metadata"]["name"] == parent).unwrap();
        let network = if parent.contains("clusterip") { "default-servicenetwork" } else { "ip-fabric" };
        assert_eq!(iip["spec"]["virtualNetworkReference"]["name"], network);
    }
    let balancer = &cluster.documents(DocumentKind::LoadBalancer)[0]["spec"];
    assert_eq!(balancer["serviceType"], "LoadBalancer");
    assert_eq!(balancer["externalAddresses"], json!(["192.0.2.9", "198.51.100.1"]));
    assert_eq!(
        (&balancer["internalTrafficPolicy"], &balancer["externalTrafficPolicy"]),
        (&json!("Cluster"), &json!("Local"))
    );
    assert_eq!(
        (&balancer["healthCheckNodePort"], &balancer["sessionAffinitySeconds"]),
        (&json!(30011), &json!(10800))
    );
    assert_eq!(balancer["sourceRanges"], json!(["203.0.113.0/24"]));
    assert_eq!(cluster.documents(DocumentKind::Listener)[0]["spec"]["nodePort"], 30010);
    let member = &cluster.documents(DocumentKind::Member)[0]["spec"];
    assert_eq!((&member["condition"], &member["virtualRouter"]), (&json!("active"), &json!("n1")));
    let router = &cluster.documents(DocumentKind::VirtualRouter)[0]["spec"];
    assert_eq!((&router["zone"], &router["addresses"]), (&json!("z1"), &json!(["172.30.0.1"])));
}

#[test]
fn every_kind_has_its_documents_and_references_lead_somewhere() {
    let cluster = cluster();
    let mut known: Vec<(String, Value, Value)> = Vec::new();
    let mut references = Vec::new();
    for (kind, long, _) in DocumentKind::NAMES {
        let documents = cluster.documents(kind);
        assert!(!documents.is_empty(), "{long}");
        for document in documents {
            let metadata = &document["metadata"];
            let kind = document["kind"].as_str().unwrap().to_owned();
            known.push((kind, metadata["namespace"].clone(), metadata["name"].clone()));
            collect_references(&document["spec"], &mut references);
        }
    }
    assert!(references.len() > 20);
    for reference in references {
        assert!(known.contains(&reference), "{reference:?}");
    }
}

/// Anything inside a spec that has a kind and a name points at another document.
fn collect_references(value: &Value, references: &mut Vec<(String, Value, Value)>) {
    if let (Some(kind), Some(name)) = (value.get("kind"), value.get("name")) {
        let namespace = value.get("namespace").cloned().unwrap_or_default();
        references.push((kind.as_str().unwrap().to_owned(), namespace, name.clone()));
    }
    match value {
        Value::Object(fields) => fields.values().for_each(|value| collect_references(value, references)),
        Value::Array(items) => items.iter().for_each(|value| collect_references(value, references)),
        _ => {}
    }
}

#[test]
fn each_object_is_found_by_its_name() {
    let cluster = cluster();
    for (kind, ..) in DocumentKind::NAMES {
        let all = cluster.model.documents(kind, Selection::All);
        assert!(!all.is_empty(), "{kind}");
        for document in &all {
            let name = document.name();
            let found = cluster.model.documents(kind, Selection::Named(&name));
            let names: Vec<_> = found.iter().map(|document| document.name()).collect();
            assert_eq!(names, [name], "{kind}");
        }
        assert!(cluster.model.documents(kind, Selection::Named("default/nobody")).is_empty());
    }
}
