//! A map from a key to the set of those that have it.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

/// Many values per key; a key without values takes no room.
#[derive(Debug, Clone)]
pub struct Multimap<K, V>(BTreeMap<K, BTreeSet<V>>);

impl<K, V> Default for Multimap<K, V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord, V: Ord> Multimap<K, V> {
    /// Adds a value to a key.
    pub fn insert(&mut self, key: K, value: V) {
        self.0.entry(key).or_default().insert(value);
    }

    /// Takes a value from a key.
    pub fn remove<Q: Ord + ?Sized, W: Ord + ?Sized>(&mut self, key: &Q, value: &W)
    where
        K: Borrow<Q>,
        V: Borrow<W>,
    {
        if let Some(values) = self.0.get_mut(key) {
            values.remove(value);
            if values.is_empty() {
                self.0.remove(key);
            }
        }
    }

    /// Whether the key has this value.
    pub fn contains<Q: Ord + ?Sized, W: Ord + ?Sized>(&self, key: &Q, value: &W) -> bool
    where
        K: Borrow<Q>,
        V: Borrow<W>,
    {
        self.0.get(key).is_some_and(|values| values.contains(value))
    }

    /// How many values the key has.
    pub fn count<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        self.0.get(key).map_or(0, BTreeSet::len)
    }

    /// The key's values, in order.
    pub fn get<'a, Q: Ord + ?Sized>(&'a self, key: &Q) -> impl Iterator<Item = &'a V> + use<'a, K, V, Q>
    where
        K: Borrow<Q>,
    {
        self.0.get(key).into_iter().flatten()
    }
}
