//! Which layers need which others, and why.

use std::collections::{BTreeMap, BTreeSet};

use vrouter_objects::{
    FloatingIp, NetworkKind, NextHop, Object, ObjectKey, Peer, PeerSetId, Peers, Policy, PolicyDirection,
    RouterKind, VmiId, VrfId,
};

use crate::tables::Layer;

/// Whoever holds the one layer must hold the other too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    /// Who holds this
    pub holder: Layer,
    /// needs this.
    pub layer: Layer,
}

/// What makes something needed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// An object of a layer.
    Object(Layer, ObjectKey),
    /// An interface that is up on a node.
    Interface(String, VmiId),
    /// A node that takes part.
    Node(String),
}

/// All needs, each for as long as there is a reason for it.
#[derive(Debug, Default)]
pub struct Needs {
    by_reason: BTreeMap<Reason, BTreeSet<Need>>,
    /// How many reasons there are for each, by holder and layer.
    counts: BTreeMap<Layer, BTreeMap<Layer, usize>>,
    /// Those that came or went since this was last asked.
    changed: BTreeSet<Need>,
}

impl Needs {
    /// These, and no others, have this reason now.
    pub fn replace(&mut self, reason: Reason, needs: BTreeSet<Need>) {
        let old = match needs.is_empty() {
            true => self.by_reason.remove(&reason),
            false => self.by_reason.insert(reason, needs.clone()),
        };
        let old = old.unwrap_or_default();
        needs.difference(&old).for_each(|need| self.add(need));
        old.difference(&needs).for_each(|need| self.remove(need));
    }

    /// Whether there is such a need.
    pub fn contains(&self, need: &Need) -> bool {
        self.counts.get(&need.holder).is_some_and(|layers| layers.contains_key(&need.layer))
    }

    /// A layer with all that it needs, and what that needs in turn.
    pub fn bundle(&self, layer: &Layer) -> BTreeSet<Layer> {
        let mut bundle = BTreeSet::from([layer.clone()]);
        let mut unseen = vec![layer];
        while let Some(next) = unseen.pop() {
            for needed in self.counts.get(next).into_iter().flat_map(BTreeMap::keys) {
                if bundle.insert(needed.clone()) {
                    unseen.push(needed);
                }
            }
        }
        bundle
    }

    /// Whether some came or went since changes were last taken.
    pub fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Those that may have come or gone since this was last asked.
    pub fn take_changes(&mut self) -> BTreeSet<Need> {
        std::mem::take(&mut self.changed)
    }

    fn add(&mut self, need: &Need) {
        let layers = self.counts.entry(need.holder.clone()).or_default();
        let count = layers.entry(need.layer.clone()).or_default();
        *count += 1;
        if *count == 1 {
            self.changed.insert(need.clone());
        }
    }

    fn remove(&mut self, need: &Need) {
        let Some(layers) = self.counts.get_mut(&need.holder) else { return };
        let Some(count) = layers.get_mut(&need.layer) else { return };
        *count -= 1;
        if *count == 0 {
            layers.remove(&need.layer);
            if layers.is_empty() {
                self.counts.remove(&need.holder);
            }
            self.changed.insert(need.clone());
        }
    }
}

/// What an object of a layer makes needed: a node holds whatever the objects that it holds refer to.
pub fn needs_of(layer: &Layer, object: &Object) -> BTreeSet<Need> {
    let of_layer = |needed| Need { holder: layer.clone(), layer: needed };
    match object {
        Object::PodBinding(binding) => {
            let policies = binding.policies.iter().map(|&policy| Layer::Policy(policy));
            policies.chain([Layer::Network(binding.vrf)]).map(of_layer).collect()
        }
        Object::Policy(policy) => peer_sets(policy).map(Layer::PeerSet).map(of_layer).collect(),
        Object::Route(route) => networks_behind(&route.next_hop).map(of_layer).collect(),
        Object::FloatingIp(floating_ip) => {
            let mut needs: BTreeSet<Need> = networks_of_members(floating_ip).map(of_layer).collect();
            if is_served_by_all(floating_ip) {
                needs.insert(Need { holder: Layer::Fabric, layer: layer.clone() });
            }
            needs
        }
        // All nodes are in the fabric.
        Object::RoutingInstance(network) if network.kind == NetworkKind::Fabric => {
            BTreeSet::from([Need { holder: Layer::Fabric, layer: layer.clone() }])
        }
        Object::VirtualRouter(router) if router.kind == RouterKind::Vrouter => {
            BTreeSet::from([Need { holder: Layer::Node(router.name.clone()), layer: Layer::Fabric }])
        }
        Object::RoutingInstance(_)
        | Object::VirtualRouter(_)
        | Object::AddressLease(_)
        | Object::PeerSet(_)
        | Object::PeerAddress(_) => BTreeSet::new(),
    }
}

fn peer_sets(policy: &Policy) -> impl Iterator<Item = PeerSetId> {
    let rules = PolicyDirection::BOTH.into_iter().filter_map(|direction| policy.rules(direction)).flatten();
    let peers = rules.filter_map(|rule| match &rule.peers {
        Peers::Any => None,
        Peers::These(peers) => Some(peers),
    });
    peers.flatten().filter_map(|peer| match peer {
        Peer::Set(set) => Some(*set),
        Peer::Block { .. } => None,
    })
}

fn networks_behind(next_hop: &NextHop) -> impl Iterator<Item = Layer> {
    let parts = match next_hop {
        NextHop::Composite(parts) => parts,
        single => std::slice::from_ref(single),
    };
    parts.iter().filter_map(|part| match part {
        NextHop::VrfTranslate(vrf) => Some(Layer::Network(*vrf)),
        _ => None,
    })
}

fn networks_of_members(floating_ip: &FloatingIp) -> impl Iterator<Item = Layer> {
    let members = floating_ip.listeners.iter().flat_map(|listener| &listener.members);
    members.map(|member| member.vrf).collect::<BTreeSet<VrfId>>().into_iter().map(Layer::Network)
}

/// Whether clients of any network find it at any node.
fn is_served_by_all(floating_ip: &FloatingIp) -> bool {
    !floating_ip.external.is_empty()
        || floating_ip.health_check_port.is_some()
        || floating_ip.listeners.iter().any(|listener| listener.node_port.is_some())
}
