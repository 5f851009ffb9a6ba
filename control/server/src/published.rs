//! What was published: the layers of the tables, each object encoded once for all nodes, and which node holds which.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prost::Message;
use vrouter_control_model::{Change, Holding, InterestChange, Layer};
use vrouter_objects::{Object, ObjectKey};
use vrouter_proto::{Digest, object_digest, v1};

/// An object as it travels.
#[derive(Debug)]
pub struct Encoded {
    /// The layer that it is in.
    layer: Layer,
    /// What names it.
    pub key: ObjectKey,
    /// The message.
    pub message: v1::Object,
    /// Its hash.
    pub digest: u128,
    /// The size of the message in bytes.
    pub bytes: usize,
}

impl Encoded {
    fn new(layer: Layer, object: &Object) -> Self {
        let message = v1::Object::from(object);
        let (digest, bytes) = (object_digest(&message), message.encoded_len());
        Self { layer, key: object.key(), message, digest, bytes }
    }
}

/// All layers, and all nodes' tables.
///
/// A table is kept as the layers that make it up. Nothing but its digest is computed ahead, so a change costs one addition per
/// table that shows it.
#[derive(Debug, Default)]
pub struct Published {
    /// What the layers hold that several nodes may. An object's key is in one of them alone.
    shared: BTreeMap<ObjectKey, Arc<Encoded>>,
    layers: BTreeMap<Layer, SharedLayer>,
    tables: BTreeMap<String, NodeTable>,
}

/// A layer that several nodes may hold.
#[derive(Debug, Default)]
struct SharedLayer {
    keys: BTreeSet<ObjectKey>,
    holders: BTreeSet<String>,
}

/// What one node is to hold.
#[derive(Debug, Default)]
struct NodeTable {
    layers: BTreeSet<Layer>,
    /// Its own layer, which hides what the others say under the same key.
    own: BTreeMap<ObjectKey, Arc<Encoded>>,
    /// Over all that it shows.
    digest: Digest,
}

/// Whose table shows something else, and under which key.
pub type Touched<'a> = &'a mut dyn FnMut(&str, &ObjectKey);

impl Published {
    /// Takes a change of an object over.
    pub fn apply(&mut self, change: Change, touched: Touched<'_>) {
        let Change { layer, key, object } = change;
        let object = object.map(|object| Arc::new(Encoded::new(layer.clone(), &object)));
        match (layer, object) {
            (Layer::Node(node), object) => self.replace_own(node, key, object, touched),
            (layer, None) => self.withdraw(&layer, &key, touched),
            (_, Some(object)) => self.share(object, touched),
        }
    }

    /// Takes over that a node holds a layer, or no more.
    pub fn hold(&mut self, change: InterestChange, touched: Touched<'_>) {
        let InterestChange { node, layer, holding } = change;
        let table = self.tables.entry(node.clone()).or_default();
        let shared = self.layers.entry(layer.clone()).or_default();
        match holding {
            Holding::Held => {
                table.layers.insert(layer.clone());
                shared.holders.insert(node.clone());
            }
            Holding::Dropped => {
                table.layers.remove(&layer);
                shared.holders.remove(&node);
            }
        }
        for object in shared.keys.iter().filter_map(|key| self.shared.get(key)) {
            if table.show(object, holding) {
                touched(&node, &object.key);
            }
        }
        self.forget_if_empty(&node);
        self.forget_layer_if_empty(&layer);
    }

    /// What a node is to hold; `None`: nobody knows such a node yet.
    pub fn view(&self, node: &str) -> Option<View<'_>> {
        let table = self.tables.get(node).filter(|table| table.layers.contains(&Layer::Fabric))?;
        Some(View { published: self, table })
    }

    fn replace_own(
        &mut self,
        node: String,
        key: ObjectKey,
        object: Option<Arc<Encoded>>,
        touched: Touched<'_>,
    ) {
        let table = self.tables.entry(node.clone()).or_default();
        let beneath = self.shared.get(&key).filter(|object| table.layers.contains(&object.layer));
        let after = object.as_ref().or(beneath).map(|object| object.digest);
        let old = match object {
            Some(object) => table.own.insert(key.clone(), object),
            None => table.own.remove(&key),
        };
        let before = old.as_ref().or(beneath).map(|object| object.digest);
        before.into_iter().for_each(|digest| table.digest.remove(digest));
        after.into_iter().for_each(|digest| table.digest.add(digest));
        touched(&node, &key);
        self.forget_if_empty(&node);
    }

    fn share(&mut self, object: Arc<Encoded>, touched: Touched<'_>) {
        if let Some(old) = self.shared.get(&object.key).cloned() {
            self.withdraw(&old.layer, &old.key, touched);
        }
        let layer = self.layers.entry(object.layer.clone()).or_default();
        layer.keys.insert(object.key.clone());
        show_all(&mut self.tables, &layer.holders, &object, Holding::Held, touched);
        self.shared.insert(object.key.clone(), object);
    }

    /// An object that has passed to another layer meanwhile stays there.
    fn withdraw(&mut self, layer: &Layer, key: &ObjectKey, touched: Touched<'_>) {
        if self.shared.get(key).is_none_or(|object| object.layer != *layer) {
            return;
        }
        if let (Some(object), Some(shared)) = (self.shared.remove(key), self.layers.get_mut(layer)) {
            shared.keys.remove(key);
            show_all(&mut self.tables, &shared.holders, &object, Holding::Dropped, touched);
        }
        self.forget_layer_if_empty(layer);
    }

    fn forget_if_empty(&mut self, node: &str) {
        if self.tables.get(node).is_some_and(|table| table.layers.is_empty() && table.own.is_empty()) {
            self.tables.remove(node);
        }
    }

    fn forget_layer_if_empty(&mut self, layer: &Layer) {
        if self.layers.get(layer).is_some_and(|layer| layer.keys.is_empty() && layer.holders.is_empty()) {
            self.layers.remove(layer);
        }
    }
}

impl NodeTable {
    /// The table has an object of a shared layer, or no more. Returns whether one sees that.
    fn show(&mut self, object: &Encoded, holding: Holding) -> bool {
        if self.own.contains_key(&object.key) {
            return false;
        }
        match holding {
            Holding::Held => self.digest.add(object.digest),
            Holding::Dropped => self.digest.remove(object.digest),
        }
        true
    }
}

fn show_all(
    tables: &mut BTreeMap<String, NodeTable>,
    holders: &BTreeSet<String>,
    object: &Encoded,
    holding: Holding,
    touched: Touched<'_>,
) {
    for node in holders {
        if tables.get_mut(node).is_some_and(|table| table.show(object, holding)) {
            touched(node, &object.key);
        }
    }
}

/// A node's table: its own layer over the shared ones that it holds.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    published: &'a Published,
    table: &'a NodeTable,
}

impl<'a> View<'a> {
    /// The object of this key, if the node is to hold one.
    pub fn get(self, key: &ObjectKey) -> Option<&'a Arc<Encoded>> {
        let shared = || self.published.shared.get(key);
        self.table
            .own
            .get(key)
            .or_else(|| shared().filter(|object| self.table.layers.contains(&object.layer)))
    }

    /// All objects, those first that others refer to.
    pub fn objects(self) -> Vec<Arc<Encoded>> {
        let Self { published, table } = self;
        let layers = table.layers.iter().filter_map(|layer| published.layers.get(layer));
        let shared = layers.flat_map(|layer| &layer.keys).filter(|key| !table.own.contains_key(key));
        let shared = shared.filter_map(|key| published.shared.get(key));
        let mut objects: Vec<_> = shared.chain(table.own.values()).cloned().collect();
        objects.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        objects
    }

    /// The digest over all objects.
    pub fn digest(self) -> Digest {
        self.table.digest
    }
}

#[cfg(test)]
mod tests;
