//! Everything that is given out: ids, blocks of pod addresses, cluster addresses. Plain state that can be saved and
//! loaded; the same history gives the same state.

mod cluster_ips;
mod floating_ips;
pub mod given;
mod ids;
mod nodes;

use serde::{Deserialize, Serialize};

use crate::ModelError;
use crate::index::Attachments;

pub use floating_ips::{FloatingIps, ListenerAllocation, ListenerKey, MemberAllocation};
pub use nodes::{Block, BlockFault, NodeAllocation, Nodes};

/// What must outlive the process: what was given out, and what the nodes reported to be attached.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct State {
    /// Router ids, leases and blocks.
    pub(crate) nodes: Nodes,
    /// Cluster addresses, floating IPs, listeners and members.
    pub(crate) floating_ips: FloatingIps,
    /// What is attached.
    pub(crate) attachments: Attachments,
}

impl State {
    /// Refuses a state that contradicts itself.
    pub(crate) fn check(&self) -> Result<(), ModelError> {
        self.nodes.check().and_then(|()| self.floating_ips.check()).map_err(ModelError::State)
    }
}
