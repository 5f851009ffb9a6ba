//! Everything that is wrong with the input.

use super::Model;
use crate::kube::{ADDRESSES_ANNOTATION, AddressWish, PodRecord};
use crate::problem::Findings;
use crate::tables;
use crate::{NamespacedName, Problem};

impl Model {
    /// What in the recorded objects could not be used, in a stable order.
    pub fn problems(&self) -> Vec<Problem> {
        let beyond = self.findings.iter().map(|(object, finding)| Problem {
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
        // What cannot be read was noted when the object was.
        if !pod.has_interface() || matches!(pod.wish, AddressWish::Malformed(_)) {
            return;
        }
        if let Err(refusal) = tables::grant(&self.config, &self.index, name, pod) {
            let field = format!("metadata.annotations[{ADDRESSES_ANNOTATION}]");
            findings.add(field, refusal);
        }
    }
}
