//! What network and addresses a pod gets: as the controller says, or, without one, from the leases alone.

use std::net::IpAddr;
use std::sync::Arc;
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
        self: Arc<Self>,
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
            if let Some(assignment) = Arc::clone(&self).assignment_now(request.clone(), may_come).await? {
                return Ok(assignment);
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

    /// What the pod gets as things are; `None`: it is worth waiting for the controller. Looking may have to wait for an
    /// attachment that is being made, so it is done where that disturbs nobody.
    async fn assignment_now(
        self: Arc<Self>,
        request: AttachRequest,
        may_come: bool,
    ) -> Result<Option<Assignment>, AttachError> {
        let look = move || {
            let state = self.state();
            match state.assignment(&request.pod, &request.uid)? {
                None if !may_come => state.default_assignment().map(Some),
                assignment => Ok(assignment),
            }
        };
        let looked = tokio::task::spawn_blocking(look).await;
        looked.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }
}

impl State {
    /// Whether a pod could be attached now, as far as that does not depend on the pod.
    pub fn readiness(&self) -> Result<(), AttachError> {
        self.open_vtep()?;
        let vrf = self.addressing.default_network().ok_or(AttachError::NoLease)?;
        self.network(vrf).map(drop).ok_or(AttachError::UnknownNetwork(vrf))
    }

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
