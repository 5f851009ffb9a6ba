//! The immutable tables that workers read. A snapshot shares with the one before it all that did not change.

use std::sync::Arc;

use vrouter_objects::{
    FloatingIp, FloatingIpId, IpProtocol, MacAddress, MemberId, NetworkKind, NextHop, RouteKey, RouterId,
    RouterKind, RoutingInstance, Vantage, VirtualRouter, Vmi, VmiId, VmiKind, Vni, VrfId,
};

use super::fip::FipEntry;
use super::frontends::{self, Place};
use super::hits::Hits;
use super::host::{HostEntry, HostNetwork, NodeAddress};
use super::peers::PeerTable;
use super::policy::InterfacePolicy;
use super::shared_map::SharedMap;
use super::vrf::Vrf;
use crate::address::{Address, Family};
use crate::frame::PortId;

/// The number of a snapshot. It grows with each, also over restarts; what a flow was decided by is as old as
/// the epoch it was last checked at. None that is published is zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);

/// What is left of an Ethernet's 1500 bytes by an IPv4 underlay.
const DEFAULT_TUNNEL_MTU: u16 = 1450;

/// Everything a packet is forwarded by, at one time.
#[derive(Debug, Clone)]
pub struct Snapshot {
    epoch: Epoch,
    tunnel_mtu: u16,
    own: Option<RouterEntry>,
    routers: SharedMap<RouterId, RouterEntry>,
    vteps: SharedMap<Address, RouterId>,
    vrfs: SharedMap<VrfId, Arc<Vrf>>,
    vnis: SharedMap<Vni, VrfId>,
    ports: Arc<[Option<Arc<PortEntry>>]>,
    port_of: SharedMap<VmiId, Arc<PortEntry>>,
    host: Option<Arc<HostEntry>>,
    node_addresses: SharedMap<Address, NodeAddress>,
    /// When this node's own addresses last changed.
    own_addresses_generation: Epoch,
    /// The first address of this node's own block, by family: of IPv4, then IPv6.
    block_sources: [Option<Address>; 2],
    peers: PeerTable,
    /// When anything last changed that network policy decides by.
    policy_generation: Epoch,
    /// How many interfaces a policy governs.
    governed: usize,
}

/// A node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RouterEntry {
    pub(crate) id: RouterId,
    pub(crate) address: std::net::IpAddr,
    pub(crate) mac: MacAddress,
    pub(crate) kind: RouterKind,
}

/// A local port with its interface.
#[derive(Debug)]
pub(crate) struct PortEntry {
    pub(crate) port: PortId,
    pub(crate) vmi: VmiId,
    pub(crate) kind: VmiKind,
    pub(crate) vrf: VrfId,
    pub(crate) mac: MacAddress,
    pub(crate) mtu: u16,
    pub(crate) addresses: Box<[Address]>,
    /// What governs it; `None`: no policy does.
    pub(crate) policy: Option<Arc<InterfacePolicy>>,
}

impl PortEntry {
    pub(super) fn new(vmi: &Vmi, port: PortId, policy: Option<Arc<InterfacePolicy>>) -> Self {
        Self {
            port,
            vmi: vmi.id,
            kind: vmi.kind,
            vrf: vmi.vrf,
            mac: vmi.mac,
            mtu: vmi.mtu,
            addresses: vmi.addresses.iter().map(|address| (*address).into()).collect(),
            policy,
        }
    }
}

impl Snapshot {
    pub(super) fn empty(epoch: Epoch) -> Self {
        Self {
            epoch,
            tunnel_mtu: DEFAULT_TUNNEL_MTU,
            own: None,
            routers: SharedMap::default(),
            vteps: SharedMap::default(),
            vrfs: SharedMap::default(),
            vnis: SharedMap::default(),
            ports: Arc::default(),
            port_of: SharedMap::default(),
            host: None,
            node_addresses: SharedMap::default(),
            own_addresses_generation: epoch,
            block_sources: [None; 2],
            peers: PeerTable::new(),
            policy_generation: epoch,
            governed: 0,
        }
    }

    /// Its number.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The largest IP packet that a tunnel takes, in bytes.
    #[inline]
    pub(crate) fn tunnel_mtu(&self) -> u16 {
        self.tunnel_mtu
    }

    pub(super) fn set_tunnel_mtu(&mut self, mtu: u16) {
        self.tunnel_mtu = mtu;
    }

    /// This node itself.
    #[inline]
    pub(crate) fn own(&self) -> Option<&RouterEntry> {
        self.own.as_ref()
    }

    #[inline]
    pub(crate) fn router(&self, id: RouterId) -> Option<&RouterEntry> {
        self.routers.get(id)
    }

    #[inline]
    pub(crate) fn router_at(&self, address: Address) -> Option<RouterId> {
        self.vteps.get(address).copied()
    }

    #[inline]
    pub(crate) fn vrf(&self, id: VrfId) -> Option<&Vrf> {
        self.vrfs.get(id).map(Arc::as_ref)
    }

    #[inline]
    pub(crate) fn vrf_of_vni(&self, vni: Vni) -> Option<VrfId> {
        self.vnis.get(vni).copied()
    }

    #[inline]
    pub(crate) fn port(&self, port: PortId) -> Option<&PortEntry> {
        self.ports.get(usize::from(port.0))?.as_deref()
    }

    #[inline]
    pub(crate) fn port_of(&self, vmi: VmiId) -> Option<&PortEntry> {
        self.port_of.get(vmi).map(Arc::as_ref)
    }

    /// The node itself; `None`: it has no place in the fabric yet.
    #[inline]
    pub(crate) fn host(&self) -> Option<&HostEntry> {
        self.host.as_deref()
    }

    /// The network of the nodes; `None`: this one has no place in it yet.
    #[inline]
    pub(crate) fn fabric(&self) -> Option<VrfId> {
        self.host().map(|host| host.vrf)
    }

    /// Whether the nodes know a network's interfaces by their addresses.
    pub(crate) fn is_known_in_fabric(&self, network: VrfId) -> bool {
        self.fabric().is_none_or(|fabric| self.is_known_in(network, fabric))
    }

    /// What is known of an address, if it is a node's.
    #[inline]
    pub(crate) fn node_address(&self, address: Address) -> Option<NodeAddress> {
        self.node_addresses.get(address).copied()
    }

    /// Whether the address is this node's own.
    pub(crate) fn is_own_address(&self, address: Address) -> bool {
        self.node_address(address).is_some_and(|address| address.is_own)
    }

    /// Whether the address is a node's that pods speak to in their own name.
    pub(crate) fn knows_pods(&self, address: Address) -> bool {
        self.node_address(address).is_some_and(|address| address.knows_pods)
    }

    /// The first address of this node's own block of pod addresses, which no pod has.
    pub(crate) fn block_source(&self, family: Family) -> Option<&Address> {
        self.block_sources[family_number(family)].as_ref()
    }

    /// The floating IP at this protocol and port of an address of a network.
    pub fn fip_at(
        &self,
        vrf: VrfId,
        address: Address,
        protocol: IpProtocol,
        port: u16,
    ) -> Option<FloatingIpId> {
        self.vrf(vrf)?.vip(address)?.frontend(protocol, port).map(|frontend| frontend.fip.id)
    }

    /// The next hop of a network's longest route that matches the address.
    pub fn next_hop(&self, vrf: VrfId, address: Address) -> Option<&NextHop> {
        self.vrf(vrf)?.route(address)
    }

    /// Who is in which peer set.
    #[inline]
    pub(crate) fn peers(&self) -> &PeerTable {
        &self.peers
    }

    pub(super) fn peers_mut(&mut self) -> &mut PeerTable {
        self.note_policy_change();
        &mut self.peers
    }

    /// Whether anything that network policy decides by has changed since an epoch.
    #[inline]
    pub(crate) fn has_policy_changed(&self, since: Epoch) -> bool {
        self.policy_generation > since
    }

    /// Whether any policy governs any interface of this node.
    #[inline]
    pub(crate) fn has_governed(&self) -> bool {
        self.governed > 0
    }

    pub(super) fn note_policy_change(&mut self) {
        self.policy_generation = self.coming();
    }

    /// Whether packets of a network's interfaces may bear their own addresses in another network: answers find back.
    #[inline]
    pub(crate) fn is_known_in(&self, network: VrfId, other: VrfId) -> bool {
        network == other || self.vrf(network).is_some_and(|vrf| vrf.known_in.contains(&other))
    }

    /// The network whose addresses a network's interfaces have.
    pub(crate) fn address_space(&self, network: VrfId) -> Option<VrfId> {
        self.vrf(network).map(|vrf| vrf.address_space)
    }

    /// The epoch that changes since the last publication will bear.
    pub(super) fn coming(&self) -> Epoch {
        Epoch(self.epoch.0 + 1)
    }

    pub(super) fn publish(&mut self, epoch: Epoch) -> Arc<Self> {
        assert!(epoch > self.epoch, "epoch {} after {}", epoch.0, self.epoch.0);
        self.epoch = epoch;
        Arc::new(self.clone())
    }

    pub(super) fn put_router(&mut self, router: &VirtualRouter, is_own: bool) {
        let entry =
            RouterEntry { id: router.id, address: router.address, mac: router.mac, kind: router.kind };
        if is_own {
            self.own = Some(entry);
        }
        self.vteps.insert(router.address.into(), router.id);
        self.routers.insert(router.id, entry);
    }

    pub(super) fn remove_router(&mut self, router: &VirtualRouter) {
        self.routers.remove(router.id);
        self.vteps.remove(router.address.into());
        self.own.take_if(|own| own.id == router.id);
    }

    pub(super) fn put_vrf(&mut self, instance: &RoutingInstance) {
        self.release_vni(instance.id);
        // Nothing comes into that of link-local addresses from another node.
        if instance.kind != NetworkKind::LinkLocal {
            self.vnis.insert(instance.vni, instance.id);
        }
        match self.vrf_mut(instance.id) {
            Some(vrf) => vrf.describe(instance),
            None => drop(self.vrfs.insert(instance.id, Arc::new(Vrf::new(instance)))),
        }
    }

    /// Leaves a network without its VNI until it is put again.
    pub(super) fn release_vni(&mut self, id: VrfId) {
        let Some(vni) = self.vrf(id).map(|vrf| vrf.vni) else { return };
        // Another may have taken it over since.
        if self.vrf_of_vni(vni) == Some(id) {
            self.vnis.remove(vni);
        }
    }

    /// Takes a network out, with its routes and floating IPs.
    pub(super) fn remove_vrf(&mut self, id: VrfId) {
        self.release_vni(id);
        self.vrfs.remove(id);
    }

    fn vrf_mut(&mut self, id: VrfId) -> Option<&mut Vrf> {
        self.vrfs.get_mut(id).map(Arc::make_mut)
    }

    /// Puts a floating IP where it is found. What stands there is its own of before, or nobody's.
    pub(super) fn put_fip(
        &mut self,
        fip: &FloatingIp,
        vantage: Vantage<'_>,
        hits: impl FnMut(MemberId) -> Hits,
    ) {
        let entry = Arc::new(FipEntry::new(fip, self.coming(), vantage, hits));
        if let Some(vrf) = self.vrf_mut(fip.vrf) {
            vrf.frontends.put(&entry, frontends::cluster_places(fip));
        }
        if let Some(vrf) = self.vrf_mut(fip.external_vrf) {
            vrf.frontends.put(&entry, frontends::external_places(fip));
        }
    }

    pub(super) fn remove_fip(&mut self, fip: &FloatingIp) {
        if let Some(vrf) = self.vrf_mut(fip.vrf) {
            vrf.frontends.remove(frontends::cluster_places(fip));
        }
        if let Some(vrf) = self.vrf_mut(fip.external_vrf) {
            vrf.frontends.remove(frontends::external_places(fip));
        }
    }

    /// Whoever else is found where this floating IP is to be.
    pub(super) fn in_the_way_of(&self, fip: &FloatingIp) -> Option<(Place, FloatingIpId)> {
        let holder = |vrf: VrfId, place: Place| {
            let held = self.vrf(vrf)?.frontends.at(place)?.fip.id;
            (held != fip.id).then_some((place, held))
        };
        let mut cluster = frontends::cluster_places(fip);
        let mut external = frontends::external_places(fip);
        cluster
            .find_map(|(place, ..)| holder(fip.vrf, place))
            .or_else(|| external.find_map(|(place, ..)| holder(fip.external_vrf, place)))
    }

    pub(super) fn set_host(&mut self, host: &HostNetwork) {
        self.host = Some(Arc::new(HostEntry::new(host)));
    }

    /// The gateway that an interface with this address has in a network.
    pub(crate) fn gateway_for(&self, vrf: VrfId, address: Address) -> Option<&Address> {
        self.vrf(vrf)?.gateway_for(address)
    }

    /// Whether this node's own addresses have changed since an epoch.
    pub(crate) fn have_own_addresses_changed(&self, since: Epoch) -> bool {
        self.own_addresses_generation > since
    }

    /// Notes that this node's own addresses have changed: whom its pods speak with may be itself no more.
    pub(super) fn note_own_addresses(&mut self) {
        self.own_addresses_generation = self.coming();
        self.note_policy_change();
    }

    /// Makes these the nodes' addresses.
    pub(super) fn set_node_addresses(&mut self, addresses: impl Iterator<Item = (Address, NodeAddress)>) {
        let mut known = SharedMap::default();
        for (address, of) in addresses {
            known.insert(address, of);
        }
        self.node_addresses = known;
    }

    pub(super) fn set_block_source(&mut self, family: Family, source: Option<Address>) {
        self.block_sources[family_number(family)] = source;
    }

    pub(super) fn set_route(&mut self, key: RouteKey, next_hop: Option<NextHop>) {
        let Some(vrf) = self.vrf_mut(key.vrf) else { return };
        match next_hop {
            Some(next_hop) if vrf.routes.exact(key.prefix) == Some(&next_hop) => {}
            Some(next_hop) => vrf.routes.insert(key.prefix, next_hop),
            None => vrf.routes.remove(key.prefix),
        }
    }

    pub(super) fn set_port(&mut self, port: PortId, entry: Option<Arc<PortEntry>>) {
        let row = usize::from(port.0);
        if self.ports.len() <= row {
            let free = (self.ports.len()..=row).map(|_| None);
            self.ports = self.ports.iter().cloned().chain(free).collect();
        }
        let held = &mut Arc::make_mut(&mut self.ports)[row];
        if let Some(old) = held.take() {
            self.governed -= usize::from(old.policy.is_some());
            self.port_of.remove(old.vmi);
        }
        if let Some(new) = &entry {
            self.governed += usize::from(new.policy.is_some());
            self.port_of.insert(new.vmi, Arc::clone(new));
        }
        *held = entry;
    }
}

fn family_number(family: Family) -> usize {
    match family {
        Family::V4 => 0,
        Family::V6 => 1,
    }
}
