//! Which layers each node holds.
//!
//! Nobody keeps lists of that: a node holds whatever its objects refer to. Its pods' bindings name their network and the
//! policies that select them, a policy names peer sets, a network's routes and services lead into other networks; and every
//! node is in the fabric. What is the same for all that need a layer is worked out once per layer ([`Needs::bundle`]), and
//! counted per node, so that a change costs no more than what it changes.

mod needs;

use std::collections::{BTreeMap, BTreeSet};

use vrouter_objects::{Object, ObjectKey, VmiId, VrfId};

use crate::index::Attached;
use crate::multimap::Multimap;
use crate::tables::Layer;
use needs::{Need, Needs, Reason, needs_of};

/// A node holds a layer from now on, or no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterestChange {
    /// The node.
    pub node: String,
    /// The layer.
    pub layer: Layer,
    /// Which of the two.
    pub holding: Holding,
}

/// Whether a node holds a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holding {
    /// It did not, and does now.
    Held,
    /// It did, and does no more.
    Dropped,
}

/// Which layers each node holds beside its own.
#[derive(Debug, Default)]
pub struct Interest {
    needs: Needs,
    /// What comes with each layer that some node itself needs.
    bundles: BTreeMap<Layer, BTreeSet<Layer>>,
    /// Such layers, by what comes with them.
    bundled_with: Multimap<Layer, Layer>,
    /// Nodes, by the layers that they themselves need.
    needing: Multimap<Layer, String>,
    /// By node: each layer, with how many bundles it comes in.
    held: BTreeMap<String, BTreeMap<Layer, usize>>,
    changed: BTreeMap<(String, Layer), Holding>,
}

impl Interest {
    /// With these interfaces, and no objects yet.
    pub fn new<'a>(attached: impl IntoIterator<Item = &'a Attached>) -> Self {
        let mut interest = Self::default();
        for Attached { node, attachment, .. } in attached {
            interest.interface(node, attachment.vmi, Some(attachment.vrf));
        }
        interest
    }

    /// An object of a layer is now this, or gone.
    pub fn object(&mut self, layer: &Layer, key: &ObjectKey, object: Option<&Object>) {
        let needs = object.map(|object| needs_of(layer, object)).unwrap_or_default();
        self.needs.replace(Reason::Object(layer.clone(), key.clone()), needs);
    }

    /// An interface of a node is in this network now, or gone.
    pub fn interface(&mut self, node: &str, vmi: VmiId, network: Option<VrfId>) {
        let needs = network.map(|vrf| node_needs(node, Layer::Network(vrf)));
        self.needs.replace(Reason::Interface(node.to_owned(), vmi), needs.into_iter().collect());
    }

    /// A node takes part, whatever objects say.
    pub fn enlist(&mut self, node: &str) {
        let needs = BTreeSet::from([node_needs(node, Layer::Fabric)]);
        self.needs.replace(Reason::Node(node.to_owned()), needs);
    }

    /// A node takes part as far as objects say so.
    pub fn dismiss(&mut self, node: &str) {
        self.needs.replace(Reason::Node(node.to_owned()), BTreeSet::new());
    }

    /// The layers of a node, as they were last settled.
    pub fn of(&self, node: &str) -> impl Iterator<Item = &Layer> {
        self.held.get(node).into_iter().flat_map(BTreeMap::keys)
    }

    /// Whether something was recorded that the layers of nodes do not show yet.
    pub fn has_changes(&self) -> bool {
        self.needs.has_changes()
    }

    /// Brings the layers of all nodes up to date. Returns what they gained and lost.
    pub fn settle(&mut self) -> Vec<InterestChange> {
        let changed = self.needs.take_changes().into_iter();
        let (of_nodes, of_layers): (Vec<Need>, Vec<Need>) =
            changed.partition(|need| matches!(need.holder, Layer::Node(_)));
        let stale: BTreeSet<Layer> =
            of_layers.iter().flat_map(|need| self.bundled_with.get(&need.holder)).cloned().collect();
        for layer in stale {
            self.rebundle(&layer);
        }
        for need in of_nodes {
            let is_needed = self.needs.contains(&need);
            let Need { holder: Layer::Node(node), layer } = need else { continue };
            match (is_needed, self.needing.contains(&layer, &node)) {
                (true, false) => self.take_up(node, layer),
                (false, true) => self.give_up(node, layer),
                _ => {}
            }
        }
        let changed = std::mem::take(&mut self.changed).into_iter();
        changed.map(|((node, layer), holding)| InterestChange { node, layer, holding }).collect()
    }

    fn take_up(&mut self, node: String, layer: Layer) {
        let bundle = match self.bundles.get(&layer) {
            Some(bundle) => bundle.clone(),
            None => self.rebundle(&layer),
        };
        bundle.into_iter().for_each(|layer| self.hold(&node, layer));
        self.needing.insert(layer, node);
    }

    fn give_up(&mut self, node: String, layer: Layer) {
        self.needing.remove(&layer, &node);
        let is_needed = self.needing.get(&layer).next().is_some();
        let bundle = if is_needed { self.bundles.get(&layer).cloned() } else { self.unbundle(&layer) };
        bundle.into_iter().flatten().for_each(|layer| self.drop(&node, layer));
    }

    /// Works out anew what comes with a layer.
    fn rebundle(&mut self, layer: &Layer) -> BTreeSet<Layer> {
        let old = self.unbundle(layer).unwrap_or_default();
        let new = self.needs.bundle(layer);
        for member in &new {
            self.bundled_with.insert(member.clone(), layer.clone());
        }
        let nodes: Vec<String> = self.needing.get(layer).cloned().collect();
        for node in nodes {
            new.difference(&old).for_each(|member| self.hold(&node, member.clone()));
            old.difference(&new).for_each(|member| self.drop(&node, member.clone()));
        }
        self.bundles.insert(layer.clone(), new.clone());
        new
    }

    fn unbundle(&mut self, layer: &Layer) -> Option<BTreeSet<Layer>> {
        let bundle = self.bundles.remove(layer)?;
        for member in &bundle {
            self.bundled_with.remove(member, layer);
        }
        Some(bundle)
    }

    fn hold(&mut self, node: &str, layer: Layer) {
        let held = self.held.entry(node.to_owned()).or_default();
        let count = held.entry(layer.clone()).or_default();
        *count += 1;
        if *count == 1 {
            self.note(node, layer, Holding::Held);
        }
    }

    fn drop(&mut self, node: &str, layer: Layer) {
        let Some(held) = self.held.get_mut(node) else { return };
        let Some(count) = held.get_mut(&layer) else { return };
        *count -= 1;
        if *count == 0 {
            held.remove(&layer);
            if held.is_empty() {
                self.held.remove(node);
            }
            self.note(node, layer, Holding::Dropped);
        }
    }

    /// Gaining and losing take turns: of two at one time nothing is left.
    fn note(&mut self, node: &str, layer: Layer, holding: Holding) {
        let key = (node.to_owned(), layer);
        if self.changed.remove(&key).is_none() {
            self.changed.insert(key, holding);
        }
    }
}

fn node_needs(node: &str, layer: Layer) -> Need {
    Need { holder: Layer::Node(node.to_owned()), layer }
}

#[cfg(test)]
mod tests;
