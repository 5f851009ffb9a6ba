//! Waiting until everything has arrived everywhere.

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Core, Outbound};

/// Somebody who waits.
#[derive(Debug)]
pub(super) struct Waiter {
    nodes: Vec<String>,
    /// The nodes must have sent this token back: then all they reported before is known.
    token: u64,
    done: oneshot::Sender<()>,
}

impl Core {
    /// Publishes now, and has `done` told once these nodes have reported everything and applied what follows from it.
    pub(super) fn settle(&mut self, nodes: Vec<String>, done: oneshot::Sender<()>) {
        self.sync_tokens += 1;
        let token = self.sync_tokens;
        let connected: Vec<String> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.session.is_some())
            .map(|(name, _)| name.clone())
            .collect();
        for name in &connected {
            self.send(name, Outbound::Sync(token));
        }
        let nodes = if nodes.is_empty() { connected } else { nodes };
        if self.has_unpublished() && self.is_listed() && self.unsaved.is_none() {
            self.publish_at = Some(Instant::now());
        }
        self.waiters.push(Waiter { nodes, token, done });
    }

    /// The token that somebody still waits for.
    pub(super) fn awaited_token(&self) -> Option<u64> {
        self.waiters.iter().map(|waiter| waiter.token).max()
    }

    /// Tells those who have waited long enough, and forgets those who gave up.
    pub(super) fn release_waiters(&mut self) {
        if self.waiters.is_empty() {
            return;
        }
        let published = self.is_listed() && !self.has_unpublished() && self.publish_at.is_none();
        for waiter in std::mem::take(&mut self.waiters) {
            if published
                && waiter
                    .nodes
                    .iter()
                    .all(|name| self.nodes.get(name).is_some_and(|node| node.is_settled(waiter.token)))
            {
                // Whoever waited may have gone away.
                waiter.done.send(()).ok();
            } else if !waiter.done.is_closed() {
                self.waiters.push(waiter);
            }
        }
    }
}
