//! What follows from who the nodes are, and where this one is among them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use vrouter_objects::{AddressLease, FloatingIp, Object, RouteKey, RouterKind};

use super::host::NodeAddress;
use super::{Tables, host_route};
use crate::address::{Address, Family};

impl Tables {
    /// Follows what changed about the nodes.
    pub(super) fn settle_routers(&mut self) {
        self.settle_node_addresses();
        let own = self.virtual_routers().find(|router| router.name == self.node);
        let vantage = own.map(|own| (own.id, own.zone.clone()));
        if vantage != self.vantage {
            self.vantage = vantage;
            // Which members are near has changed.
            let fips: Vec<FloatingIp> = self.floating_ips().cloned().collect();
            fips.iter().for_each(|fip| self.put_fip(fip));
        }
    }

    /// Brings the nodes' addresses, and the routes to the own ones, to what is known of them.
    pub(super) fn settle_node_addresses(&mut self) {
        let Some(host) = &self.host else { return };
        let described = |address: &IpAddr, is_own, knows_pods| {
            let serves_node_ports = host.serves_node_ports_at(*address);
            (*address, NodeAddress { is_own, serves_node_ports, knows_pods })
        };
        let of_routers = self.virtual_routers().flat_map(|router| {
            let (is_own, knows_pods) = (router.name == self.node, router.kind == RouterKind::Vrouter);
            router.addresses.iter().map(move |address| described(address, is_own, knows_pods))
        });
        let own = host.addresses.iter().map(|address| described(address, true, true));
        // What the node says of itself comes last, and counts.
        let addresses: Vec<(IpAddr, NodeAddress)> = of_routers.chain(own).collect();
        let vrf = host.vrf;
        self.working
            .set_node_addresses(addresses.iter().map(|(address, node)| (Address::from(*address), *node)));
        let own = addresses.into_iter().filter(|(_, node)| node.is_own);
        let routes: BTreeSet<RouteKey> = own.map(|(address, _)| host_route(vrf, address)).collect();
        let changed: Vec<RouteKey> = routes.symmetric_difference(&self.host_routes).copied().collect();
        self.host_routes = routes;
        if !changed.is_empty() {
            self.working.note_own_addresses();
        }
        changed.into_iter().for_each(|key| self.settle_route(key));
    }

    /// The first address of the node's first block of a family has no pod.
    pub(super) fn settle_block_sources(&mut self) {
        for family in [Family::V4, Family::V6] {
            let of_family = |lease: &&AddressLease| Address::from(lease.prefix.addr()).family() == family;
            let leases = self.objects.values().filter_map(|object| match object {
                Object::AddressLease(lease) => Some(lease),
                _ => None,
            });
            let first = leases.filter(of_family).map(|lease| lease.prefix.network().into()).next();
            self.working.set_block_source(family, first);
        }
    }
}
