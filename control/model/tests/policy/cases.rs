//! What has gone wrong for others, as far as it is decided by what is compiled.

use serde_json::{Value, json};
use vrouter_control_model::Kind;

use crate::world::{NODE, World, namespace, pod, policy, with_ports};

fn block(cidr: &str, except: &[&str]) -> Value {
    json!({ "ipBlock": { "cidr": cidr, "except": except } })
}

fn from(peers: Value) -> Value {
    json!({ "podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{ "from": peers }] })
}

fn to(rule: Value) -> Value {
    json!({ "podSelector": {}, "policyTypes": ["Egress"], "egress": [rule] })
}

#[test]
fn np_2_an_exception_belongs_to_its_own_block_and_denies_nothing() {
    let mut world = World::with_two_teams();
    world.apply(policy("shop/a", from(json!([block("10.0.0.0/8", &["10.0.1.0/24"])]))));
    assert!(!world.lets_in("10.0.1.5", "shop/web", "TCP/80"));
    world.apply(policy("shop/b", from(json!([block("10.0.0.0/8", &[])]))));
    assert!(world.lets_in("10.0.1.5", "shop/web", "TCP/80"), "the other policy allows it");
    world.delete(Kind::NetworkPolicy, "shop/a");
    world.delete(Kind::NetworkPolicy, "shop/b");

    // Two blocks of one rule, each with an exception of its own that lies in the other, or in neither.
    world.apply(policy(
        "shop/c",
        from(json!([
            block("10.0.0.0/8", &["10.0.1.0/24", "10.0.2.0/24"]),
            block("10.0.2.0/23", &["10.0.3.0/24"]),
            block("2001:db8::/32", &["2001:db8:1::/48"]),
        ])),
    ));
    for (address, allowed) in [
        ("10.0.0.5", true),
        ("10.0.1.5", false),
        ("10.0.2.5", true),
        ("10.0.3.5", true),
        ("11.0.0.5", false),
        ("2001:db8::5", true),
        ("2001:db8:1::5", false),
        ("2001:db9::5", false),
    ] {
        assert_eq!(world.lets_in(address, "shop/web", "TCP/80"), allowed, "{address}");
    }
}

#[test]
fn np_3_the_order_in_which_policies_come_and_go_is_nothing() {
    let one = policy("shop/one", from(json!([block("0.0.0.0/0", &["192.0.2.0/24"])])));
    let two = policy("shop/two", from(json!([block("192.0.2.7/32", &[])])));
    for swapped in [false, true] {
        let mut world = World::with_two_teams();
        let (first, second) = if swapped { (&two, &one) } else { (&one, &two) };
        world.apply(first.clone());
        world.apply(second.clone());
        for _ in 0..2 {
            assert!(world.lets_in("192.0.2.7", "shop/web", "TCP/80"));
            assert!(!world.lets_in("192.0.2.8", "shop/web", "TCP/80"));
            assert!(world.lets_in("198.51.100.1", "shop/web", "TCP/80"));
            world.delete(Kind::NetworkPolicy, "shop/one");
            assert!(world.lets_in("192.0.2.7", "shop/web", "TCP/80"));
            assert!(!world.lets_in("198.51.100.1", "shop/web", "TCP/80"));
            world.apply(one.clone());
        }
    }
}

#[test]
fn np_4_a_name_is_looked_up_in_the_pod_that_is_spoken_to() {
    let mut world = World::new();
    world.apply(with_ports(pod("shop/server", json!({ "app": "s" }), &["10.244.1.2"]), &["TCP/http=80"]));
    world.apply(with_ports(pod("shop/client", json!({ "app": "c" }), &["10.244.1.3"]), &["TCP/http=666"]));
    let selector = json!({ "matchLabels": { "app": "s" } });
    world.apply(policy(
        "shop/p",
        json!({ "podSelector": selector, "ingress": [{ "ports": [{ "port": "http" }] }] }),
    ));
    assert!(world.allows("shop/client", "shop/server", "TCP/80"));
    assert!(!world.allows("shop/client", "shop/server", "TCP/666"));
    assert!(!world.allows("shop/client", "shop/server", "UDP/80"));
    // The pod's own number may change, and only the names that policies speak of are told to its node.
    let server = pod("shop/server", json!({ "app": "s" }), &["10.244.1.2"]);
    world.apply(with_ports(server, &["TCP/metrics=9090", "TCP/http=8000", "UDP/http=1"]));
    assert!(world.allows("shop/client", "shop/server", "TCP/8000"));
    assert!(!world.allows("shop/client", "shop/server", "TCP/80"));
    let told: Vec<String> = world
        .binding("shop/server")
        .ports
        .iter()
        .map(|port| format!("{}/{}={}", port.protocol, port.name, port.port))
        .collect();
    assert_eq!(told, ["TCP/http=8000"]);
    assert!(world.binding("shop/client").ports.is_empty());
}

#[test]
fn np_5_each_pod_at_the_port_that_it_calls_so() {
    let mut world = World::new();
    world.apply(pod("shop/client", json!({}), &["10.244.1.2"]));
    world.apply(with_ports(pod("shop/p1", json!({ "app": "a" }), &["10.244.1.3"]), &["TCP/http-test=8000"]));
    world.apply(with_ports(pod("bank/p2", json!({ "app": "b" }), &["10.244.1.4"]), &["TCP/http-test=8080"]));
    let matrix = |world: &World| {
        [("shop/p1", "TCP/8000"), ("shop/p1", "TCP/8080"), ("bank/p2", "TCP/8000"), ("bank/p2", "TCP/8080")]
            .map(|(to, port)| world.allows("shop/client", to, port))
    };
    // Nobody is named: all pods that have the port.
    world.apply(policy("shop/p", to(json!({ "ports": [{ "port": "http-test" }] }))));
    assert_eq!(matrix(&world), [true, false, false, true]);
    assert!(!world.lets_out("shop/client", "8.8.8.8", "TCP/8000"));
    // Named by a block, or by labels: those of them that have the port.
    let peers = json!([{ "ipBlock": { "cidr": "10.244.1.4/32" } }]);
    world.apply(policy("shop/p", to(json!({ "to": peers, "ports": [{ "port": "http-test" }] }))));
    assert_eq!(matrix(&world), [false, false, false, true]);
    let peers = json!([{ "podSelector": {} }]);
    world.apply(policy(
        "shop/p",
        to(json!({ "to": peers, "ports": [{ "port": "http-test" }, { "port": 8080 }] })),
    ));
    assert_eq!(matrix(&world), [true, true, false, false], "by name, and any of them at the number");
}

#[test]
fn np_6_a_name_lets_no_other_port_through() {
    let mut world = World::new();
    world.apply(pod("shop/client", json!({}), &["10.244.1.2"]));
    let ports = &["TCP/serve-80-tcp=80", "TCP/serve-81-tcp=81", "UDP/serve-81-udp=81"];
    world.apply(with_ports(pod("shop/server", json!({}), &["10.244.1.3"]), ports));
    let with = |name: &str| policy("shop/p", to(json!({ "ports": [{ "port": name }] })));
    world.apply(with("serve-81-tcp"));
    assert!(world.allows("shop/client", "shop/server", "TCP/81"));
    assert!(!world.allows("shop/client", "shop/server", "TCP/80"));
    assert!(!world.allows("shop/client", "shop/server", "UDP/81"));
    // The name is another protocol's, or nobody's: nothing is let through.
    for name in ["serve-81-udp", "nobodys"] {
        world.apply(with(name));
        assert!(!world.allows("shop/client", "shop/server", "TCP/81"), "{name}");
        assert!(!world.allows("shop/client", "shop/server", "UDP/81"), "{name}");
    }
    let own = json!({ "policyTypes": ["Ingress"], "ingress": [{ "ports": [{ "port": "nobodys" }] }] });
    world.apply(policy("shop/p", own));
    assert!(!world.allows("shop/client", "shop/server", "TCP/81"));
}

#[test]
fn np_10_both_ends_of_a_range_are_in_it() {
    for direction in ["ingress", "egress"] {
        let mut world = World::with_two_teams();
        let kind = if direction == "ingress" { "Ingress" } else { "Egress" };
        let rule = json!([{ "ports": [
            { "port": 32000, "endPort": 32768 }, { "port": 53, "endPort": 53, "protocol": "UDP" },
        ] }]);
        world.apply(policy("shop/p", json!({ "policyTypes": [kind], direction: rule })));
        for (port, allowed) in [
            ("TCP/31999", false),
            ("TCP/32000", true),
            ("TCP/32500", true),
            ("TCP/32768", true),
            ("TCP/32769", false),
            ("UDP/32000", false),
            ("UDP/53", true),
            ("UDP/52", false),
            ("UDP/54", false),
        ] {
            assert_eq!(world.allows("shop/web", "shop/db", port), allowed, "{direction} {port}");
        }
    }
}

#[test]
fn np_11_all_namespaces_are_all_pods_and_nobody_else() {
    let mut world = World::with_two_teams();
    let dns = json!([{ "port": 53, "protocol": "UDP" }]);
    world.apply(policy("shop/p", to(json!({ "to": [{ "namespaceSelector": {} }], "ports": dns }))));
    assert!(world.allows("shop/web", "bank/db", "UDP/53"));
    assert!(!world.allows("shop/web", "bank/db", "TCP/53"));
    assert!(!world.lets_out("shop/web", "8.8.8.8", "UDP/53"));
    assert!(!world.lets_out("shop/web", "172.30.0.1", "UDP/53"), "a node is no pod");
    for everybody in [json!({ "to": [], "ports": dns }), json!({ "ports": dns })] {
        world.apply(policy("shop/p", to(everybody)));
        assert!(world.lets_out("shop/web", "8.8.8.8", "UDP/53"));
        assert!(world.allows("shop/web", "bank/db", "UDP/53"));
        assert!(!world.lets_out("shop/web", "8.8.8.8", "UDP/54"));
    }
}

#[test]
fn np_12_an_empty_selector_selects_the_whole_namespace() {
    let mut world = World::with_two_teams();
    world.apply(policy("shop/deny", json!({ "podSelector": {} })));
    for (from, to, allowed) in [
        ("bank/web", "shop/web", false),
        ("shop/web", "shop/db", false),
        ("shop/web", "bank/web", true),
        ("bank/web", "bank/db", true),
    ] {
        assert_eq!(world.allows(from, to, "TCP/80"), allowed, "{from} to {to}");
    }
    // And pods that come later.
    world.apply(pod("shop/late", json!({}), &["10.244.1.9"]));
    assert_eq!(world.policies_of("shop/late"), ["NetworkPolicy shop/deny"]);
}

#[test]
fn np_13_an_address_is_judged_by_the_pod_that_has_it_now() {
    let address = "10.244.1.9";
    let job = |phase: &str| {
        let mut job = pod("shop/job", json!({ "app": "job" }), &[address]);
        job["status"]["phase"] = phase.into();
        job
    };
    for phase in ["Succeeded", "Failed"] {
        let mut world = World::with_two_teams();
        let peers = json!([{ "podSelector": { "matchLabels": { "app": "job" } } }]);
        let selector = json!({ "matchLabels": { "app": "web" } });
        world.apply(policy("shop/p", json!({ "podSelector": selector, "ingress": [{ "from": peers }] })));
        world.apply(job("Running"));
        assert!(world.lets_in(address, "shop/web", "TCP/80"));
        world.apply(job(phase));
        assert!(!world.lets_in(address, "shop/web", "TCP/80"), "{phase}");
        assert!(world.cluster.binding(NODE, "shop/job").is_none());
        // The next one to have it is somebody else, whatever the old one's status still says, and in any order.
        world.apply(pod("shop/next", json!({ "app": "next" }), &[address]));
        assert!(!world.lets_in(address, "shop/web", "TCP/80"));
        world.apply(job("Running"));
        world.apply(job(phase));
        world.apply(pod("shop/next", json!({ "app": "job" }), &[address]));
        assert!(world.lets_in(address, "shop/web", "TCP/80"), "by its own labels");
    }
}

#[test]
fn np_13_of_two_pods_that_claim_an_address_only_its_owner_is_meant() {
    let mut world = World::with_two_teams();
    let peers = json!([{ "podSelector": { "matchLabels": { "app": "old" } } }]);
    world.apply(policy("shop/p", json!({ "ingress": [{ "from": peers }] })));
    world.apply(pod("shop/old", json!({ "app": "old" }), &["10.244.1.9"]));
    world.apply(pod("shop/new", json!({ "app": "new" }), &[]));
    assert!(world.lets_in("10.244.1.9", "shop/web", "TCP/80"));
    // The node says who has it: the other's status is stale.
    world.cluster.attach(NODE, 7, "shop/new", &["10.244.1.9"]);
    assert!(!world.lets_in("10.244.1.9", "shop/web", "TCP/80"));
    world.cluster.detach(NODE, 7);
    assert!(world.lets_in("10.244.1.9", "shop/web", "TCP/80"));
}

#[test]
fn np_13_a_pod_of_the_node_itself_is_neither_selected_nor_meant() {
    let mut world = World::with_two_teams();
    let mut host = pod("shop/agent", json!({ "app": "agent" }), &["172.30.0.1"]);
    host["spec"]["hostNetwork"] = true.into();
    world.apply(host);
    world.apply(policy(
        "shop/p",
        json!({ "podSelector": {}, "ingress": [{ "from": [{ "podSelector": {} }] }] }),
    ));
    assert!(world.cluster.binding(NODE, "shop/agent").is_none());
    assert!(!world.lets_in("172.30.0.1", "shop/web", "TCP/80"));
    world.apply(policy(
        "shop/q",
        json!({ "ingress": [{ "from": [{ "ipBlock": { "cidr": "172.30.0.0/24" } }] }] }),
    ));
    assert!(world.lets_in("172.30.0.1", "shop/web", "TCP/80"));
}

#[test]
fn np_13_a_terminating_pod_stays_until_it_is_gone() {
    let mut world = World::with_two_teams();
    let peers = json!([{ "podSelector": { "matchLabels": { "app": "db" } } }]);
    world.apply(policy("shop/p", json!({ "ingress": [{ "from": peers }] })));
    let addresses = ["10.244.1.3", "fd00:10:244:1::3"];
    let mut leaving = pod("shop/db", json!({ "app": "db" }), &addresses);
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    world.apply(leaving);
    assert!(world.allows("shop/db", "shop/web", "TCP/80"));
    assert_eq!(world.policies_of("shop/db"), ["NetworkPolicy shop/p"]);
    world.delete(Kind::Pod, "shop/db");
    assert!(!world.lets_in("10.244.1.3", "shop/web", "TCP/80"));
}

#[test]
fn np_16_a_peer_that_is_taken_out_is_out() {
    let mut world = World::with_two_teams();
    let allow = |apps: &[&str]| {
        let peers: Value =
            apps.iter().map(|app| json!({ "podSelector": { "matchLabels": { "app": app } } })).collect();
        policy("shop/p", json!({ "ingress": [{ "from": peers }] }))
    };
    world.apply(pod("shop/cache", json!({ "app": "cache" }), &["10.244.1.8", "fd00:10:244:1::8"]));
    world.apply(allow(&["db", "cache"]));
    assert!(
        world.allows("shop/db", "shop/web", "TCP/80") && world.allows("shop/cache", "shop/web", "TCP/80")
    );
    world.apply(allow(&["cache"]));
    assert!(
        !world.allows("shop/db", "shop/web", "TCP/80") && world.allows("shop/cache", "shop/web", "TCP/80")
    );
    // By its labels.
    world.apply(pod("shop/cache", json!({ "app": "store" }), &["10.244.1.8", "fd00:10:244:1::8"]));
    assert!(!world.allows("shop/cache", "shop/web", "TCP/80"));
}

#[test]
fn a_namespace_has_its_name_as_a_label_declared_or_not() {
    let mut world = World::new();
    world.apply(pod("undeclared/a", json!({}), &["10.244.1.2"]));
    world.apply(namespace("liar", json!({ "kubernetes.io/metadata.name": "undeclared" })));
    world.apply(pod("liar/a", json!({}), &["10.244.1.3"]));
    world.apply(pod("shop/web", json!({}), &["10.244.1.4"]));
    let named = |operator: &str| {
        let expression = json!({ "key": "kubernetes.io/metadata.name", "operator": operator, "values": ["undeclared", "other"] });
        let peers = json!([{ "namespaceSelector": { "matchExpressions": [expression] } }]);
        policy("shop/p", json!({ "ingress": [{ "from": peers }] }))
    };
    world.apply(named("In"));
    assert!(world.allows("undeclared/a", "shop/web", "TCP/80"));
    assert!(!world.allows("liar/a", "shop/web", "TCP/80"));
    world.apply(named("NotIn"));
    assert!(!world.allows("undeclared/a", "shop/web", "TCP/80"));
    assert!(world.allows("liar/a", "shop/web", "TCP/80"));
}
