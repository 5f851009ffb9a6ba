//! What changes costs what it touches, whatever else there is.

use serde_json::{Value, json};
use vrouter_control_model::Kind;

use crate::world::{World, namespace, pod, policy};

/// A namespace of ten pods with two policies each: `app: aI` may be spoken to by `app: aJ`.
fn populated(world: &mut World, count: usize) {
    for i in 0..count {
        let team = format!("t{}", i / 10);
        let name = |what: &str| format!("ns{i}/{what}");
        world.cluster.record(namespace(&format!("ns{i}"), json!({ "team": team })));
        for j in 0..10 {
            let address = format!("10.244.{}.{}", i % 250, i / 250 * 10 + j + 2);
            world.cluster.record(pod(
                &name(&format!("p{j}")),
                json!({ "app": format!("a{j}"), "all": "x" }),
                &[&address],
            ));
        }
        let selector = |j: usize| json!({ "matchLabels": { "all": "x", "app": format!("a{j}") } });
        let rule = json!([{ "from": [{ "podSelector": selector(2) }] }]);
        world.cluster.record(policy(&name("one"), json!({ "podSelector": selector(1), "ingress": rule })));
        let peers =
            json!({ "namespaceSelector": { "matchLabels": { "team": team } }, "podSelector": selector(4) });
        let rule = json!([{ "to": [peers] }]);
        let spec = json!({ "podSelector": selector(3), "policyTypes": ["Egress"], "egress": rule });
        world.cluster.record(policy(&name("two"), spec));
    }
    world.cluster.settle();
    assert!(world.cluster.problems().is_empty());
}

fn relabelled(app: &str) -> Value {
    pod("ns5/p0", json!({ "app": app, "all": "x" }), &["10.244.5.2"])
}

#[test]
fn one_pods_change_costs_what_selects_it() {
    let costs = |count: usize| {
        let mut world = World::new();
        populated(&mut world, count);
        let mut costs = Vec::new();
        // Nothing means it; then one set does; then one policy selects it; then another namespace's set means it.
        for app in ["a9", "a2", "a1", "a4", "a0"] {
            costs.push(world.apply(relabelled(app)));
        }
        costs.push(world.apply(relabelled("a0")));
        costs.push(world.delete(Kind::Pod, "ns5/p0"));
        costs
    };
    // Itself, its address where that may change hands, and one unit per set that it comes into or leaves.
    let expected = [1, 2, 2, 2, 2, 0, 2];
    assert_eq!(costs(10), expected);
    assert_eq!(costs(300), expected, "thirty times the policies");
}

#[test]
fn a_namespaces_labels_cost_its_pods() {
    let costs = |count: usize| {
        let mut world = World::new();
        populated(&mut world, count);
        let moved = world.apply(namespace("ns5", json!({ "team": "t99" })));
        let back = world.apply(namespace("ns5", json!({ "team": "t0" })));
        (moved, back)
    };
    // Ten pods; the set of its team loses one and gains it again; its pod a2 is looked at in its own set.
    assert_eq!(costs(10), (12, 12));
    assert_eq!(costs(300), (12, 12));
}

#[test]
fn a_policys_change_costs_whom_it_is_about() {
    let mut world = World::new();
    populated(&mut world, 100);
    let selector = |app: &str| json!({ "matchLabels": { "app": app } });
    let with = |rule: Value| policy("ns5/three", json!({ "podSelector": selector("a7"), "ingress": [rule] }));
    // The policy, the pod that it selects, its new set, and the pod in that.
    assert_eq!(world.apply(with(json!({ "from": [{ "podSelector": selector("a8") }] }))), 4);
    // Another set in place of the first, which is let go with the pod in it.
    assert_eq!(world.apply(with(json!({ "from": [{ "podSelector": selector("a6") }] }))), 5);
    // The set of another policy: only the policy itself, and the one that is let go.
    let shared = json!({ "podSelector": { "matchLabels": { "all": "x", "app": "a2" } } });
    assert_eq!(world.apply(with(json!({ "from": [shared] }))), 3);
    // News that is none.
    assert_eq!(world.apply(with(json!({ "from": [shared] }))), 0);
    // A rule by a name makes its pod's node need the pod's number.
    assert_eq!(world.apply(with(json!({ "from": [shared], "ports": [{ "port": "http" }] }))), 2);
    assert_eq!(world.delete(Kind::NetworkPolicy, "ns5/three"), 2);
}

#[test]
fn many_that_share_a_label_do_not_all_hang_on_it() {
    let costs = |count: usize| {
        let mut world = World::new();
        for i in 0..count {
            let labels = json!({ "app": "same", "role": format!("r{i}") });
            world.cluster.record(pod(
                &format!("shop/p{i}"),
                labels.clone(),
                &[&format!("10.244.1.{}", i + 2)],
            ));
            let selector = json!({ "matchLabels": labels });
            let rule = json!([{ "from": [{ "podSelector": selector }] }]);
            world
                .cluster
                .record(policy(&format!("shop/p{i}"), json!({ "podSelector": selector, "ingress": rule })));
        }
        world.cluster.settle();
        assert_eq!(world.policies_of("shop/p3"), ["NetworkPolicy shop/p3"]);
        world.apply(pod("shop/p3", json!({ "app": "same", "role": "r4" }), &["10.244.1.5"]))
    };
    assert_eq!(costs(10), 3);
    assert_eq!(costs(200), 3);
}
