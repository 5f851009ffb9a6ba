//! Ids that outlive the process.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::allocate::{Counter, Numbered};

/// Ids by what has them: given at first sight, kept until they are taken back, and never given again.
#[derive(Debug, Clone)]
pub struct Register<K, I> {
    counter: Counter,
    ids: BTreeMap<K, I>,
    /// Whose id was given or taken back since changes were last taken.
    changed: BTreeSet<K>,
}

/// What of a register changed, or all of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RegisterChanges<K> {
    counter: Counter,
    /// Each with the number of its id, or without one.
    entries: Vec<(K, Option<u32>)>,
}

impl<K, I> Default for Register<K, I> {
    fn default() -> Self {
        Self { counter: Counter::NEW, ids: BTreeMap::new(), changed: BTreeSet::new() }
    }
}

impl<K: Ord + Clone, I: Numbered> Register<K, I> {
    /// All that have ids.
    pub fn iter(&self) -> impl Iterator<Item = (&K, I)> {
        self.ids.iter().map(|(key, id)| (key, *id))
    }

    /// The id of something.
    pub fn get(&self, key: &K) -> Option<I> {
        self.ids.get(key).copied()
    }

    /// The id of something, which is given one if it has none; `None` once ids are used up.
    pub fn give(&mut self, key: &K) -> Option<I> {
        if let Some(id) = self.ids.get(key) {
            return Some(*id);
        }
        let id = self.counter.next()?;
        self.ids.insert(key.clone(), id);
        self.changed.insert(key.clone());
        Some(id)
    }

    /// Takes an id back.
    pub fn take_back(&mut self, key: &K) -> Option<I> {
        let id = self.ids.remove(key)?;
        self.changed.insert(key.clone());
        Some(id)
    }

    /// What changed since this was last asked; `None`: nothing did.
    pub fn take_changes(&mut self) -> Option<RegisterChanges<K>> {
        let changed = std::mem::take(&mut self.changed);
        if changed.is_empty() {
            return None;
        }
        let number = |key: &K| self.ids.get(key).map(|id| id.number());
        let entries = changed.into_iter().map(|key| (number(&key), key)).map(|(id, key)| (key, id));
        Some(RegisterChanges { counter: self.counter.clone(), entries: entries.collect() })
    }

    /// Makes a change that was taken from the register after this one.
    pub fn replay(&mut self, changes: RegisterChanges<K>) {
        self.counter = changes.counter;
        for (key, number) in changes.entries {
            match number.and_then(|number| I::numbered(number).ok()) {
                Some(id) => self.ids.insert(key, id),
                None => self.ids.remove(&key),
            };
        }
    }

    /// Whether the register agrees with itself.
    pub fn check(&self, what: &str) -> Result<(), String> {
        let mut numbers = BTreeSet::new();
        for id in self.ids.values() {
            let number = id.number();
            if !self.counter.has_given(number) || !numbers.insert(number) {
                return Err(format!("{what} {number} was never given, or twice"));
            }
        }
        Ok(())
    }
}

impl<K: Serialize + Clone, I: Numbered> Serialize for Register<K, I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries = self.ids.iter().map(|(key, id)| (key.clone(), Some(id.number()))).collect();
        RegisterChanges { counter: self.counter.clone(), entries }.serialize(serializer)
    }
}

impl<'de, K: Deserialize<'de> + Ord + Clone, I: Numbered> Deserialize<'de> for Register<K, I> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut register = Self::default();
        register.replay(RegisterChanges::deserialize(deserializer)?);
        Ok(register)
    }
}
