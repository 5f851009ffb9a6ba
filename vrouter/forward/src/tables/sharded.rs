//! A map whose copies share all shards but the changed ones.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use foldhash::quality::FixedState;

const SHARDS: usize = 256;

/// Keys come from the controller, not from packets, so a fixed seed will do.
type Hashed = FixedState;

/// A hash map in shards. A clone costs one reference per shard; a change copies one shard.
#[derive(Debug, Clone)]
pub(super) struct Sharded<K, V> {
    shards: Arc<[Arc<HashMap<K, V, Hashed>>]>,
    hasher: Hashed,
}

impl<K: Hash + Eq + Clone, V: Clone> Sharded<K, V> {
    pub(super) fn new() -> Self {
        let hasher = Hashed::with_seed(0);
        let empty = Arc::new(HashMap::with_hasher(hasher.clone()));
        Self { shards: (0..SHARDS).map(|_| Arc::clone(&empty)).collect(), hasher }
    }

    fn shard_number(&self, key: &K) -> usize {
        // The maps within use the same hash's other bits.
        (self.hasher.hash_one(key) >> 48) as usize % SHARDS
    }

    #[inline]
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.shards[self.shard_number(key)].get(key)
    }

    fn shard_mut(&mut self, key: &K) -> &mut HashMap<K, V, Hashed> {
        let number = self.shard_number(key);
        Arc::make_mut(&mut Arc::make_mut(&mut self.shards)[number])
    }

    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.shard_mut(&key).insert(key, value)
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        self.get(key)?;
        self.shard_mut(key).remove(key)
    }

    #[cfg(test)]
    pub(super) fn shared_shards(&self, other: &Self) -> usize {
        self.shards.iter().zip(other.shards.iter()).filter(|(one, two)| Arc::ptr_eq(one, two)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_copies_one_shard() {
        let mut map = Sharded::new();
        for key in 0..10_000_u32 {
            map.insert(key, key);
        }
        let before = map.clone();
        map.insert(7, 0);
        map.remove(&8);
        map.remove(&1_000_000);
        assert!(map.shared_shards(&before) >= SHARDS - 2);
        assert_eq!((before.get(&7), map.get(&7)), (Some(&7), Some(&0)));
        assert_eq!((before.get(&8), map.get(&8)), (Some(&8), None));
    }
}
