//! Peer sets: one for everything that is meant, for as long as somebody means it.

use serde_json::{Value, json};
use vrouter_control_model::Kind;

use crate::world::{World, namespace, pod, policy, with_ports};

fn from(peers: Value) -> Value {
    json!({ "ingress": [{ "from": peers }] })
}

fn app(app: &str) -> Value {
    json!({ "podSelector": { "matchLabels": { "app": app } } })
}

#[test]
fn whoever_means_the_same_means_one_set() {
    let mut world = World::with_two_teams();
    world.apply(policy("shop/one", from(json!([app("db")]))));
    let expression = json!([{ "key": "app", "operator": "In", "values": ["db"] }]);
    let shop = json!({ "matchLabels": { "kubernetes.io/metadata.name": "shop" } });
    world.apply(policy(
        "bank/two",
        from(json!([
            { "namespaceSelector": shop, "podSelector": { "matchExpressions": expression } },
        ])),
    ));
    // The same selector in another namespace means others.
    world.apply(policy("bank/three", from(json!([app("db")]))));
    let sets = world.sets();
    assert_eq!(
        sets.keys().collect::<Vec<_>>(),
        ["pods app=db in namespace bank", "pods app=db in namespace shop"]
    );
    assert_eq!(sets["pods app=db in namespace shop"], ["10.244.1.3", "fd00:10:244:1::3"]);
}

#[test]
fn what_sets_are_called_says_whom_they_mean() {
    let mut world = World::with_two_teams();
    let expressions = json!([
        { "key": "app", "operator": "In", "values": ["web", "db"] },
        { "key": "old", "operator": "DoesNotExist" },
        { "key": "tier", "operator": "NotIn", "values": ["a", "b"] },
        { "key": "zone", "operator": "Exists" },
    ]);
    world.apply(policy(
        "shop/p",
        json!({
            "policyTypes": ["Egress"],
            "egress": [
                { "ports": [{ "port": "http" }] },
                { "to": [{ "podSelector": { "matchExpressions": expressions } }] },
                { "to": [{ "podSelector": {} }] },
                { "to": [{ "namespaceSelector": { "matchLabels": { "team": "b" } }, "podSelector": {} }] },
                { "to": [{ "ipBlock": { "cidr": "10.0.0.0/8", "except": ["10.2.0.0/16", "10.1.0.0/16"] } }],
                  "ports": [{ "port": "dns", "protocol": "UDP" }] },
            ],
        }),
    ));
    assert_eq!(
        world.sets().keys().collect::<Vec<_>>(),
        [
            "all pods at TCP port http",
            "all pods in namespace shop",
            "all pods in namespaces team=b",
            "pods app in (db,web),!old,tier notin (a,b),zone in namespace shop",
            "pods in 10.0.0.0/8 except 10.1.0.0/16, 10.2.0.0/16 at UDP port dns",
        ]
    );
}

#[test]
fn an_element_bears_the_port_that_its_pod_calls_so() {
    let mut world = World::with_two_teams();
    let rule = json!({ "ports": [{ "port": "http" }, { "port": "http", "protocol": "UDP" }] });
    world.apply(policy("shop/p", json!({ "policyTypes": ["Egress"], "egress": [rule] })));
    world.apply(with_ports(pod("shop/x", json!({}), &["10.244.1.9"]), &["UDP/http=5", "TCP/https=443"]));
    let sets = world.sets();
    assert_eq!(sets["all pods at UDP port http"], ["10.244.1.9 at 5"]);
    assert_eq!(sets["all pods at TCP port http"].len(), 4, "two webs with two addresses each");
    assert!(sets["all pods at TCP port http"].contains(&"fd00:10:244:1::2 at 8080".to_owned()));
    let rules = world.policy_named("NetworkPolicy shop/p").egress.unwrap();
    assert_eq!(rules.iter().map(|rule| rule.name.as_str()).collect::<Vec<_>>(), ["egress[0]", "egress[0]"]);
}

#[test]
fn a_set_lasts_as_long_as_a_policy_refers_to_it() {
    let mut world = World::with_two_teams();
    let name = "pods app=db in namespace shop";
    world.apply(policy("shop/one", from(json!([app("db")]))));
    let id = world.set_id(name).unwrap();
    world.apply(policy("shop/two", from(json!([app("db"), app("web")]))));
    world.delete(Kind::NetworkPolicy, "shop/one");
    assert_eq!(world.set_id(name), Some(id));
    // It passes from one policy to another within one settling.
    let two = policy("shop/two", from(json!([app("web")])));
    world.cluster.record(two);
    world.cluster.record(policy("shop/three", from(json!([app("db")]))));
    world.cluster.settle();
    assert_eq!(world.set_id(name), Some(id));
    world.delete(Kind::NetworkPolicy, "shop/three");
    assert_eq!(world.sets().keys().collect::<Vec<_>>(), ["pods app=web in namespace shop"]);
    // Its id is nobody's from now on.
    world.apply(policy("shop/one", from(json!([app("db")]))));
    assert!(world.set_id(name).unwrap() > id);
}

#[test]
fn ids_outlive_the_controller() {
    let mut world = World::with_two_teams();
    world.apply(policy("shop/gone", from(json!([app("web")]))));
    world.apply(policy("shop/stays", from(json!([app("db")]))));
    let ids = |world: &World| {
        let set = world.set_id("pods app=db in namespace shop").unwrap();
        (world.policy_named("NetworkPolicy shop/stays").id, set)
    };
    let before = ids(&world);
    // The next controller knows all objects before it settles for the first time.
    let mut next = World::with_recorded(
        world.cluster.saved_state(),
        vec![policy("shop/new", from(json!([app("new")]))), policy("shop/stays", from(json!([app("db")])))],
    );
    assert_eq!(ids(&next), before);
    assert_eq!(next.sets().len(), 2, "what only the policy that is gone meant is let go");
    // What was given is not given again.
    next.delete(Kind::NetworkPolicy, "shop/stays");
    next.apply(policy("shop/stays", from(json!([app("db")]))));
    let after = ids(&next);
    assert!(after.0 > before.0 && after.1 > before.1);
}

#[test]
fn relabelled_pods_and_namespaces_change_sides() {
    let mut world = World::with_two_teams();
    let peers = json!([{ "namespaceSelector": { "matchLabels": { "team": "b" } } }]);
    world.apply(policy("shop/p", from(peers)));
    assert!(world.allows("bank/db", "shop/web", "TCP/80"));
    world.apply(namespace("bank", json!({ "team": "c" })));
    assert!(!world.allows("bank/db", "shop/web", "TCP/80"));
    world.apply(namespace("shop", json!({ "team": "b" })));
    assert!(world.allows("shop/db", "shop/web", "TCP/80"));
    world.delete(Kind::Namespace, "shop");
    assert!(!world.allows("shop/db", "shop/web", "TCP/80"));
    // A pod that is relabelled is selected no more.
    let selector = json!({ "matchLabels": { "app": "web" } });
    world.apply(policy("shop/p", json!({ "podSelector": selector })));
    assert!(!world.allows("shop/db", "shop/web", "TCP/80"));
    world.apply(pod("shop/web", json!({ "app": "other" }), &["10.244.1.2", "fd00:10:244:1::2"]));
    assert!(world.allows("shop/db", "shop/web", "TCP/80"));
    assert_eq!(world.binding("shop/web").policies, []);
}

#[test]
fn a_pod_is_in_with_the_addresses_that_it_has_now() {
    let mut world = World::with_two_teams();
    world.apply(policy("shop/p", from(json!([app("new")]))));
    let name = "pods app=new in namespace shop";
    world.apply(pod("shop/new", json!({ "app": "new" }), &[]));
    assert_eq!(world.sets()[name], Vec::<String>::new());
    world.cluster.attach("n1", 7, "shop/new", &["10.244.1.9", "fd00:10:244:1::9"]);
    assert_eq!(world.sets()[name], ["10.244.1.9", "fd00:10:244:1::9"]);
    world.cluster.attach("n1", 7, "shop/new", &["10.244.1.10"]);
    assert_eq!(world.sets()[name], ["10.244.1.10"]);
    world.cluster.detach("n1", 7);
    assert_eq!(world.sets()[name], Vec::<String>::new());
}

#[test]
fn a_pod_is_in_with_the_addresses_of_all_its_interfaces() {
    let mut world = World::with_two_teams();
    world.apply(policy("shop/p", from(json!([app("new")]))));
    let name = "pods app=new in namespace shop";
    world.apply(pod("shop/new", json!({ "app": "new" }), &[]));
    // Its sandbox is made anew before the old one is gone.
    world.cluster.attach("n1", 7, "shop/new", &["10.244.1.9"]);
    world.cluster.attach("n1", 8, "shop/new", &["10.244.1.10"]);
    assert_eq!(world.sets()[name], ["10.244.1.9", "10.244.1.10"]);
    world.apply(pod("shop/other", json!({ "app": "other" }), &[]));
    world.cluster.attach("n1", 9, "shop/other", &["10.244.1.9"]);
    assert_eq!(world.sets()[name], ["10.244.1.10"], "it is another pod's now");
    world.cluster.detach("n1", 9);
    world.cluster.detach("n1", 7);
    assert_eq!(world.sets()[name], ["10.244.1.10"]);
}

#[test]
fn a_pod_is_not_in_with_the_addresses_of_an_earlier_one_of_its_name() {
    let with_uid = |uid: &str, app: &str, addresses: &[&str]| {
        let mut pod = pod("shop/db-0", json!({ "app": app }), addresses);
        pod["metadata"]["uid"] = uid.into();
        pod
    };
    let attached = |vmi, uid: &str, address| {
        let mut attachment = crate::common::attachment(vmi, "shop/db-0", &[address]);
        attachment.uid = uid.to_owned();
        attachment
    };
    let mut world = World::with_two_teams();
    world.apply(policy("shop/p", from(json!([app("new")]))));
    let name = "pods app=new in namespace shop";
    world.apply(with_uid("first", "old", &[]));
    world.cluster.model.attach("n1", attached(7, "first", "10.244.1.9"));
    world.cluster.settle();
    // It is deleted by force, and its successor comes while it still runs.
    world.apply(with_uid("second", "new", &[]));
    assert_eq!(world.sets()[name], Vec::<String>::new());
    world.cluster.model.attach("n1", attached(8, "second", "10.244.1.10"));
    world.cluster.settle();
    assert_eq!(world.sets()[name], ["10.244.1.10"]);
    // And it says that it has gone when all that is known.
    world.cluster.detach("n1", 7);
    assert_eq!(world.sets()[name], ["10.244.1.10"]);
    world.apply(with_uid("second", "new", &["10.244.1.9"]));
    assert_eq!(world.sets()[name], ["10.244.1.10"], "what its node says counts");
}
