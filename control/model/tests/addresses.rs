//! Cluster addresses of Services.
#![allow(missing_docs)]

mod common;

use common::{Cluster, service};
use serde_json::{Value, json};
use vrouter_control_model::Kind;

fn spec(more: Value) -> Value {
    let mut spec = json!({ "ports": [{ "port": 80 }] });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

#[test]
fn families_follow_policy_and_order() {
    for (more, addresses) in [
        (json!({}), &["10.96.1.1"][..]),
        (json!({ "ipFamilies": ["IPv6"] }), &["fd00:10:96::101"]),
        (json!({ "ipFamilyPolicy": "PreferDualStack" }), &["10.96.1.1", "fd00:10:96::101"]),
        (
            json!({ "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"] }),
            &["10.96.1.1", "fd00:10:96::101"],
        ),
        (json!({ "ipFamilies": ["IPv4", "IPv6"] }), &["10.96.1.1", "fd00:10:96::101"]),
        (json!({ "clusterIP": "10.96.0.10" }), &["10.96.0.10"]),
        (json!({ "clusterIP": "fd00:10:96::a" }), &["fd00:10:96::a"]),
        (json!({ "clusterIPs": ["10.96.0.10", "fd00:10:96::a"] }), &["10.96.0.10", "fd00:10:96::a"]),
        (
            json!({ "clusterIP": "10.96.0.10", "ipFamilyPolicy": "PreferDualStack" }),
            &["10.96.0.10", "fd00:10:96::101"],
        ),
    ] {
        let mut cluster = Cluster::new();
        cluster.apply(service("web", spec(more.clone())));
        let mut got = cluster.addresses("default/web");
        got.sort();
        assert_eq!(got, addresses, "{more}");
        assert!(cluster.problems().is_empty(), "{more}: {:?}", cluster.problems());
    }
}

#[test]
fn an_address_outside_the_network_is_a_problem_and_no_other_is_given() {
    let mut cluster = Cluster::new();
    cluster.record(service("good", spec(json!({}))));
    cluster.apply(service("web", spec(json!({ "clusterIP": "192.168.0.1" }))));
    assert!(cluster.floating_ips("default/web").is_empty());
    assert_eq!(cluster.floating_ips("default/good").len(), 1);
    assert_eq!(
        cluster.problems(),
        ["web.yaml: Service default/web: spec.clusterIP: 192.168.0.1 is no address of the service network"]
    );
}

#[test]
fn an_address_taken_twice_is_a_problem_until_it_is_free() {
    let mut cluster = Cluster::new();
    cluster.record(service("b", spec(json!({ "clusterIP": "10.96.0.10" }))));
    cluster.apply(service("a", spec(json!({ "clusterIP": "10.96.0.10" }))));
    assert_eq!(cluster.addresses("default/a"), ["10.96.0.10"], "the first by name");
    assert!(cluster.floating_ips("default/b").is_empty());
    assert_eq!(
        cluster.problems(),
        ["b.yaml: Service default/b: spec.clusterIP: 10.96.0.10 is Service default/a's already"]
    );
    let before = cluster.floating_ips("default/a")[0].id;
    cluster.delete(Kind::Service, "default/a");
    assert_eq!(cluster.addresses("default/b"), ["10.96.0.10"]);
    assert!(cluster.floating_ips("default/b")[0].id > before, "ids are not given again");
    assert!(cluster.problems().is_empty());
}

#[test]
fn a_named_address_comes_before_a_picked_one_and_a_held_one_before_both() {
    let mut cluster = Cluster::new();
    cluster.record(service("a", spec(json!({}))));
    cluster.apply(service("b", spec(json!({ "clusterIP": "10.96.1.1" }))));
    assert_eq!(cluster.addresses("default/b"), ["10.96.1.1"]);
    assert_eq!(cluster.addresses("default/a"), ["10.96.1.2"]);
    cluster.apply(service("c", spec(json!({ "clusterIP": "10.96.1.2" }))));
    assert!(cluster.problems()[0].contains("10.96.1.2 is Service default/a's already"));
}

#[test]
fn addresses_and_ids_outlive_a_restart() {
    let mut cluster = Cluster::new();
    for name in ["a", "b", "c"] {
        cluster.record(service(name, spec(json!({ "ipFamilyPolicy": "PreferDualStack" }))));
    }
    cluster.settle();
    let mut restarted = Cluster::from_state(cluster.saved_state());
    for name in ["c", "b", "a"] {
        restarted.record(service(name, spec(json!({ "ipFamilyPolicy": "PreferDualStack" }))));
    }
    restarted.settle();
    assert_eq!(restarted.tables, cluster.tables);
}

#[test]
fn what_is_gone_after_a_restart_is_given_back() {
    let mut cluster = Cluster::new();
    cluster.apply(service("a", spec(json!({ "clusterIP": "10.96.0.10" }))));
    let mut restarted = Cluster::from_state(cluster.saved_state());
    restarted.apply(service("b", spec(json!({ "clusterIP": "10.96.0.10" }))));
    assert_eq!(restarted.addresses("default/b"), ["10.96.0.10"]);
}

#[test]
fn svc_19_random_churn_ends_in_what_is_wanted() {
    let mut cluster = Cluster::new();
    let mut wanted = std::collections::BTreeSet::new();
    let mut ids = std::collections::BTreeMap::new();
    let mut seed = 12345_u64;
    for round in 0..2000 {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let name = format!("s{}", (seed >> 33) % 200);
        if seed >> 63 == 0 {
            cluster.record(service(&name, spec(json!({}))));
            let address = format!("10.244.{}.{}", round / 250, round % 250 + 1);
            cluster.record(common::slice(
                &name,
                &name,
                json!([{ "port": 80 }]),
                common::endpoints(&[&address]),
            ));
            wanted.insert((name, address));
        } else {
            cluster.model.delete(&common::reference(Kind::Service, &format!("default/{name}")));
            cluster.model.delete(&common::reference(Kind::EndpointSlice, &format!("default/{name}")));
            wanted.retain(|(other, _)| *other != name);
        }
        if round % 7 == 0 {
            cluster.settle();
            for floating_ip in cluster.tables.values() {
                if let vrouter_objects::Object::FloatingIp(floating_ip) = &**floating_ip {
                    let owner = ids.entry(floating_ip.id).or_insert_with(|| floating_ip.name.clone());
                    assert_eq!(*owner, floating_ip.name, "{} was given twice", floating_ip.id);
                }
            }
        }
    }
    cluster.settle();
    let latest: std::collections::BTreeMap<_, _> = wanted.into_iter().collect();
    for (name, _) in latest {
        assert_eq!(cluster.active(&format!("default/{name}"), "TCP/80").len(), 1, "{name}");
    }
}
