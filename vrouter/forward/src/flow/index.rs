//! The hash index over the slots: buckets of one cache line, in private memory.
//!
//! Readers take no lock. Writers lock a key's home bucket, so two that race for one key meet there. An entry
//! that finds its home full stands in one of the next buckets, and the home counts it, so that readers know
//! to go on.

use super::decision::FlowIndex;
use super::sync::{AtomicU32, AtomicU64, Ordering, relax};

const ENTRIES: usize = 7;
/// How many buckets after its home an entry may stand in.
const REACH: usize = 8;

#[derive(Debug)]
#[repr(C, align(64))]
struct Bucket {
    lock: AtomicU32,
    /// Entries whose home this is and that stand elsewhere.
    strayed: AtomicU32,
    entries: [AtomicU64; ENTRIES],
}

/// The index. An entry is the slot's number and, below it, the hash's upper half, which is never zero; zero is none.
#[derive(Debug)]
pub(super) struct Index {
    /// A power of two of them.
    buckets: Box<[Bucket]>,
}

/// Holds the home buckets of two keys.
pub(super) struct Locked<'a> {
    first: &'a Bucket,
    second: Option<&'a Bucket>,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.first.lock.store(0, Ordering::Release);
        if let Some(second) = self.second {
            second.lock.store(0, Ordering::Release);
        }
    }
}

impl Bucket {
    fn acquire(&self) {
        let mut spins = 0;
        while self.lock.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            relax(&mut spins);
        }
    }

    #[inline(always)]
    fn find(&self, hash: u64, matches: &mut impl FnMut(FlowIndex) -> bool) -> Option<FlowIndex> {
        for word in &self.entries {
            let word = word.load(Ordering::Acquire);
            let slot = FlowIndex((word >> 32) as u32);
            if word as u32 == upper_half(hash) && matches(slot) {
                return Some(slot);
            }
        }
        None
    }
}

fn entry(hash: u64, slot: FlowIndex) -> u64 {
    u64::from(slot.0) << 32 | u64::from(upper_half(hash))
}

fn upper_half(hash: u64) -> u32 {
    (hash >> 32) as u32
}

impl Index {
    /// For this many entries, about half full at most.
    pub(super) fn new(capacity: usize) -> Self {
        let count = (capacity / 4).next_power_of_two().max(REACH * 2);
        let bucket = || Bucket {
            lock: AtomicU32::new(0),
            strayed: AtomicU32::new(0),
            entries: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        Self { buckets: (0..count).map(|_| bucket()).collect() }
    }

    fn home(&self, hash: u64) -> usize {
        self.wrap(hash as usize)
    }

    #[inline(always)]
    fn wrap(&self, number: usize) -> usize {
        number & (self.buckets.len() - 1)
    }

    /// Fetches the home bucket ahead of its use.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        vrouter_arch::prefetch_read(&self.buckets[self.home(hash)]);
    }

    /// The slot with this hash for which `matches` holds.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64, mut matches: impl FnMut(FlowIndex) -> bool) -> Option<FlowIndex> {
        let home = self.home(hash);
        let bucket = &self.buckets[home];
        let found = bucket.find(hash, &mut matches);
        if found.is_some() || bucket.strayed.load(Ordering::Acquire) == 0 {
            return found;
        }
        self.find_strayed(home, hash, matches)
    }

    /// [`Index::find`], in the buckets behind the home.
    #[cold]
    fn find_strayed(
        &self,
        home: usize,
        hash: u64,
        mut matches: impl FnMut(FlowIndex) -> bool,
    ) -> Option<FlowIndex> {
        (1..=REACH).find_map(|reach| self.buckets[self.wrap(home + reach)].find(hash, &mut matches))
    }

    /// Locks the home buckets of two keys, in one order for all.
    #[inline]
    pub(super) fn lock(&self, one: u64, other: u64) -> Locked<'_> {
        let (low, high) = (self.home(one).min(self.home(other)), self.home(one).max(self.home(other)));
        let first = &self.buckets[low];
        first.acquire();
        let second = (high != low).then(|| &self.buckets[high]);
        if let Some(second) = second {
            second.acquire();
        }
        Locked { first, second }
    }

    /// Enters a slot; false if there is no room within reach. The key's home must be locked.
    pub(super) fn insert(&self, hash: u64, slot: FlowIndex) -> bool {
        let home = self.home(hash);
        for reach in 0..=REACH {
            let bucket = &self.buckets[self.wrap(home + reach)];
            for word in &bucket.entries {
                let free = word.load(Ordering::Relaxed) == 0;
                if reach > 0 && free {
                    // Readers must know to go on before the entry is there.
                    self.buckets[home].strayed.fetch_add(1, Ordering::AcqRel);
                }
                // Another home's writer may want the same word.
                if free
                    && word
                        .compare_exchange(0, entry(hash, slot), Ordering::AcqRel, Ordering::Relaxed)
                        .is_ok()
                {
                    return true;
                }
                if reach > 0 && free {
                    self.buckets[home].strayed.fetch_sub(1, Ordering::AcqRel);
                }
            }
        }
        false
    }

    /// Takes a slot out. The key's home must be locked.
    pub(super) fn remove(&self, hash: u64, slot: FlowIndex) {
        let home = self.home(hash);
        let wanted = entry(hash, slot);
        for reach in 0..=REACH {
            let bucket = &self.buckets[self.wrap(home + reach)];
            for word in &bucket.entries {
                if word.load(Ordering::Relaxed) == wanted {
                    word.store(0, Ordering::Release);
                    if reach > 0 {
                        self.buckets[home].strayed.fetch_sub(1, Ordering::AcqRel);
                    }
                    return;
                }
            }
        }
    }
}
