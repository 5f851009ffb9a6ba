//! Networks as `vrctl get` shows them.

use serde_json::{Value, json};
use vrouter_control_model::DocumentKind;

use crate::support::{NETWORK, annotated, isolated, labelled, namespace, network, router, subnet, two_nodes};

fn spec<'a>(documents: &'a [Value], name: &str) -> &'a Value {
    let (namespace, own) = name.split_once('/').unwrap_or(("", name));
    let is_it = |document: &&Value| {
        document["metadata"]["name"] == own
            && document["metadata"]["namespace"].as_str().unwrap_or_default() == namespace
    };
    &documents.iter().find(is_it).unwrap_or_else(|| panic!("no document {name}"))["spec"]
}

fn names(references: &Value) -> Vec<String> {
    let list = references.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter()
        .map(|one| format!("{}/{}", one["namespace"].as_str().unwrap(), one["name"].as_str().unwrap()))
        .collect()
}

#[test]
fn networks_show_whose_they_are_and_what_they_are_connected_with() {
    let mut cluster = two_nodes();
    cluster.record(isolated("shop"));
    cluster.record(annotated(namespace("red"), NETWORK, "red/one"));
    for (name, cidr) in [("red/one", "10.1.0.0/24"), ("red/two", "10.2.0.0/24")] {
        cluster.record(subnet(&format!("{name}-v4"), cidr));
        cluster.record(labelled(network(name, &["v4"]), &[("vn", "x")]));
    }
    cluster.record(subnet("red/broken-v4", "ten"));
    cluster.record(network("red/broken", &["v4"]));
    cluster.apply(router("red/m", "mesh", json!({ "vn": "x" }), &[]));

    let networks = cluster.documents(DocumentKind::VirtualNetwork);
    assert_eq!(networks.len(), 3 + 2 + 4);
    let one = spec(&networks, "red/one");
    assert_eq!(one["labels"]["vn"], "x");
    assert_eq!(one["podNetwork"], true);
    assert_eq!(one["serviceNetworkReference"]["name"], "one-servicenetwork");
    assert_eq!(one["v4SubnetReference"]["name"], "one-v4");
    assert_eq!(names(&one["connectedNetworkReferences"]), ["red/two"]);
    let shop = spec(&networks, "shop/default-podnetwork");
    assert_eq!(shop["v4SubnetReference"]["namespace"], "default", "it shares the cluster's");
    assert_eq!(shop["serviceNetworkReference"]["name"], "default-servicenetwork");
    assert_eq!(spec(&networks, "shop/default-servicenetwork")["podNetwork"], false);

    let instances = cluster.documents(DocumentKind::RoutingInstance);
    assert_eq!(names(&spec(&instances, "red/two")["knownIn"]), ["red/one"]);
    let known = names(&spec(&instances, "shop/default-podnetwork")["knownIn"]);
    assert_eq!(known, ["default/default-podnetwork", "default/ip-fabric"]);

    let subnets = cluster.documents(DocumentKind::Subnet);
    assert_eq!(subnets.len(), 4 + 2, "each once");
    assert_eq!(spec(&subnets, "red/one-v4")["defaultGateway"], "10.1.0.1");

    let routers = cluster.documents(DocumentKind::VirtualNetworkRouter);
    assert_eq!(spec(&routers, "red/m")["type"], "mesh");
    assert_eq!(names(&spec(&routers, "red/m")["virtualNetworkReferences"]), ["red/one", "red/two"]);

    let projects = cluster.documents(DocumentKind::Project);
    assert_eq!(spec(&projects, "shop")["isolation"], "isolated");
    assert_eq!(spec(&projects, "shop")["podNetworkReference"]["namespace"], "shop");
    assert_eq!(spec(&projects, "red")["isolation"], "shared");
    assert_eq!(spec(&projects, "red")["podNetworkReference"]["name"], "one");
}
