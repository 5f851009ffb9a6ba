//! Where Kubernetes objects come from. A source feeds events into the core and can be told to look again now.

mod folder;

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use vrouter_control_model::{Kind, KubeObject, ObjectRef, Origin, Problem};

pub use folder::Folder;

use crate::core::Command;

/// What a source says.
#[derive(Debug)]
pub enum Event {
    /// Objects came and went at one time: nobody sees only a part of it.
    Changes {
        /// Those that are new or different.
        put: Vec<(Arc<KubeObject>, Origin)>,
        /// Those that are gone.
        removed: Vec<ObjectRef>,
    },
    /// These are all objects of a kind. Nothing is published before every kind was listed once.
    Reset(Kind, Vec<(Arc<KubeObject>, Origin)>),
    /// These are all of the source's own problems: what it could not read at all.
    Problems(Vec<Problem>),
}

/// The way of a source's events into the core.
#[derive(Debug, Clone)]
pub struct EventSender(pub(crate) mpsc::Sender<Command>);

impl EventSender {
    /// Hands an event over, waiting while the core is busy. The core is never gone before its sources.
    pub async fn send(&self, event: Event) {
        if self.0.send(Command::Event(event)).await.is_err() {
            tracing::debug!("an event comes too late: the controller is stopping");
        }
    }
}

/// Tells a source to look again.
#[derive(Debug, Clone)]
pub struct Rescanner(pub(crate) mpsc::Sender<oneshot::Sender<()>>);

impl Rescanner {
    /// Has the source look again now. When this returns, what it saw is with the core.
    pub async fn rescan(&self) {
        let (done, waiting) = oneshot::channel();
        if self.0.send(done).await.is_ok() {
            // A source that ended has nothing more to say.
            waiting.await.ok();
        }
    }
}
