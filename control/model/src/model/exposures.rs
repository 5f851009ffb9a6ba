//! Settling what services have beyond their cluster addresses: node ports, health check ports, external addresses.

use std::collections::BTreeSet;

use vrouter_objects::ServiceProtocol;

use super::Model;
use super::addresses::FindingsOf;
use super::bids::Bidder;
use crate::NamespacedName;
use crate::allocate::{Exposure, ListenerKey};
use crate::claim::Asset;
use crate::contrail::Exposed;
use crate::node_port::NodePort;
use crate::problem::Findings;

impl Model {
    /// Settles the contests that these services take part in, and picks for them what they do not name. Who wins or
    /// loses something by that, and is none of these, is looked at in another round.
    pub(super) fn settle_exposures(&mut self, services: &[NamespacedName], findings: &mut FindingsOf) {
        // Everybody's own wishes are known before anything is picked.
        for service in services {
            let kept = self.bidder(service).map(|bidder| bidder.kept()).unwrap_or_default();
            self.exposures.put(service, kept);
            self.enter(service);
        }
        self.freed |= self.ledger.is_stirred();
        for service in services {
            self.pick_missing(service, findings.entry(service.clone()).or_default());
        }
        let settled: BTreeSet<&NamespacedName> = services.iter().collect();
        let concerned = self.ledger.settle().into_iter();
        self.index.dirty.services.extend(concerned.filter(|service| !settled.contains(service)));
    }

    /// What a service has, once all contests are settled. What it does not get is found.
    pub(super) fn exposed(&self, service: &NamespacedName, findings: &mut Findings) -> Exposed {
        let mut exposed = Exposed::default();
        let bids = self.bidder(service).map(|bidder| bidder.bids(findings)).unwrap_or_default();
        for bid in bids {
            if let Some((claim, holder)) = self.ledger.obstacle(service, &bid) {
                let finding = format!("{claim} is Service {holder}'s already");
                findings.add_once(bid.field, finding);
                continue;
            }
            match bid.asset {
                Asset::NodePort { family, listener, port } => {
                    exposed.node_ports.insert((family, listener), port);
                }
                Asset::HealthCheck(port) => exposed.health_check = Some(port),
                Asset::External(external) => exposed.external.push(external),
            }
        }
        exposed.external.sort();
        exposed
    }

    fn bidder(&self, service: &NamespacedName) -> Option<Bidder<'_>> {
        let record = self.index.services.get(service)?;
        Bidder::new(&self.config, record, self.exposures.get(service))
    }

    fn enter(&mut self, service: &NamespacedName) {
        let created = self.index.services.get(service).and_then(|record| record.created.clone());
        // What is wrong with the wishes is found when they are looked at for the last time.
        let mut unheard = Findings::default();
        let bids = self.bidder(service).map(|bidder| bidder.bids(&mut unheard)).unwrap_or_default();
        self.ledger.enter(service, created, bids);
    }

    fn pick_missing(&mut self, service: &NamespacedName, findings: &mut Findings) {
        let missing = self.bidder(service).map(|bidder| bidder.missing()).unwrap_or_default();
        for key in missing.node_ports {
            match self.pick_node_port(service, key) {
                Some(port) => self.note_pick(service, |picked| picked.node_ports.extend([(key, port)])),
                None => self.note_waiting(
                    service,
                    findings,
                    "spec.ports",
                    format!("no node port is free for {key}"),
                ),
            }
        }
        if missing.health_check {
            match self.pick_free_port(ServiceProtocol::Tcp) {
                Some(port) => self.note_pick(service, |picked| picked.health_check = Some(port)),
                None => {
                    let message = "no node port is free".to_owned();
                    self.note_waiting(service, findings, "spec.healthCheckNodePort", message);
                }
            }
        }
        for family in missing.addresses {
            let (pool, ledger) = (&self.config.load_balancer_pool, &self.ledger);
            match self.exposures.pick_address(pool, family, |address| !ledger.wants_address(address)) {
                Some(address) => self.note_pick(service, |picked| picked.addresses.extend([address])),
                None => {
                    let message = format!("no {family} address of the load-balancer pool is free");
                    self.note_waiting(service, findings, "spec.type", message);
                }
            }
        }
    }

    /// A port number that a service has under two protocols gets one node port for both, where it is free.
    fn pick_node_port(&mut self, service: &NamespacedName, key: ListenerKey) -> Option<NodePort> {
        let picked = self.exposures.get(service);
        let record = self.index.services.get(service)?;
        let siblings = record.ports.iter().filter(|port| port.port == key.port && port.key() != key);
        let mut known = siblings.filter_map(|port| {
            let given = port.node_port.given().map(|given| NodePort(given.port));
            given.or_else(|| picked.node_ports.get(&port.key()).copied())
        });
        let fits = |port: &NodePort| {
            let in_range = self.config.node_ports.contains(port.0);
            in_range && !self.ledger.wants_node_port(key.protocol, port.0)
        };
        let shared = known.find(fits);
        shared.or_else(|| self.pick_free_port(key.protocol))
    }

    fn pick_free_port(&mut self, protocol: ServiceProtocol) -> Option<NodePort> {
        let ledger = &self.ledger;
        self.exposures.pick_port(self.config.node_ports, |port| !ledger.wants_node_port(protocol, port))
    }

    /// Nothing is free for a service: it tries again when something may be.
    fn note_waiting(
        &mut self,
        service: &NamespacedName,
        findings: &mut Findings,
        field: &str,
        message: String,
    ) {
        findings.add(field, message);
        self.waiting.insert(service.clone());
    }

    /// Something was picked for a service, which nobody else can get from now on.
    fn note_pick(&mut self, service: &NamespacedName, note: impl FnOnce(&mut Exposure)) {
        let mut picked = self.exposures.get(service);
        note(&mut picked);
        self.exposures.put(service, picked);
        self.enter(service);
    }
}
