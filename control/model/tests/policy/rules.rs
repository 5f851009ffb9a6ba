//! What is empty, what is absent, and what stands together: exactly as the text of the NetworkPolicy API has it.

use serde_json::{Value, json};

use crate::world::{World, policy};

const ALL: [&str; 4] = ["shop/web", "shop/db", "bank/web", "bank/db"];

/// The pods that reach `shop/web` at TCP port 80 under one policy of namespace `shop`.
fn reaching(spec: Value) -> Vec<&'static str> {
    let mut world = World::with_two_teams();
    world.apply(policy("shop/p", spec));
    assert_eq!(world.cluster.problems(), Vec::<String>::new());
    world.who_reaches(&ALL, "shop/web", "TCP/80")
}

/// Those that `shop/web` reaches.
fn reached(spec: Value) -> Vec<&'static str> {
    let mut world = World::with_two_teams();
    world.apply(policy("shop/p", spec));
    assert_eq!(world.cluster.problems(), Vec::<String>::new());
    ALL.into_iter().filter(|to| *to != "shop/web" && world.allows("shop/web", to, "TCP/80")).collect()
}

#[test]
fn whom_a_list_of_peers_means() {
    let others = &ALL[1..];
    for (from, expected) in [
        // Absent and empty lists mean everybody.
        (json!([{}]), others),
        (json!([{ "from": [] }]), others),
        (json!([{ "from": null }]), others),
        // No rule allows nobody.
        (json!([]), &[]),
        // An empty selector is one that everything meets.
        (json!([{ "from": [{ "podSelector": {} }] }]), &["shop/db"]),
        (json!([{ "from": [{ "namespaceSelector": {} }] }]), others),
        (json!([{ "from": [{ "namespaceSelector": {}, "podSelector": {} }] }]), others),
        // One selector.
        (json!([{ "from": [{ "podSelector": { "matchLabels": { "app": "db" } } }] }]), &["shop/db"]),
        (json!([{ "from": [{ "podSelector": { "matchLabels": { "app": "nobody" } } }] }]), &[]),
        (
            json!([{ "from": [{ "namespaceSelector": { "matchLabels": { "team": "b" } } }] }]),
            &["bank/web", "bank/db"],
        ),
        // Two in one peer must both be met; of several peers one is enough, and so of several rules.
        (
            json!([{ "from": [{
                "namespaceSelector": { "matchLabels": { "team": "b" } },
                "podSelector": { "matchLabels": { "app": "db" } },
            }] }]),
            &["bank/db"],
        ),
        (
            json!([{ "from": [
                { "namespaceSelector": { "matchLabels": { "team": "b" } } },
                { "podSelector": { "matchLabels": { "app": "db" } } },
            ] }]),
            others,
        ),
        (
            json!([
                { "from": [{ "namespaceSelector": { "matchLabels": { "team": "b" } } }], "ports": [{ "port": 81 }] },
                { "from": [{ "podSelector": { "matchLabels": { "app": "db" } } }] },
            ]),
            &["shop/db"],
        ),
        // By expressions, of pods and of namespaces.
        (
            json!([{ "from": [{
                "namespaceSelector": { "matchExpressions": [
                    { "key": "team", "operator": "NotIn", "values": ["a", "c"] },
                ] },
                "podSelector": { "matchExpressions": [
                    { "key": "app", "operator": "In", "values": ["web", "cache"] },
                    { "key": "old", "operator": "DoesNotExist" },
                ] },
            }] }]),
            &["bank/web"],
        ),
        (
            json!([{ "from": [{ "namespaceSelector": { "matchExpressions": [
                { "key": "team", "operator": "Exists" },
            ] } }] }]),
            others,
        ),
        // Every namespace has its name as a label.
        (
            json!([{ "from": [{ "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "bank" } } }] }]),
            &["bank/web", "bank/db"],
        ),
        (
            json!([{ "from": [{ "namespaceSelector": { "matchExpressions": [
                { "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["bank"] },
            ] } }] }]),
            &["shop/db"],
        ),
        // Pods are in blocks like everybody.
        (
            json!([{ "from": [{ "ipBlock": { "cidr": "10.244.1.4/31" } }, { "ipBlock": { "cidr": "fd00:10:244:1::4/127" } }] }]),
            &["bank/web", "bank/db"],
        ),
    ] {
        let spec = json!({ "podSelector": { "matchLabels": { "app": "web" } }, "ingress": from });
        assert_eq!(reaching(spec), expected, "from {from}");
        let to = from.to_string().replace("\"from\"", "\"to\"");
        let to: Value = serde_json::from_str(&to).unwrap();
        let spec = json!({ "podSelector": {}, "policyTypes": ["Egress"], "egress": to });
        assert_eq!(reached(spec), expected, "to {to}");
    }
}

#[test]
fn which_pods_a_policy_selects() {
    let selecting = |selector: Value| {
        let mut world = World::with_two_teams();
        let mut spec = json!({ "policyTypes": ["Ingress"] });
        if !selector.is_null() {
            spec["podSelector"] = selector;
        }
        world.apply(policy("shop/p", spec));
        ALL.into_iter().filter(|pod| !world.policies_of(pod).is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(selecting(json!({})), ["shop/web", "shop/db"], "all pods of its own namespace");
    assert_eq!(selecting(Value::Null), ["shop/web", "shop/db"], "as an empty one");
    assert_eq!(selecting(json!({ "matchLabels": { "app": "db" } })), ["shop/db"]);
    let not = json!({ "matchExpressions": [{ "key": "app", "operator": "NotIn", "values": ["db"] }] });
    assert_eq!(selecting(not), ["shop/web"]);
}

#[test]
fn which_directions_a_policy_governs() {
    for (spec, ingress, egress) in [
        (json!({}), true, false),
        (json!({ "ingress": [{}] }), true, false),
        (json!({ "ingress": [] }), true, false),
        (json!({ "egress": [{}] }), true, true),
        // The API server takes an empty list for none.
        (json!({ "egress": [] }), true, false),
        (json!({ "policyTypes": [], "egress": [{}] }), true, true),
        (json!({ "policyTypes": ["Ingress"], "egress": [{}] }), true, false),
        (json!({ "policyTypes": ["Egress"] }), false, true),
        (json!({ "policyTypes": ["Egress"], "ingress": [{}] }), false, true),
        (json!({ "policyTypes": ["Egress", "Ingress"] }), true, true),
    ] {
        let mut world = World::with_two_teams();
        world.apply(policy("shop/p", spec.clone()));
        let compiled = world.policy_named("NetworkPolicy shop/p");
        assert_eq!((compiled.ingress.is_some(), compiled.egress.is_some()), (ingress, egress), "{spec}");
    }
}

#[test]
fn which_ports_a_list_means() {
    for (ports, allowed, denied) in [
        (json!([]), &["TCP/1", "UDP/65535", "SCTP/7", "ICMP"][..], &[][..]),
        (Value::Null, &["TCP/1", "UDP/65535", "SCTP/7", "ICMP"], &[]),
        (json!([{}]), &["TCP/1", "TCP/65535"], &["UDP/1", "SCTP/1", "ICMP"]),
        (json!([{ "protocol": "UDP" }]), &["UDP/1", "UDP/65535"], &["TCP/1", "ICMP"]),
        (json!([{ "port": 80 }]), &["TCP/80"], &["TCP/81", "UDP/80", "ICMP"]),
        (json!([{ "port": 80, "protocol": "SCTP" }]), &["SCTP/80"], &["TCP/80"]),
        (json!([{ "port": 80, "endPort": 80 }]), &["TCP/80"], &["TCP/79", "TCP/81"]),
        (
            json!([{ "port": 53, "protocol": "UDP" }, { "port": 53 }]),
            &["UDP/53", "TCP/53"],
            &["UDP/54", "SCTP/53"],
        ),
    ] {
        for direction in ["ingress", "egress"] {
            let mut rule = json!({});
            if !ports.is_null() {
                rule["ports"] = ports.clone();
            }
            let mut world = World::with_two_teams();
            let kind = if direction == "ingress" { "Ingress" } else { "Egress" };
            world.apply(policy("shop/p", json!({ "policyTypes": [kind], direction: [rule] })));
            let allows = |port: &&&str| match direction {
                "ingress" => world.lets_in("8.8.8.8", "shop/web", port),
                _ => world.lets_out("shop/web", "8.8.8.8", port),
            };
            assert_eq!(allowed.iter().filter(|port| !allows(port)).count(), 0, "{direction} {ports}");
            assert_eq!(denied.iter().filter(allows).count(), 0, "{direction} {ports}");
        }
    }
}

#[test]
fn policies_add_up_and_only_where_they_govern() {
    let mut world = World::with_two_teams();
    let only = |app: &str| json!([{ "from": [{ "podSelector": { "matchLabels": { "app": app } } }] }]);
    world.apply(policy("shop/deny-all", json!({ "podSelector": {} })));
    assert!(!world.allows("shop/db", "shop/web", "TCP/80"));
    assert!(world.allows("shop/db", "bank/web", "TCP/80"), "egress is not governed, nor is bank");
    world.apply(policy("shop/from-db", json!({ "podSelector": {}, "ingress": only("db") })));
    assert!(world.allows("shop/db", "shop/web", "TCP/80"));
    assert!(!world.allows("bank/db", "shop/web", "TCP/80"));
    // A policy that does not select the pod adds nothing to it.
    let elsewhere = json!({ "podSelector": { "matchLabels": { "app": "db" } }, "ingress": [{}] });
    world.apply(policy("shop/open-db", elsewhere));
    assert!(!world.allows("bank/db", "shop/web", "TCP/80"));
    assert!(world.allows("bank/db", "shop/db", "TCP/80"));
}

#[test]
fn both_ends_must_agree() {
    let mut world = World::with_two_teams();
    world.apply(policy("bank/out", json!({
        "policyTypes": ["Egress"], "egress": [{ "to": [{ "namespaceSelector": { "matchLabels": { "team": "a" } } }] }],
    })));
    assert!(world.allows("bank/web", "shop/web", "TCP/80"));
    assert!(!world.allows("bank/web", "bank/db", "TCP/80"));
    world.apply(policy("shop/in", json!({ "ingress": [{ "from": [{ "podSelector": {} }] }] })));
    assert!(!world.allows("bank/web", "shop/web", "TCP/80"), "an egress rule opens no ingress");
}
