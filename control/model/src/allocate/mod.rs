//! Everything that is given out: ids, VNIs, blocks of pod addresses, addresses of single pods, cluster addresses, node ports. Plain
//! state that can be saved and loaded; the same history gives the same state.

mod cluster_ips;
mod exposures;
mod floating_ips;
pub mod given;
mod ids;
mod networks;
mod nodes;
mod pod_addresses;
mod spaced;
mod turn;

use serde::{Deserialize, Serialize};
use vrouter_objects::{PeerSetId, PolicyId};

use crate::ModelError;
use crate::index::{AttachmentChange, Attachments};
use crate::kube::ObjectRef;
use crate::policy::{Meaning, Register, RegisterChanges};

pub use exposures::{Exposure, ExposureChanges, Exposures};
pub use floating_ips::{FloatingIpChanges, FloatingIps, ListenerAllocation, ListenerKey, MemberAllocation};
pub use given::Numbered;
pub use ids::Counter;
pub use networks::{IdRequest, NetworkAllocation, NetworkIds, VniHolders};
pub use nodes::{Block, BlockFault, LeaseChange, NodeAllocation, Nodes};
pub use pod_addresses::{PickedAddresses, PodAddressChanges, PodAddresses};
pub use spaced::SpacedAddress;

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
    /// Policies, by their objects.
    #[serde(default)]
    pub(crate) policies: Register<ObjectRef, PolicyId>,
    /// Peer sets, by whom they mean.
    #[serde(default)]
    pub(crate) peer_sets: Register<Meaning, PeerSetId>,
    /// VRFs and VNIs of networks. A state that was saved before there were any but the cluster's own has none.
    #[serde(default)]
    pub(crate) networks: NetworkIds,
    /// Addresses of pods of custom networks, as above.
    #[serde(default)]
    pub(crate) pod_addresses: PodAddresses,
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
    #[serde(default)]
    pub(crate) policies: Option<RegisterChanges<ObjectRef>>,
    #[serde(default)]
    pub(crate) peer_sets: Option<RegisterChanges<Meaning>>,
    /// Few and small: as a whole.
    #[serde(default)]
    pub(crate) networks: Option<NetworkIds>,
    #[serde(default)]
    pub(crate) pod_addresses: Option<PodAddressChanges>,
    pub(crate) attachments: Vec<AttachmentChange>,
}

impl StateChange {
    /// Whether nothing changed.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { nodes, floating_ips, exposures, policies, peer_sets, .. } = self;
        let Self { networks, pod_addresses, attachments, .. } = self;
        nodes.is_none()
            && floating_ips.is_none()
            && exposures.is_none()
            && policies.is_none()
            && peer_sets.is_none()
            && networks.is_none()
            && pod_addresses.is_none()
            && attachments.is_empty()
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
        if let Some(policies) = change.policies {
            self.policies.replay(policies);
        }
        if let Some(peer_sets) = change.peer_sets {
            self.peer_sets.replay(peer_sets);
        }
        if let Some(networks) = change.networks {
            self.networks = networks;
        }
        if let Some(pod_addresses) = change.pod_addresses {
            self.pod_addresses.replay(pod_addresses);
        }
        self.attachments.replay(change.attachments);
    }

    /// Refuses a state that contradicts itself.
    pub(crate) fn check(&self) -> Result<(), ModelError> {
        let checked = self.nodes.check().and_then(|()| self.floating_ips.check());
        let checked = checked.and_then(|()| self.exposures.check());
        let checked = checked.and_then(|()| self.networks.check());
        let checked = checked.and_then(|()| self.pod_addresses.check());
        let checked = checked.and_then(|()| self.policies.check("policy"));
        checked.and_then(|()| self.peer_sets.check("peer set")).map_err(ModelError::State)
    }
}
