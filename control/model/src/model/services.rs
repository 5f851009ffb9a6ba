//! Settling services: what they are given first, then listeners and members.

use std::net::IpAddr;

use super::addresses::{FindingsOf, Placement};
use super::{Model, reference};
use crate::NamespacedName;
use crate::allocate::SpacedAddress;
use crate::contrail::Builder;
use crate::kube::Kind;
use crate::problem::Findings;
use crate::tables::{self, Placed, Unit};

impl Model {
    pub(super) fn settle_services(&mut self) -> usize {
        let mut recomputed = 0;
        // What becomes free may be what another service asks for: that is another round.
        loop {
            let services = std::mem::take(&mut self.index.dirty.services);
            if services.is_empty() {
                return recomputed;
            }
            recomputed += services.len();
            let services: Vec<_> = services.into_iter().collect();
            for service in &services {
                self.waiting.remove(service);
            }
            let mut findings = FindingsOf::new();
            let mut placements = self.settle_cluster_addresses(&services, &mut findings);
            self.settle_exposures(&services, &mut findings);
            if std::mem::take(&mut self.freed) {
                let others = self.waiting.iter().filter(|service| !findings.contains_key(service));
                self.index.dirty.services.extend(others.cloned());
            }
            for service in services {
                let mut findings = findings.remove(&service).unwrap_or_default();
                self.rebuild(&service, placements.remove(&service), &mut findings);
                self.findings.replace(reference(Kind::Service, &service), findings);
            }
        }
    }

    fn rebuild(&mut self, service: &NamespacedName, placement: Option<Placement>, findings: &mut Findings) {
        if let Some(old) = self.load_balancers.remove(service) {
            for address in old.endpoint_addresses() {
                self.users.remove(&address, service);
            }
            for node in &old.nodes {
                self.users_of_nodes.remove(node, service);
            }
        }
        let unit = Unit::Service(service.clone());
        let placement = placement.filter(|placement| !placement.addresses.is_empty());
        let frontend = placement.and_then(|placement| {
            let record = self.index.services.get(service)?;
            Some((placement, record, record.frontend.as_ref()?))
        });
        let Some((Placement { networks, addresses }, record, frontend)) = frontend else {
            self.tables.replace(unit, Placed::new());
            return;
        };
        let exposed = self.exposed(service, findings);
        let spaced = |address: &IpAddr| SpacedAddress { space: networks.space, address: *address };
        let addresses: Vec<SpacedAddress> = addresses.iter().map(spaced).collect();
        let before = self.floating_ips.snapshot(&addresses);
        let mut builder = Builder {
            config: &self.config,
            index: &self.index,
            nodes: &self.nodes,
            ids: &mut self.floating_ips,
            service: (service, record),
            networks,
            frontend,
            exposed,
            findings,
        };
        let load_balancer = builder.build(&addresses);
        self.floating_ips.note_changes(before);
        for address in load_balancer.endpoint_addresses() {
            self.users.insert(address, service.clone());
        }
        for node in &load_balancer.nodes {
            self.users_of_nodes.insert(node.clone(), service.clone());
        }
        self.tables.replace(unit, tables::load_balancer_objects(&self.config, &load_balancer));
        self.load_balancers.insert(service.clone(), load_balancer);
    }
}
