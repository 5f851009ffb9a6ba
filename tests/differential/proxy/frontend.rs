//! One port of one Service in one family, as a proxy sees it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::{EndpointPort, EndpointSlice};
use vrouter_tests::lab::Family;

use crate::objects::{OTHER_PROXY, Objects, service_of};
use crate::place::{by_family, family_of};

/// The timeout of a Service that asks for affinity and names none.
const DEFAULT_AFFINITY_SECONDS: i32 = 10_800;

/// What rules are made of.
#[derive(Debug)]
pub struct Frontend {
    /// What its chains are called after.
    pub id: String,
    /// What comments call it.
    pub name: String,
    /// `tcp`, `udp` or `sctp`.
    pub protocol: String,
    /// The Service's port.
    pub port: i32,
    /// The cluster address.
    pub cluster_ip: IpAddr,
    /// `externalIPs` of this family.
    pub external_ips: Vec<IpAddr>,
    /// The load balancer's addresses of this family that the proxy is to serve.
    pub load_balancer_ips: Vec<IpAddr>,
    /// Who may use those; empty: everybody.
    pub source_ranges: Vec<String>,
    /// The node port.
    pub node_port: Option<i32>,
    /// Whether internal traffic stays on the node.
    pub internal: Policy,
    /// Whether external traffic stays on the node.
    pub external: Policy,
    /// The affinity's timeout.
    pub affinity: Option<i32>,
    /// All that the slices say of it.
    pub endpoints: Vec<Endpoint>,
}

/// Which endpoints a frontend leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// All.
    Cluster,
    /// Those of the own node.
    Local,
}

/// An endpoint at the frontend's target port.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Where it is.
    pub address: SocketAddr,
    /// On which node.
    pub node: Option<String>,
    /// The three conditions, with their defaults.
    pub ready: bool,
    /// See `ready`.
    pub serving: bool,
    /// See `ready`.
    pub terminating: bool,
    /// For which zones it is meant.
    pub zones: Vec<String>,
    /// For which nodes it is meant.
    pub nodes: Vec<String>,
}

impl Frontend {
    /// Whether somebody outside reaches it.
    pub fn is_external(&self) -> bool {
        self.node_port.is_some() || !self.external_ips.is_empty() || !self.load_balancer_ips.is_empty()
    }
}

/// All frontends of a family.
pub fn frontends(objects: &Objects, family: Family) -> Vec<Frontend> {
    let mut frontends = Vec::new();
    for (number, service) in objects.services.iter().enumerate() {
        let Some(spec) = &service.spec else { continue };
        let Some(cluster_ip) = served_cluster_ip(service, spec, family) else { continue };
        let name = service.metadata.name.as_deref().unwrap_or_default();
        for (index, port) in spec.ports.iter().flatten().enumerate() {
            let endpoints = endpoints(objects, name, port, family);
            let id = format!("S{number}P{index}");
            frontends.push(frontend(id, service, spec, port, cluster_ip, endpoints));
        }
    }
    frontends
}

/// `None`: the proxy does nothing for this Service in this family.
fn served_cluster_ip(service: &Service, spec: &ServiceSpec, family: Family) -> Option<IpAddr> {
    let labels = service.metadata.labels.as_ref();
    let is_others = labels.is_some_and(|labels| labels.contains_key(OTHER_PROXY));
    if is_others || spec.type_.as_deref() == Some("ExternalName") {
        return None;
    }
    addresses(spec.cluster_ips.iter().flatten(), family).first().copied()
}

fn frontend(
    id: String,
    service: &Service,
    spec: &ServiceSpec,
    port: &ServicePort,
    cluster_ip: IpAddr,
    endpoints: Vec<Endpoint>,
) -> Frontend {
    let family = family_of(cluster_ip);
    let protocol = port.protocol.as_deref().unwrap_or("TCP").to_lowercase();
    let name = service.metadata.name.as_deref().unwrap_or_default();
    let port_name = port.name.as_ref().map(|port| format!(":{port}")).unwrap_or_default();
    let is_load_balancer = spec.type_.as_deref() == Some("LoadBalancer");
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = status.filter(|_| is_load_balancer).and_then(|status| status.ingress.as_ref());
    // One whose balancer delivers to node ports by itself is none of the proxy's.
    let vips = ingress.into_iter().flatten().filter(|it| it.ip_mode.as_deref() != Some("Proxy"));
    let ranges = spec.load_balancer_source_ranges.iter().flatten();
    let of_family = |range: &&String| range.contains(':') == (family == Family::V6);
    Frontend {
        id,
        name: format!("default/{name}{port_name}"),
        protocol,
        port: port.port,
        cluster_ip,
        external_ips: addresses(spec.external_ips.iter().flatten(), family),
        load_balancer_ips: addresses(vips.filter_map(|it| it.ip.as_ref()), family),
        source_ranges: ranges.filter(of_family).cloned().collect(),
        node_port: port.node_port,
        internal: policy(spec.internal_traffic_policy.as_deref()),
        external: policy(spec.external_traffic_policy.as_deref()),
        affinity: affinity(spec),
        endpoints,
    }
}

fn policy(text: Option<&str>) -> Policy {
    if text == Some("Local") { Policy::Local } else { Policy::Cluster }
}

fn affinity(spec: &ServiceSpec) -> Option<i32> {
    let config = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
    let seconds = config.and_then(|client_ip| client_ip.timeout_seconds).unwrap_or(DEFAULT_AFFINITY_SECONDS);
    (spec.session_affinity.as_deref() == Some("ClientIP")).then_some(seconds)
}

fn addresses<'a>(texts: impl Iterator<Item = &'a String>, family: Family) -> Vec<IpAddr> {
    let parsed = texts.filter_map(|text| text.parse::<IpAddr>().ok());
    parsed.filter(|address| family_of(*address) == family).collect()
}

/// The endpoints of all slices of a Service at one of its ports, in order of their addresses, each once.
fn endpoints(objects: &Objects, service: &str, port: &ServicePort, family: Family) -> Vec<Endpoint> {
    let kind = by_family(family, "IPv4", "IPv6");
    let of_service =
        |slice: &&EndpointSlice| service_of(slice) == Some(service) && slice.address_type == kind;
    let mut found = BTreeMap::new();
    for slice in objects.slices.iter().filter(of_service) {
        let ports = slice.ports.iter().flatten().filter(|it| belongs(it, port));
        for number in ports.filter_map(|port| port.port) {
            for endpoint in slice.endpoints.iter().flatten() {
                if let Some(endpoint) = read(endpoint, number) {
                    found.insert(endpoint.address, endpoint);
                }
            }
        }
    }
    found.into_values().collect()
}

/// Ports belong together by name; a nameless one is the Service's only one.
fn belongs(of_slice: &EndpointPort, of_service: &ServicePort) -> bool {
    let protocol = |text: &Option<String>| text.clone().unwrap_or_else(|| "TCP".to_owned());
    of_slice.name.as_deref().unwrap_or_default() == of_service.name.as_deref().unwrap_or_default()
        && protocol(&of_slice.protocol) == protocol(&of_service.protocol)
}

fn read(endpoint: &k8s_openapi::api::discovery::v1::Endpoint, port: i32) -> Option<Endpoint> {
    let address: IpAddr = endpoint.addresses.first()?.parse().ok()?;
    let conditions = endpoint.conditions.clone().unwrap_or_default();
    let hints = endpoint.hints.clone().unwrap_or_default();
    Some(Endpoint {
        address: SocketAddr::new(address, u16::try_from(port).ok()?),
        node: endpoint.node_name.clone(),
        // The API: what is not said means yes, yes and no.
        ready: conditions.ready.unwrap_or(true),
        serving: conditions.serving.unwrap_or(true),
        terminating: conditions.terminating.unwrap_or(false),
        zones: hints.for_zones.into_iter().flatten().map(|zone| zone.name).collect(),
        nodes: hints.for_nodes.into_iter().flatten().map(|node| node.name).collect(),
    })
}
