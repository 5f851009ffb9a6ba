//! A map whose copies share all shards but the changed ones.

use std::sync::Arc;

use super::shared_map::{Key, SharedMap};

const SHARDS: usize = 256;

/// A hash map in shards. A clone costs one reference; a change copies one shard, and a reference to each
/// other.
#[derive(Debug)]
pub(super) struct Sharded<K, V> {
    shards: Arc<[SharedMap<K, V>; SHARDS]>,
}

impl<K, V> Clone for Sharded<K, V> {
    fn clone(&self) -> Self {
        Self { shards: Arc::clone(&self.shards) }
    }
}

impl<K: Key, V: Clone> Sharded<K, V> {
    pub(super) fn new() -> Self {
        Self { shards: Arc::new(std::array::from_fn(|_| SharedMap::default())) }
    }

    /// By the upper bits: within a shard, rows go by the lower ones.
    fn shard_number(hash: u64) -> usize {
        (hash >> 56) as usize % SHARDS
    }

    #[inline]
    pub(super) fn get(&self, key: K) -> Option<&V> {
        let hash = key.hash();
        self.shards[Self::shard_number(hash)].get_hashed(hash, key)
    }

    fn shard_mut(&mut self, key: K) -> &mut SharedMap<K, V> {
        &mut Arc::make_mut(&mut self.shards)[Self::shard_number(key.hash())]
    }

    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.shard_mut(key).insert(key, value)
    }

    pub(super) fn remove(&mut self, key: K) -> Option<V> {
        self.get(key)?;
        self.shard_mut(key).remove(key)
    }

    #[cfg(test)]
    fn shared_shards(&self, other: &Self) -> usize {
        self.shards.iter().zip(other.shards.iter()).filter(|(one, two)| one.is_one_with(two)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Address;

    #[test]
    fn a_change_copies_one_shard() {
        let key = |number| Address::from_bits(number);
        let mut map = Sharded::new();
        for number in 0..10_000 {
            map.insert(key(number), number);
        }
        let before = map.clone();
        map.insert(key(7), 0);
        map.remove(key(8));
        map.remove(key(1_000_000));
        assert!(map.shared_shards(&before) >= SHARDS - 2);
        assert_eq!((before.get(key(7)), map.get(key(7))), (Some(&7), Some(&0)));
        assert_eq!((before.get(key(8)), map.get(key(8))), (Some(&8), None));
    }
}
