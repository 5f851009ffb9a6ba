//! The core: the one task that owns the model, what was published of it, and what each node holds.
//!
//! Everything reaches it as a [`Command`] through one channel, so nothing is locked and every change has its place in
//! one order. Bursts of changes are published together.

mod inspect;
mod publish;
mod sessions;
mod settle;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use vrouter_control_model::{
    Attachment, Document, DocumentKind, Kind, Model, ModelConfig, ObjectRef, Problem, Selection,
};
use vrouter_objects::{ObjectKey, Version, VmiId};
use vrouter_proto::{Digest, v1};

use crate::ServerError;
use crate::published::Published;
use crate::source::Event;
use crate::store::{Stamp, Store};
use publish::Batch;
use sessions::Node;
use settle::Waiter;

pub use sessions::{Occupied, Outbound};

/// How long the first change of a burst waits for others.
const COALESCE: Duration = Duration::from_millis(5);
/// How long a save that failed is left alone.
const SAVE_RETRY: Duration = Duration::from_secs(1);
/// How long after its last try a machine is shown that wants to be a node which another one is.
const RIVAL_SHOWN: Duration = Duration::from_secs(60);
/// No node can have got as far as this. Counting on from here never comes to an end.
pub const MAX_HELD_VERSION: Version = Version(1 << 62);

/// What reaches the core.
#[derive(Debug)]
pub enum Command {
    /// A source saw something.
    Event(Event),
    /// A node opened a stream.
    Connect {
        /// Who, and what it holds.
        hello: Hello,
        /// The way to it.
        outbound: mpsc::Sender<Outbound>,
        /// Gets the stream's generation.
        generation: oneshot::Sender<Result<u64, Occupied>>,
    },
    /// A node says something on its stream.
    FromNode {
        /// Who.
        node: String,
        /// On which of its streams; an older one's words do not count.
        generation: u64,
        /// What.
        message: NodeMessage,
    },
    /// A stream ended.
    Disconnect {
        /// Whose.
        node: String,
        /// Which.
        generation: u64,
    },
    /// Somebody asks for the mirrored objects of a kind.
    Objects {
        /// Which kind.
        kind: DocumentKind,
        /// The one of this name; empty: all.
        name: String,
        /// Gets them.
        reply: oneshot::Sender<Vec<Document>>,
    },
    /// Somebody asks how things are.
    Status(oneshot::Sender<v1::ControllerStatus>),
    /// Somebody waits until everything up to now has arrived everywhere.
    Settle {
        /// The nodes to wait for; empty: those connected.
        nodes: Vec<String>,
        /// Told when it has.
        done: oneshot::Sender<()>,
    },
}

/// What a node says first.
#[derive(Debug)]
pub struct Hello {
    /// Its name.
    pub node: String,
    /// Which machine it is, from this boot on.
    pub boot_id: String,
    /// The version it holds.
    pub version: Version,
    /// The digest of what it holds.
    pub digest: Digest,
    /// Everything attached.
    pub attachments: Vec<Attachment>,
}

/// What a node says later.
#[derive(Debug)]
pub enum NodeMessage {
    /// It forwards by a version.
    Applied {
        /// The version.
        version: Version,
        /// The digest of what it holds.
        digest: Digest,
        /// What it cannot use, and why.
        refusals: Vec<(ObjectKey, String)>,
    },
    /// An interface is up.
    Attached(Attachment),
    /// An interface is gone.
    Detached(VmiId),
    /// Everything it reported before a Sync was sent is here.
    Synced(u64),
}

/// How the state is to be saved next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextSave {
    /// As a whole: at the start, after a failure, and when the journal has grown large.
    Whole,
    /// What changed is enough.
    Change,
}

/// The core.
pub struct Core {
    model: Model,
    published: Published,
    store: Store,
    version: Version,
    /// What the last save told: versions up to its ceiling may be given out without saving first.
    saved: Stamp,
    next_save: NextSave,
    nodes: BTreeMap<String, Node>,
    generations: u64,
    source_problems: Vec<Problem>,
    unlisted: BTreeSet<Kind>,
    /// What may not be published before the state is saved, which failed.
    unsaved: Option<Batch>,
    publish_at: Option<Instant>,
    waiters: Vec<Waiter>,
    sync_tokens: u64,
}

impl Core {
    /// A core that goes on from the saved state.
    pub fn new(config: ModelConfig, store: Store) -> Result<Self, ServerError> {
        let (saved, state) = store.load()?;
        Ok(Self {
            model: Model::new(config, state)?,
            published: Published::default(),
            store,
            version: Version(saved.version_ceiling),
            saved,
            next_save: NextSave::Whole,
            nodes: BTreeMap::new(),
            generations: 0,
            source_problems: Vec::new(),
            unlisted: Kind::ALL.into_iter().collect(),
            unsaved: None,
            publish_at: None,
            waiters: Vec::new(),
            sync_tokens: 0,
        })
    }

    /// Carries out commands until nobody can send any more.
    pub async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        loop {
            let due = self.publish_at;
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.carry_out(command),
                    None => return,
                },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.publish().await,
            }
            if self.publish_at.is_none() && self.has_unpublished() && self.is_listed() {
                self.publish_at = Some(Instant::now() + COALESCE);
            }
            self.release_waiters();
        }
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Event(event) => self.take_event(event),
            Command::Connect { hello, outbound, generation } => {
                let given = self.connect(hello, outbound);
                // A stream that is gone already says so itself.
                generation.send(given).ok();
            }
            Command::FromNode { node, generation, message } => self.hear(&node, generation, message),
            Command::Disconnect { node, generation } => self.disconnect(&node, generation),
            // Whoever asked may have gone away.
            Command::Objects { kind, name, reply } => {
                let selection = if name.is_empty() { Selection::All } else { Selection::Named(&name) };
                drop(reply.send(self.model.documents(kind, selection)));
            }
            Command::Status(reply) => drop(reply.send(self.status())),
            Command::Settle { nodes, done } => self.settle(nodes, done),
        }
    }

    fn take_event(&mut self, event: Event) {
        match event {
            Event::Changes { put, removed } => {
                for (object, origin) in put {
                    self.model.apply(&object, origin);
                    self.tell_problems(&object.reference());
                }
                removed.iter().for_each(|reference| self.model.delete(reference));
            }
            Event::Reset(kind, objects) => {
                self.model.reset(kind, &objects);
                objects.iter().for_each(|(object, _)| self.tell_problems(&object.reference()));
                self.unlisted.remove(&kind);
            }
            Event::Problems(problems) => self.source_problems = problems,
        }
    }

    /// Tells what is wrong in an object that has just come, for those who read the log and do not ask.
    fn tell_problems(&self, object: &ObjectRef) {
        self.model.problems_in(object).for_each(|problem| tracing::warn!("{problem}"));
    }

    /// Whether every kind was listed. Before, the tables are only a part, and nodes keep what they have.
    fn is_listed(&self) -> bool {
        self.unlisted.is_empty()
    }

    fn has_unpublished(&self) -> bool {
        self.unsaved.is_some() || !self.model.is_settled()
    }
}
