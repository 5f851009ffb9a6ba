//! The ports of a Service.

use k8s_openapi::api::core::v1::{ServicePort as KubePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use vrouter_objects::{Port, ServiceProtocol};

use super::ServiceType;
use crate::kube::field;
use crate::problem::Findings;

/// One port of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePort {
    /// Its name, empty where it has none.
    pub name: String,
    /// Its protocol.
    pub protocol: ServiceProtocol,
    /// The port of the frontend.
    pub port: Port,
    /// The port of the endpoints, where they are derived from pods.
    pub target: TargetPort,
    /// The port at the nodes' addresses that it is to have, where it has one.
    pub node_port: PortWish,
}

/// `targetPort`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetPort {
    /// The same on every pod.
    Number(Port),
    /// A container port's name, looked up on each pod.
    Name(String),
}

/// What a Service says of a port that is given out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PortWish {
    /// It names none.
    #[default]
    Any,
    /// It names this one.
    Given(GivenPort),
    /// It names one that it cannot have. It gets none: another is not what its clients know.
    Unusable,
}

/// A port that a Service names, and where it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenPort {
    /// The field.
    pub field: String,
    /// The port.
    pub port: Port,
}

/// Reads the ports: protocol and port together occur once, and so does each name, and each protocol and node port.
pub(super) fn read(
    spec: &ServiceSpec,
    kind: Option<ServiceType>,
    findings: &mut Findings,
) -> Vec<ServicePort> {
    let listed = spec.ports.as_deref().unwrap_or_default();
    let mut ports: Vec<ServicePort> = Vec::new();
    for (i, entry) in listed.iter().enumerate() {
        let field = format!("spec.ports[{i}]");
        let Some(mut port) = port(entry, &field, findings) else { continue };
        if port.name.is_empty() && listed.len() > 1 {
            findings.add(format!("{field}.name"), "each of several ports needs a name");
        } else if let Some(other) =
            ports.iter().find(|other| !port.name.is_empty() && other.name == port.name)
        {
            findings.add(
                format!("{field}.name"),
                format!("\"{}\" is the name of {}/{} already", port.name, other.protocol, other.port),
            );
        } else if ports.iter().any(|other| (other.protocol, other.port) == (port.protocol, port.port)) {
            findings.add(
                format!("{field}.port"),
                format!("{}/{} is a port of this Service already", port.protocol, port.port),
            );
        } else {
            port.node_port = node_port(&port, &ports, kind, findings);
            ports.push(port);
        }
    }
    ports
}

fn port(entry: &KubePort, field: &str, findings: &mut Findings) -> Option<ServicePort> {
    let port = findings.check(format!("{field}.port"), Port::new(entry.port.into()));
    let protocol = findings.check(format!("{field}.protocol"), field::protocol(entry.protocol.as_deref()));
    let target = match &entry.target_port {
        // Defaults to the port; 0 is how a missing number looks in older objects.
        None | Some(IntOrString::Int(0)) => port.map(TargetPort::Number),
        Some(IntOrString::Int(number)) => {
            findings.check(format!("{field}.targetPort"), Port::new((*number).into())).map(TargetPort::Number)
        }
        Some(IntOrString::String(name)) => {
            findings.check(format!("{field}.targetPort"), field::port_name(name)).map(TargetPort::Name)
        }
    };
    let name = entry.name.clone().unwrap_or_default();
    let node_port = PortWish::read(entry.node_port, format!("{field}.nodePort"), findings);
    Some(ServicePort { name, protocol: protocol?, port: port?, target: target?, node_port })
}

impl PortWish {
    /// Reads a port that may be named; 0 names none, as in older objects.
    pub(super) fn read(number: Option<i32>, field: String, findings: &mut Findings) -> Self {
        let Some(number) = number.filter(|&number| number != 0) else { return Self::Any };
        let port = findings.check(&field, Port::new(number.into()));
        port.map_or(Self::Unusable, |port| Self::Given(GivenPort { field, port }))
    }

    /// The port that it names and can have.
    pub fn given(&self) -> Option<&GivenPort> {
        match self {
            Self::Given(given) => Some(given),
            Self::Any | Self::Unusable => None,
        }
    }
}

/// The node port that a port is to have beside those before it.
fn node_port(
    port: &ServicePort,
    before: &[ServicePort],
    kind: Option<ServiceType>,
    findings: &mut Findings,
) -> PortWish {
    let (PortWish::Given(given), Some(kind)) = (&port.node_port, kind) else { return port.node_port.clone() };
    if kind == ServiceType::ClusterIp {
        findings.add(&given.field, format!("a Service of type {kind} has no node ports"));
    } else if let Some(other) = before.iter().find(|other| other.has_node_port(port.protocol, given.port)) {
        let message = format!("{}/{} is {}'s already", port.protocol, given.port, other.describe());
        findings.add(&given.field, message);
    } else {
        return port.node_port.clone();
    }
    PortWish::Unusable
}

impl ServicePort {
    /// Whether it names this node port.
    pub fn has_node_port(&self, protocol: ServiceProtocol, port: Port) -> bool {
        self.protocol == protocol && self.node_port.given().is_some_and(|given| given.port == port)
    }

    /// What messages call it.
    pub fn describe(&self) -> String {
        let Self { name, protocol, port, .. } = self;
        if name.is_empty() { format!("port {protocol}/{port}") } else { format!("port \"{name}\"") }
    }
}
