//! Settling policies: what nodes hold of them, whom they select, and who is in the sets that they refer to.

use std::collections::BTreeSet;

use vrouter_objects::{NamedPort, Object, PeerSet, PeerSetId, PolicyId};

use super::Model;
use crate::NamespacedName;
use crate::kube::{ObjectRef, PodRecord};
use crate::policy::{self, Compiler, NoIds};
use crate::problem::Findings;
use crate::tables::{Layer, Placed, Unit};

impl Model {
    /// The policies that select a pod, and those of its named ports that they speak of.
    pub(super) fn policies_of(
        &self,
        name: &NamespacedName,
        pod: &PodRecord,
    ) -> (Vec<PolicyId>, Vec<NamedPort>) {
        let (mut policies, mut ports) = (Vec::new(), BTreeSet::new());
        for (reference, record) in self.index.policies_selecting(name, pod) {
            policies.extend(self.policy_ids.get(reference));
            ports.extend(record.own_ports().filter_map(|port| {
                let number = pod.named_port(&port.name, port.protocol)?;
                Some(NamedPort { name: port.name.clone(), protocol: port.protocol, port: number })
            }));
        }
        policies.sort_unstable();
        (policies, ports.into_iter().collect())
    }

    /// Compiles the policies that changed. That comes before the bindings of pods, which name policies by their ids.
    pub(super) fn settle_policies(&mut self) -> usize {
        let policies = std::mem::take(&mut self.index.dirty.policies);
        for reference in &policies {
            let mut findings = Findings::default();
            match self.index.policies.contains_key(reference) {
                true => self.compile(reference, &mut findings),
                false => self.forget_policy(reference),
            }
            self.findings.replace(reference.clone(), findings);
        }
        policies.len()
    }

    /// Brings the peer sets up to date. That comes after pods and addresses are settled.
    pub(super) fn settle_peer_sets(&mut self) -> usize {
        let mut recomputed = 0;
        for released in self.peer_sets.release() {
            self.tables.replace(Unit::PeerSet(released.set), Placed::new());
            recomputed += released.members.len() + 1;
            for member in released.members {
                self.tables.replace(Unit::Peer(released.set, member), Placed::new());
            }
        }
        for set in self.peer_sets.take_empty() {
            recomputed += self.fill(set);
        }
        for pod in std::mem::take(&mut self.index.dirty.peers) {
            let sets = self.sets_concerned(&pod).into_iter();
            recomputed += sets.map(|set| self.place_peer(set, &pod)).sum::<usize>();
        }
        recomputed
    }

    fn compile(&mut self, reference: &ObjectRef, findings: &mut Findings) {
        let Some(record) = self.index.policies.get(reference) else { return };
        let compiled = self.policy_ids.give(reference).ok_or(NoIds).and_then(|id| {
            Compiler::new(&self.index, &mut self.peer_sets).compile(id, reference.to_string(), record)
        });
        match compiled {
            Ok((policy, sets)) => {
                self.peer_sets.refer(policy.id, sets);
                let placed = vec![(Layer::Policy(policy.id), Object::Policy(policy))];
                self.tables.replace(Unit::Policy(reference.clone()), placed);
            }
            // If it has an id, the pods that it selects are cut off: no node holds it.
            Err(NoIds) => {
                findings.add("", "ids are used up");
                self.tables.replace(Unit::Policy(reference.clone()), Placed::new());
            }
        }
    }

    fn forget_policy(&mut self, reference: &ObjectRef) {
        if let Some(id) = self.policy_ids.take_back(reference) {
            self.peer_sets.refer(id, BTreeSet::new());
        }
        self.tables.replace(Unit::Policy(reference.clone()), Placed::new());
    }

    /// Puts all into a new set whom it means.
    fn fill(&mut self, set: PeerSetId) -> usize {
        let Some(meaning) = self.peer_sets.meaning(set) else { return 0 };
        let object = Object::PeerSet(PeerSet { id: set, name: meaning.to_string() });
        let pods: Vec<NamespacedName> = self.index.pods_meant(meaning).into_iter().cloned().collect();
        self.tables.replace(Unit::PeerSet(set), vec![(Layer::PeerSet(set), object)]);
        1 + pods.iter().map(|pod| self.place_peer(set, pod)).sum::<usize>()
    }

    /// The sets that a pod is in, and those that may mean it now.
    fn sets_concerned(&self, name: &NamespacedName) -> BTreeSet<PeerSetId> {
        let mut sets: BTreeSet<PeerSetId> = self.peer_sets.of_member(name).collect();
        if let Some(pod) = self.index.pods.get(name) {
            sets.extend(self.peer_sets.meaning_perhaps(self.index.anchors(name, pod)));
        }
        sets
    }

    /// Puts a pod into a set or takes it out. Returns how many places were looked at: none where the pod never was meant.
    fn place_peer(&mut self, set: PeerSetId, pod: &NamespacedName) -> usize {
        let meaning = self.peer_sets.meaning(set);
        let placed = meaning.map(|meaning| policy::elements(&self.index, (set, meaning), pod));
        let placed = placed.unwrap_or_default();
        if placed.is_empty() && !self.peer_sets.has_member(set, pod) {
            return 0;
        }
        if placed.is_empty() {
            self.peer_sets.expel(set, pod);
        } else {
            self.peer_sets.admit(set, pod);
        }
        self.tables.replace(Unit::Peer(set, pod.clone()), placed);
        1
    }
}
