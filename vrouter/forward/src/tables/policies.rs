//! Which policies govern which interface.

use std::collections::BTreeSet;
use std::sync::Arc;

use vrouter_objects::{Object, ObjectKey, PeerSetId, PodBinding, PodName, PolicyId, Vmi, VmiKind};

use super::Tables;
use super::policy::{InterfacePolicy, PolicyEntry, PolicyUse};
use super::snapshot::PortEntry;
use crate::frame::PortId;

/// What changed about policies, and is not in the interfaces yet.
#[derive(Debug, Default)]
pub(super) struct PolicyChanges {
    pub(super) policies: BTreeSet<PolicyId>,
    pub(super) pods: BTreeSet<PodName>,
    pub(super) sets_gone: BTreeSet<PeerSetId>,
}

impl Tables {
    /// How often a policy decided something here; `None`: it is not held.
    pub fn policy_use(&self, policy: PolicyId) -> Option<PolicyUse> {
        self.policies.get(&policy).map(|entry| entry.used())
    }

    /// Notes what it means for policies that an object is held now, or not any more.
    pub(super) fn note_for_policies(&mut self, key: &ObjectKey) {
        let coming = self.working.coming();
        match key {
            ObjectKey::Policy(id) => {
                match self.objects.get(key) {
                    Some(Object::Policy(policy)) => {
                        let before = self.policies.get(id).map(Arc::as_ref);
                        let entry = Arc::new(PolicyEntry::new(policy, before));
                        self.policies.insert(*id, entry);
                    }
                    _ => drop(self.policies.remove(id)),
                }
                self.policy_changes.policies.insert(*id);
            }
            ObjectKey::PeerAddress(address) => match self.objects.get(key) {
                Some(Object::PeerAddress(peer)) => self.working.peers_mut().put(peer, coming),
                _ => self.working.peers_mut().remove(address, coming),
            },
            ObjectKey::PeerSet(set) if self.objects.contains_key(key) => {
                self.policy_changes.sets_gone.remove(set);
                self.working.peers_mut().hold(*set, coming);
            }
            ObjectKey::PeerSet(set) => drop(self.policy_changes.sets_gone.insert(*set)),
            ObjectKey::PodBinding(pod) => drop(self.policy_changes.pods.insert(pod.clone())),
            _ => {}
        }
    }

    /// Gives the interfaces whose policies changed what governs them now.
    pub(super) fn settle_policies(&mut self) {
        let PolicyChanges { policies, pods, sets_gone } = std::mem::take(&mut self.policy_changes);
        sets_gone.into_iter().for_each(|set| self.working.peers_mut().forget(set));
        if policies.is_empty() && pods.is_empty() {
            return;
        }
        let is_touched = |binding: &PodBinding| {
            pods.contains(&binding.pod) || binding.policies.iter().any(|policy| policies.contains(policy))
        };
        let touched: Vec<(Vmi, PortId)> = self
            .interfaces
            .values()
            .filter(|(vmi, _)| self.binding_of(vmi).is_some_and(is_touched))
            .cloned()
            .collect();
        for (vmi, port) in touched {
            let policy = self.policy_of(&vmi);
            let was_free = self.working.port_of(vmi.id).is_some_and(|entry| entry.policy.is_none());
            if policy.is_some() || !was_free {
                self.working.set_port(port, Some(Arc::new(PortEntry::new(&vmi, port, policy))));
            }
        }
        self.working.note_policy_change();
    }

    /// What governs an interface. Without a binding, what governed it goes on to do so: its pod is about to end, not set free.
    pub(super) fn policy_of(&self, vmi: &Vmi) -> Option<Arc<InterfacePolicy>> {
        let Some(binding) = self.binding_of(vmi) else {
            return self.working.port_of(vmi.id).and_then(|held| held.policy.clone());
        };
        let policies = if binding.vrf == vmi.vrf {
            binding.policies.iter().map(|policy| self.policy_entry(*policy)).collect()
        } else {
            // It is not where its pod belongs, and is to be attached anew.
            vec![Arc::new(PolicyEntry::closed(format!("pod {} belongs to another network", vmi.name)))]
        };
        InterfacePolicy::new(policies, &binding.ports, self.working.coming()).map(Arc::new)
    }

    fn policy_entry(&self, policy: PolicyId) -> Arc<PolicyEntry> {
        let held = self.policies.get(&policy).cloned();
        held.unwrap_or_else(|| Arc::new(PolicyEntry::closed(format!("policy {policy}, which is not held"))))
    }

    /// The binding of an interface's pod. That of an earlier or later pod of its name is another's.
    fn binding_of(&self, vmi: &Vmi) -> Option<&PodBinding> {
        if vmi.kind != VmiKind::Pod {
            return None;
        }
        let key = ObjectKey::PodBinding(vmi.name.parse().ok()?);
        match self.objects.get(&key) {
            Some(Object::PodBinding(binding)) if binding.is_of(&vmi.uid) => Some(binding),
            _ => None,
        }
    }
}
