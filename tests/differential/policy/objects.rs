//! The Kubernetes objects that say what there is in a world.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::Result;
use serde_json::{Value, json};
use vrouter_control_model::{KubeObject, ObjectRef};
use vrouter_forward::sim::node_addresses;
use vrouter_tests::lab::Family;

use crate::world::{
    Isolation, Name, Namespace, Node, Phase, Pod, Service, Status, World, family_of, node_name,
};

/// All objects, by what names them.
pub type Objects = BTreeMap<ObjectRef, KubeObject>;

/// The objects of a world.
pub fn objects(world: &World) -> Result<Objects> {
    let mut objects = Vec::new();
    for (number, it) in &world.nodes {
        objects.push(KubeObject::Node(read(node(*number, it))?));
    }
    for (name, it) in &world.namespaces {
        objects.push(KubeObject::Namespace(read(namespace(name, it))?));
    }
    for (name, it) in &world.pods {
        objects.push(KubeObject::Pod(read(pod(name, it))?));
    }
    for (name, it) in &world.services {
        objects.push(KubeObject::Service(read(service(name, it))?));
        for slice in slices(world, name, it) {
            objects.push(KubeObject::EndpointSlice(read(slice)?));
        }
    }
    for (name, it) in &world.policies {
        let mut policy = it.clone();
        policy.metadata.name = Some(name.name.clone());
        policy.metadata.namespace = Some(name.namespace.clone());
        objects.push(KubeObject::NetworkPolicy(Box::new(policy)));
    }
    for (name, spec) in &world.cluster_policies {
        let policy = json!({ "metadata": { "name": name }, "spec": spec });
        objects.push(KubeObject::ClusterNetworkPolicy(read(policy)?));
    }
    Ok(objects.into_iter().map(|object| (object.reference(), object)).collect())
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<Box<T>> {
    Ok(Box::new(serde_json::from_value(value)?))
}

/// The block of pod addresses of a node.
pub fn block(number: usize, family: Family) -> String {
    match family {
        Family::V4 => format!("10.244.{}.0/24", number),
        Family::V6 => format!("fd00:10:244:{}::/64", number),
    }
}

/// A node's address.
pub fn node_address(number: usize, family: Family) -> IpAddr {
    let [v4, v6] = node_addresses(number - 1);
    match family {
        Family::V4 => v4,
        Family::V6 => v6,
    }
}

fn node(number: usize, node: &Node) -> Value {
    let [v4, v6] = Family::BOTH.map(|family| node_address(number, family));
    let blocks = Family::BOTH.map(|family| block(number, family));
    json!({
        "metadata": { "name": node_name(number), "labels": node.labels },
        "spec": { "podCIDR": blocks[0], "podCIDRs": blocks },
        "status": { "addresses": [
            { "type": "InternalIP", "address": v4 },
            { "type": "InternalIP", "address": v6 },
        ] },
    })
}

fn namespace(name: &str, namespace: &Namespace) -> Value {
    let mut labels = namespace.labels.clone();
    let mut annotations = BTreeMap::new();
    match namespace.isolation {
        Isolation::Shared => {}
        Isolation::ByLabel => {
            labels.insert("core.juniper.net/isolated-namespace".to_owned(), "true".to_owned());
        }
        Isolation::ByAnnotation => {
            annotations.insert("opencontrail.org/isolation", "true");
        }
    }
    json!({ "metadata": { "name": name, "labels": labels, "annotations": annotations } })
}

fn metadata(name: &Name) -> Value {
    json!({ "namespace": name.namespace, "name": name.name })
}

fn pod(name: &Name, pod: &Pod) -> Value {
    let mut metadata = metadata(name);
    metadata["labels"] = json!(pod.labels);
    if pod.phase == Phase::Terminating {
        metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    // One container for each port, so that the names need not differ.
    let container = |(number, port): (usize, &crate::world::NamedPort)| {
        let ports =
            json!([{ "name": port.name, "protocol": port.protocol.name(), "containerPort": port.number }]);
        json!({ "name": format!("c{number}"), "ports": ports })
    };
    let phase = if pod.phase == Phase::Finished { "Succeeded" } else { "Running" };
    let addresses: Vec<Value> = pod.addresses.iter().map(|address| json!({ "ip": address })).collect();
    let stated = matches!(pod.status, Status::Stated);
    json!({
        "metadata": metadata,
        "spec": {
            "nodeName": node_name(pod.node),
            "hostNetwork": pod.phase == Phase::OnHost,
            "containers": pod.ports.iter().enumerate().map(container).collect::<Vec<_>>(),
        },
        "status": {
            "phase": phase,
            "podIP": stated.then(|| pod.addresses.first()).flatten(),
            "podIPs": if stated { addresses } else { Vec::new() },
        },
    })
}

fn service(name: &Name, service: &Service) -> Value {
    json!({
        "metadata": metadata(name),
        "spec": {
            "type": "NodePort",
            "ipFamilyPolicy": "PreferDualStack",
            "clusterIP": service.addresses.first(),
            "clusterIPs": service.addresses,
            "ports": [{
                "name": "p", "protocol": service.protocol.name(), "port": service.port,
                "nodePort": service.node_port,
            }],
        },
    })
}

/// The slices of a service: one for each family and port of its pods.
fn slices(world: &World, name: &Name, service: &Service) -> Vec<Value> {
    let mut endpoints: BTreeMap<(&str, u16), Vec<Value>> = BTreeMap::new();
    for family in Family::BOTH {
        for (pod, address, port) in world.members(service, family) {
            let kind = if family_of(address) == Family::V4 { "IPv4" } else { "IPv6" };
            let node = world.pods.get(&pod).map(|pod| node_name(pod.node));
            let reference = json!({ "kind": "Pod", "namespace": pod.namespace, "name": pod.name });
            let endpoint = json!({
                "addresses": [address], "conditions": { "ready": true }, "nodeName": node, "targetRef": reference,
            });
            endpoints.entry((kind, port)).or_default().push(endpoint);
        }
    }
    let slice = |((kind, port), endpoints): ((&str, u16), Vec<Value>)| {
        let mut metadata = metadata(name);
        metadata["name"] = json!(format!("{}-{}-{port}", name.name, kind.to_lowercase()));
        metadata["labels"] = json!({ "kubernetes.io/service-name": name.name });
        let ports = json!([{ "name": "p", "protocol": service.protocol.name(), "port": port }]);
        json!({ "metadata": metadata, "addressType": kind, "ports": ports, "endpoints": endpoints })
    };
    endpoints.into_iter().map(slice).collect()
}
