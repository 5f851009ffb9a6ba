//! What changes is recomputed, and nothing else; and the result is what a build from scratch gives.
#![allow(missing_docs)]

mod common;

use std::sync::Arc;

use common::{
    Cluster, attachment, config, config_with_pool, endpoints, node, node_in, object, pod, reference, running,
    service, slice, tables,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use vrouter_control_model::{Kind, KubeObject, Model, ModelConfig, NamespacedName};
use vrouter_objects::VmiId;

#[test]
fn one_endpoint_among_ten_thousand_services() {
    let mut cluster = Cluster::with_config(config().with_node_ports("20000-40000".parse().unwrap()));
    cluster.record(node("n1", "172.30.0.1"));
    for i in 0..10_000 {
        let name = format!("s{i}");
        // All share an address, each at a port of its own, and have a node port.
        let ports = json!([{ "port": i + 1, "targetPort": 80 }]);
        let spec = json!({
            "selector": { "app": name }, "ports": ports, "type": "NodePort", "externalIPs": ["198.51.100.1"],
        });
        cluster.record(service(&name, spec));
        let address = format!("10.244.{}.{}", i / 250 + 1, i % 250 + 1);
        if i % 2 == 0 {
            cluster.record(slice(&name, &name, json!([{ "port": 80 }]), endpoints(&["192.0.2.1"])));
        } else {
            cluster.record(pod(&name, &name, "n1", running(&address, true)));
        }
    }
    assert!(cluster.settle() >= 10_000);
    assert!(cluster.problems().is_empty());

    // By a slice: its service.
    let two = endpoints(&["192.0.2.1", "192.0.2.2"]);
    assert_eq!(cluster.apply(slice("s4000", "s4000", json!([{ "port": 80 }]), two.clone())), 1);
    assert_eq!(cluster.active("default/s4000", "TCP/4001").len(), 2);
    // By a pod's readiness: the pod and its service.
    let unready = pod("s4001", "s4001", "n1", running("10.244.17.2", false));
    assert_eq!(cluster.apply(unready.clone()), 2);
    assert!(cluster.active("default/s4001", "TCP/4002").is_empty());
    // By news that is none.
    assert_eq!(cluster.apply(unready), 0);
    assert_eq!(cluster.apply(slice("s4000", "s4000", json!([{ "port": 80 }]), two)), 0);
}

/// Little to pick from, so that what is free runs out.
fn tight_config() -> ModelConfig {
    config_with_pool().with_node_ports("30000-30004".parse().unwrap())
}

/// What can happen to a small cluster.
#[derive(Debug, Clone)]
enum Step {
    Apply(Value),
    Delete(Kind, String),
    Attach(&'static str, u32, String, Vec<String>),
    Detach(&'static str, u32),
    Settle,
}

const NODES: [&str; 3] = ["n1", "n2", "n3"];

fn a_node() -> impl Strategy<Value = Value> {
    let block = prop_oneof![Just(None), (1..4_u8).prop_map(Some)];
    (0..3_usize, 1..4_u8, block, any::<bool>(), 0..3_u8, prop::option::of(1..4_u8)).prop_map(
        |(name, host, block, kernel, zone, more)| {
            let mut node = node_in(&format!("z{zone}"), NODES[name], &format!("172.30.0.{host}"));
            if let Some(more) = more {
                let more = json!({ "type": "ExternalIP", "address": format!("172.30.0.{more}") });
                node["status"]["addresses"].as_array_mut().unwrap().push(more);
            }
            if let Some(block) = block {
                node["spec"] = json!({ "podCIDRs": [format!("10.244.{block}.0/24")] });
            }
            if kernel {
                let data = "{\"VtepMAC\":\"02:00:00:00:00:09\"}";
                node["metadata"]["annotations"] = json!({ "flannel.alpha.coreos.com/backend-data": data });
            }
            node
        },
    )
}

fn an_address() -> impl Strategy<Value = String> {
    (1..4_u8, 1..4_u8).prop_map(|(block, host)| format!("10.244.{block}.{host}"))
}

fn a_pod() -> impl Strategy<Value = Value> {
    let status = prop_oneof![
        Just(Value::Null),
        (an_address(), any::<bool>()).prop_map(|(address, ready)| running(&address, ready)),
        an_address().prop_map(|address| json!({ "phase": "Succeeded", "podIP": address })),
    ];
    (0..4_u8, 0..2_u8, 0..3_usize, status, prop::option::of(an_address()), any::<[bool; 2]>()).prop_map(
        |(name, app, node, status, wish, [host, terminating])| {
            let mut pod = pod(&format!("p{name}"), &format!("a{app}"), NODES[node], status);
            if let Some(wish) = wish {
                pod["metadata"]["annotations"] = json!({ "vrouter.dev/ip-addresses": wish });
            }
            if host {
                pod["spec"]["hostNetwork"] = true.into();
            }
            if terminating {
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            pod
        },
    )
}

/// What a service may say of how it is reached from outside.
fn an_exposure() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({})),
        Just(json!({ "externalTrafficPolicy": "Local" })),
        Just(json!({ "externalTrafficPolicy": "Local", "healthCheckNodePort": 30_001 })),
        Just(json!({ "trafficDistribution": "PreferSameNode", "sessionAffinity": "ClientIP" })),
        Just(json!({ "loadBalancerIP": "192.0.2.9" })),
        (9..11_u8).prop_map(|host| json!({ "externalIPs": [format!("192.0.2.{host}")] })),
    ]
}

fn a_service() -> impl Strategy<Value = Value> {
    let given = prop_oneof![Just(None), (10..12_u8).prop_map(|host| Some(format!("10.96.0.{host}")))];
    let kind = prop_oneof![
        3 => Just("ClusterIP"), 1 => Just("ExternalName"), 2 => Just("NodePort"), 3 => Just("LoadBalancer"),
    ];
    let node_port = prop_oneof![2 => Just(0), 1 => 30_000..30_003_u16];
    let outside = (an_exposure(), node_port);
    (0..4_u8, prop::option::of(0..2_u8), given, 80..82_u16, kind, any::<bool>(), outside).prop_map(
        |(name, app, given, port, kind, dual, (exposure, node_port))| {
            let mut spec = json!({ "type": kind, "ports": [
                { "name": "t", "port": port, "targetPort": 8080, "nodePort": node_port },
                { "name": "u", "port": 53, "protocol": "UDP" },
            ] });
            spec.as_object_mut().unwrap().extend(exposure.as_object().unwrap().clone());
            if let Some(app) = app {
                spec["selector"] = json!({ "app": format!("a{app}") });
            }
            if let Some(given) = given {
                spec["clusterIP"] = given.into();
            }
            if dual {
                spec["ipFamilyPolicy"] = "PreferDualStack".into();
            }
            service(&format!("s{name}"), spec)
        },
    )
}

fn a_slice() -> impl Strategy<Value = Value> {
    let address = prop_oneof![an_address(), (1..4_u8).prop_map(|host| format!("172.30.0.{host}"))];
    let place = (prop::option::of(0..3_usize), prop::option::of(0..4_u8), prop::option::of(0..3_usize));
    let endpoint =
        (address, any::<[bool; 3]>(), place).prop_map(|(address, [ready, serving, terminating], place)| {
            let conditions = json!({ "ready": ready, "serving": serving, "terminating": terminating });
            let mut endpoint = json!({ "addresses": [address], "conditions": conditions });
            let (node, pod, hint) = place;
            if let Some(node) = node {
                endpoint["nodeName"] = NODES[node].into();
            }
            if let Some(pod) = pod {
                endpoint["targetRef"] =
                    json!({ "kind": "Pod", "namespace": "default", "name": format!("p{pod}") });
            }
            if let Some(hint) = hint {
                endpoint["hints"] =
                    json!({ "forZones": [{ "name": "z1" }], "forNodes": [{ "name": NODES[hint] }] });
            }
            endpoint
        });
    (0..3_u8, 0..4_u8, prop::collection::vec(endpoint, 0..4)).prop_map(|(name, service, list)| {
        let ports = json!([{ "name": "t", "port": 8080 }, { "name": "u", "port": 53, "protocol": "UDP" }]);
        slice(&format!("e{name}"), &format!("s{service}"), ports, list.into())
    })
}

fn a_step() -> impl Strategy<Value = Step> {
    let name = |prefix: &'static str, count: u8| (0..count).prop_map(move |i| format!("default/{prefix}{i}"));
    prop_oneof![
        2 => a_node().prop_map(Step::Apply),
        4 => a_pod().prop_map(Step::Apply),
        4 => a_service().prop_map(Step::Apply),
        3 => a_slice().prop_map(Step::Apply),
        1 => (0..3_usize).prop_map(|i| Step::Delete(Kind::Node, NODES[i].to_owned())),
        2 => name("p", 4).prop_map(|name| Step::Delete(Kind::Pod, name)),
        2 => name("s", 4).prop_map(|name| Step::Delete(Kind::Service, name)),
        2 => name("e", 3).prop_map(|name| Step::Delete(Kind::EndpointSlice, name)),
        3 => (0..3_usize, 1..5_u32, name("p", 4), prop::collection::vec(an_address(), 1..3))
            .prop_map(|(node, vmi, pod, addresses)| Step::Attach(NODES[node], vmi, pod, addresses)),
        2 => (0..3_usize, 1..5_u32).prop_map(|(node, vmi)| Step::Detach(NODES[node], vmi)),
        5 => Just(Step::Settle),
    ]
}

fn take(cluster: &mut Cluster, objects: &mut std::collections::BTreeMap<(Kind, String), Value>, step: Step) {
    match step {
        Step::Apply(value) => {
            let reference = object(value.clone()).reference();
            objects.insert((reference.kind, reference.name), value.clone());
            cluster.record(value);
        }
        Step::Delete(kind, name) => {
            objects.remove(&(kind, name.rsplit('/').next().unwrap().to_owned()));
            cluster.model.delete(&reference(kind, &name));
        }
        Step::Attach(node, vmi, pod, addresses) => {
            let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
            let pod = pod.parse::<NamespacedName>().unwrap().to_string();
            cluster.model.attach(node, attachment(vmi, &pod, &addresses));
        }
        Step::Detach(node, vmi) => cluster.model.detach(node, VmiId::new(vmi).unwrap()),
        Step::Settle => {
            cluster.settle();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn incremental_equals_from_scratch(steps in prop::collection::vec(a_step(), 1..40)) {
        let mut cluster = Cluster::with_config(tight_config());
        let mut objects = std::collections::BTreeMap::new();
        for step in steps {
            take(&mut cluster, &mut objects, step);
        }
        cluster.settle();
        let mut scratch = Model::new(tight_config(), cluster.saved_state()).unwrap();
        for kind in Kind::ALL {
            let of_kind = objects.iter().filter(|((of, _), _)| *of == kind);
            let list: Vec<(Arc<KubeObject>, Arc<str>)> = of_kind
                .map(|((_, name), value)| (Arc::new(object(value.clone())), format!("{name}.yaml").into()))
                .collect();
            scratch.reset(kind, &list);
        }
        scratch.settle();
        prop_assert_eq!(&cluster.tables, &tables(&scratch));
        for node in NODES {
            prop_assert_eq!(cluster.interest(node), scratch.interest(node).cloned().collect::<Vec<_>>());
        }
        prop_assert_eq!(cluster.model.problems(), scratch.problems());
    }
}
