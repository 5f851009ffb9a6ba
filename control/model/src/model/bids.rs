//! What a service wants that each node has only once.

use std::net::IpAddr;

use vrouter_objects::{ExternalAddress, ExternalKind, Port, ServiceProtocol};

use super::addresses::Families;
use crate::Family;
use crate::allocate::{Exposure, ListenerKey};
use crate::claim::{Asset, Basis, Bid, Claim};
use crate::config::{AddressUse, ModelConfig};
use crate::kube::{Frontend, HealthCheck, NodePorts, PoolWish, PortWish, ServicePort, ServiceRecord};
use crate::node_port::NodePort;
use crate::problem::Findings;

/// One service's wishes, looked at together with what was picked for it.
pub(super) struct Bidder<'a> {
    config: &'a ModelConfig,
    record: &'a ServiceRecord,
    frontend: &'a Frontend,
    families: Vec<Family>,
    picked: Exposure,
}

/// What must be picked for a service, as it names none.
#[derive(Default)]
pub(super) struct Missing {
    /// Node ports of these listeners.
    pub node_ports: Vec<ListenerKey>,
    /// Whether a health check port.
    pub health_check: bool,
    /// Load-balancer addresses of these families.
    pub addresses: Vec<Family>,
}

impl<'a> Bidder<'a> {
    /// `None`: the service has no frontend.
    pub(super) fn new(config: &'a ModelConfig, record: &'a ServiceRecord, picked: Exposure) -> Option<Self> {
        let frontend = record.frontend.as_ref()?;
        let families = Families::of(config, &frontend.addresses).usable;
        Some(Self { config, record, frontend, families, picked })
    }

    /// What of that which was picked is still wanted.
    pub(super) fn kept(&self) -> Exposure {
        let in_range = |port: &NodePort| self.config.node_ports.contains(port.0);
        let is_picked = |key: &ListenerKey| {
            let port = self.record.ports.iter().find(|port| port.key() == *key);
            port.is_some_and(|port| self.picks_node_port(port))
        };
        let any_health_check = self.frontend.exposure.health_check == HealthCheck::Any;
        let Exposure { node_ports, health_check, addresses } = self.picked.clone();
        let ports = node_ports.into_iter().filter(|(key, port)| is_picked(key) && in_range(port));
        Exposure {
            node_ports: ports.collect(),
            health_check: health_check.filter(|port| any_health_check && in_range(port)),
            addresses: addresses.into_iter().filter(|address| self.keeps(*address)).collect(),
        }
    }

    /// What it lacks.
    pub(super) fn missing(&self) -> Missing {
        let has = |family| self.picked.addresses.iter().any(|address| Family::from(*address) == family);
        let ports = self.record.ports.iter().filter(|port| self.picks_node_port(port)).map(ServicePort::key);
        let families = self.families.iter().copied().filter(|family| self.picks_address(*family));
        let any_health_check = self.frontend.exposure.health_check == HealthCheck::Any;
        Missing {
            node_ports: ports.filter(|key| !self.picked.node_ports.contains_key(key)).collect(),
            health_check: any_health_check && self.picked.health_check.is_none(),
            addresses: families.filter(|family| !has(*family)).collect(),
        }
    }

    /// What it bids for: what it names, and what was picked for it.
    pub(super) fn bids(&self, findings: &mut Findings) -> Vec<Bid> {
        let mut bids = self.node_port_bids(findings);
        bids.extend(self.health_check_bid(findings));
        bids.extend(self.external_bids(findings));
        bids.extend(self.pool_bids(findings));
        bids
    }

    fn picks_node_port(&self, port: &ServicePort) -> bool {
        self.frontend.exposure.node_ports == NodePorts::All && port.node_port == PortWish::Any
    }

    /// Whether an address out of the pool is picked for it, as it names none of that family.
    fn picks_address(&self, family: Family) -> bool {
        let named = match self.frontend.exposure.pool {
            PoolWish::Nothing => return false,
            PoolWish::Any => None,
            PoolWish::Named(address) => Some(Family::from(address)),
        };
        let pool = &self.config.load_balancer_pool;
        named != Some(family) && pool.iter().any(|prefix| Family::from(*prefix) == family)
    }

    /// Also once its status states the address.
    fn keeps(&self, address: IpAddr) -> bool {
        let family = Family::from(address);
        let stated =
            self.frontend.exposure.external.iter().any(|(_, external)| {
                *external == ExternalAddress { address, kind: ExternalKind::LoadBalancer }
            });
        self.in_pool(address) && self.families.contains(&family) && (self.picks_address(family) || stated)
    }

    fn in_pool(&self, address: IpAddr) -> bool {
        self.config.load_balancer_pool.iter().any(|prefix| prefix.contains(&address))
    }

    fn node_port_bids(&self, findings: &mut Findings) -> Vec<Bid> {
        let mut bids = Vec::new();
        for port in &self.record.ports {
            let listener = port.key();
            let picked = self.picked.node_ports.get(&listener);
            let (basis, field, number) = match (port.node_port.given(), picked) {
                (Some(given), _) if self.config.node_ports.contains(given.port) => {
                    (Basis::Given, given.field.clone(), given.port)
                }
                (Some(given), _) => {
                    findings.add(&given.field, self.out_of_range(given.port));
                    continue;
                }
                (None, Some(picked)) => (Basis::Picked, "spec.ports".to_owned(), picked.0),
                (None, None) => continue,
            };
            bids.extend(self.families.iter().map(|&family| Bid {
                asset: Asset::NodePort { family, listener, port: number },
                basis,
                field: field.clone(),
                claims: vec![Claim::NodePort(family, listener.protocol, number)],
            }));
        }
        bids
    }

    fn health_check_bid(&self, findings: &mut Findings) -> Option<Bid> {
        let (basis, field, port) = match (&self.frontend.exposure.health_check, self.picked.health_check) {
            (HealthCheck::Given(given), _) if self.config.node_ports.contains(given.port) => {
                (Basis::Given, given.field.clone(), given.port)
            }
            (HealthCheck::Given(given), _) => {
                findings.add(&given.field, self.out_of_range(given.port));
                return None;
            }
            (HealthCheck::Any, Some(picked)) => {
                (Basis::Picked, "spec.healthCheckNodePort".to_owned(), picked.0)
            }
            (HealthCheck::Any, None) | (HealthCheck::None, _) => return None,
        };
        // Nodes answer at all their addresses, of whatever family the service is.
        let claims = Family::BOTH.map(|family| Claim::NodePort(family, ServiceProtocol::Tcp, port));
        Some(Bid { asset: Asset::HealthCheck(port), basis, field, claims: claims.to_vec() })
    }

    fn external_bids(&self, findings: &mut Findings) -> Vec<Bid> {
        let mut bids = Vec::new();
        for (field, external) in &self.frontend.exposure.external {
            if let Err(fault) = self.check_external(external.address) {
                findings.add(field, fault);
                continue;
            }
            let picked = self.picked.addresses.contains(&external.address);
            let basis = if picked { Basis::Picked } else { Basis::Given };
            bids.extend(self.address_bid(*external, basis, field));
        }
        bids
    }

    fn pool_bids(&self, findings: &mut Findings) -> Vec<Bid> {
        let kind = ExternalKind::LoadBalancer;
        let mut bids = Vec::new();
        if let PoolWish::Named(address) = self.frontend.exposure.pool
            && !self.config.load_balancer_pool.is_empty()
        {
            let field = "spec.loadBalancerIP";
            match self.check_external(address) {
                Ok(()) if self.in_pool(address) => {
                    bids.extend(self.address_bid(ExternalAddress { address, kind }, Basis::Given, field));
                }
                Ok(()) => findings.add(field, format!("{address} is no address of the load-balancer pool")),
                Err(fault) => findings.add(field, fault),
            }
        }
        let picked = self.picked.addresses.iter().filter(|address| self.picks_address((**address).into()));
        for &address in picked {
            bids.extend(self.address_bid(ExternalAddress { address, kind }, Basis::Picked, "spec.type"));
        }
        bids
    }

    /// `None`: it has no ports that could be reached there, or has the address by another field.
    fn address_bid(&self, external: ExternalAddress, basis: Basis, field: &str) -> Option<Bid> {
        let ports = self.record.ports.iter();
        let claims: Vec<Claim> =
            ports.map(|port| Claim::External(external.address, port.protocol, port.port)).collect();
        let asset = Asset::External(external);
        (!claims.is_empty()).then(|| Bid { asset, basis, field: field.to_owned(), claims })
    }

    fn check_external(&self, address: IpAddr) -> Result<(), String> {
        let family = Family::from(address);
        let network = match self.config.use_of(address) {
            AddressUse::Beyond if self.families.contains(&family) => return Ok(()),
            AddressUse::Beyond => {
                return Err(format!(
                    "{address} is {family}, and the Service has no {family} cluster address"
                ));
            }
            AddressUse::Pods => "pod",
            AddressUse::Services => "service",
            AddressUse::LinkLocal => "link-local",
        };
        Err(format!("{address} is an address of the {network} network: nobody outside reaches it"))
    }

    fn out_of_range(&self, port: Port) -> String {
        format!("{port} is not in {}, where node ports are", self.config.node_ports)
    }
}
