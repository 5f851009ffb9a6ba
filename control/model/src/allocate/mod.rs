//! Everything that is given out: ids, blocks of pod addresses, cluster addresses, node ports. Plain state that can be saved and
//! loaded; the same history gives the same state.

mod cluster_ips;
mod exposures;
mod floating_ips;
pub mod given;
mod ids;
mod nodes;
mod turn;

use serde::{Deserialize, Serialize};

use crate::ModelError;
use crate::index::{AttachmentChange, Attachments};

pub use exposures::{Exposure, ExposureChanges, Exposures};
pub use floating_ips::{FloatingIpChanges, FloatingIps, ListenerAllocation, ListenerKey, MemberAllocation};
pub use nodes::{Block, BlockFault, LeaseChange, NodeAllocation, Nodes};

/// What must outlive the process: what was given out, and what the nodes reported to be attached.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct State {
    /// Router ids, leases and blocks.
    pub(crate) nodes: Nodes,
    /// Cluster addresses, floating IPs, listeners and members.
    pub(crate) floating_ips: FloatingIps,
    /// Node ports and load-balancer addresses. A state that was saved before there were any has none.
    #[serde(default)]
    pub(crate) exposures: Exposures,
    /// What is attached.
    pub(crate) attachments: Attachments,
}

/// What of a state changed. Replayed in order on the state that it was taken from, changes lead to the state after.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct StateChange {
    /// Few and small: as a whole.
    pub(crate) nodes: Option<Nodes>,
    pub(crate) floating_ips: Option<FloatingIpChanges>,
    #[serde(default)]
    pub(crate) exposures: Option<ExposureChanges>,
    pub(crate) attachments: Vec<AttachmentChange>,
}

impl StateChange {
    /// Whether nothing changed.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { nodes, floating_ips, exposures, attachments } = self;
        nodes.is_none() && floating_ips.is_none() && exposures.is_none() && attachments.is_empty()
    }
}

impl State {
    /// Makes a change that was taken from the state after this one.
    pub fn replay(&mut self, change: StateChange) {
        if let Some(nodes) = change.nodes {
            self.nodes = nodes;
        }
        if let Some(floating_ips) = change.floating_ips {
            self.floating_ips.replay(floating_ips);
        }
        if let Some(exposures) = change.exposures {
            self.exposures.replay(exposures);
        }
        self.attachments.replay(change.attachments);
    }

    /// Refuses a state that contradicts itself.
    pub(crate) fn check(&self) -> Result<(), ModelError> {
        let checked = self.nodes.check().and_then(|()| self.floating_ips.check());
        checked.and_then(|()| self.exposures.check()).map_err(ModelError::State)
    }
}
