//! What each node holds, kept as layers, and what changed in them.
//!
//! Most objects are the same on every node, so they are held once: a node's table is the layers it takes part in, one
//! over the other. The node's own layer is on top.

mod address;
mod node;
mod pod;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use vrouter_objects::{NextHop, Object, ObjectKey, Route, RouteKey, RoutingInstance, Subnet, VrfId};

use crate::NamespacedName;
use crate::config::{ModelConfig, VirtualNetwork};
use crate::contrail::LoadBalancer;

pub use address::host_route;
pub use node::node_objects;
pub use pod::{Refusal, binding, grant};

/// A part of the tables that some nodes hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// The nodes themselves: every node holds it.
    Fabric,
    /// One network: nodes with an interface in it hold it, and those with an interface in a network that reaches it.
    Network(VrfId),
    /// What one node alone holds. It hides what the other layers say under the same key.
    Node(String),
}

/// One object of one layer is now this, or gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The layer.
    pub layer: Layer,
    /// The object's key.
    pub key: ObjectKey,
    /// The object; `None`: it is gone.
    pub object: Option<Arc<Object>>,
}

/// What is computed as a whole, and replaced as a whole. No two units make the same object of the same layer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// The networks.
    Networks,
    /// A node.
    Node(String),
    /// A pod.
    Pod(NamespacedName),
    /// A pod address.
    Address(IpAddr),
    /// A service.
    Service(NamespacedName),
}

/// Objects that a unit makes, each with the layer it belongs to.
pub type Placed = Vec<(Layer, Object)>;

/// All layers, by who made what.
#[derive(Debug, Default)]
pub struct Tables {
    units: BTreeMap<Unit, BTreeMap<(Layer, ObjectKey), Arc<Object>>>,
    changes: BTreeMap<(Layer, ObjectKey), Option<Arc<Object>>>,
}

impl Tables {
    /// The unit makes these objects now, and no others.
    pub fn replace(&mut self, unit: Unit, objects: Placed) {
        let old = self.units.remove(&unit).unwrap_or_default();
        let mut new = BTreeMap::new();
        for (layer, object) in objects {
            let place = (layer, object.key());
            let object = match old.get(&place) {
                Some(known) if **known == object => known.clone(),
                _ => {
                    let object = Arc::new(object);
                    self.changes.insert(place.clone(), Some(object.clone()));
                    object
                }
            };
            new.insert(place, object);
        }
        for place in old.into_keys().filter(|place| !new.contains_key(place)) {
            self.changes.insert(place, None);
        }
        if !new.is_empty() {
            self.units.insert(unit, new);
        }
    }

    /// What changed since this was last asked.
    pub fn take_changes(&mut self) -> Vec<Change> {
        let changes = std::mem::take(&mut self.changes);
        changes.into_iter().map(|((layer, key), object)| Change { layer, key, object }).collect()
    }

    /// Whether something changed since changes were last taken.
    pub fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Everything there is.
    pub fn iter(&self) -> impl Iterator<Item = (&Layer, &Arc<Object>)> {
        self.units.values().flatten().map(|((layer, _), object)| (layer, object))
    }
}

/// The objects of the networks themselves.
pub fn network_objects(config: &ModelConfig) -> Placed {
    let mut placed = Placed::new();
    for network in config.networks() {
        placed.push((Layer::Network(network.vrf), Object::RoutingInstance(routing_instance(network))));
    }
    for &prefix in &config.services.prefixes {
        let translate = NextHop::VrfTranslate(config.services.vrf);
        placed.push(shared_route(config.pods.vrf, prefix, translate));
        // An address that is no service's: somebody must say so.
        placed.push(shared_route(config.services.vrf, prefix, NextHop::Reject));
    }
    placed
}

/// The objects of a load balancer.
pub fn load_balancer_objects(load_balancer: &LoadBalancer) -> Placed {
    let layer = Layer::Network(load_balancer.vrf);
    load_balancer.objects().map(|object| (layer.clone(), Object::FloatingIp(object))).collect()
}

fn routing_instance(network: &VirtualNetwork) -> RoutingInstance {
    let subnet = |&prefix| network.gateway(prefix).map(|gateway| Subnet { prefix, gateway });
    RoutingInstance {
        id: network.vrf,
        name: network.name.to_string(),
        vni: network.vni,
        subnets: network.prefixes.iter().filter_map(subnet).collect(),
    }
}

/// A route that all nodes of a network hold.
fn shared_route(vrf: VrfId, prefix: IpNet, next_hop: NextHop) -> (Layer, Object) {
    (Layer::Network(vrf), route(vrf, prefix, next_hop))
}

fn route(vrf: VrfId, prefix: IpNet, next_hop: NextHop) -> Object {
    Object::Route(Route { key: RouteKey { vrf, prefix }, next_hop })
}
