//! Publishing: settle the model, save what it gave out, then send each node what changed for it.

use std::io;

use tokio::time::Instant;
use vrouter_control_model::{Change, InterestChange, StateChange};
use vrouter_objects::{ObjectKey, Version};

use super::{Core, NextSave, SAVE_RETRY};
use crate::store::{Journal, Stamp};

/// So many versions are reserved with one save.
const VERSIONS_PER_SAVE: u64 = 1024;

/// What is to be published at one time.
#[derive(Debug, Default)]
pub(super) struct Batch {
    changes: Vec<Change>,
    interest: Vec<InterestChange>,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.interest.is_empty()
    }
}

impl Core {
    /// Publishes everything recorded so far.
    pub(super) async fn publish(&mut self) {
        self.publish_at = None;
        let started = Instant::now();
        self.drop_orphans();
        self.forget_gone_nodes();
        let settlement = self.model.settle();
        let must_save = settlement.state.is_some()
            || self.unsaved.is_some()
            || self.version.0 >= self.saved.version_ceiling;
        let mut batch = self.unsaved.take().unwrap_or_default();
        batch.changes.extend(settlement.changes);
        batch.interest.extend(settlement.interest);
        if must_save && !self.save(settlement.state.unwrap_or_default()).await {
            self.unsaved = Some(batch);
            self.publish_at = Some(Instant::now() + SAVE_RETRY);
            return;
        }
        if !batch.is_empty() {
            self.version = Version(self.version.0 + 1);
            tracing::debug!(
                version = %self.version,
                objects = batch.changes.len(),
                interest = batch.interest.len(),
                recomputed = settlement.recomputed,
                took = ?started.elapsed(),
                "published"
            );
        }
        self.take_over(batch);
        let names: Vec<String> = self.nodes.keys().cloned().collect();
        for name in names {
            self.send_next(&name);
        }
    }

    /// Publishes a batch, and notes for each node what is different in its table.
    fn take_over(&mut self, batch: Batch) {
        let nodes = &mut self.nodes;
        let mut touched = |node: &str, key: &ObjectKey| {
            if let Some(node) = nodes.get_mut(node) {
                node.sync.changed(key);
            }
        };
        for change in batch.interest {
            self.published.hold(change, &mut touched);
        }
        for change in batch.changes {
            self.published.apply(change, &mut touched);
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
        let model = &mut self.model;
        self.nodes.retain(|name, node| {
            let is_there = node.session.is_some() || model.has_node(name);
            if !is_there {
                model.dismiss(name);
            }
            is_there
        });
    }
}
