//! Other API versions, as tutorials have them, brought to the ones that are read.

use serde_yaml_ng::{Mapping, Value};

/// Brings an object to the version of its API that is read. Says what it did.
pub fn upgrade(api_version: &str, kind: &str, object: &mut Mapping) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(current) = current_version(api_version, kind) {
        object.insert("apiVersion".into(), current.into());
        notes.push(format!("{api_version} is read as {current}"));
    }
    match (api_version, kind) {
        ("discovery.k8s.io/v1beta1", "EndpointSlice") => node_names_from_topology(object),
        (_, "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet") if default_selector(object) => {
            notes.push("spec.selector is missing and taken from the template's labels".to_owned());
        }
        _ => {}
    }
    notes
}

fn current_version(api_version: &str, kind: &str) -> Option<&'static str> {
    match (api_version, kind) {
        (
            "extensions/v1beta1" | "apps/v1beta1" | "apps/v1beta2",
            "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet",
        ) => Some("apps/v1"),
        ("batch/v1beta1" | "batch/v2alpha1", "CronJob") => Some("batch/v1"),
        ("discovery.k8s.io/v1beta1", "EndpointSlice") => Some("discovery.k8s.io/v1"),
        ("extensions/v1beta1" | "networking.k8s.io/v1beta1", "Ingress" | "NetworkPolicy") => {
            Some("networking.k8s.io/v1")
        }
        (
            "core.contrail.juniper.net/v1" | "core.contrail.juniper.net/v2" | "core.contrail.juniper.net/v3",
            "VirtualNetwork" | "Subnet" | "VirtualNetworkRouter",
        ) => Some("core.contrail.juniper.net/v1alpha1"),
        _ => None,
    }
}

/// Before apps/v1 a missing selector meant the labels of the pod template. Returns whether one was missing.
fn default_selector(object: &mut Mapping) -> bool {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_mapping_mut) else { return false };
    if spec.contains_key("selector") {
        return false;
    }
    let labels = spec.get("template").and_then(|template| template.get("metadata")?.get("labels")).cloned();
    let Some(labels) = labels else { return false };
    let selector: Mapping = [(Value::from("matchLabels"), labels)].into_iter().collect();
    spec.insert("selector".into(), selector.into());
    true
}

/// The older slices name an endpoint's node in a map of topology labels.
fn node_names_from_topology(slice: &mut Mapping) {
    let endpoints = slice.get_mut("endpoints").and_then(Value::as_sequence_mut);
    for endpoint in endpoints.into_iter().flatten().filter_map(Value::as_mapping_mut) {
        let node =
            endpoint.get("topology").and_then(|topology| topology.get("kubernetes.io/hostname")).cloned();
        if let Some(node) = node.filter(|_| !endpoint.contains_key("nodeName")) {
            endpoint.insert("nodeName".into(), node);
        }
    }
}
