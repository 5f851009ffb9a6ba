//! By what the services are reached from the node and from outside, kept as the tables change: asking costs no search
//! among ten thousand services.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use vrouter_objects::{FloatingIp, FloatingIpId};

use crate::host_path::{Family, NodePort, ServicePort, Steered};

/// What all services are reached by.
#[derive(Debug, Default)]
pub(super) struct Frontends {
    of: HashMap<FloatingIpId, BTreeSet<Frontend>>,
    /// How many services have it. Several may share an external address.
    count: BTreeMap<Frontend, usize>,
    revision: u64,
}

/// One thing that a service is reached by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Frontend {
    NodePort(NodePort),
    External(IpAddr),
    ExternalPort(ServicePort),
}

impl Frontends {
    /// A service comes or changes.
    pub(super) fn put(&mut self, fip: &FloatingIp) {
        let after = frontends(fip);
        let before = self.of.get(&fip.id);
        if before.map_or(after.is_empty(), |before| *before == after) {
            return;
        }
        self.remove(fip.id);
        for frontend in &after {
            *self.count.entry(*frontend).or_default() += 1;
        }
        self.of.insert(fip.id, after);
        self.revision += 1;
    }

    /// A service goes.
    pub(super) fn remove(&mut self, id: FloatingIpId) {
        let Some(before) = self.of.remove(&id) else { return };
        for frontend in before {
            if let Some(count) = self.count.get_mut(&frontend) {
                *count -= 1;
                if *count == 0 {
                    self.count.remove(&frontend);
                }
            }
        }
        self.revision += 1;
    }

    /// Grows with each change.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// What is to be steered on a node with these addresses. Of an external address that is a node's, the services'
    /// ports alone are.
    pub(super) fn steered(
        &self,
        own: &[IpAddr],
        serves_node_ports: impl Fn(IpAddr) -> bool,
        nodes: &BTreeSet<IpAddr>,
    ) -> Steered {
        let is_nodes = |address: &IpAddr| own.contains(address) || nodes.contains(address);
        let mut steered = Steered {
            own: own.iter().copied().collect(),
            node_port_addresses: own.iter().copied().filter(|own| serves_node_ports(*own)).collect(),
            ..Steered::default()
        };
        for frontend in self.count.keys() {
            match frontend {
                Frontend::NodePort(port) => drop(steered.node_ports.insert(*port)),
                Frontend::External(address) if !is_nodes(address) => {
                    steered.external.insert(*address);
                }
                Frontend::ExternalPort(port) if is_nodes(&port.address) => {
                    steered.external_ports.insert(*port);
                }
                Frontend::External(_) | Frontend::ExternalPort(_) => {}
            }
        }
        steered
    }
}

fn frontends(fip: &FloatingIp) -> BTreeSet<Frontend> {
    let family = Family::of(fip.address);
    let node_ports = fip.listeners.iter().filter_map(|listener| {
        let (protocol, port) = (listener.protocol, listener.node_port?);
        Some(Frontend::NodePort(NodePort { family, protocol, port }))
    });
    let external = fip.external.iter().flat_map(|external| {
        let address = external.address;
        let ports = fip.listeners.iter().map(move |listener| {
            let (protocol, port) = (listener.protocol, listener.port);
            Frontend::ExternalPort(ServicePort { address, protocol, port })
        });
        std::iter::once(Frontend::External(address)).chain(ports)
    });
    node_ports.chain(external).collect()
}

#[cfg(test)]
mod tests {
    use vrouter_objects::{
        ExternalAddress, ExternalKind, Listener, ListenerId, Port, ServiceProtocol, VrfId,
    };

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// A service with port 80 at node port 30000 + `id` and these external addresses.
    fn service(id: u32, external: &[&str]) -> FloatingIp {
        let vrf = VrfId::new(2).unwrap();
        let address = IpAddr::from([10, 96, 0, id as u8]);
        let mut fip = FloatingIp::new(FloatingIpId::new(id).unwrap(), "default/web", vrf, address, vrf);
        let external = external.iter().map(|address| ip(address));
        fip.external =
            external.map(|address| ExternalAddress { address, kind: ExternalKind::LoadBalancer }).collect();
        fip.listeners.push(Listener {
            id: ListenerId::new(id).unwrap(),
            name: String::new(),
            protocol: ServiceProtocol::Tcp,
            port: Port::new(80).unwrap(),
            node_port: Some(Port::new(30_000 + i64::from(id)).unwrap()),
            members: Vec::new(),
        });
        fip
    }

    fn steered(frontends: &Frontends) -> Steered {
        let nodes = ["172.30.0.1", "172.30.0.2"].map(ip).into();
        frontends.steered(&[ip("172.30.0.1"), ip("10.0.0.1")], |own| own == ip("172.30.0.1"), &nodes)
    }

    #[test]
    fn an_address_that_two_services_share_stays_with_the_last() {
        let mut frontends = Frontends::default();
        frontends.put(&service(1, &["203.0.113.7"]));
        frontends.put(&service(2, &["203.0.113.7"]));
        let revision = frontends.revision();
        frontends.put(&service(2, &["203.0.113.7"]));
        assert_eq!(frontends.revision(), revision, "nothing has changed");
        frontends.remove(FloatingIpId::new(1).unwrap());
        assert_eq!(steered(&frontends).external, [ip("203.0.113.7")].into());
        assert_eq!(steered(&frontends).node_ports.len(), 1);
        frontends.put(&service(2, &[]));
        assert!(steered(&frontends).external.is_empty());
        assert_eq!(frontends.count.len(), 1);
    }

    #[test]
    fn tpol_9_of_an_external_address_that_is_a_nodes_the_services_ports_alone_are_steered() {
        let mut frontends = Frontends::default();
        frontends.put(&service(1, &["172.30.0.2", "10.0.0.1", "203.0.113.7"]));
        let steered = steered(&frontends);
        assert_eq!(steered.external, [ip("203.0.113.7")].into());
        let ports: Vec<_> = steered.external_ports.iter().map(ToString::to_string).collect();
        assert_eq!(ports, ["10.0.0.1 . 6 . 80", "172.30.0.2 . 6 . 80"]);
    }

    #[test]
    fn node_ports_are_served_at_chosen_addresses_only() {
        let steered = steered(&Frontends::default());
        assert_eq!(steered.own, ["10.0.0.1", "172.30.0.1"].map(ip).into());
        assert_eq!(steered.node_port_addresses, [ip("172.30.0.1")].into());
    }
}
