//! Isolated namespaces.

use serde_json::json;
use vrouter_control_model::Kind;
use vrouter_objects::MemberState;

use crate::common::{Cluster, service};
use crate::support::{annotated, bare, isolated, labelled, namespace, plain_pod, two_nodes};

const PODS: &str = "shop/default-podnetwork";
const SERVICES: &str = "shop/default-servicenetwork";
const CLUSTER: &str = "default/default-podnetwork";
const FABRIC: &str = "default/ip-fabric";

/// The namespace shop is isolated, with the pod shop/web on n1 at 10.244.1.5; free/web is on n2 at 10.244.2.5.
fn shop() -> Cluster {
    let mut cluster = two_nodes();
    cluster.record(isolated("shop"));
    cluster.record(plain_pod("shop/web", "n1"));
    cluster.record(plain_pod("free/web", "n2"));
    cluster.settle();
    cluster.attach_in(PODS, "n1", 11, "shop/web", &["10.244.1.5", "fd00:10:244:1::5"]);
    cluster.attach("n2", 12, "free/web", &["10.244.2.5"]);
    cluster
}

#[test]
fn it_has_networks_of_its_own_on_the_clusters_subnets() {
    let cluster = shop();
    let [pods, services, own] = [PODS, SERVICES, CLUSTER].map(|name| cluster.instance(name).unwrap());
    assert_eq!((pods.id.get(), services.id.get()), (4, 5));
    assert_eq!((pods.vni.get(), services.vni.get()), (4096, 4097));
    assert_eq!((pods.address_space.get(), services.address_space.get()), (1, 2));
    assert_eq!(pods.subnets, own.subnets);
    assert!(services.subnets.is_empty());
    assert_eq!(cluster.known_in(PODS), [CLUSTER, FABRIC]);
    assert_eq!(cluster.known_in(CLUSTER), [FABRIC]);
    assert_eq!(cluster.bound("n1", "shop/web"), (PODS.to_owned(), vec![]));
    assert_eq!(cluster.bound("n2", "free/web"), (CLUSTER.to_owned(), vec![]));
    assert!(cluster.problems().is_empty(), "{:?}", cluster.problems());
}

#[test]
fn its_pods_are_led_to_in_its_network_and_from_nodes_and_nowhere_else() {
    let cluster = shop();
    for prefix in ["10.244.1.5/32", "fd00:10:244:1::5/128"] {
        for network in [PODS, FABRIC] {
            assert_eq!(cluster.way("n2", network, prefix), "to n1", "{network}");
        }
        assert_eq!(cluster.way("n1", PODS, prefix), "reject", "unless there is the interface");
        assert_eq!(cluster.way("n1", FABRIC, prefix), format!("into {PODS}"));
        for node in ["n1", "n2"] {
            assert_eq!(cluster.way(node, CLUSTER, prefix), "none", "the block leads answers back");
        }
    }
    assert_eq!(cluster.way("n2", CLUSTER, "10.244.1.0/24"), "to n1");
    assert_eq!(cluster.way("n1", CLUSTER, "10.244.1.0/24"), "reject");
    for node in ["n1", "n2"] {
        for prefix in ["10.244.0.0/16", "fd00:10:244::/48"] {
            assert_eq!(cluster.way(node, PODS, prefix), "reject");
            assert_eq!(cluster.way(node, CLUSTER, prefix), "reject");
        }
        assert_eq!(cluster.way(node, PODS, "10.244.2.5/32"), "none");
        assert_eq!(cluster.way(node, PODS, "10.96.0.0/12"), format!("into {SERVICES}"));
        assert_eq!(cluster.way(node, PODS, "0.0.0.0/0"), format!("into {FABRIC}"));
        assert_eq!(cluster.way(node, SERVICES, "10.96.0.0/12"), "into default/default-servicenetwork");
        assert_eq!(cluster.way(node, "default/default-servicenetwork", "10.96.0.0/12"), "reject");
    }
}

#[test]
fn a_pod_off_its_nodes_block_is_found_by_answers() {
    let mut cluster = shop();
    cluster.apply(annotated(plain_pod("shop/far", "n2"), "vrouter.dev/ip-addresses", "10.244.1.77"));
    assert_eq!(cluster.bound("n2", "shop/far"), (PODS.to_owned(), vec!["10.244.1.77".to_owned()]));
    for network in [PODS, CLUSTER, FABRIC] {
        assert_eq!(cluster.way("n1", network, "10.244.1.77/32"), "to n2", "promised");
    }
    assert_eq!(cluster.way("n2", CLUSTER, "10.244.1.77/32"), "reject");
    // An address of the cluster's subnets is one pod's, in whatever network it is.
    cluster.apply(annotated(plain_pod("zoo/late", "n1"), "vrouter.dev/ip-addresses", "10.244.1.77"));
    assert_eq!(cluster.refusal("n1", "zoo/late"), "pod zoo/late: 10.244.1.77 is pod shop/far's already");
}

#[test]
fn its_services_are_in_its_own_network_with_its_own_pods() {
    let mut cluster = shop();
    let spec = json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }] });
    cluster.record(service("shop/web", spec.clone()));
    cluster.record(service("free/web", spec));
    cluster.settle();
    let of_shop = cluster.floating_ip("shop/web", true);
    let of_free = cluster.floating_ip("free/web", true);
    assert_eq!(of_shop.vrf, cluster.vrf(SERVICES));
    assert_eq!((of_free.vrf.get(), of_free.external_vrf.get(), of_shop.external_vrf.get()), (2, 3, 3));
    assert_ne!(of_shop.address, of_free.address, "they share the cluster addresses");
    assert_eq!(cluster.members("shop/web", "TCP/80", MemberState::Ready), ["10.244.1.5:80"]);
    assert_eq!(cluster.member("shop/web", "10.244.1.5").vrf, cluster.vrf(PODS));
    assert_eq!(cluster.member("free/web", "10.244.2.5").vrf.get(), 1);
}

#[test]
fn a_member_that_somebody_wrote_is_in_the_services_network_or_is_none() {
    let mut cluster = shop();
    cluster.record(service("free/all", json!({ "ports": [{ "port": 80 }] })));
    let addresses = ["10.244.1.5", "10.244.2.5", "192.0.2.1"];
    let endpoints = crate::common::endpoints(&addresses);
    cluster.apply(crate::common::slice("free/all", "all", json!([{ "port": 80 }]), endpoints));
    assert_eq!(cluster.members("free/all", "TCP/80", MemberState::Ready), ["10.244.2.5:80", "192.0.2.1:80"]);
    let message = "all.yaml: Service free/all: 10.244.1.5: no member, as it is not in network \
                   default/default-podnetwork, where members are";
    assert_eq!(cluster.problems(), [message]);
    // The pod leaves; its address is free, and nobody's that is in the way.
    cluster.detach("n1", 11);
    cluster.delete(Kind::Pod, "shop/web");
    assert_eq!(cluster.members("free/all", "TCP/80", MemberState::Ready).len(), 3);
    assert!(cluster.problems().is_empty());
}

#[test]
fn the_classic_annotation_says_the_same_and_other_words_count_as_true() {
    let mut cluster = two_nodes();
    cluster.record(annotated(namespace("a"), "opencontrail.org/isolation", "true"));
    cluster.record(labelled(namespace("b"), &[("core.juniper.net/isolated-namespace", "false")]));
    cluster.record(labelled(namespace("c"), &[("core.juniper.net/isolated-namespace", "yes")]));
    cluster.record(isolated("default"));
    cluster.settle();
    let has_own = |name: &str| cluster.instance(&format!("{name}/default-podnetwork")).is_some();
    assert_eq!(["a", "b", "c"].map(has_own), [true, false, true]);
    let field = "metadata.labels[core.juniper.net/isolated-namespace]";
    let problems = [
        format!("c.yaml: Namespace c: {field}: \"yes\" is neither true nor false: it counts as true"),
        format!(
            "default.yaml: Namespace default: {field}: its networks are the cluster's own: it is not isolated"
        ),
    ];
    assert_eq!(cluster.problems(), problems);
    assert_eq!(cluster.vrf(CLUSTER).get(), 1);
}

#[test]
fn a_manifest_gives_its_network_labels_and_nothing_else() {
    let mut cluster = shop();
    cluster.record(bare("shop/default-podnetwork"));
    cluster.record(bare("free/default-podnetwork"));
    let mut more = bare("shop/default-servicenetwork");
    more["spec"]["virtualNetworkNetworkId"] = 7.into();
    cluster.record(more);
    cluster.settle();
    assert_eq!(cluster.problems().len(), 2, "{:?}", cluster.problems());
    assert!(
        cluster.problems()[0]
            .contains("VirtualNetwork free/default-podnetwork: metadata.name: is the name of")
    );
    assert!(cluster.problems()[1].contains("a manifest gives it labels and nothing else"));
    assert_eq!(cluster.instance(SERVICES).unwrap().vni.get(), 4097);
}
