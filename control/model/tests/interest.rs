//! Which layers each node holds: what its pods are in and are selected by, and what that leads to.
#![allow(missing_docs)]

mod common;

use common::{Cluster, pod, running, service};
use serde_json::{Value, json};
use vrouter_control_model::{Attachment, Kind, Layer, NamespacedName};
use vrouter_objects::{Object, VrfId};

/// What every node holds: the fabric, and the three networks that it leads to.
fn everywhere() -> Vec<Layer> {
    let networks = [1, 2, 3].map(|number| Layer::Network(VrfId::new(number).unwrap()));
    [Layer::Fabric].into_iter().chain(networks).collect()
}

/// The layers that a node holds and not every node does.
fn own(cluster: &Cluster, node: &str) -> Vec<Layer> {
    let everywhere = everywhere();
    cluster.interest(node).into_iter().filter(|layer| !everywhere.contains(layer)).collect()
}

/// The layers of these networks, in order.
fn networks(cluster: &Cluster, names: &[&str]) -> Vec<Layer> {
    let mut layers: Vec<Layer> = cluster
        .tables
        .iter()
        .filter_map(|((layer, _), object)| match &**object {
            Object::RoutingInstance(network) if names.contains(&network.name.as_str()) => Some(layer.clone()),
            _ => None,
        })
        .collect();
    layers.sort();
    assert_eq!(layers.len(), names.len());
    layers
}

fn contrail(kind: &str, name: &str, spec: Value) -> Value {
    let mut metadata = common::metadata(name);
    metadata["labels"] = json!({ "net": metadata["name"] });
    json!({ "kind": kind, "apiVersion": "core.contrail.juniper.net/v1alpha1", "metadata": metadata, "spec": spec })
}

/// A custom network with one subnet.
fn network(cluster: &mut Cluster, name: &str, cidr: &str) {
    cluster.record(contrail("Subnet", name, json!({ "cidr": cidr })));
    cluster.record(contrail("VirtualNetwork", name, json!({ "v4SubnetReference": { "name": name } })));
}

/// A pod of a custom network.
fn pod_in(network: &str, name: &str, node: &str) -> Value {
    let mut pod = pod(name, "web", node, json!({}));
    pod["metadata"]["annotations"] =
        json!({ "net.juniper.contrail.podnetwork": format!("default/{network}") });
    pod
}

fn isolated_namespace(name: &str) -> Value {
    let labels = json!({ "core.juniper.net/isolated-namespace": "true" });
    json!({ "kind": "Namespace", "apiVersion": "v1", "metadata": { "name": name, "labels": labels } })
}

/// A policy for the pods of an app that lets those of some apps in.
fn policy(name: &str, app: &str, from: &[&str]) -> Value {
    let selector = |app: &str| json!({ "matchLabels": { "app": app } });
    let peers: Vec<Value> = from.iter().map(|app| json!({ "podSelector": selector(app) })).collect();
    json!({
        "kind": "NetworkPolicy", "apiVersion": "networking.k8s.io/v1", "metadata": common::metadata(name),
        "spec": { "podSelector": selector(app), "ingress": [{ "from": peers }] },
    })
}

/// How many policies and sets a node holds.
fn guarded(cluster: &Cluster, node: &str) -> [usize; 2] {
    let own = own(cluster, node);
    let policies = own.iter().filter(|layer| matches!(layer, Layer::Policy(_)));
    let sets = own.iter().filter(|layer| matches!(layer, Layer::PeerSet(_)));
    [policies.count(), sets.count()]
}

#[test]
fn a_node_without_pods_holds_what_every_node_does() {
    let mut cluster = Cluster::with_two_nodes();
    cluster.apply(isolated_namespace("tenant"));
    assert_eq!(cluster.interest("n1"), everywhere());
    cluster.delete(Kind::Node, "n1");
    assert_eq!(cluster.interest("n1"), []);
    // One that is connected takes part, whatever objects there are.
    cluster.model.enlist("n1");
    cluster.settle();
    assert_eq!(cluster.interest("n1"), everywhere());
    cluster.model.dismiss("n1");
    cluster.settle();
    assert_eq!(cluster.interest("n1"), []);
}

#[test]
fn an_isolated_namespace_is_where_its_pods_are() {
    let mut cluster = Cluster::with_two_nodes();
    cluster.record(isolated_namespace("tenant"));
    cluster.apply(pod("tenant/web", "web", "n1", running("10.244.1.5", true)));
    let tenant = networks(&cluster, &["tenant/default-podnetwork", "tenant/default-servicenetwork"]);
    assert_eq!(own(&cluster, "n1"), tenant);
    assert_eq!(own(&cluster, "n2"), []);
    // A service that is reached at every node is served by every node.
    let spec = |kind: &str| json!({ "type": kind, "selector": { "app": "web" }, "ports": [{ "port": 80 }] });
    cluster.apply(service("tenant/web", spec("ClusterIP")));
    assert_eq!(own(&cluster, "n2"), []);
    cluster.apply(service("tenant/web", spec("NodePort")));
    assert_eq!(own(&cluster, "n2"), tenant);
    cluster.delete(Kind::Service, "tenant/web");
    assert_eq!(own(&cluster, "n2"), []);
    cluster.delete(Kind::Pod, "tenant/web");
    assert_eq!(own(&cluster, "n1"), []);
}

#[test]
fn a_leak_takes_the_other_network_along() {
    let mut cluster = Cluster::with_two_nodes();
    network(&mut cluster, "red", "10.10.0.0/24");
    network(&mut cluster, "blue", "10.20.0.0/24");
    cluster.apply(pod_in("red", "web", "n1"));
    let red = networks(&cluster, &["default/red", "default/red-servicenetwork"]);
    assert_eq!(own(&cluster, "n1"), red);
    let selector =
        json!({ "matchExpressions": [{ "key": "net", "operator": "In", "values": ["red", "blue"] }] });
    let mesh = json!({ "type": "mesh", "virtualNetworkSelector": selector });
    cluster.apply(contrail("VirtualNetworkRouter", "mesh", mesh));
    let blue = networks(&cluster, &["default/blue"]);
    assert!(blue.iter().chain(&red).all(|layer| own(&cluster, "n1").contains(layer)));
    assert_eq!(own(&cluster, "n2"), []);
    cluster.delete(Kind::VirtualNetworkRouter, "default/mesh");
    assert_eq!(own(&cluster, "n1"), red);
}

#[test]
fn an_interface_keeps_its_network_until_it_is_gone() {
    let mut cluster = Cluster::with_two_nodes();
    network(&mut cluster, "red", "10.10.0.0/24");
    cluster.apply(pod_in("red", "web", "n1"));
    let red = own(&cluster, "n1");
    let binding = cluster.binding("n1", "default/web").unwrap();
    let addresses: Vec<String> = binding.addresses.iter().map(ToString::to_string).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let attachment = common::attachment(1, "default/web", &addresses);
    let attachment = Attachment { vrf: binding.vrf, ..attachment };
    cluster.model.attach("n1", attachment);
    cluster.delete(Kind::Pod, "default/web");
    assert_eq!(own(&cluster, "n1"), red);
    // So it does over a restart.
    let mut again = Cluster::from_state(cluster.saved_state());
    network(&mut again, "red", "10.10.0.0/24");
    again.settle();
    assert!(again.interest("n1").contains(&Layer::Network(binding.vrf)));
    cluster.detach("n1", 1);
    assert_eq!(own(&cluster, "n1"), []);
}

#[test]
fn a_policy_is_where_the_pods_are_that_it_selects() {
    let mut cluster = Cluster::with_two_nodes();
    cluster.record(policy("web", "web", &["client", "probe"]));
    cluster.record(policy("db", "db", &["web", "client"]));
    cluster.apply(pod("client", "client", "n2", running("10.244.2.5", true)));
    assert_eq!([guarded(&cluster, "n1"), guarded(&cluster, "n2")], [[0, 0]; 2]);
    cluster.apply(pod("web", "web", "n1", running("10.244.1.5", true)));
    assert_eq!([guarded(&cluster, "n1"), guarded(&cluster, "n2")], [[1, 2], [0, 0]]);
    // The set of clients is both policies'.
    cluster.apply(pod("db", "db", "n1", running("10.244.1.6", true)));
    assert_eq!(guarded(&cluster, "n1"), [2, 3]);
    cluster.apply(pod("web", "none", "n1", running("10.244.1.5", true)));
    assert_eq!(guarded(&cluster, "n1"), [1, 2]);
    // A policy that comes to name another set, and one that is gone.
    cluster.apply(policy("db", "db", &["web", "client", "probe"]));
    assert_eq!(guarded(&cluster, "n1"), [1, 3]);
    cluster.delete(Kind::NetworkPolicy, "default/db");
    assert_eq!(guarded(&cluster, "n1"), [0, 0]);
}

#[test]
fn one_more_pod_of_a_thousand_policies_is_no_news() {
    let mut cluster = Cluster::with_two_nodes();
    for number in 0..1_000 {
        cluster.record(policy(&format!("p{number}"), "web", &[&format!("client-{number}")]));
    }
    cluster.apply(pod("web-0", "web", "n1", running("10.244.1.5", true)));
    assert_eq!(guarded(&cluster, "n1"), [1_000, 1_000]);
    let object = common::object(pod("web-1", "web", "n1", running("10.244.1.6", true)));
    cluster.model.apply(&object, "web.yaml".into());
    let settlement = cluster.model.settle();
    assert_eq!(settlement.interest, []);
    let name: NamespacedName = "default/web-1".parse().unwrap();
    assert!(settlement.changes.iter().any(|change| change.key.to_string().ends_with(&name.to_string())));
}
