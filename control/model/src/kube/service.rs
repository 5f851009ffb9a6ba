//! Services: Contrail's load balancers.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Service, ServicePort as KubePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use vrouter_objects::{Port, ServiceProtocol};

use super::field;
use crate::Family;
use crate::problem::{Finding, Findings};

/// The label by which a Service says that another proxy serves it.
const OTHER_PROXY: &str = "service.kubernetes.io/service-proxy-name";

/// What the model keeps of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRecord {
    /// Its UID, empty where the source gives none.
    pub uid: String,
    /// When it was made, where the source says so: the older claim on an address wins.
    pub created: Option<Time>,
    /// The cluster addresses it is to have. `None`: no frontend at all, as it is headless, an ExternalName, served by
    /// another proxy, or not understood.
    pub frontend: Option<AddressRequest>,
    /// The labels of its pods; empty: its endpoints are given by hand.
    pub selector: BTreeMap<String, String>,
    /// Whether its endpoints count as ready whatever their pods say.
    pub publish_not_ready: bool,
    /// Its ports: protocol and port together occur once, and so does each name.
    pub ports: Vec<ServicePort>,
}

/// Which cluster addresses a Service is to have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressRequest {
    /// The addresses it gives itself, each with its field; at most one per family.
    pub given: Vec<(String, IpAddr)>,
    /// The families it names, in its order of preference.
    pub families: Vec<Family>,
    /// What to do about the family it does not name.
    pub policy: FamilyPolicy,
}

/// `ipFamilyPolicy`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FamilyPolicy {
    /// One address.
    #[default]
    Single,
    /// One of each family the cluster has.
    PreferDual,
    /// One of each family.
    RequireDual,
}

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
}

/// `targetPort`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetPort {
    /// The same on every pod.
    Number(Port),
    /// A container port's name, looked up on each pod.
    Name(String),
}

impl ServiceRecord {
    /// Reads a Service.
    pub fn read(service: &Service, findings: &mut Findings) -> Self {
        let metadata = &service.metadata;
        let empty = ServiceSpec::default();
        let spec = service.spec.as_ref().unwrap_or(&empty);
        let ports = ports(spec, findings);
        let other_proxy = metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(OTHER_PROXY));
        let frontend = if other_proxy { None } else { frontend(spec, findings) };
        if frontend.is_some() && spec.ports.iter().flatten().next().is_none() {
            findings.add("spec.ports", "a Service with an address needs at least one port");
        }
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            created: metadata.creation_timestamp.clone(),
            frontend,
            selector: spec.selector.clone().unwrap_or_default(),
            publish_not_ready: spec.publish_not_ready_addresses.unwrap_or(false),
            ports,
        }
    }

    /// The addresses it asks for by itself.
    pub fn given_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.frontend.iter().flat_map(|request| request.given.iter().map(|(_, address)| *address))
    }
}

/// What a Service asks for that nobody here does. It is no fault: the rest of it is served.
pub fn unserved(service: &Service) -> Vec<Finding> {
    let Some(spec) = &service.spec else { return Vec::new() };
    let external = "only cluster addresses are served";
    let parts = [
        ("spec.type", matches!(spec.type_.as_deref(), Some("NodePort" | "LoadBalancer")), external),
        ("spec.externalIPs", spec.external_ips.iter().flatten().next().is_some(), external),
        ("spec.externalTrafficPolicy", spec.external_traffic_policy.as_deref() == Some("Local"), external),
        (
            "spec.internalTrafficPolicy",
            spec.internal_traffic_policy.as_deref() == Some("Local"),
            "members on all nodes are used",
        ),
        (
            "spec.sessionAffinity",
            spec.session_affinity.as_deref() == Some("ClientIP"),
            "each flow of a client goes to a member of its own",
        ),
    ];
    let asked_for = parts.into_iter().filter(|(_, asked_for, _)| *asked_for);
    asked_for
        .map(|(field, _, instead)| Finding { field: field.to_owned(), message: instead.to_owned() })
        .collect()
}

fn frontend(spec: &ServiceSpec, findings: &mut Findings) -> Option<AddressRequest> {
    match spec.type_.as_deref() {
        None | Some("ClusterIP" | "NodePort" | "LoadBalancer") => {}
        Some("ExternalName") => return None,
        Some(other) => {
            findings.add(
                "spec.type",
                format!("\"{other}\" is none of ClusterIP, NodePort, LoadBalancer, ExternalName"),
            );
            return None;
        }
    }
    let listed = spec.cluster_ips.as_deref().unwrap_or_default();
    let single = spec.cluster_ip.iter().filter(|_| listed.is_empty());
    let fields = single
        .map(|text| ("spec.clusterIP".to_owned(), text))
        .chain(listed.iter().enumerate().map(|(i, text)| (format!("spec.clusterIPs[{i}]"), text)));
    let mut given: Vec<(String, IpAddr)> = Vec::new();
    for (field, text) in fields.filter(|(_, text)| !text.is_empty()) {
        if text == "None" {
            return None;
        }
        // A Service whose own address cannot be read gets none: another one is not what its clients know.
        let address = findings.check(&field, field::address(text))?;
        if given.iter().any(|(_, other)| Family::from(*other) == Family::from(address)) {
            findings.add(field, format!("{address} is a second address of its family"));
            return None;
        }
        given.push((field, address));
    }
    let families = families(spec, findings)?;
    let policy = policy(spec, findings, given.len().max(families.len()))?;
    Some(AddressRequest { given, families, policy })
}

fn families(spec: &ServiceSpec, findings: &mut Findings) -> Option<Vec<Family>> {
    let mut families = Vec::new();
    for (i, text) in spec.ip_families.iter().flatten().enumerate() {
        let family = findings.check(format!("spec.ipFamilies[{i}]"), text.parse())?;
        if !families.contains(&family) {
            families.push(family);
        }
    }
    Some(families)
}

fn policy(spec: &ServiceSpec, findings: &mut Findings, named: usize) -> Option<FamilyPolicy> {
    match spec.ip_family_policy.as_deref() {
        None if named > 1 => Some(FamilyPolicy::RequireDual),
        None | Some("SingleStack") => Some(FamilyPolicy::Single),
        Some("PreferDualStack") => Some(FamilyPolicy::PreferDual),
        Some("RequireDualStack") => Some(FamilyPolicy::RequireDual),
        Some(other) => {
            findings.add(
                "spec.ipFamilyPolicy",
                format!("\"{other}\" is none of SingleStack, PreferDualStack, RequireDualStack"),
            );
            None
        }
    }
}

fn ports(spec: &ServiceSpec, findings: &mut Findings) -> Vec<ServicePort> {
    let listed = spec.ports.as_deref().unwrap_or_default();
    let mut ports: Vec<ServicePort> = Vec::new();
    for (i, entry) in listed.iter().enumerate() {
        let field = format!("spec.ports[{i}]");
        let Some(port) = port(entry, &field, findings) else { continue };
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
            findings.check(format!("{field}.targetPort"), port_name(name)).map(TargetPort::Name)
        }
    };
    let name = entry.name.clone().unwrap_or_default();
    Some(ServicePort { name, protocol: protocol?, port: port?, target: target? })
}

/// A container port's name has at least one letter (RFC 6335), so a number in quotes is a slip.
fn port_name(name: &str) -> Result<String, String> {
    if name.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        Ok(name.to_owned())
    } else {
        Err(format!("\"{name}\" is not a port's name; a number stands without quotes"))
    }
}
