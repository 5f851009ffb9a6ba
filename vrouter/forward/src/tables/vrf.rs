//! A virtual network's table, as the data path reads it.

use vrouter_objects::{IpProtocol, NetworkKind, NextHop, RoutingInstance, Subnet, Vni, VrfId};

use super::fip::Frontend;
use super::frontends::{Frontends, VipEntry};
use super::lpm::RouteTable;
use super::prefix::MaskedPrefix;
use crate::address::{Address, Family};

/// A virtual network's table.
#[derive(Debug, Clone)]
pub(crate) struct Vrf {
    kind: NetworkKind,
    pub(crate) vni: Vni,
    /// The network whose addresses its interfaces have.
    pub(crate) address_space: VrfId,
    /// The other networks in which its interfaces are known by these.
    pub(super) known_in: Box<[VrfId]>,
    subnets: Box<[Subnet]>,
    /// The subnets, to be compared with quickly.
    inside: Box<[MaskedPrefix]>,
    /// The subnets' gateways, in their order.
    gateways: Box<[Address]>,
    pub(super) routes: RouteTable,
    pub(super) frontends: Frontends,
}

impl Vrf {
    /// Without routes and floating IPs.
    pub(super) fn new(instance: &RoutingInstance) -> Self {
        let mut vrf = Self {
            kind: instance.kind,
            vni: instance.vni,
            address_space: instance.address_space,
            known_in: Box::default(),
            subnets: Box::default(),
            inside: Box::default(),
            gateways: Box::default(),
            routes: RouteTable::new(),
            frontends: Frontends::new(),
        };
        vrf.describe(instance);
        vrf
    }

    pub(super) fn describe(&mut self, instance: &RoutingInstance) {
        self.kind = instance.kind;
        self.vni = instance.vni;
        self.address_space = instance.address_space;
        self.known_in = instance.known_in.as_slice().into();
        self.subnets = instance.subnets.as_slice().into();
        self.inside = instance.subnets.iter().map(|subnet| MaskedPrefix::new(subnet.prefix)).collect();
        self.gateways = instance.subnets.iter().map(|subnet| subnet.gateway.into()).collect();
    }

    /// Whether its addresses are this node's own names for its interfaces, which are in other networks.
    #[inline]
    pub(crate) fn is_link_local(&self) -> bool {
        self.kind == NetworkKind::LinkLocal
    }

    /// The service address that this is.
    #[inline]
    pub(crate) fn vip(&self, address: Address) -> Option<&VipEntry> {
        self.frontends.vip(address)
    }

    /// Whether anything in this network leads to services.
    #[inline]
    pub(crate) fn has_frontends(&self) -> bool {
        !self.frontends.is_empty()
    }

    /// What a port at the nodes' addresses leads to.
    #[inline]
    pub(crate) fn node_port(&self, family: Family, protocol: IpProtocol, port: u16) -> Option<&Frontend> {
        self.frontends.node_port(family, protocol, port)
    }

    /// Whether the address lies in one of the network's subnets.
    #[inline]
    pub(crate) fn is_inside(&self, address: Address) -> bool {
        self.inside.iter().any(|prefix| prefix.contains(address))
    }

    /// The subnets as masks, those of one family.
    pub(crate) fn inside(&self, family: Family) -> impl Iterator<Item = &MaskedPrefix> {
        self.inside.iter().filter(move |prefix| prefix.family() == family)
    }

    /// The next hop of the longest matching route.
    #[inline]
    pub(crate) fn route(&self, address: Address) -> Option<&NextHop> {
        self.routes.lookup(address)
    }

    /// Whether the address is a gateway of this network.
    #[inline]
    pub(crate) fn is_gateway(&self, address: Address) -> bool {
        self.gateways.contains(&address)
    }

    /// The gateway a host with this address has.
    pub(crate) fn gateway_for(&self, address: Address) -> Option<&Address> {
        let ip = std::net::IpAddr::from(address);
        let own = self.subnets.iter().position(|subnet| subnet.prefix.contains(&ip));
        let any = || self.gateways.iter().position(|gateway| gateway.family() == address.family());
        own.or_else(any).map(|number| &self.gateways[number])
    }
}
