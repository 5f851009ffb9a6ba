//! Random Services.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{
    ClientIPConfig, LoadBalancerIngress, LoadBalancerStatus, Service, ServicePort, ServiceSpec,
    ServiceStatus, SessionAffinityConfig,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use vrouter_tests::lab::Family;

use super::Generator;
use crate::objects::{OTHER_PROXY, metadata};
use crate::place::{
    Client, OWN, by_family, cluster_ip, external_ip, load_balancer_ip, outside_prefix, pod_prefix,
};

/// External addresses are few, so that services share them.
const EXTERNAL_ADDRESSES: u16 = 12;

impl Generator<'_> {
    pub(super) fn service(&mut self, number: u16) -> Service {
        let kind = self.random.below(100);
        let type_ = match kind {
            0..22 => "ClusterIP",
            22..50 => "NodePort",
            50..91 => "LoadBalancer",
            91..95 => "Headless",
            95..97 => "ExternalName",
            _ => "OtherProxy",
        };
        let name = format!("svc-{number}");
        let spec = match type_ {
            "Headless" => self.headless(),
            "ExternalName" => self.external_name(),
            "OtherProxy" => self.spec("NodePort", number),
            _ => self.spec(type_, number),
        };
        let other_proxy = (type_ == "OtherProxy").then_some((OTHER_PROXY, "elsewhere"));
        let status = (type_ == "LoadBalancer").then(|| self.status(&spec));
        Service { metadata: metadata(&name, other_proxy), spec: Some(spec), status }
    }

    fn spec(&mut self, type_: &str, number: u16) -> ServiceSpec {
        let families = self.random.pick(&[
            &[Family::V4][..],
            &[Family::V4],
            &[Family::V6],
            &[Family::V4, Family::V6],
            &[Family::V6, Family::V4],
        ]);
        let mut spec = ServiceSpec { type_: Some(type_.to_owned()), ..ServiceSpec::default() };
        give_families(&mut spec, families, number);
        let has_node_ports = type_ == "NodePort" || type_ == "LoadBalancer" && self.random.percent(80);
        if type_ == "LoadBalancer" {
            spec.allocate_load_balancer_node_ports = Some(has_node_ports);
        }
        spec.ports = Some(self.ports(has_node_ports));
        if self.random.percent(35) {
            spec.external_ips = Some(self.external_ips(&spec, families));
        }
        let is_external = type_ != "ClusterIP" || spec.external_ips.as_ref().is_some_and(|it| !it.is_empty());
        if is_external {
            spec.external_traffic_policy = Some(self.policy(40));
        }
        spec.internal_traffic_policy = self.random.percent(80).then(|| self.policy(25));
        self.affinity(&mut spec);
        if type_ == "LoadBalancer" && self.random.percent(45) {
            spec.load_balancer_source_ranges = Some(self.source_ranges());
        }
        spec
    }

    fn headless(&mut self) -> ServiceSpec {
        ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            cluster_ips: Some(vec!["None".to_owned()]),
            ports: Some(self.ports(false)),
            type_: Some("ClusterIP".to_owned()),
            ..ServiceSpec::default()
        }
    }

    fn external_name(&mut self) -> ServiceSpec {
        ServiceSpec {
            external_name: Some("elsewhere.example".to_owned()),
            ports: Some(self.ports(false)),
            type_: Some("ExternalName".to_owned()),
            ..ServiceSpec::default()
        }
    }

    fn ports(&mut self, has_node_ports: bool) -> Vec<ServicePort> {
        let count = self.random.pick(&[1, 1, 2, 3]);
        let is_named = count > 1 || self.random.percent(50);
        let mut used = BTreeSet::new();
        let mut ports = Vec::new();
        while ports.len() < count {
            let protocol = self.random.pick(&["TCP", "TCP", "TCP", "UDP", "UDP", "SCTP"]);
            let port = self.random.pick(&[53, 80, 443, 5678, 8080]);
            if !used.insert((protocol, port)) {
                continue;
            }
            let target = self.random.pick(&[port, 8443, 9376]);
            // An explicit protocol, or the default.
            let is_stated = protocol != "TCP" || self.random.percent(50);
            ports.push(ServicePort {
                name: is_named.then(|| format!("p{}", ports.len())),
                node_port: has_node_ports.then(|| self.node_port()),
                port,
                protocol: is_stated.then(|| protocol.to_owned()),
                target_port: Some(IntOrString::Int(target)),
                ..ServicePort::default()
            });
        }
        ports
    }

    fn node_port(&mut self) -> i32 {
        self.node_ports += 1;
        self.node_ports
    }

    fn external_ips(&mut self, spec: &ServiceSpec, families: &[Family]) -> Vec<String> {
        let mut addresses = BTreeSet::new();
        for _ in 0..self.random.pick(&[1, 1, 2]) {
            let family = self.random.pick(families);
            let number = 1 + self.random.below(EXTERNAL_ADDRESSES.into()) as u16;
            // Not the one that endpoints on the node have: kube-proxy filters what it has translated already, and would
            // take what is for such an endpoint for this.
            let own = OWN.addresses(family)[1];
            let address = if self.random.percent(8) { own } else { external_ip(family, number) };
            if self.take(address, spec) {
                addresses.insert(address.to_string());
            }
        }
        addresses.into_iter().collect()
    }

    /// An address for all ports of a service, unless another has it at one of them.
    fn take(&mut self, address: IpAddr, spec: &ServiceSpec) -> bool {
        let ports = spec.ports.iter().flatten();
        let wanted: Vec<_> = ports
            .map(|port| (address, port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()), port.port))
            .collect();
        let is_free = wanted.iter().all(|wanted| !self.taken.contains(wanted));
        if is_free {
            self.taken.extend(wanted);
        }
        is_free
    }

    fn policy(&mut self, local: usize) -> String {
        if self.random.percent(local) { "Local" } else { "Cluster" }.to_owned()
    }

    fn affinity(&mut self, spec: &mut ServiceSpec) {
        if self.random.percent(25) {
            let timeout_seconds = Some(self.random.pick(&[3600, 10_800, 86_400]));
            let client_ip = self.random.percent(60).then_some(ClientIPConfig { timeout_seconds });
            spec.session_affinity = Some("ClientIP".to_owned());
            spec.session_affinity_config = Some(SessionAffinityConfig { client_ip });
        }
    }

    /// Of both families, or one: for the other there is no limit then.
    fn source_ranges(&mut self) -> Vec<String> {
        let mut ranges = Vec::new();
        for family in Family::BOTH {
            if self.random.percent(75) {
                let known = [
                    outside_prefix(family, Client::Guest),
                    outside_prefix(family, Client::Stranger),
                    pod_prefix(family),
                    by_family(family, "172.30.0.0/24", "fd00:30::/112"),
                    by_family(family, "192.168.0.0/16", "fd99::/16"),
                ];
                let count = 1 + self.random.below(3);
                ranges.extend(self.random.sample(&known, count).into_iter().map(str::to_owned));
            }
        }
        ranges
    }

    fn status(&mut self, spec: &ServiceSpec) -> ServiceStatus {
        let mut ingress = Vec::new();
        let families: Vec<Family> = families_of(spec).collect();
        for family in families {
            let number = 1 + self.random.below(EXTERNAL_ADDRESSES.into()) as u16;
            let address = load_balancer_ip(family, number);
            if self.random.percent(85) && self.take(address, spec) {
                let ip_mode = self.random.pick(&[None, None, Some("VIP"), Some("Proxy")]);
                ingress.push(LoadBalancerIngress {
                    ip: Some(address.to_string()),
                    ip_mode: ip_mode.map(str::to_owned),
                    ..LoadBalancerIngress::default()
                });
            }
        }
        if self.random.percent(10) {
            let hostname = Some("lb.example".to_owned());
            ingress.push(LoadBalancerIngress { hostname, ..LoadBalancerIngress::default() });
        }
        let load_balancer = LoadBalancerStatus { ingress: Some(ingress) };
        ServiceStatus { load_balancer: Some(load_balancer), ..ServiceStatus::default() }
    }
}

/// The families that a Service has cluster addresses of.
pub(super) fn families_of(spec: &ServiceSpec) -> impl Iterator<Item = Family> {
    let named = spec.ip_families.iter().flatten();
    named.map(|name| if name == "IPv4" { Family::V4 } else { Family::V6 })
}

fn give_families(spec: &mut ServiceSpec, families: &[Family], number: u16) {
    let addresses: Vec<String> =
        families.iter().map(|&family| cluster_ip(family, number).to_string()).collect();
    let names = families.iter().map(|&family| by_family(family, "IPv4", "IPv6").to_owned());
    let policy = if families.len() > 1 { "RequireDualStack" } else { "SingleStack" };
    spec.cluster_ip = addresses.first().cloned();
    spec.cluster_ips = Some(addresses);
    spec.ip_families = Some(names.collect());
    spec.ip_family_policy = Some(policy.to_owned());
}
