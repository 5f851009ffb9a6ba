//! Publishing: settle the model, save what it gave out, then send each node what changed for it.

use std::io;

use tokio::time::Instant;
use vrouter_control_model::{Layer, StateChange};
use vrouter_objects::{ObjectKey, Version};

use super::{Core, NextSave, SAVE_RETRY};
use crate::store::{Journal, Stamp};

/// So many versions are reserved with one save.
const VERSIONS_PER_SAVE: u64 = 1024;

impl Core {
    /// Publishes everything recorded so far.
    pub(super) async fn publish(&mut self) {
        self.publish_at = None;
        let started = Instant::now();
        self.drop_orphans();
        let settlement = self.model.settle();
        let must_save = settlement.state.is_some()
            || self.unsaved.is_some()
            || self.version.0 >= self.saved.version_ceiling;
        let mut changes = self.unsaved.take().unwrap_or_default();
        changes.extend(settlement.changes);
        if must_save && !self.save(settlement.state.unwrap_or_default()).await {
            self.unsaved = Some(changes);
            self.publish_at = Some(Instant::now() + SAVE_RETRY);
            return;
        }
        if !changes.is_empty() {
            self.version = Version(self.version.0 + 1);
            tracing::debug!(
                version = %self.version,
                objects = changes.len(),
                recomputed = settlement.recomputed,
                took = ?started.elapsed(),
                "published"
            );
        }
        for change in changes {
            self.mark(&change.layer, &change.key);
            self.published.apply(change);
        }
        self.forget_gone_nodes();
        let names: Vec<String> = self.nodes.keys().cloned().collect();
        for name in names {
            self.send_next(&name);
        }
    }

    /// The nodes that hold a layer may need the object.
    fn mark(&mut self, layer: &Layer, key: &ObjectKey) {
        match layer {
            Layer::Node(name) => {
                if let Some(node) = self.nodes.get_mut(name) {
                    node.sync.changed(key);
                }
            }
            Layer::Fabric => self.nodes.values_mut().for_each(|node| node.sync.changed(key)),
            Layer::Policy(_) | Layer::PeerSet(_) => {}
            Layer::Network(vrf) => {
                for (name, node) in &mut self.nodes {
                    if self.model.interest(name).contains(vrf) {
                        node.sync.changed(key);
                    }
                }
            }
        }
    }

    /// Saves the state, and reserves versions with it. Returns whether it is safe on disk.
    async fn save(&mut self, change: StateChange) -> bool {
        let stamp = Stamp {
            sequence: self.saved.sequence + 1,
            version_ceiling: self.saved.version_ceiling.max(self.version.0 + VERSIONS_PER_SAVE),
        };
        let store = self.store.clone();
        let whole = (self.next_save == NextSave::Whole).then(|| self.model.state());
        let saving = tokio::task::spawn_blocking(move || match whole {
            Some(state) => store.save(stamp, state).map(|()| Journal::Open),
            None => store.append(stamp, change),
        });
        match saving.await.unwrap_or_else(|failed| Err(io::Error::other(failed))) {
            Ok(journal) => {
                self.saved = stamp;
                self.next_save = match journal {
                    Journal::Open => NextSave::Change,
                    Journal::Large => NextSave::Whole,
                };
                true
            }
            Err(error) => {
                tracing::error!(%error, "the state cannot be saved, so nothing new is published; trying again");
                self.next_save = NextSave::Whole;
                false
            }
        }
    }

    /// Nodes that are neither connected nor among the objects any more.
    fn forget_gone_nodes(&mut self) {
        let model = &self.model;
        self.nodes.retain(|name, node| node.session.is_some() || model.has_node(name));
    }
}
