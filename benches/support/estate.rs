//! A cluster's pods and policies, as the controller reads them.

use std::sync::Arc;

use serde_json::{Value, json};
use vrouter_control_model::{Kind, KubeObject, Model, ModelConfig, NetworkVnis, Origin, State};
use vrouter_objects::{IpNet, Vni};

const NODES: usize = 100;
const NAMESPACES: usize = 50;
/// Per namespace.
const APPS: usize = 20;

/// Pods over a hundred nodes and fifty namespaces, and the policies there.
#[derive(Debug, Default)]
pub struct Estate {
    objects: Vec<(Kind, Listed)>,
}

/// All objects of a kind, as a source lists them.
type Listed = Vec<(Arc<KubeObject>, Origin)>;

/// A pod's labels, or what selects by them.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

impl Estate {
    /// So many pods, without policies.
    pub fn new(pods: usize) -> Self {
        let nodes = (0..NODES).map(node).collect();
        let pods = (0..pods).map(|number| {
            let app = format!("a{}", number / NAMESPACES % APPS);
            pod(&namespace(number), &format!("p{number}"), number, &[("app", &app)])
        });
        let mut estate = Self::default();
        estate.list(Kind::Node, nodes);
        estate.list(Kind::Pod, pods.collect());
        estate
    }

    /// With so many policies over the namespaces. Each selects the pods of an app, and lets those of the next app and those of
    /// the same app in the next namespace speak to them; every tenth lets the whole namespace do so.
    pub fn with_policies(mut self, policies: usize) -> Self {
        let policies = (0..policies).map(|number| {
            let app = format!("a{}", number / NAMESPACES % APPS);
            let next_app = format!("a{}", (number / NAMESPACES + 1) % APPS);
            let next_namespace = labelled(&[("kubernetes.io/metadata.name", &namespace(number + 1))]);
            let peers = match number % 10 {
                0 => json!([{ "podSelector": {} }]),
                _ => json!([
                    { "podSelector": labelled(&[("app", &next_app)]) },
                    { "podSelector": labelled(&[("app", &app)]), "namespaceSelector": next_namespace },
                ]),
            };
            policy(&namespace(number), &format!("np{number}"), &[("app", &app)], peers)
        });
        self.list(Kind::NetworkPolicy, policies.collect());
        self
    }

    /// With a policy of the first namespace that lets the pods of one app speak to those of another, and so many besides that
    /// are about other pods of that namespace, by their labels.
    pub fn with_strangers(mut self, policies: usize) -> Self {
        let peers = json!([{ "podSelector": labelled(&[("app", "peer")]) }]);
        let own = policy(&namespace(0), "own", &[("app", "subject")], peers);
        let others = (0..policies).map(|number| {
            let role = format!("r{number}");
            let peers = json!([{ "podSelector": labelled(&[("role", &role)]) }]);
            policy(&namespace(0), &format!("other{number}"), &[("role", &role)], peers)
        });
        self.list(Kind::NetworkPolicy, others.chain([own]).collect());
        self
    }

    /// A model of it that is yet to be settled.
    pub fn model(&self) -> Model {
        let mut model = Model::new(config(), State::default()).expect("an empty state is a good one");
        for (kind, objects) in &self.objects {
            model.reset(*kind, objects);
        }
        model
    }

    /// A pod of the first namespace with these labels, on the first node.
    pub fn guest(labels: Labels<'_>) -> KubeObject {
        pod(&namespace(0), "guest", NODES * 250, labels)
    }

    fn list(&mut self, kind: Kind, objects: Vec<KubeObject>) {
        let listed = objects.into_iter().map(|object| (Arc::new(object), Origin::from("estate.yaml")));
        self.objects.push((kind, listed.collect()));
    }
}

fn config() -> ModelConfig {
    let [pods, services, fabric] = [1, 2, 3].map(|number| Vni::new(number).expect("a VNI"));
    let prefix = |text: &str| vec![text.parse::<IpNet>().expect("a literal prefix")];
    let vnis = NetworkVnis { pods, services, fabric };
    ModelConfig::new(prefix("10.0.0.0/9"), prefix("10.192.0.0/12"), [24, 64], vnis)
        .expect("networks that are apart")
}

fn namespace(number: usize) -> String {
    format!("ns{}", number % NAMESPACES)
}

fn node(number: usize) -> KubeObject {
    KubeObject::Node(read(json!({
        "metadata": { "name": format!("n{number}") },
        "spec": { "podCIDRs": [format!("10.1.{number}.0/24")] },
        "status": { "addresses": [{ "type": "InternalIP", "address": format!("172.30.0.{}", number + 1) }] },
    })))
}

/// A pod that runs. They go round over the nodes.
fn pod(namespace: &str, name: &str, number: usize, labels: Labels<'_>) -> KubeObject {
    let (node, host) = (number % NODES, number / NODES + 2);
    KubeObject::Pod(read(json!({
        "metadata": { "namespace": namespace, "name": name, "labels": map(labels) },
        "spec": { "nodeName": format!("n{node}"), "containers": [{ "name": "c" }] },
        "status": { "phase": "Running", "podIP": format!("10.1.{node}.{host}") },
    })))
}

/// Who may speak to the pods with these labels, at one port.
fn policy(namespace: &str, name: &str, labels: Labels<'_>, peers: Value) -> KubeObject {
    KubeObject::NetworkPolicy(read(json!({
        "metadata": { "namespace": namespace, "name": name },
        "spec": {
            "podSelector": labelled(labels),
            "ingress": [{ "from": peers, "ports": [{ "port": 80 }] }],
        },
    })))
}

fn labelled(labels: Labels<'_>) -> Value {
    json!({ "matchLabels": map(labels) })
}

fn map(labels: Labels<'_>) -> Value {
    labels.iter().map(|&(key, value)| (key.to_owned(), Value::from(value))).collect()
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Box<T> {
    Box::new(serde_json::from_value(value).expect("an object as the API has it"))
}
