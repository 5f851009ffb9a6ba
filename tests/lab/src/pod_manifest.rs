//! The Pod object as the controller sees it: what the user gave, with what scheduler and kubelet write into it.

use std::net::IpAddr;

use serde_json::{Map, Value, json};

use crate::state::{Phase, Pod, Readiness};

/// The object as a whole.
pub fn render(pod: &Pod, node_address: IpAddr) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(pod),
        "spec": spec(pod),
        "status": status(pod, node_address),
    })
}

fn metadata(pod: &Pod) -> Map<String, Value> {
    let mut metadata = pod.template.metadata.clone();
    metadata.insert("name".into(), json!(pod.name.name));
    metadata.insert("namespace".into(), json!(pod.name.namespace));
    metadata.insert("uid".into(), json!(pod.uid));
    metadata.insert("creationTimestamp".into(), json!(pod.created));
    if let Phase::Terminating(since) = &pod.phase {
        metadata.insert("deletionTimestamp".into(), json!(since));
    }
    metadata
}

fn spec(pod: &Pod) -> Map<String, Value> {
    let mut spec = pod.template.spec.clone();
    spec.insert("nodeName".into(), json!(pod.node));
    spec
}

fn status(pod: &Pod, node_address: IpAddr) -> Value {
    let phase = match pod.phase {
        Phase::Pending => "Pending",
        Phase::Running | Phase::Terminating(_) => "Running",
        Phase::Failed => "Failed",
    };
    let started = matches!(pod.phase, Phase::Running | Phase::Terminating(_));
    let ready = started && pod.readiness == Readiness::Ready;
    let mut status = json!({
        "phase": phase,
        "hostIP": node_address,
        "conditions": [
            condition("PodScheduled", true),
            condition("ContainersReady", ready),
            condition("Ready", ready),
        ],
    });
    if let Some(first) = pod.addresses.first() {
        let addresses: Vec<_> = pod.addresses.iter().map(|ip| json!({"ip": ip})).collect();
        status["podIP"] = json!(first);
        status["podIPs"] = json!(addresses);
    }
    status
}

fn condition(kind: &str, holds: bool) -> Value {
    json!({"type": kind, "status": if holds { "True" } else { "False" }})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::Netns;
    use crate::object::Name;
    use crate::workload::Template;

    fn pod(phase: Phase) -> Pod {
        let template =
            json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a"}]}});
        Pod {
            name: Name::new("x", "web-1"),
            uid: "u-1".into(),
            container_id: "c1".into(),
            owner: None,
            node: "n1".into(),
            netns: Netns::named("vrl-a-pod-1".into()),
            template: serde_json::from_value::<Template>(template).unwrap(),
            created: "2026-01-01T00:00:00Z".into(),
            addresses: vec!["10.244.0.2".parse().unwrap(), "fd00::2".parse().unwrap()],
            processes: Vec::new(),
            phase,
            readiness: Readiness::Ready,
        }
    }

    fn rendered(phase: Phase, readiness: Readiness) -> (Value, bool) {
        let object = render(&Pod { readiness, ..pod(phase) }, "172.30.0.1".parse().unwrap());
        let conditions = object["status"]["conditions"].as_array().unwrap();
        let ready = conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True");
        (object, ready)
    }

    #[test]
    fn a_running_pod_is_ready_unless_told_otherwise() {
        let (object, ready) = rendered(Phase::Running, Readiness::Ready);
        assert!(ready);
        assert_eq!(object["spec"]["nodeName"], "n1");
        assert_eq!(object["metadata"]["labels"]["app"], "web");
        assert_eq!(object["status"]["podIPs"], json!([{"ip": "10.244.0.2"}, {"ip": "fd00::2"}]));
        assert!(!rendered(Phase::Running, Readiness::NotReady).1);
        assert!(!rendered(Phase::Pending, Readiness::Ready).1);
    }

    #[test]
    fn a_terminating_pod_still_runs() {
        let (object, ready) = rendered(Phase::Terminating("2026-01-02T00:00:00Z".into()), Readiness::Ready);
        assert!(ready);
        assert_eq!(object["metadata"]["deletionTimestamp"], "2026-01-02T00:00:00Z");
        assert_eq!(object["status"]["phase"], "Running");
    }
}
