//! What each node holds, kept as layers, and what changed in them.
//!
//! Most objects are the same on every node, so they are held once: a node's table is the layers it takes part in, one
//! over the other. The node's own layer is on top.

mod address;
mod network;
mod node;
mod pod;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use vrouter_objects::{NextHop, Object, ObjectKey, PeerSetId, PolicyId, Route, RouteKey, VrfId};

use crate::NamespacedName;
use crate::config::ModelConfig;
use crate::contrail::LoadBalancer;
use crate::kube::ObjectRef;

pub use address::host_routes;
pub use network::{known_in, network_objects};
pub use node::{NodePlace, node_objects};
pub use pod::{Refusal, binding, grant};

/// A part of the tables that some nodes hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// The nodes themselves: every node holds it.
    Fabric,
    /// One network: nodes with an interface in it hold it, and those with an interface in a network that reaches it.
    Network(VrfId),
    /// One policy: nodes with a pod that it selects hold it.
    Policy(PolicyId),
    /// One peer set with its addresses: nodes with a policy that refers to it hold it.
    PeerSet(PeerSetId),
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

/// What is computed as a whole, and replaced as a whole. Once all is settled, no two units make an object of one place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// A network.
    Network(VrfId),
    /// A node.
    Node(String),
    /// A pod.
    Pod(NamespacedName),
    /// A pod address.
    Address(IpAddr),
    /// A service.
    Service(NamespacedName),
    /// A policy.
    Policy(ObjectRef),
    /// A peer set, without those who are in it.
    PeerSet(PeerSetId),
    /// A pod as far as it is in a peer set.
    Peer(PeerSetId, NamespacedName),
}

/// Objects that a unit makes, each with the layer it belongs to.
pub type Placed = Vec<(Layer, Object)>;

/// Where an object is: keys are unique within a layer.
type Place = (Layer, ObjectKey);

/// All layers, with who made what.
#[derive(Debug, Default)]
pub struct Tables {
    objects: BTreeMap<Place, (Unit, Arc<Object>)>,
    places: BTreeMap<Unit, BTreeSet<Place>>,
    changed: BTreeSet<Place>,
}

impl Tables {
    /// The unit makes these objects now, and no others.
    pub fn replace(&mut self, unit: Unit, objects: Placed) {
        let old = self.places.remove(&unit).unwrap_or_default();
        let mut new = BTreeSet::new();
        for (layer, object) in objects {
            let place = (layer, object.key());
            match self.objects.get_mut(&place) {
                // A place may pass from one unit to another before the other has left it.
                Some((owner, known)) if **known == object => *owner = unit.clone(),
                _ => {
                    self.changed.insert(place.clone());
                    self.objects.insert(place.clone(), (unit.clone(), Arc::new(object)));
                }
            }
            new.insert(place);
        }
        for place in old.into_iter().filter(|place| !new.contains(place)) {
            if self.objects.get(&place).is_some_and(|(owner, _)| *owner == unit) {
                self.objects.remove(&place);
                self.changed.insert(place);
            }
        }
        if !new.is_empty() {
            self.places.insert(unit, new);
        }
    }

    /// What changed since this was last asked.
    pub fn take_changes(&mut self) -> Vec<Change> {
        let changed = std::mem::take(&mut self.changed).into_iter();
        let object = |place: &Place| self.objects.get(place).map(|(_, object)| object.clone());
        changed.map(|place| Change { object: object(&place), layer: place.0, key: place.1 }).collect()
    }

    /// Whether something changed since changes were last taken.
    pub fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The object of a layer that a key names.
    pub fn get(&self, layer: &Layer, key: &ObjectKey) -> Option<&Object> {
        self.objects.get(&(layer.clone(), key.clone())).map(|(_, object)| &**object)
    }

    /// Everything there is.
    pub fn iter(&self) -> impl Iterator<Item = (&Layer, &Arc<Object>)> {
        self.objects.iter().map(|((layer, _), (_, object))| (layer, object))
    }
}

/// The objects of a load balancer.
pub fn load_balancer_objects(config: &ModelConfig, load_balancer: &LoadBalancer) -> Placed {
    let layer = Layer::Network(load_balancer.networks.services);
    load_balancer.objects(config).map(|object| (layer.clone(), Object::FloatingIp(object))).collect()
}

/// A route that all nodes of a network hold.
fn shared_route(vrf: VrfId, prefix: IpNet, next_hop: NextHop) -> (Layer, Object) {
    (Layer::Network(vrf), route(vrf, prefix, next_hop))
}

fn route(vrf: VrfId, prefix: IpNet, next_hop: NextHop) -> Object {
    Object::Route(Route { key: RouteKey { vrf, prefix }, next_hop })
}
