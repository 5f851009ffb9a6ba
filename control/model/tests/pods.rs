//! Pods: bindings, static addresses, routes to single addresses, derived endpoints.
#![allow(missing_docs)]

mod common;

use common::{Cluster, node, pod, running, service};
use serde_json::{Value, json};
use vrouter_control_model::Kind;
use vrouter_objects::NextHop;

const FIELD: &str = "metadata.annotations[vrouter.dev/ip-addresses]";

fn wishing(name: &str, node: &str, addresses: &str) -> Value {
    let mut pod = pod(name, "web", node, json!({}));
    pod["metadata"]["annotations"] = json!({ "vrouter.dev/ip-addresses": addresses });
    pod
}

fn tunnel(number: u32) -> Option<NextHop> {
    Some(NextHop::Tunnel(vrouter_objects::RouterId::new(number).unwrap()))
}

#[test]
fn a_pod_is_bound_to_its_node() {
    let mut cluster = Cluster::with_two_nodes();
    cluster.apply(pod("web-0", "web", "n1", json!({})));
    let binding = cluster.binding("n1", "default/web-0").unwrap();
    assert_eq!((binding.addresses.len(), binding.refusal), (0, None));
    assert!(cluster.binding("n2", "default/web-0").is_none());
    let mut host = pod("web-0", "web", "n1", json!({}));
    host["spec"]["hostNetwork"] = true.into();
    cluster.apply(host);
    assert!(cluster.binding("n1", "default/web-0").is_none());
    cluster.apply(pod("web-0", "web", "n2", json!({})));
    assert!(cluster.binding("n2", "default/web-0").is_some());
    cluster.apply(pod("web-0", "web", "n2", json!({ "phase": "Succeeded" })));
    assert!(cluster.binding("n2", "default/web-0").is_none());
}

#[test]
fn two_pods_ask_for_one_address() {
    let mut cluster = Cluster::with_two_nodes();
    cluster.record(wishing("b", "n1", "10.244.7.7"));
    cluster.apply(wishing("a", "n2", "10.244.7.7,fd00:10:244:7::7"));
    let first = cluster.binding("n2", "default/a").unwrap();
    assert_eq!(first.addresses.len(), 2);
    let second = cluster.binding("n1", "default/b").unwrap();
    assert!(second.addresses.is_empty());
    assert_eq!(second.refusal.unwrap(), "pod default/b: 10.244.7.7 is pod default/a's already");
    assert_eq!(
        cluster.problems(),
        [format!("b.yaml: Pod default/b: {FIELD}: 10.244.7.7 is pod default/a's already")]
    );
    cluster.delete(Kind::Pod, "default/a");
    assert_eq!(cluster.binding("n1", "default/b").unwrap().refusal, None);
    assert!(cluster.problems().is_empty());
}

#[test]
fn the_older_pod_wins_and_the_attached_one_before_it() {
    let created = |name: &str, time: &str| {
        let mut pod = wishing(name, "n1", "10.244.7.7");
        pod["metadata"]["creationTimestamp"] = time.into();
        pod
    };
    let mut cluster = Cluster::with_two_nodes();
    cluster.record(created("a", "2026-01-02T00:00:00Z"));
    cluster.apply(created("b", "2026-01-01T00:00:00Z"));
    assert!(cluster.binding("n1", "default/a").unwrap().refusal.is_some());
    assert!(cluster.binding("n1", "default/b").unwrap().refusal.is_none());
    cluster.attach("n1", 1, "default/a", &["10.244.7.7"]);
    assert!(cluster.binding("n1", "default/a").unwrap().refusal.is_none());
    assert!(cluster.binding("n1", "default/b").unwrap().refusal.is_some());
}

#[test]
fn addresses_that_cannot_be_given_are_refused() {
    for (wish, part) in [
        ("192.168.0.1", "192.168.0.1 is no address of the pod network"),
        ("10.244.0.1", "10.244.0.1 is reserved"),
        ("10.244.0.0", "10.244.0.0 is reserved"),
        ("10.244.255.255", "is reserved"),
        ("fd00:10:244::1", "is reserved"),
        ("10.244.7", "\"10.244.7\" is not an IP address"),
        ("10.244.7.7,10.244.7.8", "at most one address per family"),
        ("", "\"\" is not an IP address"),
    ] {
        let mut cluster = Cluster::with_two_nodes();
        cluster.record(pod("other", "web", "n1", json!({})));
        cluster.apply(wishing("web-0", "n1", wish));
        let refusal = cluster.binding("n1", "default/web-0").unwrap().refusal.unwrap();
        assert!(refusal.contains(part), "{wish}: {refusal}");
        let problems = cluster.problems();
        assert!(
            problems.len() == 1 && problems[0].contains(part) && problems[0].contains(FIELD),
            "{problems:?}"
        );
        assert!(cluster.binding("n1", "default/other").unwrap().refusal.is_none());
    }
}

#[test]
fn an_address_outside_its_nodes_blocks_has_a_route_of_its_own() {
    let mut cluster = Cluster::with_two_nodes();
    cluster.apply(wishing("web-0", "n1", "10.244.7.7"));
    assert_eq!(cluster.route("n2", "10.244.7.7/32"), tunnel(1));
    assert_eq!(cluster.route("n1", "10.244.7.7/32"), Some(NextHop::Reject), "until it is attached");
    cluster.attach("n1", 1, "default/web-0", &["10.244.7.7"]);
    assert_eq!(cluster.route("n2", "10.244.7.7/32"), tunnel(1));
    // An ordinary address needs none.
    cluster.attach("n1", 2, "default/web-1", &["10.244.1.9"]);
    assert_eq!(cluster.route("n2", "10.244.1.9/32"), None);
    cluster.delete(Kind::Pod, "default/web-0");
    assert_eq!(cluster.route("n2", "10.244.7.7/32"), tunnel(1), "it is still attached");
    cluster.detach("n1", 1);
    assert_eq!(cluster.route("n2", "10.244.7.7/32"), None);
}

#[test]
fn cni_6_an_address_that_moves_is_where_it_was_attached_last() {
    let mut cluster = Cluster::with_two_nodes();
    cluster.record(node("n3", "172.30.0.3"));
    cluster.attach("n1", 1, "default/web-0", &["10.244.1.5"]);
    assert_eq!(cluster.route("n3", "10.244.1.5/32"), None);
    cluster.attach("n2", 2, "default/web-0", &["10.244.1.5"]);
    for elsewhere in ["n1", "n3"] {
        assert_eq!(cluster.route(elsewhere, "10.244.1.5/32"), tunnel(2), "{elsewhere}");
    }
    cluster.detach("n1", 1);
    assert_eq!(cluster.route("n3", "10.244.1.5/32"), tunnel(2), "a late detach takes nothing away");
    cluster.detach("n2", 2);
    assert_eq!(cluster.route("n3", "10.244.1.5/32"), None);
}

#[test]
fn derived_endpoints_follow_their_pods() {
    let ready = |cluster: &Cluster| cluster.active("default/web", "TCP/80");
    let mut cluster = Cluster::with_two_nodes();
    cluster.record(service("web", json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }] })));
    // Without a status, a pod counts as soon as it is attached.
    cluster.apply(pod("web-0", "web", "n1", Value::Null));
    assert!(ready(&cluster).is_empty());
    cluster.attach("n1", 7, "default/web-0", &["10.244.1.5", "fd00:10:244:1::5"]);
    assert_eq!(ready(&cluster), ["10.244.1.5:80"]);
    let member = cluster.listeners("default/web", "TCP/80")[0].members[0].clone();
    assert_eq!((member.name.as_str(), member.vmi.unwrap().get()), ("default/web-0", 7));
    // Readiness, termination, an end.
    cluster.record(pod("web-1", "web", "n2", running("10.244.2.5", true)));
    cluster.apply(pod("web-0", "web", "n1", running("10.244.1.5", false)));
    assert_eq!(ready(&cluster), ["10.244.2.5:80"]);
    let mut terminating = pod("web-1", "web", "n2", running("10.244.2.5", true));
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    cluster.apply(terminating);
    assert_eq!(ready(&cluster), ["10.244.2.5:80"], "the last resort");
    cluster.apply(pod("web-0", "web", "n1", running("10.244.1.5", true)));
    assert_eq!(ready(&cluster), ["10.244.1.5:80"]);
    assert_eq!(cluster.draining("default/web", "TCP/80"), ["10.244.2.5:80"]);
    cluster.apply(pod("web-0", "web", "n1", json!({ "phase": "Failed", "podIP": "10.244.1.5" })));
    assert_eq!(ready(&cluster), ["10.244.2.5:80"]);
    // Another namespace and other labels are nobody's business.
    cluster.record(pod("other/web-2", "web", "n1", running("10.244.1.6", true)));
    cluster.apply(pod("web-3", "db", "n1", running("10.244.1.7", true)));
    assert_eq!(ready(&cluster), ["10.244.2.5:80"]);
}

#[test]
fn not_ready_addresses_are_published_where_the_service_says_so() {
    let mut cluster = Cluster::with_two_nodes();
    let spec =
        json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }], "publishNotReadyAddresses": true });
    cluster.record(service("web", spec));
    cluster.apply(pod("web-0", "web", "n1", running("10.244.1.5", false)));
    assert_eq!(cluster.active("default/web", "TCP/80"), ["10.244.1.5:80"]);
}

#[test]
fn host_network_pods_have_their_nodes_address() {
    let mut cluster = Cluster::with_two_nodes();
    cluster.record(service("web", json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }] })));
    let mut host = pod("web-0", "web", "n1", Value::Null);
    host["spec"]["hostNetwork"] = true.into();
    cluster.apply(host);
    assert_eq!(cluster.active("default/web", "TCP/80"), ["172.30.0.1:80"]);
    cluster.apply(node("n1", "172.30.0.9"));
    assert_eq!(cluster.active("default/web", "TCP/80"), ["172.30.0.9:80"]);
}

#[test]
fn np_13_a_pod_that_ended_owns_no_address() {
    let mut cluster = Cluster::with_two_nodes();
    cluster.record(service("web", json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }] })));
    cluster.record(pod("job", "job", "n1", json!({ "phase": "Succeeded", "podIP": "10.244.1.5" })));
    cluster.apply(pod("web-0", "web", "n1", running("10.244.1.5", true)));
    assert_eq!(cluster.listeners("default/web", "TCP/80")[0].members[0].name, "default/web-0");
}

#[test]
fn an_attachment_ends_with_its_pod_whatever_the_pod_was_before() {
    let mut cluster = Cluster::with_two_nodes();
    cluster.attach("n2", 1, "default/web-0", &["10.244.7.7"]);
    let mut host = pod("web-0", "web", "n1", json!({}));
    host["spec"]["hostNetwork"] = true.into();
    cluster.apply(host);
    assert_eq!(cluster.route("n1", "10.244.7.7/32"), tunnel(2));
    cluster.apply(pod("web-0", "web", "n1", json!({ "phase": "Succeeded" })));
    assert_eq!(cluster.route("n1", "10.244.7.7/32"), None);
}

#[test]
fn a_member_with_another_interface_is_another_member() {
    let member = |cluster: &Cluster| cluster.listeners("default/web", "TCP/80")[0].members[0].clone();
    let mut cluster = Cluster::with_two_nodes();
    cluster.record(service("web", json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }] })));
    cluster.apply(pod("web-0", "web", "n1", running("10.244.1.5", true)));
    let stated = member(&cluster).id;
    cluster.attach("n1", 7, "default/web-0", &["10.244.1.5"]);
    assert_eq!(member(&cluster).id, stated, "its interface has only become known");
    cluster.attach("n1", 8, "default/web-0", &["10.244.1.5"]);
    let second = member(&cluster);
    assert!(second.id > stated && second.vmi.unwrap().get() == 8);
    // Also where the old interface goes before the new one comes.
    cluster.detach("n1", 7);
    cluster.detach("n1", 8);
    assert_eq!((member(&cluster).id, member(&cluster).vmi), (second.id, None));
    cluster.attach("n1", 9, "default/web-0", &["10.244.1.5"]);
    assert!(member(&cluster).id > second.id);
}

#[test]
fn a_mirror_pod_goes_by_the_uid_of_the_static_one() {
    let mut cluster = Cluster::with_two_nodes();
    let mut mirror = pod("web-0", "web", "n1", json!({}));
    mirror["metadata"]["uid"] = "of-the-object".into();
    mirror["metadata"]["annotations"] = json!({ "kubernetes.io/config.mirror": "of-the-pod" });
    cluster.apply(mirror);
    assert_eq!(cluster.binding("n1", "default/web-0").unwrap().uid, "of-the-pod");
}
