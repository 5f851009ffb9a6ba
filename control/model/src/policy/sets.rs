//! Peer sets: which there are, who refers to them, and who is in them.

use std::collections::{BTreeMap, BTreeSet};

use vrouter_objects::{PeerSetId, PolicyId};

use super::anchor::{Anchor, Anchored};
use super::{Meaning, Register};
use crate::NamespacedName;
use crate::multimap::Multimap;

/// All peer sets. There is one for everything that a policy means, however many policies mean it.
#[derive(Debug, Default)]
pub struct PeerSets {
    ids: Register<Meaning, PeerSetId>,
    meanings: BTreeMap<PeerSetId, Meaning>,
    anchored: Anchored<PeerSetId>,
    policies: Multimap<PeerSetId, PolicyId>,
    of_policy: BTreeMap<PolicyId, BTreeSet<PeerSetId>>,
    members: Multimap<PeerSetId, NamespacedName>,
    of_member: Multimap<NamespacedName, PeerSetId>,
    /// Sets that nobody was looked for yet.
    empty: BTreeSet<PeerSetId>,
    /// Sets that a policy may have been the last to refer to.
    loose: BTreeSet<PeerSetId>,
}

/// A set that is no more, with those who were in it.
#[derive(Debug)]
pub struct Released {
    /// The set.
    pub set: PeerSetId,
    /// Who was in it.
    pub members: Vec<NamespacedName>,
}

impl PeerSets {
    /// The sets that had these ids when the controller last ran. Those that no policy refers to now are released.
    pub fn new(ids: Register<Meaning, PeerSetId>) -> Self {
        let known: Vec<_> = ids.iter().map(|(meaning, id)| (meaning.clone(), id)).collect();
        let mut sets = Self { ids, ..Self::default() };
        known.into_iter().for_each(|(meaning, id)| sets.enter(id, meaning));
        sets
    }

    /// What must be saved.
    pub fn ids(&self) -> &Register<Meaning, PeerSetId> {
        &self.ids
    }

    /// What must be saved.
    pub fn ids_mut(&mut self) -> &mut Register<Meaning, PeerSetId> {
        &mut self.ids
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (PeerSetId, &Meaning)> {
        self.meanings.iter().map(|(id, meaning)| (*id, meaning))
    }

    /// Whom a set means.
    pub fn meaning(&self, set: PeerSetId) -> Option<&Meaning> {
        self.meanings.get(&set)
    }

    /// The set that means this; `None` once ids are used up.
    pub fn give(&mut self, meaning: Meaning) -> Option<PeerSetId> {
        let id = self.ids.give(&meaning)?;
        if !self.meanings.contains_key(&id) {
            self.enter(id, meaning);
        }
        Some(id)
    }

    /// A policy refers to these sets from now on, and to no others.
    pub fn refer(&mut self, policy: PolicyId, sets: BTreeSet<PeerSetId>) {
        for set in &sets {
            self.policies.insert(*set, policy);
        }
        let old = if sets.is_empty() {
            self.of_policy.remove(&policy)
        } else {
            self.of_policy.insert(policy, sets.clone())
        };
        for set in old.into_iter().flatten().filter(|set| !sets.contains(set)) {
            self.policies.remove(&set, &policy);
            self.loose.insert(set);
        }
    }

    /// The policies that refer to a set.
    pub fn policies(&self, set: PeerSetId) -> impl Iterator<Item = &PolicyId> {
        self.policies.get(&set)
    }

    /// Whether some sets are to be released or filled.
    pub fn has_changes(&self) -> bool {
        !self.empty.is_empty() || !self.loose.is_empty()
    }

    /// Forgets the sets that no policy refers to any more.
    pub fn release(&mut self) -> Vec<Released> {
        let loose = std::mem::take(&mut self.loose).into_iter();
        let unused: Vec<_> = loose.filter(|set| self.policies.get(set).next().is_none()).collect();
        unused.into_iter().map(|set| self.forget(set)).collect()
    }

    /// The sets that nobody was looked for yet. They count as filled from now on.
    pub fn take_empty(&mut self) -> BTreeSet<PeerSetId> {
        std::mem::take(&mut self.empty)
    }

    /// The sets that may mean whoever has these anchors.
    pub fn meaning_perhaps(&self, anchors: impl Iterator<Item = Anchor>) -> BTreeSet<PeerSetId> {
        self.anchored.hanging_on(anchors).copied().collect()
    }

    /// The sets that somebody is in.
    pub fn of_member(&self, member: &NamespacedName) -> impl Iterator<Item = PeerSetId> {
        self.of_member.get(member).copied()
    }

    /// Who is in a set.
    pub fn members(&self, set: PeerSetId) -> impl Iterator<Item = &NamespacedName> {
        self.members.get(&set)
    }

    /// Whether somebody is in a set.
    pub fn has_member(&self, set: PeerSetId, member: &NamespacedName) -> bool {
        self.members.contains(&set, member)
    }

    /// Notes that somebody is in a set.
    pub fn admit(&mut self, set: PeerSetId, member: &NamespacedName) {
        self.members.insert(set, member.clone());
        self.of_member.insert(member.clone(), set);
    }

    /// Notes that somebody is not in a set.
    pub fn expel(&mut self, set: PeerSetId, member: &NamespacedName) {
        self.members.remove(&set, member);
        self.of_member.remove(member, &set);
    }

    fn enter(&mut self, id: PeerSetId, meaning: Meaning) {
        self.anchored.insert_meaning(id, &meaning);
        self.meanings.insert(id, meaning);
        self.empty.insert(id);
        self.loose.insert(id);
    }

    fn forget(&mut self, set: PeerSetId) -> Released {
        if let Some(meaning) = self.meanings.remove(&set) {
            self.ids.take_back(&meaning);
        }
        self.anchored.remove(&set);
        self.empty.remove(&set);
        let members: Vec<NamespacedName> = self.members.get(&set).cloned().collect();
        members.iter().for_each(|member| self.expel(set, member));
        Released { set, members }
    }
}
