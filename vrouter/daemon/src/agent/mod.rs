//! The agent: the one owner of the node's tables. The control channel changes them by updates, the local API by
//! attaching and detaching; either way what results is published to the workers and kept on disk.

mod apply;
mod assign;
mod attach;
mod call;
mod error;
mod faults;
mod frontends;
mod health;
mod held;
mod host;
mod link_local;
mod restore;
mod state;
#[cfg(test)]
mod tests;
mod tunnel_end;
mod upkeep;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, mpsc, watch};
use vrouter_forward::Shared;
use vrouter_objects::Version;
use vrouter_proto::{Digest, v1};

pub use apply::Applied;
pub use assign::{Assignment, Missing, UnassignedPods};
pub use attach::AttachRequest;
pub use call::{AttachCall, Caller};
pub use error::{AttachError, PlaceFault};
pub use health::{Health, HealthCheck};
pub use held::{Drift, Held, Plan};
pub use host::HostSettings;
pub use restore::Restored;
pub use state::{DeviceState, State};

use crate::control::LinkState;
use crate::plane::DataPlane;
use crate::state::StateFiles;
use call::Calls;

/// Reports to the controller that wait for their session. One that falls behind so far is ended: the next begins with
/// everything that is attached.
const REPORTS: usize = 1024;

/// Who this node is.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The Node object's name.
    pub node: String,
    /// Changes with every boot of the machine.
    pub boot_id: String,
    /// The VTEP address that was configured; `None`: as the controller says.
    pub vtep: Option<IpAddr>,
    /// How the node's own stack takes part; `None`: not at all.
    pub host: Option<HostSettings>,
    /// What becomes of pods that nobody says anything about.
    pub unassigned_pods: UnassignedPods,
}

/// The agent of this node.
pub struct Agent {
    identity: Identity,
    files: StateFiles,
    plane: Arc<dyn DataPlane>,
    shared: Arc<Shared>,
    state: Mutex<State>,
    calls: Calls,
    /// Sends the version whenever the tables have changed.
    changed: watch::Sender<Version>,
    /// The tables on disk are older than those in force.
    unsaved: Notify,
    link: watch::Sender<LinkState>,
    /// Something of the node's own stack has changed, and nobody has looked yet.
    host_changed: Notify,
}

/// What the control channel's session opens with, and what it is told from then on.
pub struct Subscription {
    /// Everything attached right now whose device is served.
    pub attachments: Vec<v1::Attachment>,
    /// What is attached and detached after that; closed where the session fell behind.
    pub reports: mpsc::Receiver<v1::NodeMessage>,
}

impl Agent {
    /// The agent that goes on from what was restored.
    pub fn new(
        identity: Identity,
        files: StateFiles,
        plane: Arc<dyn DataPlane>,
        shared: Arc<Shared>,
        restored: Restored,
    ) -> Arc<Self> {
        let version = restored.state.held.version();
        let agent = Self {
            identity,
            files,
            plane,
            shared,
            state: Mutex::new(restored.state),
            calls: Calls::default(),
            changed: watch::Sender::new(version),
            unsaved: Notify::new(),
            link: watch::Sender::new(LinkState::Connecting),
            host_changed: Notify::new(),
        };
        agent.reattach(restored.attachments);
        Arc::new(agent)
    }

    /// Who this node is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What the workers share: flows and counters.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The data path.
    pub fn plane(&self) -> &dyn DataPlane {
        self.plane.as_ref()
    }

    /// The channel to the controller, as it is now.
    pub fn link(&self) -> &watch::Sender<LinkState> {
        &self.link
    }

    /// Tells the version whenever the tables have changed.
    pub fn changes(&self) -> watch::Receiver<Version> {
        self.changed.subscribe()
    }

    /// Something of the node's own stack has changed: it is to be looked after now.
    pub fn note_host_change(&self) {
        self.host_changed.notify_one();
    }

    /// The state, to be looked at. Keep it short: attaching and updates wait meanwhile.
    pub fn state(&self) -> MutexGuard<'_, State> {
        // Every change is made whole before anything can panic in between, so a poisoned lock guards a sound state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session of the control channel: from now on reports go to it and no longer to the one before.
    pub fn subscribe(&self) -> Subscription {
        let (sender, reports) = mpsc::channel(REPORTS);
        let mut state = self.state();
        state.reports = Some(sender);
        Subscription { attachments: state.working().map(Into::into).collect(), reports }
    }

    /// The version and digest of what is held.
    pub fn held(&self) -> (Version, Digest) {
        let state = self.state();
        (state.held.version(), state.held.digest())
    }

    /// Makes what the tables hold now what the workers forward by.
    fn publish(&self, state: &mut State) {
        let snapshot = state.tables.publish(self.plane.next_epoch());
        state.epoch = snapshot.epoch();
        state.snapshot = Some(Arc::clone(&snapshot));
        self.plane.publish(snapshot);
    }
}
