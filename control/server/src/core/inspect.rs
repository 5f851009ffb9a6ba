//! Answers for tools.

use vrouter_control_model::DocumentKind;
use vrouter_proto::v1;

use super::Core;

impl Core {
    /// The mirrored objects of a kind.
    pub(super) fn objects(&self, kind: DocumentKind, name: &str) -> Vec<v1::MirroredObject> {
        let documents = self
            .model
            .documents(kind)
            .into_iter()
            .filter(|document| name.is_empty() || document.name() == name);
        let object = |document: vrouter_control_model::Document| match serde_json::to_string(&document) {
            Ok(json) => Some(v1::MirroredObject { kind: kind.to_string(), name: document.name(), json }),
            Err(error) => {
                tracing::error!(%kind, name = document.name(), %error, "a document cannot be written");
                None
            }
        };
        documents.filter_map(object).collect()
    }

    /// Versions, nodes and problems.
    pub(super) fn status(&self) -> v1::ControllerStatus {
        let nodes = self.nodes.iter().map(|(name, node)| {
            let held = node.sync.held();
            let refusals = node.sync.refused().iter();
            v1::NodeStatus {
                name: name.clone(),
                connected: node.session.is_some(),
                sent_version: node.sync.sent_version().0,
                applied_version: held.version.0,
                digest: held.digest.to_bytes(),
                expected_digest: held.expected.to_bytes(),
                refusals: refusals
                    .map(|(key, refused)| v1::Refusal {
                        object: Some(key.into()),
                        reason: refused.reason.clone(),
                    })
                    .collect(),
            }
        });
        let problems = self.source_problems.iter().cloned().chain(self.model.problems());
        v1::ControllerStatus {
            version: self.version.0,
            nodes: nodes.collect(),
            problems: problems
                .map(|problem| v1::Problem {
                    source: problem.source,
                    object: problem.object,
                    field: problem.field,
                    message: problem.message,
                })
                .collect(),
            settled: false,
        }
    }
}
