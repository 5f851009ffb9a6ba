//! Which layers each node holds.

use super::Model;
use crate::allocate::StateChange;
use crate::interest::InterestChange;
use crate::tables::{Change, Layer};

impl Model {
    /// A node takes part, whether there is a Node of its name or not.
    pub fn enlist(&mut self, node: &str) {
        self.interest.enlist(node);
    }

    /// A node takes part only if there is a Node of its name.
    pub fn dismiss(&mut self, node: &str) {
        self.interest.dismiss(node);
    }

    /// The layers that a node holds beside its own, in order: what its pods and its interfaces are in, the policies that
    /// select them, what all nodes serve, and whatever these refer to.
    pub fn interest(&self, node: &str) -> impl Iterator<Item = &Layer> {
        self.interest.of(node)
    }

    /// What nodes gain and lose by changes of the tables and of what is attached.
    pub(super) fn settle_interest(
        &mut self,
        changes: &[Change],
        state: Option<&StateChange>,
    ) -> Vec<InterestChange> {
        for Change { layer, key, object } in changes {
            self.interest.object(layer, key, object.as_deref());
        }
        for change in state.into_iter().flat_map(|state| &state.attachments) {
            let (node, vmi) = change.interface();
            self.interest.interface(node, vmi, change.network());
        }
        self.interest.settle()
    }
}
