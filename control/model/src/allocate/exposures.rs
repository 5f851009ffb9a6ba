//! What was picked for services to be reached by from outside: node ports, health check ports, load-balancer addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use vrouter_objects::{Port, ServiceProtocol};

use super::ListenerKey;
use super::turn::in_turn;
use crate::NamespacedName;
use crate::family::{self, Family};
use crate::node_port::{NodePort, NodePortRange};

/// What was picked for services.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Saved", into = "Saved")]
pub struct Exposures {
    last: LastPicked,
    by_service: BTreeMap<NamespacedName, Exposure>,
    /// Services for which something changed since changes were last taken.
    changed: BTreeSet<NamespacedName>,
}

/// What was picked for one service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exposure {
    /// The node ports of its listeners.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_ports: BTreeMap<ListenerKey, NodePort>,
    /// Its health check port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check: Option<NodePort>,
    /// Its load-balancer addresses, at most one per family.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub addresses: BTreeSet<IpAddr>,
}

/// Where the search for something free goes on.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct LastPicked {
    node_port: Option<NodePort>,
    /// Per family.
    addresses: Vec<IpAddr>,
}

/// The part of it that is saved.
#[derive(Serialize, Deserialize)]
struct Saved {
    last: LastPicked,
    by_service: BTreeMap<NamespacedName, Exposure>,
}

/// What of it changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExposureChanges {
    last: LastPicked,
    /// Each service with what is picked for it now.
    services: Vec<(NamespacedName, Exposure)>,
}

impl Exposure {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Exposures {
    /// The services for which something was picked.
    pub fn services(&self) -> impl Iterator<Item = &NamespacedName> {
        self.by_service.keys()
    }

    /// What was picked for a service.
    pub fn get(&self, service: &NamespacedName) -> Exposure {
        self.by_service.get(service).cloned().unwrap_or_default()
    }

    /// Has this picked for a service from now on.
    pub fn put(&mut self, service: &NamespacedName, exposure: Exposure) {
        if self.get(service) == exposure {
            return;
        }
        self.changed.insert(service.clone());
        if exposure.is_empty() {
            self.by_service.remove(service);
        } else {
            self.by_service.insert(service.clone(), exposure);
        }
    }

    /// Picks a free port out of the range; the lower part is left to those who name theirs.
    pub fn pick_port(&mut self, range: NodePortRange, is_free: impl Fn(Port) -> bool) -> Option<NodePort> {
        let last = self.last.node_port.filter(|last| range.contains(last.0));
        let last = last.map(|last| u128::from(last.0.get()));
        let numbers = u128::from(range.first())..=u128::from(range.last());
        let mut ports = in_turn(numbers, range.static_band().into(), last)
            .filter_map(|number| Port::new(number.try_into().ok()?).ok());
        let picked = NodePort(ports.find(|port| is_free(*port))?);
        self.last.node_port = Some(picked);
        Some(picked)
    }

    /// Picks a free address of a family out of a pool.
    pub fn pick_address(
        &mut self,
        pool: &[IpNet],
        family: Family,
        is_free: impl Fn(IpAddr) -> bool,
    ) -> Option<IpAddr> {
        let prefixes = pool.iter().filter(|prefix| Family::from(**prefix) == family);
        let picked = prefixes.filter_map(|prefix| self.free_address(*prefix, &is_free)).next()?;
        self.last.addresses.retain(|last| Family::from(*last) != family);
        self.last.addresses.push(picked);
        Some(picked)
    }

    /// What changed since this was last asked; `None`: nothing did.
    pub fn take_changes(&mut self) -> Option<ExposureChanges> {
        let changed = std::mem::take(&mut self.changed);
        if changed.is_empty() {
            return None;
        }
        let services = changed.into_iter().map(|service| (service.clone(), self.get(&service))).collect();
        Some(ExposureChanges { last: self.last.clone(), services })
    }

    /// Makes a change that was taken from the state after this one.
    pub(super) fn replay(&mut self, changes: ExposureChanges) {
        self.last = changes.last;
        for (service, exposure) in changes.services {
            self.put(&service, exposure);
        }
        self.changed.clear();
    }

    /// Whether the state agrees with itself.
    pub(super) fn check(&self) -> Result<(), String> {
        let (mut ports, mut addresses) = (BTreeMap::new(), BTreeMap::new());
        for (service, exposure) in &self.by_service {
            let listeners = exposure.node_ports.iter().map(|(key, port)| (key.protocol, *port));
            let health_check = exposure.health_check.map(|port| (ServiceProtocol::Tcp, port));
            for (protocol, port) in listeners.chain(health_check) {
                if let Some(other) = ports.insert((protocol, port), service) {
                    return Err(format!("{other} and {service} both have node port {protocol}/{}", port.0));
                }
            }
            for address in &exposure.addresses {
                if let Some(other) = addresses.insert(address, service) {
                    return Err(format!("{other} and {service} both have load-balancer address {address}"));
                }
            }
        }
        Ok(())
    }

    /// All addresses of a prefix are given but those that mean it as a whole, where it holds others.
    fn free_address(&self, prefix: IpNet, is_free: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
        let family = Family::from(prefix);
        let (network, broadcast) = (family::number(prefix.network()), family::number(prefix.broadcast()));
        let (first, last) = match family {
            _ if prefix.prefix_len() + 1 >= prefix.max_prefix_len() => (network, broadcast),
            Family::V4 => (network + 1, broadcast - 1),
            Family::V6 => (network + 1, broadcast),
        };
        let last_picked = self.last.addresses.iter().find(|picked| prefix.contains(*picked));
        let numbers = in_turn(first..=last, 0, last_picked.map(|picked| family::number(*picked)));
        numbers.map(|number| family::address(family, number)).find(|address| is_free(*address))
    }
}

impl From<Saved> for Exposures {
    fn from(Saved { last, by_service }: Saved) -> Self {
        Self { last, by_service, changed: BTreeSet::new() }
    }
}

impl From<Exposures> for Saved {
    fn from(Exposures { last, by_service, .. }: Exposures) -> Self {
        Self { last, by_service }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_of_a_range_is_picked_once_and_the_static_band_last() {
        let range: NodePortRange = "100-163".parse().unwrap();
        let mut exposures = Exposures::default();
        let mut taken: Vec<Port> = Vec::new();
        while let Some(NodePort(port)) = exposures.pick_port(range, |port| !taken.contains(&port)) {
            taken.push(port);
        }
        let numbers: Vec<u16> = taken.iter().map(|port| port.get()).collect();
        assert_eq!(numbers, (116..164).chain(100..116).collect::<Vec<_>>());
    }

    #[test]
    fn a_freed_address_is_picked_last_and_the_next_prefix_after_that() {
        let pool = ["192.0.2.0/30".parse().unwrap(), "198.51.100.7/32".parse().unwrap()];
        let mut exposures = Exposures::default();
        let mut pick = |taken: &[&str]| {
            let is_free = |address: IpAddr| !taken.contains(&address.to_string().as_str());
            exposures.pick_address(&pool, Family::V4, is_free).map(|address| address.to_string())
        };
        assert_eq!(pick(&[]).unwrap(), "192.0.2.1");
        assert_eq!(pick(&[]).unwrap(), "192.0.2.2", "the first one was given back");
        assert_eq!(pick(&["192.0.2.2"]).unwrap(), "192.0.2.1");
        let all = ["192.0.2.1", "192.0.2.2"];
        assert_eq!(pick(&all).unwrap(), "198.51.100.7");
        assert_eq!(pick(&["192.0.2.1", "192.0.2.2", "198.51.100.7"]), None);
    }

    #[test]
    fn a_port_that_two_services_have_is_no_state() {
        let mut exposures = Exposures::default();
        let port = |number| NodePort(Port::new(number).unwrap());
        let listener: ListenerKey = "TCP/80".parse().unwrap();
        let exposure = Exposure { node_ports: [(listener, port(30_000))].into(), ..Exposure::default() };
        exposures.put(&NamespacedName::new("default", "a"), exposure);
        exposures.check().unwrap();
        let exposure = Exposure { health_check: Some(port(30_000)), ..Exposure::default() };
        exposures.put(&NamespacedName::new("default", "b"), exposure);
        assert_eq!(exposures.check().unwrap_err(), "default/a and default/b both have node port TCP/30000");
    }
}
