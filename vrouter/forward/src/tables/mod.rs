//! What the router forwards by: the agent's master copy, and the immutable snapshots the workers read.

mod error;
mod fip;
mod frontends;
mod hits;
mod host;
mod lpm;
mod nodes;
mod peers;
mod policies;
mod policy;
mod pool;
mod prefix;
mod ruling;
mod sharded;
mod shared_map;
mod snapshot;
mod validate;
mod vrf;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use vrouter_objects::{
    FloatingIp, MemberId, NextHop, Object, ObjectKey, PolicyId, Route, RouteKey, RouterId, RoutingInstance,
    Vantage, VirtualRouter, Vmi, VmiId, VrfId,
};

pub use error::TableError;
pub(crate) use fip::{Client, FipEntry, Frontend};
pub use host::HostNetwork;
pub use policy::{DirectionUse, PolicyUse};
pub(crate) use policy::{InterfacePolicy, PolicyEntry};
pub(crate) use pool::{MemberEntry, PoolState};
pub(crate) use ruling::{Request, Ruled, Ruling};
pub use snapshot::{Epoch, Snapshot};
pub(crate) use snapshot::{PortEntry, RouterEntry};
pub(crate) use vrf::Vrf;

use hits::Hits;
use policies::PolicyChanges;

use crate::frame::{MAX_PORTS, PortId};

/// One change to the tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Hold this object, in place of any with the same key.
    Put(Object),
    /// Hold no object with this key.
    Remove(ObjectKey),
}

/// An object that is not held, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The object.
    pub key: ObjectKey,
    /// Why.
    pub reason: TableError,
}

/// The agent's master copy of a node's tables.
#[derive(Debug)]
pub struct Tables {
    node: String,
    objects: BTreeMap<ObjectKey, Object>,
    /// Attached interfaces, whose host routes win over pushed ones.
    interfaces: BTreeMap<VmiId, (Vmi, PortId)>,
    local_routes: BTreeMap<RouteKey, VmiId>,
    /// The node's own place in the fabric, and the routes to its addresses.
    host: Option<HostNetwork>,
    host_routes: BTreeSet<RouteKey>,
    /// Where members are looked at from: this node and its zone.
    vantage: Option<(RouterId, String)>,
    /// What members count new flows by.
    hits: HashMap<MemberId, Hits>,
    policies: HashMap<PolicyId, Arc<PolicyEntry>>,
    policy_changes: PolicyChanges,
    working: Snapshot,
    published: Published,
}

impl Tables {
    /// Empty tables of the node with this name, whose snapshots' epochs go on from `last`: the epoch of the
    /// latest snapshot that any flow in the table may have been decided by.
    pub fn new(node: &str, last: Epoch) -> Self {
        Self {
            node: node.to_owned(),
            objects: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            local_routes: BTreeMap::new(),
            host: None,
            host_routes: BTreeSet::new(),
            vantage: None,
            hits: HashMap::new(),
            policies: HashMap::new(),
            policy_changes: PolicyChanges::default(),
            working: Snapshot::empty(last),
            published: Published::default(),
        }
    }

    /// Applies changes together and says what is not held after it. Removals come first, and objects before
    /// those that refer to them, so the order given does not matter. A refused object is not held, nor what
    /// it was to replace.
    pub fn apply(&mut self, changes: Vec<Change>) -> Vec<Refusal> {
        let mut puts = Vec::new();
        let mut nodes_change = false;
        for change in changes {
            match change {
                Change::Remove(key) => {
                    nodes_change |= matches!(key, ObjectKey::VirtualRouter(_));
                    self.remove(&key);
                }
                Change::Put(object) => {
                    nodes_change |= matches!(object, Object::VirtualRouter(_));
                    puts.push(object);
                }
            }
        }
        // What is replaced first gives up its address or VNI: another object of this version may take it
        // over.
        puts.iter().for_each(|object| self.vacate(object));
        let (nodes, mut others): (Vec<_>, Vec<_>) =
            puts.into_iter().partition(|object| matches!(object, Object::VirtualRouter(_)));
        others.sort_by_key(|object| object.key().kind());
        let mut refusals = Vec::new();
        nodes.into_iter().for_each(|object| refusals.extend(self.put(object)));
        // Once for all nodes of a version, and before services, whose members are looked at from among them.
        if nodes_change {
            self.settle_routers();
        }
        others.into_iter().for_each(|object| refusals.extend(self.put(object)));
        self.settle_policies();
        refusals
    }

    /// Says how large an inner IP packet fits into a tunnel: the underlay's MTU less 50 (IPv4) or 70 (IPv6)
    /// bytes. Until then it is 1450.
    pub fn set_tunnel_mtu(&mut self, mtu: u16) {
        self.working.set_tunnel_mtu(mtu);
    }

    /// Attaches an interface to a port: its addresses are reached through it from now on.
    pub fn attach(&mut self, vmi: Vmi, port: PortId) -> Result<(), TableError> {
        if usize::from(port.0) >= MAX_PORTS {
            return Err(TableError::PortRange(port.0));
        }
        if self.working.port(port).is_some_and(|entry| entry.vmi != vmi.id) {
            return Err(TableError::PortTaken(port.0));
        }
        match self.working.vrf(vmi.vrf) {
            None => return Err(TableError::UnknownVrf(vmi.vrf)),
            Some(vrf) if vrf.is_link_local() => return Err(TableError::LinkLocalVrf(vmi.vrf)),
            Some(_) => {}
        }
        let taken = host_routes(&vmi).find_map(|key| {
            let holder = self.local_routes.get(&key)?;
            (*holder != vmi.id).then_some((key.prefix.addr(), *holder))
        });
        if let Some((address, holder)) = taken {
            return Err(TableError::AddressTaken { address, holder });
        }
        let policy = self.policy_of(&vmi);
        // What it had before, it need not have now.
        self.detach(vmi.id);
        self.working.set_port(port, Some(Arc::new(PortEntry::new(&vmi, port, policy))));
        self.working.note_policy_change();
        for key in host_routes(&vmi) {
            self.local_routes.insert(key, vmi.id);
            self.settle_route(key);
        }
        self.interfaces.insert(vmi.id, (vmi, port));
        Ok(())
    }

    /// Detaches an interface; of an unknown one it is done already.
    pub fn detach(&mut self, vmi: VmiId) {
        let Some((vmi, port)) = self.interfaces.remove(&vmi) else { return };
        self.working.set_port(port, None);
        for key in host_routes(&vmi) {
            self.local_routes.remove(&key);
            self.settle_route(key);
        }
    }

    /// Says what the node's own place among the nodes is.
    pub fn set_host(&mut self, host: HostNetwork) {
        self.working.set_host(&host);
        self.host = Some(host);
        self.settle_node_addresses();
    }

    /// The node's own place among the nodes, as it was last said.
    pub fn host(&self) -> Option<&HostNetwork> {
        self.host.as_ref()
    }

    /// How many new flows a member got on this node.
    pub fn hits(&self, member: MemberId) -> u64 {
        self.hits.get(&member).map_or(0, Hits::get)
    }

    /// A snapshot of what is held now. What changed since the last one bears this epoch.
    ///
    /// # Panics
    /// If the epoch does not grow.
    pub fn publish(&mut self, epoch: Epoch) -> Arc<Snapshot> {
        self.published.add(self.working.publish(epoch))
    }

    /// Everything the controller pushed and that is held.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.objects.values()
    }

    /// The virtual networks.
    pub fn routing_instances(&self) -> impl Iterator<Item = &RoutingInstance> {
        self.objects().filter_map(|object| match object {
            Object::RoutingInstance(instance) => Some(instance),
            _ => None,
        })
    }

    /// The nodes.
    pub fn virtual_routers(&self) -> impl Iterator<Item = &VirtualRouter> {
        self.objects().filter_map(|object| match object {
            Object::VirtualRouter(router) => Some(router),
            _ => None,
        })
    }

    /// The service addresses.
    pub fn floating_ips(&self) -> impl Iterator<Item = &FloatingIp> {
        self.objects().filter_map(|object| match object {
            Object::FloatingIp(fip) => Some(fip),
            _ => None,
        })
    }

    /// The routes in force, those of local interfaces included.
    pub fn routes(&self) -> impl Iterator<Item = Route> {
        let local = self
            .local_routes
            .iter()
            .map(|(key, vmi)| Route { key: *key, next_hop: NextHop::Interface(*vmi) });
        let host = self.host_routes.iter().filter(|key| !self.local_routes.contains_key(key));
        let host = host.map(|key| Route { key: *key, next_hop: NextHop::Receive });
        let is_hidden =
            |key: &RouteKey| self.local_routes.contains_key(key) || self.host_routes.contains(key);
        let pushed = self.objects().filter_map(move |object| match object {
            Object::Route(route) if !is_hidden(&route.key) => Some(route.clone()),
            _ => None,
        });
        local.chain(host).chain(pushed)
    }

    /// Whether this very address has a route of its own, because some pod has it, here or elsewhere.
    pub fn has_host_route(&self, vrf: VrfId, address: IpAddr) -> bool {
        let key = host_route(vrf, address);
        self.local_routes.contains_key(&key) || self.objects.contains_key(&ObjectKey::Route(key))
    }

    /// The attached interfaces with their ports.
    pub fn interfaces(&self) -> impl Iterator<Item = (&Vmi, PortId)> {
        self.interfaces.values().map(|(vmi, port)| (vmi, *port))
    }

    /// Holds an object, or says why not.
    fn put(&mut self, object: Object) -> Option<Refusal> {
        let key = object.key();
        if let Err(reason) = self.validate(&object) {
            self.remove(&key);
            if let Object::FloatingIp(fip) = &object {
                self.forget_hits(members(fip));
            }
            return Some(Refusal { key, reason });
        }
        if self.objects.get(&key) == Some(&object) {
            return None;
        }
        let vrf_is_new = matches!(&object, Object::RoutingInstance(i) if self.working.vrf(i.id).is_none());
        match &object {
            Object::VirtualRouter(router) => self.working.put_router(router, router.name == self.node),
            Object::RoutingInstance(instance) => self.working.put_vrf(instance),
            Object::FloatingIp(fip) => self.put_fip(fip),
            // The agent itself deals with these.
            Object::Policy(_) | Object::PeerSet(_) | Object::PeerAddress(_) => {}
            Object::Route(_) | Object::AddressLease(_) | Object::PodBinding(_) => {}
        }
        self.objects.insert(key.clone(), object);
        match key {
            ObjectKey::Route(route) => self.settle_route(route),
            ObjectKey::RoutingInstance(vrf) if vrf_is_new => self.refill_vrf(vrf),
            ObjectKey::AddressLease(_) => self.settle_block_sources(),
            key => self.note_for_policies(&key),
        }
        None
    }

    fn put_fip(&mut self, fip: &FloatingIp) {
        let vantage = self
            .vantage
            .as_ref()
            .map_or(Vantage::default(), |(router, zone)| Vantage { router: Some(*router), zone });
        let hits = &mut self.hits;
        self.working.put_fip(fip, vantage, |member| hits.entry(member).or_default().clone());
    }

    /// Takes out of the way what this object is to replace.
    fn vacate(&mut self, object: &Object) {
        let key = object.key();
        if self.objects.get(&key).is_none_or(|held| held == object) {
            return;
        }
        match key {
            ObjectKey::VirtualRouter(_) | ObjectKey::FloatingIp(_) => {
                self.forget(&key);
                if let (Some(Object::FloatingIp(held)), Object::FloatingIp(fip)) =
                    (self.objects.remove(&key), object)
                {
                    let stays: BTreeSet<MemberId> = members(fip).collect();
                    self.forget_hits(members(&held).filter(|member| !stays.contains(member)));
                }
            }
            // Its routes and floating IPs stay.
            ObjectKey::RoutingInstance(vrf) => self.working.release_vni(vrf),
            ObjectKey::Policy(_) | ObjectKey::PeerSet(_) | ObjectKey::PeerAddress(_) => {}
            ObjectKey::Route(_) | ObjectKey::AddressLease(_) | ObjectKey::PodBinding(_) => {}
        }
    }

    /// Puts back into a network that came back what referred to it all the while.
    fn refill_vrf(&mut self, vrf: VrfId) {
        let local = self.local_routes.keys().copied();
        let pushed = self.objects.keys().filter_map(|key| match key {
            ObjectKey::Route(route) => Some(*route),
            _ => None,
        });
        let host = self.host_routes.iter().copied();
        let routes: Vec<RouteKey> = local.chain(host).chain(pushed).filter(|key| key.vrf == vrf).collect();
        for key in routes {
            self.settle_route(key);
        }
        let of_vrf = |fip: &&FloatingIp| fip.vrf == vrf || fip.external_vrf == vrf;
        let fips: Vec<FloatingIp> = self.floating_ips().filter(of_vrf).cloned().collect();
        fips.iter().for_each(|fip| self.put_fip(fip));
    }

    fn remove(&mut self, key: &ObjectKey) {
        self.forget(key);
        let removed = self.objects.remove(key);
        match removed {
            Some(Object::Route(route)) => self.settle_route(route.key),
            Some(Object::AddressLease(_)) => self.settle_block_sources(),
            Some(Object::FloatingIp(fip)) => self.forget_hits(members(&fip)),
            Some(_) => self.note_for_policies(key),
            None => {}
        }
    }

    /// Stops counting for members that are gone.
    fn forget_hits(&mut self, members: impl Iterator<Item = MemberId>) {
        members.for_each(|member| drop(self.hits.remove(&member)));
    }

    /// Takes an object out of the working snapshot. Routes are settled once it is out of the objects too.
    fn forget(&mut self, key: &ObjectKey) {
        match self.objects.get(key) {
            Some(Object::VirtualRouter(router)) => {
                let router = router.clone();
                self.working.remove_router(&router);
            }
            Some(Object::RoutingInstance(instance)) => {
                let id = instance.id;
                self.working.remove_vrf(id);
            }
            Some(Object::FloatingIp(fip)) => {
                let fip = fip.clone();
                self.working.remove_fip(&fip);
            }
            _ => {}
        }
    }

    /// Brings the working snapshot's route for a prefix to what counts: a local interface's, else the node's own,
    /// else the pushed one.
    fn settle_route(&mut self, key: RouteKey) {
        let pushed = || match self.objects.get(&ObjectKey::Route(key)) {
            Some(Object::Route(route)) => Some(route.next_hop.clone()),
            _ => None,
        };
        let host = || self.host_routes.contains(&key).then_some(NextHop::Receive);
        let local = self.local_routes.get(&key).map(|vmi| NextHop::Interface(*vmi));
        let next_hop = local.or_else(host).or_else(pushed);
        self.working.set_route(key, next_hop);
    }
}

/// The snapshots that somebody may still use. Whoever lets go of one last frees what it alone has, so that is
/// left to the agent, not to a worker in the middle of a burst.
#[derive(Debug, Default)]
struct Published(Vec<Arc<Snapshot>>);

impl Published {
    /// Keeps a new one and frees those before it that nobody uses any more.
    fn add(&mut self, snapshot: Arc<Snapshot>) -> Arc<Snapshot> {
        self.0.retain(|held| Arc::strong_count(held) > 1);
        self.0.push(Arc::clone(&snapshot));
        snapshot
    }
}

/// All members of a floating IP.
fn members(fip: &FloatingIp) -> impl Iterator<Item = MemberId> {
    fip.listeners.iter().flat_map(|listener| &listener.members).map(|member| member.id)
}

/// The keys of the routes to an interface.
fn host_routes(vmi: &Vmi) -> impl Iterator<Item = RouteKey> {
    let own = vmi.addresses.iter().map(|address| host_route(vmi.vrf, *address));
    let link_local = vmi.link_local.iter();
    own.chain(link_local.flat_map(|own| own.addresses.iter().map(|address| host_route(own.vrf, *address))))
}

/// The key of the route to one address alone.
fn host_route(vrf: VrfId, address: IpAddr) -> RouteKey {
    RouteKey { vrf, prefix: address.into() }
}

#[cfg(test)]
mod tests;
