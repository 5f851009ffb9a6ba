//! Random EndpointSlices.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice, ForNode, ForZone,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use vrouter_tests::lab::Family;

use super::Generator;
use super::service::families_of;
use crate::objects::{SERVICE_NAME, metadata};
use crate::place::{OTHERS, OWN, PODS, by_family, outsider};

const MOST_ENDPOINTS: usize = 5;

/// What the endpoints of a service have in common.
#[derive(Debug, Clone, Copy)]
enum Health {
    AllReady,
    Mixed,
    Terminating,
    Unready,
}

/// Which hints they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hinted {
    No,
    Zones,
    Nodes,
    Both,
}

impl Generator<'_> {
    /// The slices of a service, one or two per family.
    pub(super) fn slices(&mut self, service: &Service) -> Vec<EndpointSlice> {
        let Some(spec) = &service.spec else { return Vec::new() };
        let mut families: Vec<Family> = families_of(spec).collect();
        if families.is_empty() || self.random.percent(10) {
            families = Family::BOTH.to_vec();
        }
        families.into_iter().flat_map(|family| self.slices_of(service, family)).collect()
    }

    fn slices_of(&mut self, service: &Service, family: Family) -> Vec<EndpointSlice> {
        let endpoints = self.endpoints(family);
        let count = endpoints.len();
        let mut parts = vec![endpoints];
        if count > 1 && self.random.percent(25) {
            // One endpoint is in both, as while a controller moves it.
            let cut = 1 + self.random.below(count - 1);
            parts = vec![parts[0][..=cut.min(count - 1)].to_vec(), parts[0][cut..].to_vec()];
        }
        let name = service.metadata.name.clone().unwrap_or_default();
        let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
        let ports: Vec<EndpointPort> = ports.filter_map(|port| self.slice_port(port)).collect();
        let suffix = by_family(family, "v4", "v6");
        let slice = |(number, endpoints)| EndpointSlice {
            address_type: by_family(family, "IPv4", "IPv6").to_owned(),
            endpoints: Some(endpoints),
            metadata: metadata(&format!("{name}-{suffix}-{number}"), Some((SERVICE_NAME, &name))),
            ports: Some(ports.clone()),
        };
        parts.into_iter().enumerate().map(slice).collect()
    }

    /// A slice may lack a port of the Service, or its number, as where no pod declares the name.
    fn slice_port(&mut self, port: &ServicePort) -> Option<EndpointPort> {
        let number = match port.target_port {
            Some(IntOrString::Int(number)) => number,
            _ => port.port,
        };
        let is_lacking = self.random.percent(4);
        let has_number = !self.random.percent(4);
        (!is_lacking).then(|| EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()),
            port: has_number.then_some(number),
            protocol: port.protocol.clone(),
            ..EndpointPort::default()
        })
    }

    fn endpoints(&mut self, family: Family) -> Vec<Endpoint> {
        let health = match self.random.below(100) {
            0..50 => Health::AllReady,
            50..80 => Health::Mixed,
            80..93 => Health::Terminating,
            _ => Health::Unready,
        };
        let hinted = match self.random.below(100) {
            0..70 => Hinted::No,
            70..82 => Hinted::Zones,
            82..91 => Hinted::Nodes,
            _ => Hinted::Both,
        };
        let places = self.places(family);
        let count = self.random.below(MOST_ENDPOINTS + 1);
        let chosen = self.random.sample(&places, count);
        let mut endpoint = |(address, node): (IpAddr, Option<String>)| Endpoint {
            addresses: vec![address.to_string()],
            conditions: self.conditions(health),
            hints: self.hints(hinted),
            node_name: node,
            ..Endpoint::default()
        };
        chosen.into_iter().map(&mut endpoint).collect()
    }

    /// Where the endpoints of a service may be: anywhere, or on some side only.
    fn places(&mut self, family: Family) -> Vec<(IpAddr, Option<String>)> {
        let own = Some(OWN.name());
        let mut local: Vec<_> = (1..=PODS).map(|pod| (OWN.pod(family, pod), own.clone())).collect();
        let mut remote = Vec::new();
        for machine in OTHERS {
            let pods = (1..=3).map(|pod| machine.pod(family, pod));
            remote.extend(pods.map(|address| (address, Some(machine.name()))));
        }
        if self.random.percent(20) {
            local.push((OWN.address(family), own));
            remote.push((OTHERS[0].address(family), Some(OTHERS[0].name())));
            remote.push((outsider(family, 200), None));
        }
        match self.random.below(100) {
            0..20 => local,
            20..45 => remote,
            _ => [local, remote].concat(),
        }
    }

    fn conditions(&mut self, health: Health) -> Option<EndpointConditions> {
        let ready = [
            None,
            Some((None, None, None)),
            Some((Some(true), None, None)),
            Some((Some(true), Some(true), Some(false))),
            // As published for a Service with `publishNotReadyAddresses`.
            Some((Some(true), Some(false), Some(false))),
            Some((Some(true), Some(true), Some(true))),
        ];
        let terminating = [
            Some((Some(false), Some(true), Some(true))),
            Some((Some(false), None, Some(true))),
            Some((Some(false), Some(false), Some(true))),
        ];
        let unready = [
            Some((Some(false), Some(false), Some(false))),
            Some((Some(false), Some(true), Some(false))),
            Some((Some(false), None, None)),
        ];
        let chosen = match health {
            Health::AllReady => self.random.pick(&ready),
            Health::Terminating => self.random.pick(&terminating),
            Health::Unready => self.random.pick(&unready),
            Health::Mixed => {
                let all = [&ready[..], &terminating, &unready].concat();
                self.random.pick(&all)
            }
        };
        chosen.map(|(ready, serving, terminating)| EndpointConditions { ready, serving, terminating })
    }

    /// Some endpoint may lack them: then nobody's count.
    fn hints(&mut self, hinted: Hinted) -> Option<EndpointHints> {
        if hinted == Hinted::No || self.random.percent(6) {
            return None;
        }
        let mut hints = EndpointHints::default();
        if hinted != Hinted::Nodes {
            let zones = [OWN.zone, OTHERS[0].zone].map(str::to_owned);
            let count = self.random.pick(&[1, 1, 2]);
            let zones = self.random.sample(&zones, count);
            hints.for_zones = Some(zones.into_iter().map(|name| ForZone { name }).collect());
        }
        if hinted != Hinted::Zones {
            let nodes = [OWN, OTHERS[0], OTHERS[1]].map(|machine| machine.name());
            let name = nodes[self.random.below(nodes.len())].clone();
            hints.for_nodes = Some(vec![ForNode { name }]);
        }
        Some(hints)
    }
}
