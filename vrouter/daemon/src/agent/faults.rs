//! Interfaces that are attached otherwise than their pods are to be. They may have been attached while no controller could be
//! asked; or their pods were given to another network since. The tables let nothing of those pass, and only attaching anew
//! mends it. Others lack what their node reaches them by.

use super::State;
use crate::attachment::{AssignedBy, Attachment};

impl State {
    /// Whether an interface is in another network than its pod's binding says.
    pub(super) fn is_misplaced(&self, attachment: &Attachment) -> bool {
        let binding = self.binding(&attachment.pod, &attachment.uid);
        binding.is_some_and(|binding| binding.vrf != attachment.vrf)
    }

    /// Whether nothing says which policies govern an interface, though the controller did when it was attached: the tables
    /// on disk may be older than it, or its pod is gone, be it that another of its name is there.
    pub(super) fn is_unbound(&self, attachment: &Attachment) -> bool {
        let is_bound = self.binding(&attachment.pod, &attachment.uid).is_some();
        attachment.assigned_by == AssignedBy::Controller && !is_bound
    }

    /// What is to be said of such interfaces.
    pub(super) fn faults(&self) -> impl Iterator<Item = String> {
        let own = self.attached().filter_map(|attachment| self.fault_of(attachment));
        own.chain(self.link_local_faults())
    }

    /// Says it of each once.
    pub(super) fn tell_faults(&mut self) {
        let faults = self.faults().collect();
        for fault in &faults - &self.told_faults {
            tracing::error!("{fault}");
        }
        self.told_faults = faults;
    }

    fn fault_of(&self, attachment: &Attachment) -> Option<String> {
        let Attachment { pod, uid, vrf, vmi, .. } = attachment;
        if self.is_unbound(attachment) && !self.is_in_tables(*vmi) {
            let reason = match self.bindings.get(pod) {
                Some(_) => "is cut off: another pod of its name is to be in its place",
                None => "is cut off until the controller says which policies govern it",
            };
            return Some(format!("pod {pod} {reason}"));
        }
        let binding = self.binding(pod, uid)?;
        if let Some(reason) = &binding.refusal {
            return Some(format!("pod {pod} is attached, and refused by now: {reason}"));
        }
        let [is, ought] = [*vrf, binding.vrf].map(|vrf| match self.network(vrf) {
            Some(network) => network.name.clone(),
            None => format!("vrf {vrf}"),
        });
        self.is_misplaced(attachment).then(|| {
            format!(
                "pod {pod} is cut off until it is attached anew: it is in network {is} and belongs to {ought}"
            )
        })
    }
}
