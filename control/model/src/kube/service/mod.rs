//! Services: Contrail's load balancers.

mod addresses;
mod exposure;
mod policies;
mod ports;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::kube::network_wish::NetworkWish;
use crate::problem::{Finding, Findings};

pub use addresses::{AddressRequest, FamilyPolicy};
pub use exposure::{ExposureRequest, HealthCheck, NodePorts, PoolWish};
pub use policies::{Distribution, Policies};
pub use ports::{PortWish, ServicePort, TargetPort};

/// The label by which a Service says that another proxy serves it.
const OTHER_PROXY: &str = "service.kubernetes.io/service-proxy-name";
/// The annotations by which a Service asks for topology hints, the older one last.
const TOPOLOGY: [&str; 2] =
    ["service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"];

/// What the model keeps of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRecord {
    /// Its UID, empty where the source gives none.
    pub uid: String,
    /// When it was made, where the source says so: the older claim on an address wins.
    pub created: Option<Time>,
    /// How it is served. `None`: it has no frontend at all, as it is headless, an ExternalName, served by another proxy,
    /// or not understood.
    pub frontend: Option<Frontend>,
    /// The network it asks for.
    pub network: NetworkWish,
    /// The labels of its pods; empty: its endpoints are given by hand.
    pub selector: BTreeMap<String, String>,
    /// Whether its endpoints count as ready whatever their pods say.
    pub publish_not_ready: bool,
    /// Its ports: protocol and port together occur once, and so does each name.
    pub ports: Vec<ServicePort>,
}

/// How a Service is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frontend {
    /// Its type.
    pub kind: ServiceType,
    /// The cluster addresses it is to have.
    pub addresses: AddressRequest,
    /// What it is to have besides.
    pub exposure: ExposureRequest,
    /// Who is led where.
    pub policies: Policies,
}

/// The types of Service that have a frontend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceType {
    /// Cluster addresses alone.
    ClusterIp,
    /// Ports at the nodes' addresses besides.
    NodePort,
    /// A load balancer's addresses besides.
    LoadBalancer,
}

impl fmt::Display for ServiceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClusterIp => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::LoadBalancer => "LoadBalancer",
        })
    }
}

impl ServiceRecord {
    /// Reads a Service of a namespace.
    pub fn read(namespace: &str, service: &Service, findings: &mut Findings) -> Self {
        let metadata = &service.metadata;
        let empty = ServiceSpec::default();
        let spec = service.spec.as_ref().unwrap_or(&empty);
        let other_proxy = metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(OTHER_PROXY));
        let kind = if other_proxy { None } else { service_type(spec, findings) };
        let ports = ports::read(spec, kind, findings);
        let frontend = kind.and_then(|kind| Frontend::read(service, spec, kind, &ports, findings));
        if frontend.is_some() && spec.ports.iter().flatten().next().is_none() {
            findings.add("spec.ports", "a Service with an address needs at least one port");
        }
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            created: metadata.creation_timestamp.clone(),
            frontend,
            network: NetworkWish::read(namespace, metadata.annotations.as_ref(), findings),
            selector: spec.selector.clone().unwrap_or_default(),
            publish_not_ready: spec.publish_not_ready_addresses.unwrap_or(false),
            ports,
        }
    }

    /// The cluster addresses it asks for by itself.
    pub fn given_addresses(&self) -> impl Iterator<Item = IpAddr> {
        let given = self.frontend.iter().flat_map(|frontend| &frontend.addresses.given);
        given.map(|(_, address)| *address)
    }
}

impl Frontend {
    fn read(
        service: &Service,
        spec: &ServiceSpec,
        kind: ServiceType,
        ports: &[ServicePort],
        findings: &mut Findings,
    ) -> Option<Self> {
        let addresses = AddressRequest::read(spec, kind, findings)?;
        let policies = Policies::read(spec, findings);
        let mut exposure = ExposureRequest {
            node_ports: NodePorts::read(spec, kind),
            health_check: HealthCheck::read(spec, kind, ports, &policies, findings),
            ..ExposureRequest::default()
        };
        exposure.add_external_ips(spec, findings);
        if kind == ServiceType::LoadBalancer {
            exposure.add_load_balancer(spec, exposure::ingress(service), findings);
        }
        Some(Self { kind, addresses, exposure, policies })
    }
}

/// `None`: a type without a frontend, or one that nobody knows.
fn service_type(spec: &ServiceSpec, findings: &mut Findings) -> Option<ServiceType> {
    match spec.type_.as_deref() {
        None | Some("" | "ClusterIP") => Some(ServiceType::ClusterIp),
        Some("NodePort") => Some(ServiceType::NodePort),
        Some("LoadBalancer") => Some(ServiceType::LoadBalancer),
        Some("ExternalName") => None,
        Some(other) => {
            findings.add(
                "spec.type",
                format!("\"{other}\" is none of ClusterIP, NodePort, LoadBalancer, ExternalName"),
            );
            None
        }
    }
}

/// What a Service asks for that nobody here does. It is no fault: the rest of it is served.
pub fn unserved(service: &Service) -> Vec<Finding> {
    let Some(spec) = &service.spec else { return Vec::new() };
    let annotations = service.metadata.annotations.as_ref();
    let mut asked_for = Vec::new();
    if let Some(class) = &spec.load_balancer_class {
        asked_for.push((
            "spec.loadBalancerClass".to_owned(),
            format!("whoever serves \"{class}\" must write its addresses to the Service's status"),
        ));
    }
    for (i, entry) in exposure::ingress(service).iter().enumerate() {
        if !exposure::is_virtual(entry) {
            let message = "what is to this address goes to the load balancer itself, as it is a proxy";
            asked_for.push((format!("status.loadBalancer.ingress[{i}].ipMode"), message.to_owned()));
        }
    }
    for name in TOPOLOGY {
        let mode = annotations.and_then(|all| all.get(name)).filter(|mode| mode.eq_ignore_ascii_case("auto"));
        if mode.is_some() {
            let message = "hints in EndpointSlices are followed, but none are worked out here";
            asked_for.push((format!("metadata.annotations[{name}]"), message.to_owned()));
        }
    }
    asked_for.into_iter().map(|(field, message)| Finding { field, message }).collect()
}
