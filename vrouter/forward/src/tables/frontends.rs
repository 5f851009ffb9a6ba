//! The protocols and ports in a network that lead to services.

use std::sync::Arc;

use vrouter_objects::{FloatingIp, IpProtocol};

use super::fip::{FipEntry, Frontend, FrontendKind, ServicePort};
use super::sharded::Sharded;
use super::shared_map::{Key, fold};
use crate::address::{Address, Family};

/// Of one network. Copies share what did not change.
#[derive(Debug, Clone)]
pub(super) struct Frontends {
    addresses: Sharded<Address, Arc<VipEntry>>,
    node_ports: Sharded<NodePort, Frontend>,
    /// How many there are of both: most networks have none, and need not look.
    used: usize,
}

/// A service address. Several services may have parts of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct VipEntry {
    /// In order of protocol and port.
    ports: Vec<(ServicePort, Frontend)>,
}

/// A port at the nodes' addresses of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NodePort {
    family: Family,
    protocol: IpProtocol,
    port: u16,
}

impl Key for NodePort {
    #[inline]
    fn hash(self) -> u64 {
        let family = match self.family {
            Family::V4 => 4,
            Family::V6 => 6,
        };
        fold(u64::from(self.port) << 16 | u64::from(self.protocol.0) << 8 | family, 1)
    }
}

/// A place where a floating IP is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A protocol and port of an address.
    Address(Address, ServicePort),
    /// One of the nodes' addresses of a family.
    Nodes(Family, ServicePort),
}

/// Where a floating IP is found in the network of its cluster address, each with its listener's number.
pub(super) fn cluster_places(fip: &FloatingIp) -> impl Iterator<Item = (Place, FrontendKind, usize)> {
    let address = Address::from(fip.address);
    ports(fip).map(move |(number, port)| (Place::Address(address, port), FrontendKind::ClusterIp, number))
}

/// Where it is found in the network of the nodes.
pub(super) fn external_places(fip: &FloatingIp) -> impl Iterator<Item = (Place, FrontendKind, usize)> {
    let addresses = fip.external.iter().flat_map(move |external| {
        let (address, kind) = (Address::from(external.address), FrontendKind::External(external.kind));
        ports(fip).map(move |(number, port)| (Place::Address(address, port), kind, number))
    });
    let family = Address::from(fip.address).family();
    let node_ports = fip.listeners.iter().enumerate().filter_map(move |(number, listener)| {
        let port = (listener.protocol.into(), listener.node_port?.get());
        Some((Place::Nodes(family, port), FrontendKind::NodePort, number))
    });
    addresses.chain(node_ports)
}

fn ports(fip: &FloatingIp) -> impl Iterator<Item = (usize, ServicePort)> {
    let port = |(number, listener): (usize, &vrouter_objects::Listener)| {
        (number, (listener.protocol.into(), listener.port.get()))
    };
    fip.listeners.iter().enumerate().map(port)
}

impl VipEntry {
    /// What a protocol and port of it leads to.
    #[inline]
    pub(crate) fn frontend(&self, protocol: IpProtocol, port: u16) -> Option<&Frontend> {
        let position = self.ports.binary_search_by_key(&(protocol, port), |(key, _)| *key).ok()?;
        Some(&self.ports[position].1)
    }

    fn put(&mut self, port: ServicePort, frontend: Frontend) {
        match self.ports.binary_search_by_key(&port, |(key, _)| *key) {
            Ok(position) => self.ports[position].1 = frontend,
            Err(position) => self.ports.insert(position, (port, frontend)),
        }
    }

    fn remove(&mut self, port: ServicePort) {
        if let Ok(position) = self.ports.binary_search_by_key(&port, |(key, _)| *key) {
            self.ports.remove(position);
        }
    }
}

impl Frontends {
    pub(super) fn new() -> Self {
        Self { addresses: Sharded::new(), node_ports: Sharded::new(), used: 0 }
    }

    /// The service address that this is.
    #[inline]
    pub(super) fn vip(&self, address: Address) -> Option<&VipEntry> {
        self.addresses.get(address).map(Arc::as_ref)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// What a port at the nodes' addresses leads to.
    #[inline]
    pub(super) fn node_port(&self, family: Family, protocol: IpProtocol, port: u16) -> Option<&Frontend> {
        self.node_ports.get(NodePort { family, protocol, port })
    }

    /// Whose a place is.
    pub(super) fn at(&self, place: Place) -> Option<&Frontend> {
        match place {
            Place::Address(address, (protocol, port)) => self.vip(address)?.frontend(protocol, port),
            Place::Nodes(family, (protocol, port)) => self.node_port(family, protocol, port),
        }
    }

    pub(super) fn put(
        &mut self,
        fip: &Arc<FipEntry>,
        places: impl Iterator<Item = (Place, FrontendKind, usize)>,
    ) {
        for (place, kind, listener) in places {
            let frontend = Frontend::new(fip, kind, listener);
            match place {
                Place::Address(address, port) => {
                    let mut vip = self.take(address);
                    Arc::make_mut(&mut vip).put(port, frontend);
                    self.give_back(address, vip);
                }
                Place::Nodes(family, (protocol, port)) => {
                    let before = self.node_ports.insert(NodePort { family, protocol, port }, frontend);
                    self.used += usize::from(before.is_none());
                }
            }
        }
    }

    pub(super) fn remove(&mut self, places: impl Iterator<Item = (Place, FrontendKind, usize)>) {
        for (place, ..) in places {
            match place {
                Place::Address(address, port) => {
                    let mut vip = self.take(address);
                    Arc::make_mut(&mut vip).remove(port);
                    self.give_back(address, vip);
                }
                Place::Nodes(family, (protocol, port)) => {
                    let removed = self.node_ports.remove(NodePort { family, protocol, port });
                    self.used -= usize::from(removed.is_some());
                }
            }
        }
    }

    /// Takes an address out, to be given back changed.
    fn take(&mut self, address: Address) -> Arc<VipEntry> {
        let taken = self.addresses.remove(address);
        self.used -= usize::from(taken.is_some());
        taken.unwrap_or_default()
    }

    /// Puts an address back, unless nothing is left at it.
    fn give_back(&mut self, address: Address, vip: Arc<VipEntry>) {
        if !vip.ports.is_empty() {
            self.addresses.insert(address, vip);
            self.used += 1;
        }
    }
}
