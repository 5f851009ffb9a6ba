//! Whatever happens in whatever order, the tables are those that a compile from scratch gives.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use vrouter_control_model::{Kind, KubeObject, Model, State};
use vrouter_objects::{Object, ObjectKey, PeerSetId, PolicyId, VmiId};

use crate::common::{self, Cluster, attachment, config, node_in, object, tables};
use crate::world::{cluster_policy, namespace, pod, policy, with_ports};

/// What can happen.
#[derive(Debug, Clone)]
enum Step {
    Apply(Value),
    Delete(Kind, String),
    Attach(u32, String, String),
    Detach(u32),
    Settle,
}

const NAMESPACES: [&str; 3] = ["x", "y", "z"];

fn labels(keys: [&'static str; 2]) -> impl Strategy<Value = Value> {
    let value = || prop::option::of(prop_oneof![Just("1"), Just("2")]);
    (value(), value()).prop_map(move |(one, two)| {
        let pairs = keys.into_iter().zip([one, two]);
        pairs.filter_map(|(key, value)| Some((key.to_owned(), Value::from(value?)))).collect()
    })
}

fn selector(keys: [&'static str; 2]) -> impl Strategy<Value = Value> {
    let expression = (0..2_usize, 0..6_usize).prop_map(move |(key, operator)| {
        let (operator, values) = [
            ("In", vec!["1"]),
            ("In", vec!["1", "2"]),
            ("NotIn", vec!["1"]),
            ("Exists", vec![]),
            ("DoesNotExist", vec![]),
            // One that cannot be read.
            ("Is", vec![]),
        ][operator]
            .clone();
        json!({ "key": keys[key], "operator": operator, "values": values })
    });
    let expressions = prop::collection::vec(expression, 0..2);
    (labels(keys), expressions)
        .prop_map(|(labels, expressions)| json!({ "matchLabels": labels, "matchExpressions": expressions }))
}

fn namespace_selector() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => selector(["team", "zone"]),
        1 => (0..3_usize).prop_map(|i| json!({ "matchLabels": { "kubernetes.io/metadata.name": NAMESPACES[i] } })),
    ]
}

fn an_address() -> impl Strategy<Value = String> {
    prop_oneof![
        (2..6_u8).prop_map(|host| format!("10.244.1.{host}")),
        (2..6_u8).prop_map(|host| format!("fd00:10:244:1::{host}")),
    ]
}

fn a_pod() -> impl Strategy<Value = Value> {
    let ports = prop::sample::subsequence(vec!["TCP/http=80", "TCP/dns=53", "UDP/dns=5353"], 0..3);
    let kind = prop_oneof![6 => Just(""), 1 => Just("host"), 1 => Just("Succeeded"), 1 => Just("leaving")];
    let name = (0..3_usize, 0..2_u8).prop_map(|(i, j)| format!("{}/p{j}", NAMESPACES[i]));
    let addresses = prop::collection::btree_set(an_address(), 0..3);
    (name, labels(["app", "tier"]), addresses, ports, kind).prop_map(
        |(name, labels, addresses, ports, kind)| {
            let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
            let mut pod = with_ports(pod(&name, labels, &addresses), &ports);
            match kind {
                "host" => pod["spec"]["hostNetwork"] = true.into(),
                "Succeeded" => pod["status"]["phase"] = kind.into(),
                "leaving" => pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into(),
                _ => {}
            }
            pod
        },
    )
}

fn a_peer() -> impl Strategy<Value = Value> {
    let block = prop_oneof![Just("10.244.1.0/30"), Just("fd00:10:244:1::/126"), Just("0.0.0.0/0"), Just("?")];
    prop_oneof![
        3 => selector(["app", "tier"]).prop_map(|pods| json!({ "podSelector": pods })),
        2 => namespace_selector().prop_map(|namespaces| json!({ "namespaceSelector": namespaces })),
        2 => (namespace_selector(), selector(["app", "tier"]))
            .prop_map(|(namespaces, pods)| json!({ "namespaceSelector": namespaces, "podSelector": pods })),
        1 => block.prop_map(|cidr| json!({ "ipBlock": { "cidr": cidr } })),
    ]
}

fn a_rule(side: &'static str) -> impl Strategy<Value = Value> {
    let port = prop_oneof![
        Just(json!({ "port": "http" })),
        Just(json!({ "port": "dns", "protocol": "UDP" })),
        Just(json!({ "port": 80, "endPort": 90 })),
        Just(json!({ "endPort": 90 })),
    ];
    (prop::collection::vec(a_peer(), 0..3), prop::collection::vec(port, 0..3))
        .prop_map(move |(peers, ports)| json!({ side: peers, "ports": ports }))
}

fn a_policy() -> impl Strategy<Value = Value> {
    let name = (0..3_usize, 0..2_u8).prop_map(|(i, j)| format!("{}/n{j}", NAMESPACES[i]));
    let ingress = prop::collection::vec(a_rule("from"), 0..3);
    let egress = prop::collection::vec(a_rule("to"), 0..3);
    (name, selector(["app", "tier"]), ingress, egress).prop_map(|(name, pods, ingress, egress)| {
        let types = json!(["Ingress", "Egress"]);
        policy(
            &name,
            json!({ "podSelector": pods, "policyTypes": types, "ingress": ingress, "egress": egress }),
        )
    })
}

fn a_cluster_policy() -> impl Strategy<Value = Value> {
    let pods = || {
        (namespace_selector(), selector(["app", "tier"])).prop_map(
            |(namespaces, pods)| json!({ "pods": { "namespaceSelector": namespaces, "podSelector": pods } }),
        )
    };
    let nodes = labels(["topology.kubernetes.io/zone", "x"])
        .prop_map(|labels| json!({ "nodes": { "matchLabels": labels } }));
    let peer = prop_oneof![3 => pods(), 1 => nodes, 1 => Just(json!({ "domainNames": ["example.com"] }))];
    let protocol = prop_oneof![Just(json!([])), Just(json!([{ "destinationNamedPort": "http" }]))];
    let rule = (prop_oneof![Just("Accept"), Just("Deny"), Just("Pass")], peer, protocol).prop_map(
        |(action, peer, protocols)| json!({ "action": action, "to": [peer], "protocols": protocols }),
    );
    let tier = prop_oneof![Just("Admin"), Just("Baseline"), Just("?")];
    (0..2_u8, tier, 0..3_u8, pods(), prop::collection::vec(rule, 0..3)).prop_map(
        |(name, tier, priority, subject, rules)| {
            let spec = json!({ "tier": tier, "priority": priority, "subject": subject, "egress": rules });
            cluster_policy(&format!("c{name}"), spec)
        },
    )
}

fn a_step() -> impl Strategy<Value = Step> {
    let own = |prefix: &'static str| {
        (0..3_usize, 0..2_u8).prop_map(move |(i, j)| format!("{}/{prefix}{j}", NAMESPACES[i]))
    };
    prop_oneof![
        1 => (1..3_u8, 0..3_u8).prop_map(|(i, zone)| Step::Apply(node_in(&zone.to_string(), &format!("n{i}"), &format!("172.30.0.{i}")))),
        1 => (1..3_u8).prop_map(|i| Step::Delete(Kind::Node, format!("n{i}"))),
        2 => (0..3_usize, labels(["team", "zone"])).prop_map(|(i, labels)| Step::Apply(namespace(NAMESPACES[i], labels))),
        1 => (0..3_usize).prop_map(|i| Step::Delete(Kind::Namespace, NAMESPACES[i].to_owned())),
        6 => a_pod().prop_map(Step::Apply),
        2 => own("p").prop_map(|name| Step::Delete(Kind::Pod, name)),
        5 => a_policy().prop_map(Step::Apply),
        2 => own("n").prop_map(|name| Step::Delete(Kind::NetworkPolicy, name)),
        2 => a_cluster_policy().prop_map(Step::Apply),
        1 => (0..2_u8).prop_map(|i| Step::Delete(Kind::ClusterNetworkPolicy, format!("c{i}"))),
        2 => (1..4_u32, own("p"), an_address()).prop_map(|(vmi, pod, address)| Step::Attach(vmi, pod, address)),
        1 => (1..4_u32).prop_map(Step::Detach),
        4 => Just(Step::Settle),
    ]
}

type Objects = BTreeMap<(Kind, String), Value>;

fn take(cluster: &mut Cluster, objects: &mut Objects, step: Step) {
    match step {
        Step::Apply(value) => {
            objects.insert(key(&value), value.clone());
            cluster.record(value);
        }
        Step::Delete(kind, name) => {
            objects.remove(&(kind, name.clone()));
            cluster.model.delete(&common::reference(kind, &name));
        }
        Step::Attach(vmi, pod, address) => cluster.model.attach("n1", attachment(vmi, &pod, &[&address])),
        Step::Detach(vmi) => cluster.model.detach("n1", VmiId::new(vmi).unwrap()),
        Step::Settle => {
            cluster.settle();
        }
    }
}

fn key(value: &Value) -> (Kind, String) {
    let reference = object(value.clone()).reference();
    let name = match reference.namespace.as_str() {
        "" => reference.name,
        namespace => format!("{namespace}/{}", reference.name),
    };
    (reference.kind, name)
}

/// A model that is given all objects at once.
fn from_scratch(objects: &Objects, state: State) -> Model {
    let mut model = Model::new(config(), state).unwrap();
    for kind in Kind::ALL {
        let of_kind = objects.values().filter(|value| key(value).0 == kind);
        let list: Vec<(Arc<KubeObject>, Arc<str>)> = of_kind
            .map(|value| {
                let object = object(value.clone());
                let origin = format!("{}.yaml", object.reference().name);
                (Arc::new(object), origin.into())
            })
            .collect();
        model.reset(kind, &list);
    }
    model.settle();
    model
}

/// What policies are, with names in place of the ids that tell who came first.
fn shown(model: &Model) -> Vec<String> {
    let mut sets: BTreeMap<PeerSetId, String> = BTreeMap::new();
    let mut policies: BTreeMap<PolicyId, String> = BTreeMap::new();
    for (_, object) in model.tables() {
        match &**object {
            Object::PeerSet(set) => drop(sets.insert(set.id, set.name.clone())),
            Object::Policy(policy) => drop(policies.insert(policy.id, policy.name.clone())),
            _ => {}
        }
    }
    let set_name = |text: String| {
        // Longest ids first, so that none is taken for the beginning of another.
        sets.iter()
            .rev()
            .fold(text, |text, (id, name)| text.replace(&format!("{id:?})"), &format!("{name})")))
    };
    let mut shown: Vec<String> = model
        .tables()
        .filter_map(|(_, object)| match &**object {
            Object::PeerSet(set) => Some(set.name.clone()),
            Object::PeerAddress(element) => {
                let set = &sets[&element.key.set];
                Some(format!("{set}: {} of {} at {:?}", element.key.address, element.key.space, element.port))
            }
            Object::Policy(policy) => {
                let rules = format!("{:?} {:?} {:?}", policy.tier, policy.ingress, policy.egress);
                Some(format!("{}: {}", policy.name, set_name(rules)))
            }
            Object::PodBinding(binding) => {
                let mut names: Vec<&String> = binding.policies.iter().map(|id| &policies[id]).collect();
                names.sort();
                Some(format!("{}: {names:?} {:?}", binding.pod, binding.ports))
            }
            _ => None,
        })
        .collect();
    shown.sort();
    shown
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn incremental_equals_from_scratch(steps in prop::collection::vec(a_step(), 1..50)) {
        let mut cluster = Cluster::with_config(config());
        let mut objects = Objects::new();
        for step in steps {
            take(&mut cluster, &mut objects, step);
        }
        cluster.settle();
        let scratch = from_scratch(&objects, cluster.saved_state());
        prop_assert_eq!(&cluster.tables, &tables(&scratch));
        prop_assert_eq!(cluster.model.problems(), scratch.problems());
        // Everything that refers to a set or a policy refers to one that there is.
        for (_, key) in cluster.tables.keys() {
            if let ObjectKey::PeerAddress(element) = key {
                let set = ObjectKey::PeerSet(element.set);
                prop_assert!(cluster.tables.keys().any(|(_, other)| *other == set));
            }
        }
    }

    #[test]
    fn any_order_of_events_gives_the_same_policies(
        (steps, order) in prop::collection::vec(a_step(), 1..30)
            .prop_flat_map(|steps| { let count = steps.len(); (Just(steps), Just((0..count).collect::<Vec<_>>()).prop_shuffle()) }),
    ) {
        // Who has which address depends on what was attached last, so nothing is attached here.
        let steps: Vec<Step> =
            steps.into_iter().filter(|step| !matches!(step, Step::Attach(..) | Step::Detach(_))).collect();
        let mut objects = Objects::new();
        let mut wandered = Cluster::with_config(config());
        for step in steps {
            take(&mut wandered, &mut objects, step);
        }
        wandered.settle();
        let mut shuffled = Cluster::with_config(config());
        let last: Vec<Value> = objects.values().cloned().collect();
        for i in order.into_iter().filter(|i| *i < last.len()) {
            shuffled.apply(last[i].clone());
        }
        last.iter().for_each(|value| shuffled.record(value.clone()));
        shuffled.settle();
        prop_assert_eq!(shown(&wandered.model), shown(&shuffled.model));
        prop_assert_eq!(wandered.model.problems(), shuffled.model.problems());
    }
}
