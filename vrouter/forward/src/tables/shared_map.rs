//! A hash map whose copies are one until one of them changes, and whose look-up is a few instructions.

use std::sync::Arc;

use vrouter_objects::{PeerSetId, RouterId, VmiId, Vni, VrfId};

use crate::address::Address;

/// What a map is looked up by.
pub(super) trait Key: Copy + Eq {
    /// A number all of whose bits depend on all of the key.
    fn hash(self) -> u64;
}

/// Two numbers as one. Keys come from the controller, not from packets, so there is no secret in it.
#[inline]
pub(super) fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one ^ 0x243f_6a88_85a3_08d3) * u128::from(other ^ 0x9e37_79b9_7f4a_7c15);
    product as u64 ^ (product >> 64) as u64
}

macro_rules! key_by_number {
    ($($id:ty),*) => {
        $(impl Key for $id {
            #[inline]
            fn hash(self) -> u64 {
                fold(self.get().into(), 0)
            }
        })*
    };
}

key_by_number!(PeerSetId, RouterId, VmiId, Vni, VrfId);

impl Key for Address {
    #[inline]
    fn hash(self) -> u64 {
        fold(self.bits() as u64, (self.bits() >> 64) as u64)
    }
}

/// An address of a peer set, in an address space.
impl Key for (PeerSetId, VrfId, Address) {
    #[inline]
    fn hash(self) -> u64 {
        let (set, space, address) = self;
        let place = fold(set.get().into(), space.get().into());
        fold(address.bits() as u64 ^ place, (address.bits() >> 64) as u64 ^ place.rotate_left(32))
    }
}

/// A prefix: its address and length.
impl Key for (Address, u8) {
    #[inline]
    fn hash(self) -> u64 {
        // The length goes where addresses of one network are alike.
        fold(self.0.bits() as u64, (self.0.bits() >> 64) as u64 ^ u64::from(self.1) << 56)
    }
}

/// The map: rows in one piece, a power of two of them and at most half in use. A key stands in the row that
/// its hash says, or in the next free one behind it.
#[derive(Debug)]
pub(super) struct SharedMap<K, V> {
    rows: Arc<[Option<(K, V)>]>,
    used: usize,
}

impl<K, V> Clone for SharedMap<K, V> {
    fn clone(&self) -> Self {
        Self { rows: Arc::clone(&self.rows), used: self.used }
    }
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self { rows: Arc::default(), used: 0 }
    }
}

impl<K: Key, V: Clone> SharedMap<K, V> {
    #[inline]
    pub(super) fn get(&self, key: K) -> Option<&V> {
        self.get_hashed(key.hash(), key)
    }

    /// The same, for whoever knows the key's hash.
    #[inline]
    pub(super) fn get_hashed(&self, hash: u64, key: K) -> Option<&V> {
        let mask = self.rows.len().wrapping_sub(1);
        let mut row = hash as usize;
        loop {
            // There are free rows, or none at all.
            let (other, value) = self.rows.get(row & mask)?.as_ref()?;
            if *other == key {
                return Some(value);
            }
            row = row.wrapping_add(1);
        }
    }

    /// The key's value, for a change to this copy alone.
    pub(super) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let row = self.row_of(key.hash(), key);
        self.rows.get(row)?.as_ref()?;
        Arc::make_mut(&mut self.rows)[row].as_mut().map(|(_, value)| value)
    }

    /// Puts a value in place of the key's, which is returned.
    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        if self.used * 2 >= self.rows.len() {
            self.grow();
        }
        let row = self.row_of(key.hash(), key);
        let before = Arc::make_mut(&mut self.rows)[row].replace((key, value));
        self.used += usize::from(before.is_none());
        before.map(|(_, value)| value)
    }

    pub(super) fn remove(&mut self, key: K) -> Option<V> {
        let row = self.row_of(key.hash(), key);
        self.rows.get(row)?.as_ref()?;
        let removed = Arc::make_mut(&mut self.rows)[row].take();
        self.used -= 1;
        self.close_gap(row);
        removed.map(|(_, value)| value)
    }

    /// The row of a key, or the free one where it belongs. There is none only while there are no rows at all.
    fn row_of(&self, hash: u64, key: K) -> usize {
        let mask = self.rows.len().wrapping_sub(1);
        let mut row = hash as usize & mask;
        // Half of the rows are free.
        while let Some(Some((other, _))) = self.rows.get(row)
            && *other != key
        {
            row = (row + 1) & mask;
        }
        row
    }

    /// Whether neither has changed since it was copied from the other, or both from a third.
    #[cfg(test)]
    pub(super) fn is_one_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rows, &other.rows)
    }

    fn grow(&mut self) {
        let count = (self.rows.len() * 2).max(8);
        let larger = Self { rows: (0..count).map(|_| None).collect(), used: 0 };
        let rows = std::mem::replace(self, larger).rows;
        for (key, value) in rows.iter().flatten() {
            self.insert(*key, value.clone());
        }
    }

    /// Moves up what stands behind a row that became free and may stand there: a search ends at a free row.
    fn close_gap(&mut self, mut gap: usize) {
        let rows = Arc::make_mut(&mut self.rows);
        let mask = rows.len() - 1;
        let mut row = gap;
        loop {
            row = (row + 1) & mask;
            let Some((key, _)) = &rows[row] else { return };
            let from_home = row.wrapping_sub(key.hash() as usize) & mask;
            if from_home >= row.wrapping_sub(gap) & mask {
                rows.swap(gap, row);
                gap = row;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// A key with a bad hash: many stand away from home.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    struct Crowded(u8);

    impl Key for Crowded {
        fn hash(self) -> u64 {
            u64::from(self.0) / 16 * 7
        }
    }

    proptest! {
        #[test]
        fn holds_what_a_plain_map_holds(
            steps in proptest::collection::vec((any::<u8>(), any::<Option<u32>>()), 0..300),
        ) {
            let (mut map, mut model) = (SharedMap::default(), BTreeMap::new());
            let mut copies = Vec::new();
            for (key, value) in steps {
                let key = Crowded(key);
                let (was, should) = match value {
                    Some(value) => (map.insert(key, value), model.insert(key, value)),
                    None => (map.remove(key), model.remove(&key)),
                };
                prop_assert_eq!(was, should);
                copies.push((map.clone(), model.clone()));
            }
            for (copy, model) in copies {
                for key in (0..=u8::MAX).map(Crowded) {
                    prop_assert_eq!(copy.get(key), model.get(&key));
                }
            }
        }
    }

    #[test]
    fn keys_of_every_pattern_stand_near_their_homes() {
        let address = |number: u32| Address::v4(number.to_be_bytes());
        let v6 = |number: u32| Address::from_bits(0xfd00 << 112 | u128::from(number) << 64);
        let patterns: [(&str, &dyn Fn(u32) -> u64); 6] = [
            ("consecutive ids", &|n| VrfId::new(n + 1).unwrap().hash()),
            ("blocks of ids", &|n| VmiId::new((n % 16) + (n / 16) * 4096 + 1).unwrap().hash()),
            ("addresses", &|n| address(0x0a60_0000 + n).hash()),
            ("networks", &|n| address(n << 16).hash()),
            ("prefixes", &|n| (address(n / 8 * 0x100), 96 + (n % 8) as u8 * 4).hash()),
            ("IPv6 networks", &|n| v6(n).hash()),
        ];
        for (name, hash) in patterns {
            let mut homes = vec![0; 2048];
            for number in 0..1024 {
                homes[hash(number) as usize % 2048] += 1;
            }
            let most = homes.into_iter().max().unwrap_or(0);
            assert!(most <= 8, "{name}: {most} of 1024 keys in one of 2048 homes");
        }
    }
}
