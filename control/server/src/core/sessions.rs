//! Nodes and their streams.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::Instant;
use vrouter_objects::Version;
use vrouter_proto::Digest;

use super::{Core, Hello, NodeMessage, RIVAL_SHOWN};
use crate::node::{Acknowledged, NodeSync, Update};

/// What is sent to a node.
#[derive(Debug)]
pub enum Outbound {
    /// A version of its table.
    Update(Arc<Update>),
    /// A token to be sent back.
    Sync(u64),
    /// The stream ends, for this reason.
    Replaced,
}

/// One node: what it holds, and its stream while there is one.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub sync: NodeSync,
    /// What it said to hold, until there is something to compare that with.
    greeting: Option<(Version, Digest)>,
    pub session: Option<Session>,
    rival: Option<Rival>,
}

/// Another machine that goes by the node's name.
#[derive(Debug)]
struct Rival {
    boot_id: String,
    last_try: Instant,
}

/// Why a stream is not taken: another machine is connected under this name.
#[derive(Debug, Clone)]
pub struct Occupied {
    /// The boot id of the machine that is connected.
    pub boot_id: String,
}

/// One stream of a node. A newer stream has a higher generation, and only the newest counts.
#[derive(Debug)]
pub(super) struct Session {
    generation: u64,
    /// Of the machine at the other end.
    boot_id: String,
    outbound: mpsc::Sender<Outbound>,
    /// The last token that came back.
    synced: u64,
}

impl Node {
    /// Whether it has reported everything up to a token, and applied everything it is to hold.
    pub fn is_settled(&self, token: u64) -> bool {
        let synced = self.session.as_ref().is_some_and(|session| session.synced >= token);
        synced && self.greeting.is_none() && self.sync.is_current()
    }

    /// The boot id of the machine that is connected, if it is not this one.
    fn occupied_by_another_than(&self, boot_id: &str) -> Option<&str> {
        let session = self.session.as_ref().filter(|session| !session.outbound.is_closed())?;
        (session.boot_id != boot_id).then_some(session.boot_id.as_str())
    }

    /// The boot id of another machine that lately wanted to be this node.
    pub fn rival(&self) -> Option<&str> {
        let rival = self.rival.as_ref().filter(|rival| rival.last_try.elapsed() < RIVAL_SHOWN);
        rival.map(|rival| rival.boot_id.as_str())
    }
}

impl Core {
    /// A node opens a stream, which takes the place of one that the same machine may still have.
    pub(super) fn connect(
        &mut self,
        hello: Hello,
        outbound: mpsc::Sender<Outbound>,
    ) -> Result<u64, Occupied> {
        let Hello { node: name, boot_id, version, digest, attachments } = hello;
        let node = self.nodes.entry(name.clone()).or_default();
        if let Some(occupant) = node.occupied_by_another_than(&boot_id) {
            tracing::warn!(node = name, boot_id, occupant, "a second machine connects as this node; refused");
            let occupied = Occupied { boot_id: occupant.to_owned() };
            node.rival = Some(Rival { boot_id, last_try: Instant::now() });
            return Err(occupied);
        }
        node.rival = node.rival.take().filter(|rival| rival.boot_id != boot_id);
        self.generations += 1;
        tracing::info!(node = name, %version, %digest, attachments = attachments.len(), "node connected");
        self.model.enlist(&name);
        self.model.attached(&name, attachments);
        if version == Version::default() {
            self.model.forgot(&name);
        }
        self.version = self.version.max(version);
        let node = self.nodes.entry(name.clone()).or_default();
        if let Some(old) = node.session.take() {
            // A stream that does not take even this is closed by losing its sender.
            old.outbound.try_send(Outbound::Replaced).ok();
        }
        node.session = Some(Session { generation: self.generations, boot_id, outbound, synced: 0 });
        node.greeting = Some((version, digest));
        if let Some(token) = self.awaited_token() {
            self.send(&name, Outbound::Sync(token));
        }
        self.send_next(&name);
        Ok(self.generations)
    }

    /// A stream ended. One that was replaced has nothing to take with it.
    pub(super) fn disconnect(&mut self, name: &str, generation: u64) {
        if let Some(node) = self.nodes.get_mut(name)
            && node.session.as_ref().is_some_and(|session| session.generation == generation)
        {
            tracing::info!(node = name, "node disconnected");
            node.session = None;
            self.drop_orphans();
        }
    }

    /// Forgets what was attached on nodes that will not come back to say that it is gone. Before everything was listed
    /// it is not known which those are.
    pub(super) fn drop_orphans(&mut self) {
        if self.is_listed() {
            let nodes = &self.nodes;
            self.model.drop_orphans(|name| nodes.get(name).is_some_and(|node| node.session.is_some()));
        }
    }

    /// A node says something. What comes on a stream that was replaced is ignored.
    pub(super) fn hear(&mut self, name: &str, generation: u64, message: NodeMessage) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let Some(session) = node.session.as_mut().filter(|session| session.generation == generation) else {
            return;
        };
        match message {
            NodeMessage::Attached(attachment) => self.model.attach(name, attachment),
            NodeMessage::Detached(vmi) => self.model.detach(name, vmi),
            NodeMessage::Synced(token) => session.synced = session.synced.max(token),
            NodeMessage::Applied { version, digest, refusals } => {
                let known = node.sync.refused();
                for (key, reason) in refusals.iter().filter(|(key, _)| !known.contains_key(key)) {
                    tracing::warn!(node = name, %version, object = %key, reason, "node refuses an object");
                }
                let Some(view) = self.published.view(name) else { return };
                match node.sync.applied(version, digest, refusals, view) {
                    Acknowledged::AsSent => tracing::debug!(node = name, %version, "node applied"),
                    Acknowledged::Drifted => {
                        tracing::warn!(node = name, %version, %digest, "node holds something else than it was sent");
                    }
                    Acknowledged::Unexpected => {
                        tracing::warn!(node = name, %version, "node acknowledges a version that is not in flight");
                    }
                }
                self.send_next(name);
            }
        }
    }

    /// Sends the node its next update, if it is its turn. Before everything was listed, and the node's own part
    /// published, what there is would be only a part.
    pub(super) fn send_next(&mut self, name: &str) {
        let Some(view) = self.published.view(name).filter(|_| self.is_listed()) else { return };
        let Some(node) = self.nodes.get_mut(name).filter(|node| node.session.is_some()) else { return };
        if let Some((version, digest)) = node.greeting.take() {
            node.sync.hello(version, digest, view);
        }
        let version = self.version.max(Version(node.sync.held().version.0 + 1));
        if let Some(update) = node.sync.next_update(version, view) {
            self.version = version;
            self.send(name, Outbound::Update(update));
        }
    }

    /// Sends something on the node's stream. A stream that does not keep up is given up: the node comes back.
    pub(super) fn send(&mut self, name: &str, message: Outbound) {
        if let Some(node) = self.nodes.get_mut(name)
            && let Some(session) = &node.session
            && session.outbound.try_send(message).is_err()
        {
            tracing::warn!(node = name, "the node's stream does not keep up and is closed");
            node.session = None;
        }
    }
}
