//! Everything that is wrong with the input.

use super::Model;
use crate::index::Attachment;
use crate::kube::{ADDRESSES_ANNOTATION, Kind, ObjectRef, PodRecord, network_field};
use crate::network::{Misplaced, NetworkFault, VirtualNetwork};
use crate::problem::Findings;
use crate::tables::{self, Refusal};
use crate::{NamespacedName, Problem};

impl Model {
    /// What in the recorded objects could not be used, in a stable order.
    pub fn problems(&self) -> Vec<Problem> {
        let beyond =
            self.findings.iter().chain(self.network_findings.iter()).map(|(object, finding)| Problem {
                source: self.index.origin(object),
                object: object.to_string(),
                field: finding.field.clone(),
                message: finding.message.clone(),
            });
        let mut problems: Vec<Problem> =
            self.index.problems().chain(beyond).chain(self.refused.values().cloned()).collect();
        problems.sort();
        problems
    }

    /// What of one object could not be used, as far as that is seen in it alone.
    pub fn problems_in(&self, object: &ObjectRef) -> impl Iterator<Item = Problem> {
        self.index.problems_in(object)
    }

    pub(super) fn note_refusal(&self, name: &NamespacedName, pod: &PodRecord, findings: &mut Findings) {
        if !pod.has_interface() {
            return;
        }
        let Err(refusal) = tables::grant(&self.index, name, pod) else { return };
        let field = match &refusal {
            // What cannot be read was noted when the object was.
            Refusal::Malformed(_) => return,
            Refusal::Misplaced(Misplaced { fault: NetworkFault::Malformed(_), asker })
                if asker.kind == Kind::Pod =>
            {
                return;
            }
            // None was looked for: it is on no node yet.
            Refusal::Exhausted(..) if pod.node.is_none() => return,
            Refusal::Misplaced(Misplaced { asker, .. }) if asker.kind == Kind::Pod => network_field(),
            Refusal::Misplaced(_) | Refusal::Exhausted(..) => String::new(),
            Refusal::Unusable(..) | Refusal::Taken(..) => {
                format!("metadata.annotations[{ADDRESSES_ANNOTATION}]")
            }
        };
        findings.add(field, refusal);
    }

    /// A pod that runs keeps its interface, whatever becomes of its network: it is cut off where that is another than it is
    /// to be in.
    pub(super) fn note_stale_interface(
        &self,
        name: &NamespacedName,
        pod: &PodRecord,
        findings: &mut Findings,
    ) {
        let Some(attached) = self.index.attachment(name, pod).filter(|_| pod.has_interface()) else { return };
        let attachment = &attached.attachment;
        let wanted = match self.index.wanted_network(name, pod) {
            Ok(network) if network.vrf == attachment.vrf => {
                return note_stale_address(network, attachment, findings);
            }
            Ok(network) => network.name.to_string(),
            // Its refusal says which.
            Err(_) => "one that it cannot be in".to_owned(),
        };
        let known = self.index.networks.name(attachment.vrf);
        let old = known.map_or_else(|| format!("VRF {}", attachment.vrf), NamespacedName::to_string);
        let message = format!(
            "it is attached to network {old} and is to be in {wanted}: it is cut off until it is attached anew"
        );
        findings.add("", message);
    }
}

/// The subnets of its network may have been others when it was attached.
fn note_stale_address(network: &VirtualNetwork, attachment: &Attachment, findings: &mut Findings) {
    if let Some(address) = attachment.addresses.iter().find(|address| !network.contains(**address)) {
        let name = &network.name;
        let message =
            format!("it has {address}, which is not in network {name} any more, until it is attached anew");
        findings.add("", message);
    }
}
