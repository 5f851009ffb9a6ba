//! Networks that change while pods run in them, and a controller that starts again.

use serde_json::json;
use vrouter_control_model::{Kind, State};
use vrouter_objects::MemberState;

use crate::common::{Cluster, service};
use crate::support::{NETWORK, annotated, isolated, namespace, network, plain_pod, subnet, two_nodes};

const CLUSTER: &str = "default/default-podnetwork";

#[test]
fn a_pod_that_runs_keeps_its_interface_when_its_namespace_is_isolated() {
    let mut cluster = two_nodes();
    cluster.record(namespace("shop"));
    cluster.record(plain_pod("shop/web", "n1"));
    cluster.record(service("shop/web", json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }] })));
    cluster.settle();
    cluster.attach("n1", 11, "shop/web", &["10.244.1.5"]);
    let ready = |cluster: &Cluster| cluster.members("shop/web", "TCP/80", MemberState::Ready);
    assert_eq!(ready(&cluster), ["10.244.1.5:80"]);

    cluster.apply(isolated("shop"));
    let own = "shop/default-podnetwork";
    assert_eq!(cluster.bound("n1", "shop/web").0, own, "where it is to be");
    assert_eq!(cluster.way("n2", own, "10.244.1.5/32"), "none", "it is not there yet");
    assert_eq!(cluster.floating_ip("shop/web", true).vrf, cluster.vrf("shop/default-servicenetwork"));
    assert!(ready(&cluster).is_empty());
    let cut_off = "it is attached to network default/default-podnetwork and is to be in \
                   shop/default-podnetwork: it is cut off until it is attached anew";
    assert!(
        cluster.problems().contains(&format!("web.yaml: Pod shop/web: {cut_off}")),
        "{:?}",
        cluster.problems()
    );

    cluster.detach("n1", 11);
    cluster.attach_in(own, "n1", 12, "shop/web", &["10.244.1.6"]);
    assert_eq!(ready(&cluster), ["10.244.1.6:80"]);
    assert_eq!(cluster.way("n2", own, "10.244.1.6/32"), "to n1");
    assert!(cluster.problems().is_empty(), "{:?}", cluster.problems());

    // And back.
    cluster.apply(namespace("shop"));
    assert!(cluster.instance(own).is_none());
    assert_eq!(cluster.bound("n1", "shop/web").0, CLUSTER);
    assert_eq!(cluster.way("n2", "default/ip-fabric", "10.244.1.6/32"), "none");
    assert!(ready(&cluster).is_empty());
    let cut_off = "it is attached to network shop/default-podnetwork and is to be in \
                   default/default-podnetwork: it is cut off until it is attached anew";
    assert!(
        cluster.problems().contains(&format!("web.yaml: Pod shop/web: {cut_off}")),
        "{:?}",
        cluster.problems()
    );
    // Its node reports it again after a restart: it is believed.
    let before = cluster.tables.clone();
    let mut attached = crate::common::attachment(12, "shop/web", &["10.244.1.6"]);
    attached.vrf = vrouter_objects::VrfId::new(4).unwrap();
    cluster.model.attached("n1", vec![attached]);
    cluster.settle();
    assert_eq!(cluster.tables, before);

    // Isolated once more, it is where it was.
    cluster.apply(isolated("shop"));
    assert_eq!(cluster.vrf(own).get(), 4, "the same network");
    assert_eq!(ready(&cluster), ["10.244.1.6:80"]);
    assert!(cluster.problems().is_empty());
}

#[test]
fn manifests_count_in_whatever_order_they_come() {
    let manifests = [
        annotated(plain_pod("red/web", "n1"), NETWORK, "red/net"),
        annotated(service("red/web", json!({ "ports": [{ "port": 80 }] })), NETWORK, "red/net"),
        network("red/net", &["v4"]),
        subnet("red/net-v4", "10.0.0.0/24"),
    ];
    let mut forth = two_nodes();
    let mut back = two_nodes();
    for (first, last) in manifests.iter().zip(manifests.iter().rev()) {
        forth.apply(first.clone());
        back.apply(last.clone());
    }
    for cluster in [&forth, &back] {
        assert_eq!(cluster.bound("n1", "red/web"), ("red/net".to_owned(), vec!["10.0.0.2".to_owned()]));
        assert_eq!(cluster.floating_ip("red/web", true).address.to_string(), "10.96.1.1");
        assert!(cluster.problems().is_empty());
    }
}

#[test]
fn a_network_that_is_taken_away_and_comes_back() {
    let mut cluster = two_nodes();
    cluster.record_network("red/net", "10.0.0.0/24");
    cluster.record(annotated(namespace("red"), NETWORK, "red/net"));
    cluster.record(plain_pod("red/web", "n1"));
    cluster.record(service("red/web", json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }] })));
    cluster.settle();
    cluster.attach_in("red/net", "n1", 11, "red/web", &["10.0.0.2"]);
    let before = cluster.tables.clone();

    cluster.delete(Kind::VirtualNetwork, "red/net");
    assert!(cluster.instance("red/net").is_none() && cluster.instance("red/net-servicenetwork").is_none());
    assert!(cluster.floating_ips("red/web").is_empty());
    assert!(cluster.refusal("n1", "red/web").ends_with("there is no network red/net"));
    assert!(!cluster.tables.values().any(|object| format!("{object:?}").contains("10.0.0.2")));

    cluster.apply(network("red/net", &["v4"]));
    let shown = |tables: &std::collections::BTreeMap<_, std::sync::Arc<vrouter_objects::Object>>| {
        let kept =
            tables.values().filter(|object| !matches!(***object, vrouter_objects::Object::FloatingIp(_)));
        kept.map(|object| format!("{object:?}")).collect::<Vec<_>>()
    };
    assert_eq!(shown(&cluster.tables), shown(&before), "with the same numbers and addresses");
    assert_eq!(cluster.members("red/web", "TCP/80", MemberState::Ready), ["10.0.0.2:80"]);
    // Its Subnet is taken away: that is no network either.
    cluster.delete(Kind::Subnet, "red/net-v4");
    assert!(cluster.instance("red/net").is_none());
    assert!(cluster.refusal("n1", "red/web").ends_with("there is no Subnet red/net-v4"));
}

#[test]
fn a_pod_keeps_its_address_when_the_subnet_changes_until_it_is_attached_anew() {
    let mut cluster = two_nodes();
    cluster.record_network("red/net", "10.0.0.0/24");
    cluster.record(annotated(plain_pod("red/web", "n1"), NETWORK, "red/net"));
    cluster.settle();
    cluster.attach_in("red/net", "n1", 11, "red/web", &["10.0.0.2"]);
    cluster.apply(subnet("red/net-v4", "10.0.0.0/16"));
    assert_eq!(cluster.bound("n1", "red/web").1, ["10.0.0.2"], "it is in the wider one");
    assert_eq!(cluster.way("n1", "red/net", "10.0.0.0/16"), "reject");
    assert_eq!(cluster.way("n1", "red/net", "10.0.0.0/24"), "none");
    assert!(cluster.problems().is_empty());
    cluster.apply(subnet("red/net-v4", "10.7.0.0/24"));
    assert_eq!(cluster.bound("n1", "red/web").1, ["10.7.0.2"]);
    assert_eq!(cluster.way("n2", "red/net", "10.0.0.2/32"), "to n1", "where it still is");
    let message = "it has 10.0.0.2, which is not in network red/net any more, until it is attached anew";
    assert_eq!(cluster.problems(), [format!("web.yaml: Pod red/web: {message}")]);
    cluster.detach("n1", 11);
    cluster.attach_in("red/net", "n1", 12, "red/web", &["10.7.0.2"]);
    assert_eq!(cluster.way("n2", "red/net", "10.0.0.2/32"), "none");
    assert_eq!(cluster.way("n2", "red/net", "10.7.0.2/32"), "to n1");
    assert!(cluster.problems().is_empty());
}

#[test]
fn an_annotation_that_changes_moves_the_next_pod_and_not_the_one_that_runs() {
    let mut cluster = two_nodes();
    cluster.record_network("red/net", "10.0.0.0/24");
    cluster.record(plain_pod("red/web", "n1"));
    cluster.settle();
    cluster.attach("n1", 11, "red/web", &["10.244.1.5"]);
    cluster.apply(annotated(plain_pod("red/web", "n1"), NETWORK, "red/net"));
    assert_eq!(cluster.bound("n1", "red/web"), ("red/net".to_owned(), vec!["10.0.0.2".to_owned()]));
    assert_eq!(cluster.way("n2", "red/net", "10.0.0.2/32"), "to n1", "promised");
    cluster.detach("n1", 11);
    cluster.attach_in("red/net", "n1", 12, "red/web", &["10.0.0.2"]);
    assert!(cluster.problems().is_empty());
}

/// It would speak to those whom it was to be kept apart from.
#[test]
fn a_pod_that_runs_is_cut_off_when_there_is_no_network_that_it_is_to_be_in() {
    let mut cluster = two_nodes();
    cluster.record(namespace("shop"));
    cluster.record(plain_pod("shop/web", "n1"));
    cluster.settle();
    cluster.attach("n1", 11, "shop/web", &["10.244.1.5"]);
    let cut_off = "web.yaml: Pod shop/web: it is attached to network default/default-podnetwork and is to be in \
                   one that it cannot be in: it is cut off until it is attached anew";
    for wish in ["shop/none", "not/a/name", "default/ip-fabric"] {
        cluster.apply(annotated(namespace("shop"), NETWORK, wish));
        assert_ne!(cluster.bound("n1", "shop/web").0, CLUSTER, "{wish}");
        assert!(cluster.problems().contains(&cut_off.to_owned()), "{wish}: {:?}", cluster.problems());
        cluster.apply(namespace("shop"));
        assert_eq!(cluster.bound("n1", "shop/web").0, CLUSTER, "{wish}: it was a slip");
        assert!(cluster.problems().is_empty());
    }
}

fn everything() -> Vec<serde_json::Value> {
    vec![
        crate::common::node("n1", "172.30.0.1"),
        isolated("shop"),
        subnet("red/net-v4", "10.0.0.0/24"),
        network("red/net", &["v4"]),
        annotated(namespace("red"), NETWORK, "red/net"),
        plain_pod("red/a", "n1"),
        plain_pod("red/b", "n1"),
        plain_pod("shop/a", "n1"),
        service("red/s", json!({ "ports": [{ "port": 80 }] })),
        service("shop/s", json!({ "ports": [{ "port": 80 }] })),
    ]
}

#[test]
fn a_controller_that_starts_again_gives_the_same() {
    let mut cluster = two_nodes();
    // So that numbers are not given in the order in which they would be from the start.
    cluster.record_network("a/first", "10.3.0.0/24");
    cluster.settle();
    for object in everything().into_iter().rev() {
        cluster.apply(object);
    }
    let address = cluster.bound("n1", "red/b").1.remove(0);
    cluster.attach_in("red/net", "n1", 11, "red/b", &[&address]);
    cluster.delete(Kind::VirtualNetwork, "a/first");
    cluster.delete(Kind::Subnet, "a/first-v4");
    let saved = cluster.saved_state();
    let mut again = Cluster::from_state(saved);
    again.record(crate::common::node("n2", "172.30.0.2"));
    everything().into_iter().for_each(|object| again.record(object));
    again.settle();
    assert_eq!(again.tables, cluster.tables);
    // The number that was given to a network that is gone is its own for ever.
    again.record_network("b/second", "10.4.0.0/24");
    again.settle();
    assert!(again.vrf("b/second").get() > 7);
    again.record_network("a/first", "10.3.0.0/24");
    again.settle();
    assert_eq!(again.vrf("a/first").get(), 4);
}

#[test]
fn a_state_from_before_there_were_networks_is_taken_up() {
    let mut cluster = two_nodes();
    cluster.apply(service("shop/s", json!({ "ports": [{ "port": 80 }] })));
    let address = cluster.addresses("shop/s");
    let mut saved = serde_json::to_value(cluster.saved_state()).unwrap();
    let fields = saved.as_object_mut().unwrap();
    assert!(fields.remove("networks").is_some() && fields.remove("pod_addresses").is_some());
    // Cluster addresses bore no address space.
    let text = serde_json::to_string(&saved).unwrap().replace("\"2/10.96.", "\"10.96.");
    assert_ne!(text, serde_json::to_string(&saved).unwrap());
    let old: State = serde_json::from_str(&text).unwrap();
    let mut again = Cluster::from_state(old);
    again.apply(service("shop/s", json!({ "ports": [{ "port": 80 }] })));
    assert_eq!(again.addresses("shop/s"), address);
    again.apply(isolated("shop"));
    assert_eq!(again.vrf("shop/default-podnetwork").get(), 4);
}

#[test]
fn a_promised_address_goes_where_its_pod_goes() {
    let mut cluster = two_nodes();
    cluster.record_network("red/net", "10.0.0.0/24");
    cluster.apply(annotated(plain_pod("red/web", "n1"), NETWORK, "red/net"));
    assert_eq!(cluster.way("n2", "red/net", "10.0.0.2/32"), "to n1");
    cluster.apply(annotated(plain_pod("red/web", "n2"), NETWORK, "red/net"));
    assert_eq!(cluster.bound("n2", "red/web").1, ["10.0.0.2"]);
    assert_eq!(cluster.way("n1", "red/net", "10.0.0.2/32"), "to n2");
    cluster.delete(Kind::Node, "n2");
    assert_eq!(cluster.way("n1", "red/net", "10.0.0.2/32"), "none");
    cluster.apply(crate::common::node("n2", "172.30.0.2"));
    assert_eq!(cluster.way("n1", "red/net", "10.0.0.2/32"), "to n2");
    cluster.delete(Kind::Pod, "red/web");
    assert_eq!(cluster.way("n1", "red/net", "10.0.0.2/32"), "none");
}

#[test]
fn one_tenants_change_costs_nobody_else_anything() {
    let mut cluster = two_nodes();
    for tenant in 0..20 {
        let network = format!("t{tenant}/net");
        cluster.record_network(&network, "10.0.0.0/24");
        cluster.record(isolated(&format!("i{tenant}")));
        for pod in 0..20 {
            cluster.record(annotated(plain_pod(&format!("t{tenant}/p{pod}"), "n1"), NETWORK, &network));
            cluster.record(plain_pod(&format!("i{tenant}/p{pod}"), "n1"));
        }
    }
    cluster.settle();
    // The pod, and its address in whatever network it is.
    assert!(cluster.apply(annotated(plain_pod("t3/new", "n1"), NETWORK, "t3/net")) <= 8);
    // A namespace with its two networks, and a network's two.
    assert!(cluster.apply(isolated("new")) <= 4);
    cluster.record_network("new/net", "10.0.0.0/24");
    assert!(cluster.settle() <= 4);
    // Twenty pods move.
    assert!(cluster.apply(namespace("i4")) <= 4 + 2 * 20);
}
