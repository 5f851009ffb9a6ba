//! VirtualNetworkRouters.

use serde_json::json;
use vrouter_control_model::Kind;

use crate::common::{Cluster, made};
use crate::support::{bare, isolated, labelled, network, plain_pod, router, subnet, two_nodes};

/// Networks NAMESPACE/NAME with the label `vn: VALUE` and this subnet.
fn with_networks(list: &[(&str, &str, &str)]) -> Cluster {
    let mut cluster = two_nodes();
    for (name, label, cidr) in list {
        cluster.record(subnet(&format!("{name}-v4"), cidr));
        cluster.record(labelled(network(name, &["v4"]), &[("vn", label)]));
    }
    cluster.settle();
    cluster
}

fn leaks(cluster: &Cluster, network: &str) -> Vec<String> {
    cluster.leaks(network).into_iter().map(|(prefix, into)| format!("{prefix} {into}")).collect()
}

#[test]
fn a_mesh_connects_all_that_it_selects() {
    let mut cluster = with_networks(&[
        ("a/one", "web", "10.1.0.0/24"),
        ("a/two", "web", "10.2.0.0/24"),
        ("a/other", "db", "10.3.0.0/24"),
        ("b/one", "web", "10.4.0.0/24"),
    ]);
    cluster.apply(router("a/mesh", "mesh", json!({ "vn": "web" }), &[]));
    assert_eq!(leaks(&cluster, "a/one"), ["10.2.0.0/24 a/two"]);
    assert_eq!(leaks(&cluster, "a/two"), ["10.1.0.0/24 a/one"]);
    assert!(leaks(&cluster, "a/other").is_empty() && leaks(&cluster, "b/one").is_empty());
    assert_eq!(cluster.known_in("a/one"), ["a/two"]);
    assert!(leaks(&cluster, "a/one-servicenetwork").is_empty());
    // A label more, a label less, and no router any more.
    cluster.apply(labelled(network("a/other", &["v4"]), &[("vn", "web")]));
    assert_eq!(leaks(&cluster, "a/one"), ["10.2.0.0/24 a/two", "10.3.0.0/24 a/other"]);
    assert_eq!(leaks(&cluster, "a/other"), ["10.1.0.0/24 a/one", "10.2.0.0/24 a/two"]);
    cluster.apply(labelled(network("a/two", &["v4"]), &[("vn", "db")]));
    assert_eq!(leaks(&cluster, "a/one"), ["10.3.0.0/24 a/other"]);
    assert_eq!(cluster.known_in("a/two"), Vec::<String>::new());
    cluster.delete(Kind::VirtualNetworkRouter, "a/mesh");
    assert!(["a/one", "a/two", "a/other"].iter().all(|name| leaks(&cluster, name).is_empty()));
    assert!(cluster.problems().is_empty());
}

#[test]
fn hubs_and_spokes_meet_where_both_say_so_and_their_own_kind_never() {
    let mut cluster = with_networks(&[
        ("hub/h1", "h", "10.1.0.0/24"),
        ("hub/h2", "h", "10.2.0.0/24"),
        ("s/s1", "s", "10.3.0.0/24"),
        ("t/s2", "s", "10.4.0.0/24"),
    ]);
    cluster.record(router("hub/h", "hub", json!({ "vn": "h" }), &[("s", "s"), ("t", "s")]));
    cluster.apply(router("s/s", "spoke", json!({ "vn": "s" }), &[("hub", "h"), ("t", "s")]));
    assert_eq!(leaks(&cluster, "s/s1"), ["10.1.0.0/24 hub/h1", "10.2.0.0/24 hub/h2"]);
    assert_eq!(leaks(&cluster, "hub/h1"), ["10.3.0.0/24 s/s1"]);
    cluster.apply(router("t/s", "spoke", json!({ "vn": "s" }), &[("s", "s")]));
    let field = "spec.import.virtualNetworkRouters";
    assert_eq!(
        cluster.problems(),
        [
            format!(
                "h.yaml: VirtualNetworkRouter hub/h: {field}: t/s does not import this one: they are not joined"
            ),
            format!("s.yaml: VirtualNetworkRouter s/s: {field}: t/s is a spoke, which no spoke is joined to"),
            format!("s.yaml: VirtualNetworkRouter t/s: {field}: s/s is a spoke, which no spoke is joined to"),
        ]
    );
    assert!(leaks(&cluster, "t/s2").is_empty());
    cluster.apply(router("t/s", "spoke", json!({ "vn": "s" }), &[("hub", "h")]));
    assert_eq!(leaks(&cluster, "t/s2"), ["10.1.0.0/24 hub/h1", "10.2.0.0/24 hub/h2"]);
    assert_eq!(leaks(&cluster, "hub/h2"), ["10.3.0.0/24 s/s1", "10.4.0.0/24 t/s2"]);
    assert_eq!(leaks(&cluster, "s/s1"), ["10.1.0.0/24 hub/h1", "10.2.0.0/24 hub/h2"]);
    cluster.delete(Kind::VirtualNetworkRouter, "hub/h");
    assert!(["hub/h1", "s/s1", "t/s2"].iter().all(|name| leaks(&cluster, name).is_empty()));
}

#[test]
fn meshes_of_two_namespaces_are_joined_by_namespaces_labels() {
    let mut cluster = with_networks(&[("a/net", "x", "10.1.0.0/24"), ("b/net", "x", "10.2.0.0/24")]);
    let mut joining = router("a/m", "mesh", json!({ "vn": "x" }), &[("b", "m")]);
    let entry = &mut joining["spec"]["import"]["virtualNetworkRouters"][0];
    entry["namespaceSelector"] = json!({ "matchLabels": { "team": "b" } });
    cluster.record(joining);
    cluster.apply(router("b/m", "mesh", json!({ "vn": "x" }), &[("a", "m")]));
    assert!(leaks(&cluster, "a/net").is_empty());
    cluster.apply(labelled(crate::support::namespace("b"), &[("team", "b")]));
    assert_eq!(leaks(&cluster, "a/net"), ["10.2.0.0/24 b/net"]);
    cluster.apply(crate::support::namespace("b"));
    assert!(leaks(&cluster, "a/net").is_empty());
}

#[test]
fn addresses_that_would_mean_two_pods_are_refused() {
    let mut cluster = with_networks(&[
        ("a/one", "x", "10.1.0.0/16"),
        ("a/two", "x", "10.1.7.0/24"),
        ("a/three", "x", "10.2.0.0/24"),
    ]);
    cluster.apply(router("a/mesh", "mesh", json!({ "vn": "x" }), &[]));
    let refused = "mesh.yaml: VirtualNetworkRouter a/mesh: spec.virtualNetworkSelector:";
    assert_eq!(
        cluster.problems(),
        [
            format!(
                "{refused} a/one and a/two are not connected: 10.1.0.0/16 of a/one overlaps 10.1.7.0/24 of a/two"
            ),
            format!(
                "{refused} a/three and a/two are not connected: 10.1.7.0/24 of a/two overlaps 10.1.0.0/16 of a/one, \
                 which a/three reaches"
            ),
        ]
    );
    assert_eq!(leaks(&cluster, "a/three"), ["10.1.0.0/16 a/one"]);
    assert!(leaks(&cluster, "a/two").is_empty() && cluster.known_in("a/two").is_empty());
    // What an older router connects stays.
    let old = router("a/old", "mesh", json!({ "old": "x" }), &[]);
    cluster.record(made(2020, router("a/mesh", "mesh", json!({ "vn": "x" }), &[])));
    cluster.record(made(2019, old));
    for name in ["a/two", "a/three"] {
        cluster.record(labelled(network(name, &["v4"]), &[("vn", "x"), ("old", "x")]));
    }
    cluster.settle();
    assert_eq!(leaks(&cluster, "a/three"), ["10.1.7.0/24 a/two"]);
    // The subnet moves out of the way.
    cluster.apply(subnet("a/two-v4", "10.9.0.0/24"));
    assert_eq!(leaks(&cluster, "a/three"), ["10.1.0.0/16 a/one", "10.9.0.0/24 a/two"]);
    assert!(cluster.problems().is_empty());
}

#[test]
fn isolated_namespaces_are_connected_pod_by_pod() {
    let mut cluster = with_networks(&[("red/net", "x", "10.0.0.0/24")]);
    let (shop, bank) = ("shop/default-podnetwork", "bank/default-podnetwork");
    for (i, name) in ["shop", "bank"].into_iter().enumerate() {
        cluster.record(isolated(name));
        cluster.record(labelled(bare(&format!("{name}/default-podnetwork")), &[("vn", "x")]));
        cluster.record(plain_pod(&format!("{name}/p"), "n1"));
        cluster.settle();
        let own = format!("{name}/default-podnetwork");
        cluster.attach_in(&own, "n1", 11 + i as u32, &format!("{name}/p"), &[&format!("10.244.1.{}", 5 + i)]);
    }
    cluster.record(router("shop/m", "mesh", json!({ "vn": "x" }), &[("bank", "m"), ("red", "m")]));
    cluster.record(router("bank/m", "mesh", json!({ "vn": "x" }), &[("shop", "m")]));
    cluster.apply(router("red/m", "mesh", json!({ "vn": "x" }), &[("shop", "m")]));
    assert!(cluster.problems().is_empty(), "{:?}", cluster.problems());
    assert_eq!(leaks(&cluster, shop), ["10.0.0.0/24 red/net".to_owned(), format!("10.244.1.6/32 {bank}")]);
    assert_eq!(leaks(&cluster, bank), [format!("10.244.1.5/32 {shop}")], "red is no peer of its");
    assert_eq!(leaks(&cluster, "red/net"), [format!("10.244.1.5/32 {shop}")]);
    assert_eq!(cluster.way("n1", "red/net", "10.244.0.0/16"), "reject");
    assert_eq!(cluster.known_in(shop), ["default/default-podnetwork", "default/ip-fabric", "red/net", bank]);
    // A pod comes, and goes; a router goes.
    cluster.apply(plain_pod("shop/q", "n2"));
    cluster.attach_in(shop, "n2", 21, "shop/q", &["10.244.2.9"]);
    assert_eq!(leaks(&cluster, bank), [format!("10.244.1.5/32 {shop}"), format!("10.244.2.9/32 {shop}")]);
    cluster.detach("n2", 21);
    assert_eq!(leaks(&cluster, bank), [format!("10.244.1.5/32 {shop}")]);
    cluster.delete(Kind::VirtualNetworkRouter, "shop/m");
    assert!([shop, bank, "red/net"].iter().all(|name| leaks(&cluster, name).is_empty()));
}

#[test]
fn the_clusters_own_network_is_connected_likewise() {
    let mut cluster =
        with_networks(&[("default/net", "x", "10.0.0.0/24"), ("default/wide", "w", "10.244.0.0/14")]);
    let own = "default/default-podnetwork";
    cluster.record(labelled(bare(own), &[("vn", "x")]));
    cluster.record(plain_pod("free/p", "n1"));
    cluster.settle();
    cluster.attach("n1", 11, "free/p", &["10.244.1.5"]);
    cluster.apply(router("default/m", "mesh", json!({ "vn": "x" }), &[]));
    assert_eq!(leaks(&cluster, "default/net"), [format!("10.244.1.5/32 {own}")]);
    assert_eq!(leaks(&cluster, own), ["10.0.0.0/24 default/net"]);
    assert_eq!(cluster.known_in(own), ["default/ip-fabric", "default/net"]);
    // All that is the cluster's elsewhere is the wide one's own in itself.
    cluster.apply(labelled(network("default/wide", &["v4"]), &[("vn", "x")]));
    assert_eq!(cluster.problems().len(), 2, "{:?}", cluster.problems());
    assert!(cluster.known_in("default/wide").is_empty());
}

#[test]
fn a_peers_wide_subnet_is_all_the_peers() {
    let mut cluster = with_networks(&[("a/one", "x", "192.168.0.0/24"), ("a/wide", "x", "10.192.0.0/10")]);
    cluster.apply(router("a/m", "mesh", json!({ "vn": "x" }), &[]));
    assert_eq!(leaks(&cluster, "a/one"), ["10.192.0.0/10 a/wide"]);
    assert_eq!(cluster.way("n1", "a/one", "10.244.0.0/16"), "none", "there it is nobody's but the peer's");
    assert_eq!(cluster.way("n1", "a/wide", "10.244.0.0/16"), "reject");
}

#[test]
fn what_cannot_be_read_connects_nothing() {
    let mut cluster = with_networks(&[("a/one", "x", "10.1.0.0/24"), ("a/two", "x", "10.2.0.0/24")]);
    cluster.apply(router("a/m", "star", json!({ "vn": "x" }), &[]));
    assert_eq!(
        cluster.problems(),
        ["m.yaml: VirtualNetworkRouter a/m: spec.type: \"star\" is none of mesh, hub, spoke"]
    );
    let mut odd = router("a/m", "mesh", json!({ "vn": "x" }), &[]);
    odd["spec"]["virtualNetworkSelector"] =
        json!({ "matchLabels": { "vn": "x" }, "matchExpressions": [{ "key": "vn", "operator": "Near" }] });
    cluster.apply(odd);
    assert_eq!(cluster.problems().len(), 1);
    let mut none = router("a/m", "mesh", json!({}), &[]);
    none["spec"].as_object_mut().unwrap().remove("virtualNetworkSelector");
    cluster.apply(none);
    assert!(leaks(&cluster, "a/one").is_empty() && cluster.problems().is_empty());
}

#[test]
fn a_peer_with_another_subnet_is_led_to_there() {
    let mut cluster = with_networks(&[("a/one", "web", "10.1.0.0/24"), ("a/two", "web", "10.2.0.0/24")]);
    cluster.apply(router("a/mesh", "mesh", json!({ "vn": "web" }), &[]));
    assert_eq!(leaks(&cluster, "a/one"), ["10.2.0.0/24 a/two"]);
    cluster.apply(subnet("a/two-v4", "10.3.0.0/24"));
    assert_eq!(leaks(&cluster, "a/one"), ["10.3.0.0/24 a/two"]);
    assert_eq!(leaks(&cluster, "a/two"), ["10.1.0.0/24 a/one"]);
}
