//! What people are shown of policies.

use serde_json::{Value, json};
use vrouter_control_model::{DocumentKind, Selection};

use crate::world::{World, cluster_policy, policy};

fn only(world: &World, kind: DocumentKind) -> Value {
    let mut documents = world.cluster.documents(kind);
    assert_eq!(documents.len(), 1, "{documents:?}");
    documents.remove(0)
}

#[test]
fn a_policy_its_rules_and_the_groups_that_they_refer_to() {
    let mut world = World::with_two_teams();
    world.apply(policy(
        "shop/web",
        json!({
            "podSelector": { "matchLabels": { "app": "web" } },
            "ingress": [{
                "from": [
                    { "podSelector": { "matchLabels": { "app": "db" } } },
                    { "ipBlock": { "cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"] } },
                ],
                "ports": [{ "port": 80, "endPort": 90 }, { "port": "http" }],
            }],
        }),
    ));
    let document = only(&world, DocumentKind::FirewallPolicy);
    assert_eq!(document["kind"], "FirewallPolicy");
    assert_eq!(document["metadata"], json!({ "name": "web", "namespace": "shop" }));
    let spec = &document["spec"];
    assert_eq!((&spec["tier"], &spec["directions"]), (&json!("NetworkPolicy"), &json!(["ingress"])));
    assert_eq!(spec["selects"], "pods app=web in namespace shop");
    assert_eq!(spec["firewallRuleReferences"][0]["name"], "web-ingress-0");

    let rule = only(&world, DocumentKind::FirewallRule);
    let spec = &rule["spec"];
    assert_eq!(spec["fqName"], json!(["default-domain", "shop", "web-ingress-0"]));
    assert_eq!((&spec["parent"]["name"], &spec["ruleName"]), (&json!("web"), &json!("ingress[0]")));
    assert_eq!(spec["actionList"], json!({ "simpleAction": "pass" }));
    assert_eq!(spec["endpoint1"]["subnets"], json!([{ "prefix": "10.0.0.0/8", "except": ["10.1.0.0/16"] }]));
    assert_eq!(spec["endpoint2"], json!({ "pods": "pods app=web in namespace shop" }));
    assert_eq!(
        spec["services"],
        json!([
            { "protocol": "TCP", "dstPorts": { "startPort": 80, "endPort": 90 } },
            { "protocol": "TCP", "dstPortName": "http" },
        ])
    );

    let group = only(&world, DocumentKind::AddressGroup);
    assert_eq!(spec["endpoint1"]["addressGroupReferences"][0]["name"], group["metadata"]["name"]);
    let spec = &group["spec"];
    assert_eq!(spec["means"], "pods app=db in namespace shop");
    let machine = &spec["addresses"][0]["virtualMachineReference"];
    assert_eq!((&machine["namespace"], &machine["name"]), (&json!("shop"), &json!("db")));
    let addresses: Vec<_> =
        spec["addresses"].as_array().unwrap().iter().map(|entry| &entry["address"]).collect();
    assert_eq!(addresses, ["10.244.1.3", "fd00:10:244:1::3"]);
    assert_eq!(spec["firewallPolicyReferences"][0]["name"], "web");
}

#[test]
fn a_cluster_policy_belongs_to_no_namespace() {
    let mut world = World::with_two_teams();
    let rules = json!([{ "name": "keep out", "action": "Deny", "from": [{ "namespaces": {} }] }]);
    let subject = json!({ "namespaces": { "matchLabels": { "team": "a" } } });
    world.apply(cluster_policy(
        "guard",
        json!({
            "tier": "Admin", "priority": 7, "subject": subject, "ingress": rules,
        }),
    ));
    let document = only(&world, DocumentKind::FirewallPolicy);
    assert_eq!(document["metadata"], json!({ "name": "guard" }));
    assert_eq!((&document["spec"]["tier"], &document["spec"]["priority"]), (&json!("Admin"), &json!(7)));
    assert_eq!(document["spec"]["selects"], "all pods in namespaces team=a");
    let rule = only(&world, DocumentKind::FirewallRule);
    assert_eq!(rule["spec"]["ruleName"], "keep out");
    assert_eq!(rule["spec"]["actionList"], json!({ "simpleAction": "deny" }));
}

#[test]
fn labels_are_tags_and_so_is_the_namespace() {
    let world = World::with_two_teams();
    let tags = world.cluster.documents(DocumentKind::Tag);
    let names: Vec<_> = tags.iter().map(|tag| tag["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["app=db", "app=web", "namespace=bank", "namespace=shop"]);
    assert_eq!(tags[0]["spec"]["tagTypeName"], "app");
    let named = world.cluster.model.documents(DocumentKind::Tag, Selection::Named("app=web"));
    assert_eq!(named.len(), 1);
}
