//! What network and addresses a pod gets: as the controller says, or, without one, from the leases alone.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use vrouter_objects::{PodName, VrfId};

use super::{Agent, AttachError, AttachRequest, State};

/// What a pod's interface gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The network.
    pub vrf: VrfId,
    /// The addresses it must get; empty: one per leased family.
    pub addresses: Vec<IpAddr>,
}

impl Agent {
    /// What this pod gets. While a controller is connected it is waited for, but no longer than this: the pod may have
    /// been placed on this node only just now.
    pub async fn assignment(
        &self,
        request: &AttachRequest,
        patience: Duration,
    ) -> Result<Assignment, AttachError> {
        let start = Instant::now();
        let deadline = tokio::time::Instant::now() + patience;
        let mut changed = self.changed.subscribe();
        let mut link = self.link.subscribe();
        loop {
            changed.mark_unchanged();
            let may_come = link.borrow_and_update().may_bring_more();
            if let Some(assignment) = self.state().assignment(&request.pod, &request.uid)? {
                return Ok(assignment);
            }
            if !may_come {
                return self.state().default_assignment();
            }
            let news = async {
                // Both senders are the agent's own.
                let _ = tokio::select! { news = changed.changed() => news, news = link.changed() => news };
            };
            if tokio::time::timeout_at(deadline, news).await.is_err() {
                let waited_ms = start.elapsed().as_millis();
                return Err(AttachError::NotAssigned { pod: request.pod.clone(), waited_ms });
            }
        }
    }
}

impl State {
    /// What the controller said about this pod. What it said about an earlier pod of that name does not count.
    fn assignment(&self, pod: &PodName, uid: &str) -> Result<Option<Assignment>, AttachError> {
        let same = |other: &str| uid.is_empty() || other.is_empty() || uid == other;
        let Some(binding) = self.bindings.get(pod).filter(|binding| same(&binding.uid)) else {
            return Ok(None);
        };
        match &binding.refusal {
            Some(reason) => Err(AttachError::Refused { pod: pod.clone(), reason: reason.clone() }),
            None => Ok(Some(Assignment { vrf: binding.vrf, addresses: binding.addresses.clone() })),
        }
    }

    fn default_assignment(&self) -> Result<Assignment, AttachError> {
        let vrf = self.addressing.default_network().ok_or(AttachError::NothingLeased)?;
        Ok(Assignment { vrf, addresses: Vec::new() })
    }
}
