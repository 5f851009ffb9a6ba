//! Everything that is wrong with the input.

use super::Model;
use crate::kube::{ADDRESSES_ANNOTATION, Kind, PodRecord, network_field};
use crate::network::{Misplaced, NetworkFault};
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

    /// A pod that runs keeps its interface, whatever becomes of its network.
    pub(super) fn note_stale_interface(
        &self,
        name: &NamespacedName,
        pod: &PodRecord,
        findings: &mut Findings,
    ) {
        let Some(attached) = self.index.attachment(name, pod).filter(|_| pod.has_interface()) else { return };
        let Ok(network) = self.index.wanted_network(name, pod) else { return };
        let attachment = &attached.attachment;
        if attachment.vrf != network.vrf {
            let known = self.index.networks.name(attachment.vrf);
            let old = known.map_or_else(|| format!("VRF {}", attachment.vrf), NamespacedName::to_string);
            let message = format!(
                "it is attached to network {old} and is to be in {}: it is cut off until it is attached anew",
                network.name
            );
            findings.add("", message);
        } else if let Some(address) = attachment.addresses.iter().find(|address| !network.contains(**address))
        {
            let message = format!(
                "it has {address}, which is not in network {} any more, until it is attached anew",
                network.name
            );
            findings.add("", message);
        }
    }
}
