//! What was published: the layers of the tables, each object encoded once for all nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prost::Message;
use vrouter_control_model::{Change, Layer};
use vrouter_objects::{ObjectKey, VrfId};
use vrouter_proto::{Digest, object_digest, v1};

/// An object as it travels.
#[derive(Debug)]
pub struct Encoded {
    /// What names it.
    pub key: ObjectKey,
    /// The message.
    pub message: v1::Object,
    /// Its hash.
    pub digest: u128,
    /// The size of the message in bytes.
    pub bytes: usize,
}

/// All layers.
#[derive(Debug, Default)]
pub struct Published {
    layers: BTreeMap<Layer, LayerTable>,
}

/// One layer.
#[derive(Debug, Default)]
struct LayerTable {
    objects: BTreeMap<ObjectKey, Arc<Encoded>>,
    /// The sum of the objects' hashes.
    sum: u128,
}

impl Published {
    /// Takes a change over.
    pub fn apply(&mut self, change: Change) {
        let table = self.layers.entry(change.layer.clone()).or_default();
        let old = match change.object {
            Some(object) => {
                let message = v1::Object::from(&*object);
                let (digest, bytes) = (object_digest(&message), message.encoded_len());
                table.sum = table.sum.wrapping_add(digest);
                let encoded = Encoded { key: change.key.clone(), message, digest, bytes };
                table.objects.insert(change.key, Arc::new(encoded))
            }
            None => table.objects.remove(&change.key),
        };
        if let Some(old) = old {
            table.sum = table.sum.wrapping_sub(old.digest);
        }
        if table.objects.is_empty() {
            self.layers.remove(&change.layer);
        }
    }

    /// Whether nothing was published yet.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// What one node is to hold.
    pub fn view(&self, node: &str, networks: &BTreeSet<VrfId>) -> View<'_> {
        let shared = std::iter::once(Layer::Fabric).chain(networks.iter().map(|&vrf| Layer::Network(vrf)));
        View {
            own: self.layers.get(&Layer::Node(node.to_owned())),
            shared: shared.filter_map(|layer| self.layers.get(&layer)).collect(),
        }
    }
}

/// A node's table: its own layer over the shared ones.
#[derive(Debug)]
pub struct View<'a> {
    own: Option<&'a LayerTable>,
    shared: Vec<&'a LayerTable>,
}

impl<'a> View<'a> {
    /// The object of this key, if the node is to hold one.
    pub fn get(&self, key: &ObjectKey) -> Option<&'a Arc<Encoded>> {
        self.own.and_then(|own| own.objects.get(key)).or_else(|| self.hidden(key))
    }

    /// All objects, those first that others refer to.
    pub fn objects(&self) -> Vec<Arc<Encoded>> {
        let mut objects: BTreeMap<&ObjectKey, &Arc<Encoded>> = BTreeMap::new();
        for table in self.shared.iter().copied().chain(self.own) {
            objects.extend(&table.objects);
        }
        objects.into_values().cloned().collect()
    }

    /// The digest over all objects.
    pub fn digest(&self) -> Digest {
        let mut digest = Digest::default();
        for table in self.shared.iter().copied().chain(self.own) {
            digest.add(table.sum);
        }
        for key in self.own.iter().flat_map(|own| own.objects.keys()) {
            if let Some(hidden) = self.hidden(key) {
                digest.remove(hidden.digest);
            }
        }
        digest
    }

    fn hidden(&self, key: &ObjectKey) -> Option<&'a Arc<Encoded>> {
        self.shared.iter().find_map(|table| table.objects.get(key))
    }
}
