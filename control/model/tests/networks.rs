//! The networks, the routes between them, and the nodes in the fabric.
#![allow(missing_docs)]

mod common;

use common::{Cluster, endpoints, node, node_in, pod, running, service, slice};
use serde_json::{Value, json};
use vrouter_control_model::{Kind, Model, ModelConfig, NetworkVnis, State};
use vrouter_objects::{NetworkKind, NextHop, Object, RouterKind, RoutingInstance, Vni, VrfId};

fn vrf(number: u32) -> VrfId {
    VrfId::new(number).unwrap()
}

fn instances(model: &Model) -> Vec<RoutingInstance> {
    let instances = model.tables().filter_map(|(_, object)| match &**object {
        Object::RoutingInstance(instance) => Some(instance.clone()),
        _ => None,
    });
    instances.collect()
}

fn with_addresses(name: &str, addresses: &[(&str, &str)]) -> Value {
    let mut node = node(name, "172.30.0.9");
    let list = addresses.iter().map(|(kind, address)| json!({ "type": kind, "address": address }));
    node["status"]["addresses"] = list.collect();
    node
}

#[test]
fn three_networks_of_their_own_kinds() {
    let all = instances(&Cluster::new().model);
    let shown: Vec<_> = all
        .iter()
        .map(|one| (one.id.get(), one.name.as_str(), one.vni.get(), one.kind, one.subnets.len()))
        .collect();
    let expected = [
        (1, "default/default-podnetwork", 1, NetworkKind::Overlay, 2),
        (2, "default/default-servicenetwork", 2, NetworkKind::Overlay, 0),
        (3, "default/ip-fabric", 3, NetworkKind::Fabric, 0),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn every_network_knows_its_way_into_the_others() {
    let mut cluster = Cluster::new();
    cluster.settle();
    let route = |vrf: u32, prefix: &str| cluster.route_in(vrf, "n1", prefix);
    for (services, pods, everywhere) in
        [("10.96.0.0/12", "10.244.0.0/16", "0.0.0.0/0"), ("fd00:10:96::/108", "fd00:10:244::/48", "::/0")]
    {
        assert_eq!(route(1, services), Some(NextHop::VrfTranslate(vrf(2))));
        assert_eq!(route(1, everywhere), Some(NextHop::VrfTranslate(vrf(3))));
        assert_eq!(route(2, services), Some(NextHop::Reject));
        assert_eq!(route(2, everywhere), None);
        assert_eq!(route(3, pods), Some(NextHop::VrfTranslate(vrf(1))));
        assert_eq!(route(3, services), Some(NextHop::VrfTranslate(vrf(2))));
        assert_eq!(route(3, everywhere), Some(NextHop::Receive));
    }
}

#[test]
fn a_cluster_of_one_family_has_that_familys_default_routes_alone() {
    let [pods, services, fabric] = [10, 20, 30].map(|number| Vni::new(number).unwrap());
    let prefixes = |text: &str| vec![text.parse().unwrap()];
    let config = ModelConfig::new(
        prefixes("10.244.0.0/16"),
        prefixes("10.96.0.0/12"),
        [24, 64],
        NetworkVnis { pods, services, fabric },
    );
    let mut cluster = Cluster::build(config.unwrap(), State::default());
    cluster.settle();
    assert!(
        cluster.route_in(1, "n1", "0.0.0.0/0").is_some() && cluster.route_in(3, "n1", "0.0.0.0/0").is_some()
    );
    assert!(cluster.route_in(1, "n1", "::/0").is_none() && cluster.route_in(3, "n1", "::/0").is_none());
    assert_eq!(instances(&cluster.model)[2].vni, fabric);
}

#[test]
fn tpol_15_every_address_of_a_node_leads_to_it() {
    let mut cluster = Cluster::new();
    let addresses = [
        ("Hostname", "n1"),
        ("InternalIP", "172.30.0.1"),
        ("InternalIP", "fd00::1"),
        ("InternalIP", "10.9.0.1"),
        ("ExternalIP", "192.0.2.1"),
    ];
    cluster.apply(with_addresses("n1", &addresses));
    let n1 = cluster.router("n1").unwrap();
    let shown: Vec<_> = n1.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["10.9.0.1", "172.30.0.1", "192.0.2.1", "fd00::1"]);
    assert_eq!((n1.address.to_string().as_str(), n1.kind), ("172.30.0.1", RouterKind::Vrouter));
    for prefix in ["10.9.0.1/32", "172.30.0.1/32", "192.0.2.1/32", "fd00::1/128"] {
        assert_eq!(cluster.route_in(3, "n2", prefix), Some(NextHop::Tunnel(n1.id)), "{prefix}");
        assert_eq!(cluster.route("n2", prefix), None);
    }
    cluster.apply(with_addresses("n1", &addresses[..2]));
    assert!(cluster.route_in(3, "n2", "172.30.0.1/32").is_some());
    assert_eq!(cluster.route_in(3, "n2", "192.0.2.1/32"), None);
    cluster.delete(Kind::Node, "n1");
    assert_eq!(cluster.route_in(3, "n2", "172.30.0.1/32"), None);
    assert!(cluster.problems().is_empty());
}

#[test]
fn a_kernel_node_is_reached_by_the_underlay() {
    let mut cluster = Cluster::with_two_nodes();
    let mut kernel = node("k1", "192.0.2.9");
    kernel["spec"] = json!({ "podCIDRs": ["10.244.9.0/24"] });
    kernel["metadata"]["annotations"] = json!({
        "flannel.alpha.coreos.com/backend-data": "{\"VNI\":1,\"VtepMAC\":\"02:aa:00:00:00:01\"}",
        "flannel.alpha.coreos.com/public-ip": "172.30.0.3",
    });
    cluster.apply(kernel);
    let k1 = cluster.router("k1").unwrap();
    assert_eq!(k1.kind, RouterKind::Kernel);
    let addresses: Vec<_> = k1.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["172.30.0.3", "192.0.2.9"]);
    assert!(cluster.route("n1", "10.244.9.0/24").is_some());
    for prefix in ["172.30.0.3/32", "192.0.2.9/32"] {
        assert_eq!(cluster.route_in(3, "n1", prefix), None);
    }
}

#[test]
fn an_address_is_one_nodes() {
    let mut cluster = Cluster::new();
    cluster.record(with_addresses("b", &[("InternalIP", "172.30.0.2"), ("ExternalIP", "192.0.2.1")]));
    cluster.record(with_addresses("a", &[("InternalIP", "172.30.0.1"), ("ExternalIP", "192.0.2.1")]));
    cluster.settle();
    let to = |cluster: &Cluster, node: &str| cluster.router(node).map(|router| NextHop::Tunnel(router.id));
    assert_eq!(cluster.route_in(3, "n1", "192.0.2.1/32"), to(&cluster, "a"));
    assert_eq!(cluster.router("b").unwrap().addresses.len(), 1);
    assert_eq!(
        cluster.problems(),
        ["b.yaml: Node b: status.addresses[1].address: 192.0.2.1 is node a's already"]
    );
    cluster.delete(Kind::Node, "a");
    assert_eq!(cluster.route_in(3, "n1", "192.0.2.1/32"), to(&cluster, "b"));
    assert!(cluster.problems().is_empty());
    // Where tunnels would end at another node, none does.
    cluster.apply(with_addresses("a", &[("InternalIP", "172.30.0.2")]));
    assert!(cluster.router("b").is_none() && cluster.router("a").is_some());
    assert_eq!(
        cluster.problems(),
        ["b.yaml: Node b: status.addresses[0].address: 172.30.0.2 is node a's already"]
    );
}

#[test]
fn a_nodes_zone_and_addresses_go_out_as_that_nodes_change_only() {
    let mut cluster = Cluster::new();
    cluster.record(node_in("z1", "n1", "172.30.0.1"));
    cluster.record(node_in("z1", "n2", "172.30.0.2"));
    cluster.record(service("web", json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }] })));
    for i in 0..20 {
        let address = format!("10.244.1.{}", i + 5);
        cluster.record(pod(&format!("web-{i}"), "web", "n1", running(&address, true)));
    }
    cluster.record(service("written", json!({ "ports": [{ "port": 80 }] })));
    let mut list = endpoints(&["192.0.2.1", "192.0.2.2"]);
    list[0]["nodeName"] = "n1".into();
    cluster.record(slice("written", "written", json!([{ "port": 80 }]), list));
    cluster.settle();
    cluster.model.apply(&common::object(node_in("z2", "n1", "172.30.0.1")), "n1.yaml".into());
    let changes = cluster.model.settle().changes;
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert!(
        matches!(changes[0].object.as_deref(), Some(Object::VirtualRouter(router)) if router.zone == "z2")
    );
    // A further address is the router and the way to it.
    let mut more = node_in("z2", "n1", "172.30.0.1");
    let addresses = json!([
        { "type": "InternalIP", "address": "172.30.0.1" }, { "type": "ExternalIP", "address": "192.0.2.77" },
    ]);
    more["status"]["addresses"] = addresses;
    cluster.model.apply(&common::object(more), "n1.yaml".into());
    let changes = cluster.model.settle().changes;
    let floating_ips =
        changes.iter().filter(|change| matches!(change.key, vrouter_objects::ObjectKey::FloatingIp(_)));
    assert_eq!((changes.len(), floating_ips.count()), (2, 0), "{changes:?}");
}
