//! Kubernetes objects for the tests. JSON is YAML, so they are written as such.

use std::path::Path;

use serde_json::{Value, json};

/// The port of the probe's echo server.
pub const ECHO: u16 = 7000;

/// Objects as a YAML stream.
pub fn stream(objects: &[Value]) -> String {
    objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n")
}

/// A Namespace.
pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// A pod that does nothing, on a node.
pub fn idle_pod(name: &str, node: &str) -> Value {
    pod(name, node, json!({"name": "idle", "image": "idle", "command": ["sleep", "infinity"]}))
}

/// A pod on a node that gives everything back on port [`ECHO`]: TCP, UDP and SCTP.
pub fn echo_pod(name: &str, node: &str, probe: &Path) -> Value {
    let container = json!({
        "name": "echo",
        "image": "echo",
        "command": [probe, "echo", ECHO.to_string()],
        "ports": [
            {"name": "tcp", "containerPort": ECHO},
            {"name": "udp", "containerPort": ECHO, "protocol": "UDP"},
            {"name": "sctp", "containerPort": ECHO, "protocol": "SCTP"},
        ],
    });
    pod(name, node, container)
}

/// A pod on a node that runs iperf3's server.
pub fn iperf_pod(name: &str, node: &str) -> Value {
    let container = json!({
        "name": "iperf3",
        "image": "networkstatic/iperf3",
        "command": ["iperf3", "-s"],
        "ports": [{"containerPort": 5201}],
    });
    pod(name, node, container)
}

fn pod(name: &str, node: &str, container: Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 1, "containers": [container]},
    })
}

/// A pod that shares its node's network.
pub fn on_host_network(mut pod: Value) -> Value {
    pod["spec"]["hostNetwork"] = json!(true);
    pod
}

/// A pod that belongs to an app, besides being itself.
pub fn of_app(app: &str, pod: Value) -> Value {
    with_labels(pod, json!({"app": app}))
}

/// A pod with these labels alone.
pub fn with_labels(mut pod: Value, labels: Value) -> Value {
    pod["metadata"]["labels"] = labels;
    pod
}

/// An object with more fields in its spec.
pub fn with_spec(mut object: Value, fields: Value) -> Value {
    if let (Value::Object(spec), Value::Object(fields)) = (&mut object["spec"], fields) {
        spec.extend(fields);
    }
    object
}

/// A pod with addresses of its own choosing.
pub fn with_addresses(mut pod: Value, addresses: &str) -> Value {
    pod["metadata"]["annotations"] = json!({"vrouter.dev/ip-addresses": addresses});
    pod
}

/// A Deployment of the lab's own servers, on these ports.
pub fn deployment(name: &str, replicas: usize, ports: &[(&str, u16)]) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "terminationGracePeriodSeconds": 10,
                    "containers": [{"name": "server", "image": "server", "ports": container_ports(ports)}],
                },
            },
        },
    })
}

/// One port of a Service.
#[derive(Debug, Clone, Copy)]
pub struct ServicePort {
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: &'static str,
    /// Where clients go.
    pub port: u16,
    /// Where the endpoints listen.
    pub target: u16,
}

/// A Service of both families. Its endpoints are the pods with label `app`, or those that somebody else lists.
pub fn service(name: &str, endpoints: Endpoints, ports: &[ServicePort]) -> Value {
    let ports: Vec<_> = ports
        .iter()
        .map(|port| {
            json!({
                "name": format!("{}-{}", port.protocol.to_lowercase(), port.port),
                "protocol": port.protocol,
                "port": port.port,
                "targetPort": port.target,
            })
        })
        .collect();
    let mut service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"ipFamilyPolicy": "PreferDualStack", "ports": ports},
    });
    if let Endpoints::OfApp(app) = endpoints {
        service["spec"]["selector"] = json!({"app": app});
    }
    service
}

/// Where a Service's endpoints come from.
#[derive(Debug, Clone, Copy)]
pub enum Endpoints<'a> {
    /// The pods with this label `app`.
    OfApp(&'a str),
    /// Objects of their own.
    Listed,
}

/// A pod on a node with the lab's own server on these ports.
pub fn server_pod(name: &str, node: &str, ports: &[(&str, u16)]) -> Value {
    pod(name, node, json!({"name": "server", "image": "server", "ports": container_ports(ports)}))
}

fn container_ports(ports: &[(&str, u16)]) -> Vec<Value> {
    ports.iter().map(|(protocol, port)| json!({"containerPort": port, "protocol": protocol})).collect()
}
