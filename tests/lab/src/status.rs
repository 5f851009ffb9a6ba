//! What a lab consists of, for people and for programs.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::Result;
use comfy_table::{Table, presets};
use serde::Serialize;
use serde_json::Value;

use crate::cluster::{self, Frontends};
use crate::name::LabName;
use crate::object::Name;
use crate::outside::Outsider;
use crate::state::{DataPath, Node, Phase, Pod, Readiness, State};

/// The whole, in the shape that programs rely on.
#[derive(Debug, Serialize)]
pub struct Status {
    nodes: Vec<NodeStatus>,
    client: Outside,
    client2: Outside,
    internet: Outside,
    pods: Vec<PodStatus>,
    services: Vec<ServiceStatus>,
}

#[derive(Debug, Serialize)]
struct NodeStatus {
    name: String,
    address: IpAddr,
    /// All of them, IPv4 first.
    addresses: Vec<IpAddr>,
    #[serde(skip)]
    data_path: &'static str,
}

#[derive(Debug, Serialize)]
struct Outside {
    address: IpAddr,
    /// All of them, IPv4 first.
    addresses: Vec<IpAddr>,
}

#[derive(Debug, Serialize)]
struct PodStatus {
    namespace: String,
    name: String,
    node: String,
    ips: Vec<IpAddr>,
    /// As its node has it attached; none where a kernel forwards, or nobody.
    network: Option<String>,
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
    #[serde(rename = "externalIPs")]
    external_ips: Vec<IpAddr>,
    ports: Vec<ServicePort>,
    health_check_node_port: Option<u64>,
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
    /// Looks at a lab. Without its controller, services are shown with the addresses they ask for; without a node that
    /// runs, with the node ports they ask for.
    pub fn of(name: &LabName, state: &State) -> Result<Self> {
        let running =
            |node: &&Node| matches!(&node.data_path, DataPath::VRouter(Some(process)) if process.runs());
        let ours: Vec<_> = state.nodes.iter().filter(running).collect();
        let asked = ours.first().map(|node| cluster::frontends(name, &node.name));
        let networks: BTreeMap<_, _> =
            ours.iter().flat_map(|node| cluster::networks(name, &node.name).unwrap_or_default()).collect();
        let allocated = Allocated {
            addresses: cluster::addresses(name).unwrap_or_default(),
            frontends: asked.and_then(Result::ok).unwrap_or_default(),
        };
        let services = cluster::services(name)?;
        Ok(Self {
            nodes: state.nodes.iter().map(NodeStatus::of).collect(),
            client: Outside::of(Outsider::Client),
            client2: Outside::of(Outsider::SecondClient),
            internet: Outside::of(Outsider::Internet),
            pods: state.pods.iter().map(|pod| PodStatus::of(pod, &networks)).collect(),
            services: services.iter().filter_map(|service| ServiceStatus::of(service, &allocated)).collect(),
        })
    }

    /// As tables.
    pub fn tables(&self) -> String {
        let nodes = table(
            &["NODE", "ADDRESSES", "DATA PATH"],
            self.nodes
                .iter()
                .map(|node| vec![node.name.clone(), join(&node.addresses), node.data_path.into()]),
        );
        let pods = table(
            &["NAMESPACE", "POD", "PHASE", "READY", "NODE", "NETWORK", "ADDRESSES"],
            self.pods.iter().map(|pod| {
                vec![
                    pod.namespace.clone(),
                    pod.name.clone(),
                    pod.phase.into(),
                    pod.ready.into(),
                    pod.node.clone(),
                    pod.network.clone().unwrap_or_default(),
                    join(&pod.ips),
                ]
            }),
        );
        let services = table(
            &["NAMESPACE", "SERVICE", "CLUSTER ADDRESSES", "OUTSIDE", "PORTS"],
            self.services.iter().map(|service| {
                let ports: Vec<_> = service.ports.iter().map(ServicePort::short).collect();
                vec![
                    service.namespace.clone(),
                    service.name.clone(),
                    join(&service.cluster_ips),
                    join(&[&*service.ingress_ips, &service.external_ips].concat()),
                    ports.join(" "),
                ]
            }),
        );
        let outside = [("client", &self.client), ("client2", &self.client2), ("internet", &self.internet)];
        let outside = table(
            &["OUTSIDE", "ADDRESSES"],
            outside.into_iter().map(|(name, it)| vec![name.to_owned(), join(&it.addresses)]),
        );
        [nodes, pods, services, outside].join("\n\n")
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
        let addresses = vec![node.ipv4.into(), node.ipv6.into()];
        Self { name: node.name.clone(), address: node.address(), addresses, data_path }
    }
}

impl Outside {
    fn of(who: Outsider) -> Self {
        let addresses = who.addresses();
        Self { address: addresses[0], addresses: addresses.into() }
    }
}

impl PodStatus {
    fn of(pod: &Pod, networks: &BTreeMap<Name, String>) -> Self {
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
        let network = networks.get(&pod.name).cloned();
        Self { namespace, name, node: pod.node.clone(), ips: pod.addresses.clone(), network, phase, ready }
    }
}

/// What the cluster has given to services.
#[derive(Debug, Default)]
struct Allocated {
    addresses: BTreeMap<Name, Vec<IpAddr>>,
    frontends: BTreeMap<Name, Frontends>,
}

impl ServiceStatus {
    fn of(service: &Value, allocated: &Allocated) -> Option<Self> {
        let metadata = service.get("metadata")?;
        let namespace = metadata.get("namespace").and_then(Value::as_str).unwrap_or("default");
        let name = Name::new(namespace, metadata.get("name")?.as_str()?);
        let spec = service.get("spec")?;
        let cluster_ips = allocated.addresses.get(&name).cloned().unwrap_or_else(|| asked_for(spec));
        let frontends = allocated.frontends.get(&name).cloned().unwrap_or_default();
        let external = spec.get("externalIPs").and_then(Value::as_array);
        let external_ips = external.into_iter().flatten().filter_map(address).collect();
        let ports = spec.get("ports").and_then(Value::as_array);
        let ports =
            ports.into_iter().flatten().filter_map(|port| ServicePort::of(port, &frontends)).collect();
        let asked = spec.get("healthCheckNodePort").and_then(Value::as_u64).filter(|port| *port > 0);
        let health_check_node_port = frontends.health_check_port.map(u64::from).or(asked);
        let Name { namespace, name } = name;
        let ingress_ips = frontends.ingress;
        Some(Self { namespace, name, cluster_ips, ingress_ips, external_ips, ports, health_check_node_port })
    }
}

impl ServicePort {
    fn of(port: &Value, frontends: &Frontends) -> Option<Self> {
        let text = |field: &str, default: &str| {
            port.get(field).and_then(Value::as_str).unwrap_or(default).to_owned()
        };
        let (number, protocol) = (port.get("port")?.as_u64()?, text("protocol", "TCP"));
        let given = frontends.node_ports.get(&(number, protocol.clone())).copied();
        let asked = port.get("nodePort").and_then(Value::as_u64).filter(|port| *port > 0);
        Some(Self { name: text("name", ""), port: number, protocol, node_port: given.or(asked) })
    }

    /// As `kubectl get services` writes it.
    fn short(&self) -> String {
        match self.node_port {
            Some(node_port) => format!("{}:{node_port}/{}", self.port, self.protocol),
            None => format!("{}/{}", self.port, self.protocol),
        }
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
        let frontends = Frontends {
            ingress: vec!["172.30.255.1".parse().unwrap()],
            node_ports: BTreeMap::from([((53, "UDP".to_owned()), 30053)]),
            health_check_port: Some(30099),
        };
        let allocated = Allocated {
            addresses: BTreeMap::from([(
                name.clone(),
                vec!["10.96.0.10".parse().unwrap(), "fd00::a".parse().unwrap()],
            )]),
            frontends: BTreeMap::from([(name, frontends)]),
        };
        let shown = ServiceStatus::of(&service, &allocated).unwrap();
        let wanted = json!({
            "namespace": "kube-system",
            "name": "dns",
            "clusterIPs": ["10.96.0.10", "fd00::a"],
            "ingressIPs": ["172.30.255.1"],
            "externalIPs": [],
            "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP", "nodePort": 30053},
                {"name": "", "port": 9153, "protocol": "TCP", "nodePort": 30001},
            ],
            "healthCheckNodePort": 30099,
        });
        let short: Vec<_> = shown.ports.iter().map(ServicePort::short).collect();
        assert_eq!(short, ["53:30053/UDP", "9153:30001/TCP"]);
        assert_eq!(serde_json::to_value(shown).unwrap(), wanted);
        let unallocated = ServiceStatus::of(&service, &Allocated::default()).unwrap();
        assert_eq!(unallocated.cluster_ips, ["10.96.0.10".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn a_headless_service_has_no_address() {
        let service = json!({"metadata": {"name": "db"}, "spec": {"clusterIP": "None"}});
        assert_eq!(
            ServiceStatus::of(&service, &Allocated::default()).unwrap().cluster_ips,
            Vec::<IpAddr>::new()
        );
    }
}
