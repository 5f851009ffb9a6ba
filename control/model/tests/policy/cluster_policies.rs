//! ClusterNetworkPolicies: tiers, priorities and actions, and what is done where something cannot be read.

use serde_json::{Value, json};
use vrouter_control_model::Kind;
use vrouter_objects::{PolicyAction, Tier};

use crate::common::{node, node_in};
use crate::world::{World, cluster_policy, policy};

fn team(team: &str) -> Value {
    json!({ "namespaces": { "matchLabels": { "team": team } } })
}

/// A policy for the pods of team a.
fn admin(priority: u16, ingress: Value) -> Value {
    json!({ "tier": "Admin", "priority": priority, "subject": team("a"), "ingress": ingress })
}

fn baseline(priority: u16, ingress: Value) -> Value {
    let mut spec = admin(priority, ingress);
    spec["tier"] = "Baseline".into();
    spec
}

fn rule(action: &str, peer: Value) -> Value {
    json!({ "action": action, "from": [peer] })
}

fn allowed(world: &World) -> bool {
    world.allows("bank/db", "shop/web", "TCP/80")
}

#[test]
fn tiers_are_asked_in_their_order() {
    let mut world = World::with_two_teams();
    world.apply(cluster_policy("base", baseline(1, json!([rule("Deny", team("b"))]))));
    assert!(!allowed(&world), "the last word, where nobody spoke before");
    assert!(world.allows("shop/db", "shop/web", "TCP/80"), "and none where no rule matches");
    world.apply(policy("shop/open", json!({ "ingress": [{}] })));
    assert!(allowed(&world), "a NetworkPolicy comes before");
    world.apply(cluster_policy("top", admin(5, json!([rule("Deny", team("b"))]))));
    assert!(!allowed(&world), "the administrator comes first");
    world.apply(cluster_policy("upper", admin(4, json!([rule("Pass", team("b"))]))));
    assert!(allowed(&world), "a lower number comes first, and Pass leaves it to the next tier");
    world.delete(Kind::NetworkPolicy, "shop/open");
    assert!(!allowed(&world), "which is the last one now");
    world.apply(cluster_policy("uppermost", admin(3, json!([rule("Accept", team("b"))]))));
    assert!(allowed(&world));
    world.apply(policy("shop/deny", json!({})));
    assert!(allowed(&world), "whatever a NetworkPolicy says");
    let tiers =
        ["base", "top", "upper"].map(|name| world.policy_named(&format!("ClusterNetworkPolicy {name}")).tier);
    assert_eq!(tiers, [Tier::Baseline(1), Tier::Admin(5), Tier::Admin(4)]);
}

#[test]
fn the_first_rule_that_matches_decides() {
    let mut world = World::with_two_teams();
    let pods =
        json!({ "pods": { "namespaceSelector": {}, "podSelector": { "matchLabels": { "app": "db" } } } });
    let rules = json!([
        rule("Accept", pods),
        { "name": "the rest", "action": "Deny", "from": [{ "namespaces": {} }] },
    ]);
    world.apply(cluster_policy("p", admin(1, rules)));
    assert!(allowed(&world) && !world.allows("bank/web", "shop/web", "TCP/80"));
    assert!(world.lets_in("8.8.8.8", "shop/web", "TCP/80"), "all namespaces are all pods, and nobody else");
    let rules = world.policy_named("ClusterNetworkPolicy p").ingress.unwrap();
    assert_eq!([&rules[0].name, &rules[1].name], ["ingress[0]", "the rest"]);
}

#[test]
fn a_subject_is_whole_namespaces_or_some_pods_of_them() {
    let selected = |subject: Value| {
        let mut world = World::with_two_teams();
        let deny = json!([rule("Deny", json!({ "namespaces": {} }))]);
        let spec = json!({ "tier": "Admin", "priority": 0, "subject": subject, "ingress": deny });
        world.apply(cluster_policy("p", spec));
        assert!(world.cluster.problems().is_empty());
        let pods = ["shop/web", "shop/db", "bank/web", "bank/db"].into_iter();
        pods.filter(|pod| !world.policies_of(pod).is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(selected(json!({ "namespaces": {} })).len(), 4);
    assert_eq!(selected(team("b")), ["bank/web", "bank/db"]);
    let web = json!({ "matchLabels": { "app": "web" } });
    let everywhere = json!({ "pods": { "namespaceSelector": {}, "podSelector": web } });
    assert_eq!(selected(everywhere), ["shop/web", "bank/web"]);
    let shop = json!({ "matchLabels": { "kubernetes.io/metadata.name": "shop" } });
    let pods = json!({ "pods": { "namespaceSelector": shop, "podSelector": web } });
    assert_eq!(selected(pods), ["shop/web"]);
}

#[test]
fn protocols_and_ports() {
    for (protocol, allowed, denied) in [
        (
            json!({ "tcp": { "destinationPort": { "number": 80 } } }),
            &["TCP/80"][..],
            &["TCP/81", "UDP/80"][..],
        ),
        (
            json!({ "udp": { "destinationPort": { "range": { "start": 53, "end": 60 } } } }),
            &["UDP/53", "UDP/60"],
            &["UDP/52", "UDP/61", "TCP/53"],
        ),
        (json!({ "sctp": { "destinationPort": { "number": 7 } } }), &["SCTP/7"], &["TCP/7"]),
        // Whichever protocol the pod has a port of this name for.
        (json!({ "destinationNamedPort": "http" }), &["TCP/8080"], &["TCP/80", "UDP/8080"]),
    ] {
        let mut world = World::with_two_teams();
        let deny = rule("Deny", json!({ "namespaces": {} }));
        let mut accept = rule("Accept", json!({ "namespaces": {} }));
        accept["protocols"] = json!([protocol]);
        world.apply(cluster_policy("p", admin(1, json!([accept, deny]))));
        let reaches = |port: &&str| world.allows("bank/db", "shop/web", port);
        assert!(allowed.iter().all(reaches) && !denied.iter().any(reaches), "ingress {protocol}");

        let mut world = World::with_two_teams();
        let rules = json!([accept, deny]).to_string().replace("\"from\"", "\"to\"");
        let rules: Value = serde_json::from_str(&rules).unwrap();
        let spec = json!({ "tier": "Baseline", "priority": 1, "subject": team("b"), "egress": rules });
        world.apply(cluster_policy("p", spec));
        assert!(world.cluster.problems().is_empty());
        let reaches = |port: &&str| world.allows("bank/db", "shop/web", port);
        assert!(allowed.iter().all(reaches) && !denied.iter().any(reaches), "egress {protocol}");
    }
}

#[test]
fn networks_and_nodes_are_peers_of_egress() {
    let mut world = World::with_two_teams();
    let egress = |peer: Value| {
        let rules = json!([{ "action": "Deny", "to": [peer] }]);
        cluster_policy("p", json!({ "tier": "Admin", "priority": 1, "subject": team("a"), "egress": rules }))
    };
    let out = |world: &World, to: &str| world.lets_out("shop/web", to, "TCP/80");
    world.apply(egress(json!({ "networks": ["192.0.2.0/24", "2001:db8::/32"] })));
    assert!(!out(&world, "192.0.2.9") && !out(&world, "2001:db8::9") && out(&world, "198.51.100.1"));
    world.apply(egress(json!({ "nodes": { "matchLabels": { "topology.kubernetes.io/zone": "z1" } } })));
    assert!(out(&world, "172.30.0.1") && out(&world, "172.30.0.2") && out(&world, "192.0.2.9"));
    // Nodes come, are labelled, and go.
    world.apply(node("n2", "172.30.0.2"));
    assert!(out(&world, "172.30.0.2"));
    world.apply(node_in("z1", "n2", "172.30.0.2"));
    assert!(out(&world, "172.30.0.1") && !out(&world, "172.30.0.2"));
    world.delete(Kind::Node, "n2");
    assert!(out(&world, "172.30.0.2"));
    assert!(world.cluster.problems().is_empty());
}

#[test]
fn a_direction_without_rules_is_not_governed() {
    let mut world = World::with_two_teams();
    world.apply(cluster_policy("p", admin(1, json!([]))));
    let compiled = world.policy_named("ClusterNetworkPolicy p");
    assert!(compiled.ingress.is_none() && compiled.egress.is_none());
}

/// The problems of one policy with this rule before one that accepts all, and whether that lets `bank/db` in.
fn with_rule(rule: Value) -> (Vec<String>, bool) {
    let mut world = World::with_two_teams();
    let accept = json!({ "action": "Accept", "from": [{ "namespaces": {} }] });
    world.apply(cluster_policy("p", admin(1, json!([rule, accept]))));
    let problems = world.cluster.problems();
    (problems, allowed(&world))
}

#[test]
fn a_rule_that_cannot_be_read_never_lets_anything_pass() {
    let nobody = json!({ "namespaces": { "matchLabels": { "team": "nobody" } } });
    for (peer, field) in [
        // What a newer version of the API may have, and this one does not know.
        (json!({ "serviceAccounts": { "matchLabels": {} } }), "from[1].serviceAccounts: is unknown"),
        (json!({}), "from[1]: must say one of namespaces, pods, nodes, networks"),
        (json!({ "namespaces": {}, "pods": { "podSelector": {} } }), "from[1]: must say one of"),
        (
            json!({ "networks": ["0.0.0.0/0"] }),
            "from[1]: nodes, networks and domainNames are for egress alone",
        ),
        (json!({ "pods": { "namespaceSelector": {} } }), "from[1].pods.podSelector: is missing"),
        (json!({ "pods": { "podSelector": {} } }), "from[1].pods.namespaceSelector: is missing"),
        (json!({ "pods": null }), "from[1]: must say one of"),
        (
            json!({ "namespaces": { "matchExpressions": [{ "key": "a", "operator": "Is" }] } }),
            "from[1].namespaces.matchExpressions[0].operator: ",
        ),
    ] {
        for action in ["Accept", "Deny", "Pass", "Log"] {
            let (problems, allowed) = with_rule(json!({ "action": action, "from": [nobody, peer] }));
            let starts = format!("p.yaml: ClusterNetworkPolicy p: spec.ingress[0].{field}");
            assert!(problems.iter().any(|problem| problem.starts_with(&starts)), "{problems:?}");
            assert_eq!(
                allowed,
                action == "Accept",
                "{action} {peer}: an Accept rule is as none, others deny all"
            );
        }
    }
    for protocol in [
        json!({}),
        json!({ "tcp": {} }),
        json!({ "tcp": { "destinationPort": {} } }),
        json!({ "tcp": { "destinationPort": { "number": 0 } } }),
        json!({ "tcp": { "destinationPort": { "range": { "start": 9, "end": 8 } } } }),
        json!({ "tcp": { "destinationPort": { "number": 1 } }, "udp": { "destinationPort": { "number": 1 } } }),
        json!({ "destinationNamedPort": "80" }),
        json!({ "icmp": {} }),
    ] {
        let rule = json!({ "action": "Deny", "from": [nobody], "protocols": [protocol] });
        let (problems, allowed) = with_rule(rule);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("spec.ingress[0].protocols[0]"), "{problems:?}");
        assert!(!allowed, "{protocol}");
    }
    let (problems, allowed) = with_rule(json!({ "action": "Deny" }));
    assert_eq!(problems, ["p.yaml: ClusterNetworkPolicy p: spec.ingress[0].from: needs at least one peer"]);
    assert!(!allowed);
}

/// As the rules of AdminNetworkPolicy had them.
#[test]
fn a_rule_of_which_a_field_is_unknown_never_lets_anything_pass() {
    for action in ["Accept", "Deny", "Pass"] {
        let mut world = World::with_two_teams();
        world.apply(policy("shop/deny", json!({})));
        let ports = json!([{ "portNumber": { "protocol": "TCP", "port": 9 } }]);
        let rule = json!({ "action": action, "from": [{ "namespaces": {} }], "ports": ports });
        world.apply(cluster_policy("p", admin(1, json!([rule]))));
        let message = "spec.ingress[0].ports: is unknown";
        assert_eq!(world.cluster.problems(), [format!("p.yaml: ClusterNetworkPolicy p: {message}")]);
        assert!(!allowed(&world), "{action}");
    }
}

/// Without its misspelt field, a selector would mean more than it was to.
#[test]
fn a_selector_of_which_a_field_is_unknown_lets_nobody_in() {
    let misspelt = json!({ "matchLabel": { "team": "nobody" } });
    let pods = json!({ "namespaceSelector": {}, "podSelector": misspelt });
    for (peer, field) in [
        (json!({ "namespaces": misspelt }), "namespaces.matchLabel"),
        (json!({ "pods": pods }), "pods.podSelector.matchLabel"),
        (json!({ "namespaces": {}, "ports": [] }), "ports"),
    ] {
        for action in ["Accept", "Deny", "Pass"] {
            let mut world = World::with_two_teams();
            world.apply(policy("shop/deny", json!({})));
            world.apply(cluster_policy("p", admin(1, json!([rule(action, peer.clone())]))));
            let problem =
                format!("p.yaml: ClusterNetworkPolicy p: spec.ingress[0].from[0].{field}: is unknown");
            assert_eq!(world.cluster.problems(), [problem]);
            assert!(!allowed(&world), "{action} {peer}");
        }
    }
    let mut world = World::with_two_teams();
    world.apply(policy("shop/deny", json!({})));
    let mut spec = admin(1, json!([rule("Accept", json!({ "namespaces": {} }))]));
    spec["subject"] = json!({ "namespaces": misspelt });
    world.apply(cluster_policy("p", spec));
    let problems = world.cluster.problems();
    assert!(
        problems.iter().any(|one| one.ends_with("spec.subject.namespaces.matchLabel: is unknown")),
        "{problems:?}"
    );
    assert!(!allowed(&world));
}

#[test]
fn names_of_domains_cannot_be_served() {
    let mut world = World::with_two_teams();
    let rules = json!([
        { "action": "Accept", "to": [{ "domainNames": ["example.com"] }] },
        { "action": "Deny", "to": [{ "networks": ["0.0.0.0/0"] }] },
    ]);
    world.apply(cluster_policy(
        "p",
        json!({ "tier": "Admin", "priority": 1, "subject": team("a"), "egress": rules }),
    ));
    let problems = world.cluster.problems();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains("spec.egress[0].to[0].domainNames: cannot be served"), "{problems:?}");
    assert!(!world.lets_out("shop/web", "192.0.2.9", "TCP/80"));
}

#[test]
fn a_policy_that_cannot_be_placed_keeps_its_deny_rules_alone() {
    let rules = json!([
        rule("Accept", json!({ "namespaces": {} })),
        { "action": "Deny", "from": [team("b")] },
    ]);
    for (change, field) in [
        (json!({ "tier": "Middle" }), "spec.tier: \"Middle\" is none of Admin, Baseline"),
        (json!({ "priority": 1001 }), "spec.priority: must be a number from 0 to 1000"),
        (json!({ "priority": null }), "spec.priority: must be"),
        (json!({ "subject": {} }), "spec.subject: must say either namespaces or pods"),
        (
            json!({ "subject": { "pods": { "podSelector": {} } } }),
            "spec.subject.pods.namespaceSelector: is missing",
        ),
        (
            json!({ "subject": { "namespaces": { "matchExpressions": [{ "key": "team", "operator": "Is" }] } } }),
            "spec.subject.namespaces.matchExpressions[0].operator: ",
        ),
    ] {
        let mut world = World::with_two_teams();
        world.apply(policy("shop/deny", json!({})));
        let mut spec = baseline(1, rules.clone());
        spec.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        world.apply(cluster_policy("p", spec));
        let problems = world.cluster.problems();
        let field = format!("p.yaml: ClusterNetworkPolicy p: {field}");
        assert!(problems.iter().any(|problem| problem.starts_with(&field)), "{problems:?}");
        let compiled = world.policy_named("ClusterNetworkPolicy p");
        let actions: Vec<_> = compiled.ingress.iter().flatten().map(|rule| rule.action).collect();
        assert_eq!((compiled.tier, actions), (Tier::Admin(0), vec![PolicyAction::Deny]), "{field}");
        assert!(!allowed(&world) && !world.allows("shop/db", "shop/web", "TCP/80"), "{field}");
    }
}
