//! What a lab consists of, for people and for programs.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::Result;
use comfy_table::{Table, presets};
use serde::Serialize;
use serde_json::Value;

use crate::cluster;
use crate::name::LabName;
use crate::object::Name;
use crate::state::{DataPath, Node, Phase, Pod, Readiness, State};
use crate::underlay;

/// The whole, in the shape that programs rely on.
#[derive(Debug, Serialize)]
pub struct Status {
    nodes: Vec<NodeStatus>,
    client: Client,
    pods: Vec<PodStatus>,
    services: Vec<ServiceStatus>,
}

#[derive(Debug, Serialize)]
struct NodeStatus {
    name: String,
    address: IpAddr,
    #[serde(skip)]
    data_path: &'static str,
}

#[derive(Debug, Serialize)]
struct Client {
    address: IpAddr,
}

#[derive(Debug, Serialize)]
struct PodStatus {
    namespace: String,
    name: String,
    node: String,
    ips: Vec<IpAddr>,
    phase: &'static str,
    #[serde(skip)]
    ready: &'static str,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServiceStatus {
    namespace: String,
    name: String,
    #[serde(rename = "clusterIPs")]
    cluster_ips: Vec<IpAddr>,
    #[serde(rename = "ingressIPs")]
    ingress_ips: Vec<IpAddr>,
    ports: Vec<ServicePort>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServicePort {
    name: String,
    port: u64,
    protocol: String,
    node_port: Option<u64>,
}

impl Status {
    /// Looks at a lab. Without its controller, services are shown with the addresses they ask for.
    pub fn of(name: &LabName, state: &State) -> Result<Self> {
        let allocated = cluster::addresses(name).unwrap_or_default();
        let services = cluster::services(name)?;
        Ok(Self {
            nodes: state.nodes.iter().map(NodeStatus::of).collect(),
            client: Client { address: underlay::client_address() },
            pods: state.pods.iter().map(PodStatus::of).collect(),
            services: services.iter().filter_map(|service| ServiceStatus::of(service, &allocated)).collect(),
        })
    }

    /// As tables.
    pub fn tables(&self) -> String {
        let nodes = table(
            &["NODE", "ADDRESS", "DATA PATH"],
            self.nodes
                .iter()
                .map(|node| vec![node.name.clone(), node.address.to_string(), node.data_path.into()]),
        );
        let pods = table(
            &["NAMESPACE", "POD", "PHASE", "READY", "NODE", "ADDRESSES"],
            self.pods.iter().map(|pod| {
                vec![
                    pod.namespace.clone(),
                    pod.name.clone(),
                    pod.phase.into(),
                    pod.ready.into(),
                    pod.node.clone(),
                    join(&pod.ips),
                ]
            }),
        );
        let services = table(
            &["NAMESPACE", "SERVICE", "CLUSTER ADDRESSES", "PORTS"],
            self.services.iter().map(|service| {
                let ports: Vec<_> =
                    service.ports.iter().map(|it| format!("{}/{}", it.port, it.protocol)).collect();
                vec![
                    service.namespace.clone(),
                    service.name.clone(),
                    join(&service.cluster_ips),
                    ports.join(" "),
                ]
            }),
        );
        let client = format!("The outside client has the address {}.", self.client.address);
        [nodes, pods, services, client].join("\n\n")
    }
}

impl NodeStatus {
    fn of(node: &Node) -> Self {
        let data_path = match &node.data_path {
            DataPath::VRouter(Some(process)) if process.runs() => "vrouter",
            DataPath::VRouter(Some(_)) => "vrouter, ended by itself",
            DataPath::VRouter(None) => "vrouter, stopped",
            DataPath::Kernel(_) => "kernel",
        };
        Self { name: node.name.clone(), address: node.address(), data_path }
    }
}

impl PodStatus {
    fn of(pod: &Pod) -> Self {
        let phase = match &pod.phase {
            Phase::Pending => "Pending",
            Phase::Running if pod.processes.iter().any(|process| process.runs()) => "Running",
            Phase::Running | Phase::Failed => "Failed",
            Phase::Terminating(_) => "Terminating",
        };
        let Name { namespace, name } = pod.name.clone();
        let ready = match (phase, pod.readiness) {
            ("Running" | "Terminating", Readiness::Ready) => "yes",
            _ => "no",
        };
        Self { namespace, name, node: pod.node.clone(), ips: pod.addresses.clone(), phase, ready }
    }
}

impl ServiceStatus {
    fn of(service: &Value, allocated: &BTreeMap<Name, Vec<IpAddr>>) -> Option<Self> {
        let metadata = service.get("metadata")?;
        let namespace = metadata.get("namespace").and_then(Value::as_str).unwrap_or("default");
        let name = Name::new(namespace, metadata.get("name")?.as_str()?);
        let spec = service.get("spec")?;
        let cluster_ips = allocated.get(&name).cloned().unwrap_or_else(|| asked_for(spec));
        let ingress = service.pointer("/status/loadBalancer/ingress").and_then(Value::as_array);
        let ingress_ips = ingress.into_iter().flatten().filter_map(|it| address(it.get("ip")?)).collect();
        let ports = spec.get("ports").and_then(Value::as_array);
        let ports = ports.into_iter().flatten().filter_map(ServicePort::of).collect();
        let Name { namespace, name } = name;
        Some(Self { namespace, name, cluster_ips, ingress_ips, ports })
    }
}

impl ServicePort {
    fn of(port: &Value) -> Option<Self> {
        let text = |field: &str, default: &str| {
            port.get(field).and_then(Value::as_str).unwrap_or(default).to_owned()
        };
        Some(Self {
            name: text("name", ""),
            port: port.get("port")?.as_u64()?,
            protocol: text("protocol", "TCP"),
            node_port: port.get("nodePort").and_then(Value::as_u64),
        })
    }
}

fn asked_for(spec: &Value) -> Vec<IpAddr> {
    match spec.get("clusterIPs").and_then(Value::as_array) {
        Some(all) => all.iter().filter_map(address).collect(),
        None => spec.get("clusterIP").and_then(address).into_iter().collect(),
    }
}

fn address(value: &Value) -> Option<IpAddr> {
    value.as_str()?.parse().ok()
}

fn join(addresses: &[IpAddr]) -> String {
    addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(" ")
}

/// Columns parted by spaces, as `kubectl` prints them.
pub fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header).add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn services_have_the_promised_shape() {
        let service = json!({
            "metadata": {"name": "dns", "namespace": "kube-system"},
            "spec": {"clusterIP": "10.96.0.10", "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP"},
                {"port": 9153, "nodePort": 30001},
            ]},
        });
        let name = Name::new("kube-system", "dns");
        let allocated =
            BTreeMap::from([(name, vec!["10.96.0.10".parse().unwrap(), "fd00::a".parse().unwrap()])]);
        let shown = ServiceStatus::of(&service, &allocated).unwrap();
        let wanted = json!({
            "namespace": "kube-system",
            "name": "dns",
            "clusterIPs": ["10.96.0.10", "fd00::a"],
            "ingressIPs": [],
            "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP", "nodePort": null},
                {"name": "", "port": 9153, "protocol": "TCP", "nodePort": 30001},
            ],
        });
        assert_eq!(serde_json::to_value(shown).unwrap(), wanted);
        let unallocated = ServiceStatus::of(&service, &BTreeMap::new()).unwrap();
        assert_eq!(unallocated.cluster_ips, ["10.96.0.10".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn a_headless_service_has_no_address() {
        let service = json!({"metadata": {"name": "db"}, "spec": {"clusterIP": "None"}});
        assert_eq!(ServiceStatus::of(&service, &BTreeMap::new()).unwrap().cluster_ips, Vec::<IpAddr>::new());
    }
}
