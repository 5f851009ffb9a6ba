//! What network and addresses a pod gets: as the controller says, or, without one, from the leases alone.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::Deserialize;
use vrouter_objects::{PodBinding, PodName, VrfId};

use super::{Agent, AttachError, AttachRequest, State};
use crate::attachment::AssignedBy;

/// What a pod's interface gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The network.
    pub vrf: VrfId,
    /// The addresses it must get; empty: one per leased family.
    pub addresses: Vec<IpAddr>,
    /// Who says so.
    pub by: AssignedBy,
}

/// What becomes of a pod that the controller has said nothing about while it cannot be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnassignedPods {
    /// It gets into the default network. No policy governs it before the controller says which do.
    #[default]
    Attach,
    /// It is not attached before the controller says where it belongs.
    Refuse,
}

/// What a pod gets, as far as that is known.
enum Outlook {
    Known(Assignment),
    /// It is worth waiting for the controller.
    Awaited(Missing),
}

/// What the controller has not said of a pod that is to be attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Where it belongs.
    Binding,
    /// The network that it belongs to.
    Network(VrfId),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Binding => f.write_str("what network and addresses it gets"),
            Self::Network(vrf) => write!(f, "what vrf {vrf} is, which it belongs to"),
        }
    }
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
            let missing = match Arc::clone(&self).outlook(request.clone(), may_come).await? {
                Outlook::Known(assignment) => return Ok(assignment),
                Outlook::Awaited(missing) => missing,
            };
            let news = async {
                // Both senders are the agent's own.
                let _ = tokio::select! { news = changed.changed() => news, news = link.changed() => news };
            };
            if tokio::time::timeout_at(deadline, news).await.is_err() {
                let (pod, waited_ms) = (request.pod.clone(), start.elapsed().as_millis());
                return Err(AttachError::NotAssigned { pod, missing, waited_ms });
            }
        }
    }

    /// What the pod gets as things are. Looking may have to wait for an attachment that is being made, so it is done
    /// where that disturbs nobody.
    async fn outlook(
        self: Arc<Self>,
        request: AttachRequest,
        may_come: bool,
    ) -> Result<Outlook, AttachError> {
        let look = move || {
            let state = self.state();
            let missing = match state.assignment(&request.pod, &request.uid)? {
                Some(assignment) if state.network(assignment.vrf).is_some() => {
                    return Ok(Outlook::Known(assignment));
                }
                Some(assignment) => Missing::Network(assignment.vrf),
                None => Missing::Binding,
            };
            match (missing, self.identity.unassigned_pods) {
                _ if may_come => Ok(Outlook::Awaited(missing)),
                (Missing::Network(vrf), _) => {
                    Err(AttachError::UnknownNetwork { pod: request.pod.clone(), vrf })
                }
                (Missing::Binding, UnassignedPods::Refuse) => {
                    Err(AttachError::Unassigned { pod: request.pod.clone() })
                }
                (Missing::Binding, UnassignedPods::Attach) => state.default_assignment().map(Outlook::Known),
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
        self.network(vrf).map(drop).ok_or(AttachError::NoNetwork(vrf))
    }

    /// What this pod gets, whatever was assigned to it a moment ago: the controller may have spoken since, or taken it
    /// back.
    pub(super) fn confirm(
        &self,
        request: &AttachRequest,
        before: &Assignment,
    ) -> Result<Assignment, AttachError> {
        match (self.assignment(&request.pod, &request.uid)?, before.by) {
            (Some(now), _) => Ok(now),
            (None, AssignedBy::Node) => Ok(before.clone()),
            (None, AssignedBy::Controller) => Err(AttachError::Unassigned { pod: request.pod.clone() }),
        }
    }

    /// What the controller said about this pod.
    fn assignment(&self, pod: &PodName, uid: &str) -> Result<Option<Assignment>, AttachError> {
        let Some(binding) = self.binding(pod, uid) else { return Ok(None) };
        match &binding.refusal {
            Some(reason) => Err(AttachError::Refused { pod: pod.clone(), reason: reason.clone() }),
            None => {
                let (vrf, addresses) = (binding.vrf, binding.addresses.clone());
                Ok(Some(Assignment { vrf, addresses, by: AssignedBy::Controller }))
            }
        }
    }

    /// The binding of this pod. That of an earlier or later pod of its name is another's.
    pub(super) fn binding(&self, pod: &PodName, uid: &str) -> Option<&PodBinding> {
        self.bindings.get(pod).filter(|binding| binding.is_of(uid))
    }

    fn default_assignment(&self) -> Result<Assignment, AttachError> {
        let vrf = self.addressing.default_network().ok_or(AttachError::NothingLeased)?;
        Ok(Assignment { vrf, addresses: Vec::new(), by: AssignedBy::Node })
    }
}
