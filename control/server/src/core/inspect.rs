//! Answers for tools.

use vrouter_control_model::{Kind, Problem};
use vrouter_proto::v1;

use super::Core;

impl Core {
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
        let problems =
            self.source_problems.iter().cloned().chain(self.model.problems()).chain(self.node_problems());
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

    /// What is wrong between the controller and the nodes.
    fn node_problems(&self) -> impl Iterator<Item = Problem> {
        self.nodes.iter().flat_map(|(name, node)| {
            let held = node.sync.held();
            let drifted = node.sync.has_drifted().then(|| {
                format!(
                    "holds something else than it was sent (digest {} where {} is expected), and is sent everything again with the next change",
                    held.digest, held.expected
                )
            });
            let rival = node.rival().map(|boot_id| {
                format!("another machine (boot id {boot_id}) wants to connect as this node and is refused: one of the two has a wrong name")
            });
            drifted.into_iter().chain(rival).map(move |message| Problem {
                source: format!("node {name}"),
                object: format!("{} {name}", Kind::Node),
                field: String::new(),
                message,
            })
        })
    }
}
