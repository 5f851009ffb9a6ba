//! What cannot be read lets nothing pass, and is said.

use serde_json::{Value, json};

use crate::world::{World, policy};

/// The only problem of one policy of namespace `shop`, and whether `bank/db` reaches `shop/web` at TCP port 80.
fn of(spec: Value) -> (String, bool) {
    let mut world = World::with_two_teams();
    world.apply(policy("shop/p", spec));
    let problems = world.cluster.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    let problem = problems[0].strip_prefix("p.yaml: NetworkPolicy shop/p: ").unwrap().to_owned();
    assert_eq!(world.policies_of("shop/web"), ["NetworkPolicy shop/p"], "it isolates all the same");
    (problem, world.allows("bank/db", "shop/web", "TCP/80"))
}

#[test]
fn a_peer_that_cannot_be_read_means_nobody() {
    let labels = json!({ "matchLabels": { "app": "db" } });
    for (peer, problem) in [
        (json!({}), "spec.ingress[0].from[0]: says neither podSelector, namespaceSelector nor ipBlock"),
        (
            json!({ "ipBlock": { "cidr": "0.0.0.0/0" }, "podSelector": labels }),
            "spec.ingress[0].from[0].ipBlock: stands alone, never beside a selector",
        ),
        (
            json!({ "ipBlock": { "cidr": "10.0.0.0/33" } }),
            "spec.ingress[0].from[0].ipBlock.cidr: \"10.0.0.0/33\" is not a prefix",
        ),
        (
            json!({ "ipBlock": { "cidr": "0.0.0.0/0", "except": ["10.0.0.0"] } }),
            "spec.ingress[0].from[0].ipBlock.except[0]: \"10.0.0.0\" is not a prefix",
        ),
        (
            json!({ "ipBlock": { "cidr": "10.244.0.0/16", "except": ["10.0.0.0/8"] } }),
            "spec.ingress[0].from[0].ipBlock.except: 10.0.0.0/8 is no part of 10.244.0.0/16",
        ),
        (
            json!({ "ipBlock": { "cidr": "10.244.0.0/16", "except": ["fd00::/64"] } }),
            "spec.ingress[0].from[0].ipBlock.except: fd00::/64 is no part of 10.244.0.0/16",
        ),
        (
            json!({ "namespaceSelector": {}, "podSelector": { "matchExpressions": [{ "key": "app", "operator": "Is" }] } }),
            "spec.ingress[0].from[0].podSelector.matchExpressions[0].operator: \"Is\" is none of In, NotIn, Exists, \
             DoesNotExist",
        ),
        (
            json!({ "namespaceSelector": { "matchExpressions": [{ "key": "team", "operator": "NotIn" }] } }),
            "spec.ingress[0].from[0].namespaceSelector.matchExpressions[0].values: NotIn needs at least one value",
        ),
    ] {
        let (found, allowed) = of(json!({ "ingress": [{ "from": [peer] }] }));
        assert_eq!(found, problem);
        assert!(!allowed, "{problem}");
        // Other peers of the rule are not hurt, nor is another rule.
        let other = json!({ "namespaceSelector": {}, "podSelector": labels });
        assert!(of(json!({ "ingress": [{ "from": [peer, other] }] })).1, "{problem}");
        assert!(of(json!({ "ingress": [{ "from": [peer] }, { "from": [other] }] })).1, "{problem}");
    }
}

#[test]
fn a_port_that_cannot_be_read_is_none() {
    for (port, problem) in [
        (json!({ "endPort": 80 }), "spec.ingress[0].ports[0].endPort: needs a port that it is the end of"),
        (json!({ "port": 80, "endPort": 79 }), "spec.ingress[0].ports[0].endPort: 79 is below the port 80"),
        (
            json!({ "port": "http", "endPort": 80 }),
            "spec.ingress[0].ports[0].endPort: \"http\" is a name, and no range begins with a name",
        ),
        (
            json!({ "port": "80" }),
            "spec.ingress[0].ports[0].port: \"80\" is not a port's name; a number stands without quotes",
        ),
        (json!({ "port": 0 }), "spec.ingress[0].ports[0].port: port 0 is not in 1-65535"),
        (
            json!({ "port": 80, "endPort": 65536 }),
            "spec.ingress[0].ports[0].endPort: port 65536 is not in 1-65535",
        ),
        (json!({ "protocol": "ICMP" }), "spec.ingress[0].ports[0].protocol: "),
    ] {
        let (found, allowed) = of(json!({ "ingress": [{ "ports": [port] }] }));
        assert!(found.starts_with(problem), "{found}");
        assert!(!allowed, "{problem}");
        assert!(of(json!({ "ingress": [{ "ports": [port, { "port": 80 }] }] })).1, "{problem}");
    }
}

#[test]
fn a_subject_that_cannot_be_read_is_all_that_it_may_be_and_lets_nothing_pass() {
    let expression = json!([{ "key": "app", "operator": "Equals", "values": ["db"] }]);
    let (found, allowed) = of(json!({ "podSelector": { "matchExpressions": expression }, "ingress": [{}] }));
    assert!(found.starts_with("spec.podSelector.matchExpressions[0].operator: \"Equals\""), "{found}");
    assert!(!allowed);
    // What of it can be read holds.
    let mut world = World::with_two_teams();
    let selector = json!({ "matchLabels": { "app": "db" }, "matchExpressions": expression });
    world.apply(policy("shop/p", json!({ "podSelector": selector, "ingress": [{}] })));
    assert!(world.allows("bank/db", "shop/web", "TCP/80"));
    assert!(!world.allows("bank/db", "shop/db", "TCP/80"));
}

#[test]
fn a_type_that_nobody_knows_may_be_either() {
    let (found, allowed) = of(json!({ "policyTypes": ["Ingres"] }));
    assert_eq!(found, "spec.policyTypes[0]: \"Ingres\" is none of Ingress, Egress, so both are governed");
    assert!(!allowed);
    let mut world = World::with_two_teams();
    world.apply(policy("shop/p", json!({ "policyTypes": ["Ingress", "egress"], "ingress": [{}] })));
    assert!(world.allows("bank/db", "shop/web", "TCP/80"));
    assert!(!world.allows("shop/web", "bank/db", "TCP/80"));
}
