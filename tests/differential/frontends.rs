//! What the generated services are reached by: enough of them to ask about each, and to know what a destination is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Service, ServiceSpec};

use crate::objects::{OTHER_PROXY, Objects};
use crate::packet::Protocol;
use crate::place::{NodePortAddresses, OTHERS, OWN, family_of, pod_prefix, service_prefix};

/// What a destination is to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aim {
    /// A service's cluster or external address, at one of its ports.
    Service,
    /// A service's node port, at an address of the own node.
    NodePort,
    /// The same, at an address of another node.
    OthersNodePort,
    /// The own node itself.
    Node,
    /// Another node itself.
    OtherNode,
    /// A service's address where no service is.
    NoService,
    /// A pod.
    Pod,
    /// None of the cluster's.
    Beyond,
}

/// The service that is at a frontend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its name.
    pub service: String,
    /// Whether it keeps its clients at their members.
    pub is_sticky: bool,
}

/// All frontends of all services.
#[derive(Debug)]
pub struct Frontends {
    at: NodePortAddresses,
    served: BTreeMap<(IpAddr, Protocol, u16), Server>,
    /// Who may use those that not everybody may.
    guards: BTreeMap<(IpAddr, Protocol, u16), Vec<IpNet>>,
    addresses: BTreeSet<IpAddr>,
    /// By whether it is IPv6.
    node_ports: BTreeMap<(bool, Protocol, u16), Server>,
}

impl Frontends {
    /// Reads the services.
    pub fn of(objects: &Objects, at: NodePortAddresses) -> Self {
        let (served, guards, node_ports) = Default::default();
        let mut frontends = Self { at, served, guards, addresses: BTreeSet::new(), node_ports };
        for service in objects.services.iter().filter(|service| is_served(service)) {
            frontends.add(service);
        }
        frontends
    }

    fn add(&mut self, service: &Service) {
        let Some(spec) = &service.spec else { return };
        let families: BTreeSet<bool> = cluster_ips(spec).map(|address| address.is_ipv6()).collect();
        let external = external_ips(service).into_iter().filter(|it| families.contains(&it.is_ipv6()));
        let addresses: Vec<IpAddr> = cluster_ips(spec).chain(external).collect();
        let server = Server {
            service: service.metadata.name.clone().unwrap_or_default(),
            is_sticky: spec.session_affinity.as_deref() == Some("ClientIP"),
        };
        for port in spec.ports.iter().flatten() {
            let (protocol, own) = (Protocol::named(port.protocol.as_deref()), number(port.port));
            for &address in &addresses {
                self.served.insert((address, protocol, own), server.clone());
            }
            for address in balanced_ips(service) {
                self.guards.insert((address, protocol, own), source_ranges(spec, address));
            }
            for (&family, node_port) in families.iter().zip(port.node_port.into_iter().cycle()) {
                self.node_ports.insert((family, protocol, number(node_port)), server.clone());
            }
        }
        self.addresses.extend(addresses);
    }

    /// The service at a destination: by its own address, or by a node's.
    pub fn server(&self, protocol: Protocol, destination: SocketAddr) -> Option<&Server> {
        let (address, port) = (destination.ip(), destination.port());
        match self.aim(protocol, destination) {
            Aim::Service => self.served.get(&(address, protocol, port)),
            Aim::NodePort | Aim::OthersNodePort => self.node_ports.get(&(address.is_ipv6(), protocol, port)),
            _ => None,
        }
    }

    /// Whether source ranges keep this source from a destination.
    pub fn is_barred(&self, source: IpAddr, protocol: Protocol, destination: SocketAddr) -> bool {
        let guards = self.guards.get(&(destination.ip(), protocol, destination.port()));
        guards.is_some_and(|ranges| !ranges.is_empty() && !ranges.iter().any(|range| range.contains(&source)))
    }

    /// What a destination is.
    pub fn aim(&self, protocol: Protocol, destination: SocketAddr) -> Aim {
        let (address, port) = (destination.ip(), destination.port());
        let family = family_of(address);
        let is_node_port =
            self.at.include(address) && self.node_ports.contains_key(&(address.is_ipv6(), protocol, port));
        let is_in = |prefix: &str| prefix.parse::<IpNet>().is_ok_and(|prefix| prefix.contains(&address));
        if self.served.contains_key(&(address, protocol, port)) {
            Aim::Service
        } else if OWN.addresses(family).contains(&address) {
            if is_node_port { Aim::NodePort } else { Aim::Node }
        } else if OTHERS.iter().any(|machine| machine.addresses(family).contains(&address)) {
            if is_node_port { Aim::OthersNodePort } else { Aim::OtherNode }
        } else if self.addresses.contains(&address) || is_in(service_prefix(family)) {
            Aim::NoService
        } else if is_in(pod_prefix(family)) {
            Aim::Pod
        } else {
            Aim::Beyond
        }
    }
}

fn is_served(service: &Service) -> bool {
    let labels = service.metadata.labels.as_ref();
    !labels.is_some_and(|labels| labels.contains_key(OTHER_PROXY))
}

/// A Service's cluster addresses.
pub fn cluster_ips(spec: &ServiceSpec) -> impl Iterator<Item = IpAddr> {
    spec.cluster_ips.iter().flatten().filter_map(|text| text.parse().ok())
}

/// A Service's external addresses that are served.
fn external_ips(service: &Service) -> Vec<IpAddr> {
    balanced_ips(service).chain(given_ips(service)).collect()
}

/// Those that a load balancer gave.
fn balanced_ips(service: &Service) -> impl Iterator<Item = IpAddr> {
    ingress_ips(service, |mode| mode != Some("Proxy"))
}

fn source_ranges(spec: &ServiceSpec, address: IpAddr) -> Vec<IpNet> {
    let ranges = spec.load_balancer_source_ranges.iter().flatten();
    let ranges = ranges.filter_map(|text| text.parse::<IpNet>().ok());
    ranges.filter(|range| range.addr().is_ipv4() == address.is_ipv4()).collect()
}

/// Every address from outside the cluster that a Service mentions, served or not.
pub fn mentioned_ips(service: &Service) -> Vec<IpAddr> {
    ingress_ips(service, |_| true).chain(given_ips(service)).collect()
}

fn given_ips(service: &Service) -> impl Iterator<Item = IpAddr> {
    let texts = service.spec.iter().flat_map(|spec| spec.external_ips.iter().flatten());
    texts.filter_map(|text| text.parse().ok())
}

fn ingress_ips(service: &Service, is_wanted: fn(Option<&str>) -> bool) -> impl Iterator<Item = IpAddr> {
    let balancers = service.status.iter().filter_map(|status| status.load_balancer.as_ref());
    let ingress = balancers.flat_map(|balancer| balancer.ingress.iter().flatten());
    let wanted = ingress.filter(move |ingress| is_wanted(ingress.ip_mode.as_deref()));
    wanted.filter_map(|ingress| ingress.ip.as_ref()?.parse().ok())
}

/// A port of the API as one of a packet.
pub fn number(port: i32) -> u16 {
    u16::try_from(port).expect("generated ports are valid")
}
