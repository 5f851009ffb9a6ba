//! How a Service is to be reached from outside the cluster's networks.

use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::{LoadBalancerIngress, Service, ServiceSpec};
use vrouter_objects::{ExternalAddress, ExternalKind, ServiceProtocol, TrafficPolicy};

use super::ServiceType;
use super::policies::{Policies, SourceRanges};
use super::ports::{GivenPort, PortWish, ServicePort};
use crate::kube::field;
use crate::problem::Findings;

/// What a Service is to have beyond its cluster addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExposureRequest {
    /// Which of its ports have a port at the nodes' addresses.
    pub node_ports: NodePorts,
    /// The port at which nodes say whether they have members of their own.
    pub health_check: HealthCheck,
    /// The addresses that it names, each once, with its field.
    pub external: Vec<(String, ExternalAddress)>,
    /// What it wants of the load-balancer pool.
    pub pool: PoolWish,
    /// Who may come by the load balancer's addresses; empty: everybody.
    pub source_ranges: Vec<IpNet>,
}

/// Which ports of a Service have a node port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NodePorts {
    /// Those that name one (or, where the type has no node ports, none does).
    #[default]
    Named,
    /// All of them.
    All,
}

/// `healthCheckNodePort`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HealthCheck {
    /// None is needed, or the one that is named cannot be had.
    #[default]
    None,
    /// Any port that is free.
    Any,
    /// This one.
    Given(GivenPort),
}

/// What a Service wants of the load-balancer pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PoolWish {
    /// It is no load balancer, or somebody else gives its addresses.
    #[default]
    Nothing,
    /// An address of each family.
    Any,
    /// This one, in `spec.loadBalancerIP`.
    Named(IpAddr),
}

impl ExposureRequest {
    /// Adds `spec.externalIPs`.
    pub(super) fn add_external_ips(&mut self, spec: &ServiceSpec, findings: &mut Findings) {
        for (i, text) in spec.external_ips.iter().flatten().enumerate() {
            self.add(format!("spec.externalIPs[{i}]"), text, ExternalKind::ExternalIp, findings);
        }
    }

    /// Adds the load balancer's addresses, and who may come by them.
    pub(super) fn add_load_balancer(
        &mut self,
        spec: &ServiceSpec,
        ingress: &[LoadBalancerIngress],
        findings: &mut Findings,
    ) {
        match SourceRanges::read(spec, findings) {
            SourceRanges::Everybody => {}
            SourceRanges::These(ranges) => self.source_ranges = ranges,
            SourceRanges::Unreadable => return,
        }
        for (i, entry) in ingress.iter().enumerate().filter(|(_, entry)| is_virtual(entry)) {
            if let Some(text) = entry.ip.as_deref().filter(|text| !text.is_empty()) {
                let field = format!("status.loadBalancer.ingress[{i}].ip");
                self.add(field, text, ExternalKind::LoadBalancer, findings);
            }
        }
        let is_ours = spec.load_balancer_class.is_none() && ingress.is_empty();
        self.pool = match spec.load_balancer_ip.as_deref() {
            _ if !is_ours => PoolWish::Nothing,
            None | Some("") => PoolWish::Any,
            Some(text) => findings
                .check("spec.loadBalancerIP", field::external_address(text))
                .map_or(PoolWish::Nothing, PoolWish::Named),
        };
    }

    /// The first of several fields that name an address counts. External IPs come first, as kube-proxy has them: no
    /// source ranges guard those.
    fn add(&mut self, field: String, text: &str, kind: ExternalKind, findings: &mut Findings) {
        let Some(address) = findings.check(&field, field::external_address(text)) else { return };
        if !self.external.iter().any(|(_, known)| known.address == address) {
            self.external.push((field, ExternalAddress { address, kind }));
        }
    }
}

/// What the status says of a load balancer.
pub(super) fn ingress(service: &Service) -> &[LoadBalancerIngress] {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    status.and_then(|status| status.ingress.as_deref()).unwrap_or_default()
}

/// Whether packets arrive with the load balancer's own address. To one that is a proxy they must go by way of the proxy.
pub(super) fn is_virtual(entry: &LoadBalancerIngress) -> bool {
    matches!(entry.ip_mode.as_deref(), None | Some("" | "VIP"))
}

impl NodePorts {
    pub(super) fn read(spec: &ServiceSpec, kind: ServiceType) -> Self {
        let allocates = spec.allocate_load_balancer_node_ports.unwrap_or(true);
        match kind {
            ServiceType::NodePort => Self::All,
            ServiceType::LoadBalancer if allocates => Self::All,
            ServiceType::LoadBalancer | ServiceType::ClusterIp => Self::Named,
        }
    }
}

impl HealthCheck {
    pub(super) fn read(
        spec: &ServiceSpec,
        kind: ServiceType,
        ports: &[ServicePort],
        policies: &Policies,
        findings: &mut Findings,
    ) -> Self {
        let field = "spec.healthCheckNodePort".to_owned();
        let wish = PortWish::read(spec.health_check_node_port, field, findings);
        let is_needed = kind == ServiceType::LoadBalancer && policies.external == TrafficPolicy::Local;
        let given = match wish {
            PortWish::Any if is_needed => return Self::Any,
            PortWish::Any | PortWish::Unusable => return Self::None,
            PortWish::Given(given) => given,
        };
        let tcp = ServiceProtocol::Tcp;
        if !is_needed {
            findings.add(given.field, "only a LoadBalancer whose externalTrafficPolicy is Local has one");
        } else if let Some(other) = ports.iter().find(|port| port.has_node_port(tcp, given.port)) {
            findings.add(given.field, format!("{} is {}'s already", given.port, other.describe()));
        } else {
            return Self::Given(given);
        }
        Self::None
    }
}
