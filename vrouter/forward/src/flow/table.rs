//! The table itself, and finding flows in it.

use std::sync::atomic::AtomicU32 as SharedU32;
use std::sync::{Mutex, PoisonError};

use vrouter_objects::VmiId;

use super::config::{FlowConfig, Timeouts};

use super::decision::{Direction, FlowIndex};
use super::index::Index;
use super::key::{FlowKey, KeyHasher, PackedKey, TableKey};
use super::record::{FlowRecord, record};
use super::reserve::FreeSlots;
use super::share::{FlowShare, Shares};
use super::slot::Slot;
use super::sync::{AtomicU32, Ordering};
use super::tcp::ConnectionState;
use crate::frame::Time;

/// The flow table of a node, shared by its workers.
#[derive(Debug)]
pub struct FlowTable {
    pub(super) slots: &'static [Slot],
    pub(super) index: Index,
    pub(super) hasher: KeyHasher,
    pub(super) config: FlowConfig,
    pub(super) free: Mutex<FreeSlots>,
    /// No slot at or above this one was ever used, nor is ever looked at: a sparse file stays sparse. It is
    /// kept with the slots.
    pub(super) high_water: &'static SharedU32,
    pub(super) used: AtomicU32,
    /// The piece of the table that is looked at next for what is too old, by whichever worker comes to it.
    pub(super) cursor: AtomicU32,
    pub(super) shares: Shares,
}

/// The clock of the slots: tenths of a second, good for thirteen years of uptime.
pub(crate) fn tenths(now: Time) -> u32 {
    (now.0 / 100_000) as u32
}

impl FlowTable {
    /// How many directions it can hold.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// How many directions it holds: two for each connection.
    pub fn len(&self) -> usize {
        self.used.load(Ordering::Relaxed) as usize
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What counts against an interface; `None`: what is none's here.
    pub fn share_of(&self, owner: Option<VmiId>) -> FlowShare {
        self.shares.of(owner).get()
    }

    /// The configured idle times.
    pub fn timeouts(&self) -> &Timeouts {
        &self.config.timeouts
    }

    /// Up to `limit` flows for which `wanted` holds, in the order of their slots.
    pub fn records(
        &self,
        now: Time,
        limit: usize,
        mut wanted: impl FnMut(&FlowRecord) -> bool,
    ) -> Vec<FlowRecord> {
        (0..self.high_water.load(Ordering::Acquire))
            .filter_map(|number| record(self, FlowIndex(number), now))
            .filter(|record| wanted(record))
            .take(limit)
            .collect()
    }

    /// The secret that choices and hash tables depend on.
    pub(crate) fn seed(&self) -> u64 {
        self.config.hash_seed
    }

    pub(crate) fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// The key as the table takes it.
    #[inline]
    pub(crate) fn table_key(&self, key: &FlowKey) -> TableKey {
        let words = key.pack();
        TableKey { hash: self.hasher.hash(&words), words }
    }

    /// The hash of a packed key.
    #[inline(always)]
    pub(crate) fn hash_packed(&self, key: &PackedKey) -> u64 {
        self.hasher.hash(key)
    }

    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// The slot that probably is this hash's flow, fetched ahead of its use.
    #[inline(always)]
    pub(crate) fn candidate(&self, hash: u64) -> Option<&'static Slot> {
        let slot = self.slot(self.index.find(hash, |_| true)?);
        vrouter_arch::prefetch_read(slot);
        vrouter_arch::prefetch_write(slot.second_line());
        Some(slot)
    }

    /// The flow with this key.
    #[inline]
    pub(crate) fn find(&self, key: &TableKey) -> Option<FlowIndex> {
        self.index.find(key.hash, |index| self.slot(index).has_key(&key.words))
    }

    /// The slot with this number.
    ///
    /// # Panics
    /// If there is none: slot numbers come from the table itself.
    #[inline]
    pub(crate) fn slot(&self, index: FlowIndex) -> &'static Slot {
        &self.slots[index.0 as usize]
    }

    pub(super) fn hash_of(&self, slot: &Slot) -> u64 {
        self.hasher.hash(&slot.key_words())
    }

    pub(super) fn free(&self) -> std::sync::MutexGuard<'_, FreeSlots> {
        // The list is whole between any two statements: a panic elsewhere does not make it wrong.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of the connection that this direction belongs to.
    pub(crate) fn state(&self, slot: &Slot) -> ConnectionState {
        let Some(other) = self.slots.get(slot.reverse().0 as usize) else { return ConnectionState::Closed };
        let (initiator, responder) = match slot.direction() {
            Direction::Initiator => (slot.seen(), other.seen()),
            Direction::Responder => (other.seen(), slot.seen()),
        };
        ConnectionState::of(slot.protocol(), initiator, responder)
    }

    /// When either direction last had a packet, in [`tenths`].
    pub(crate) fn last_seen(&self, slot: &Slot) -> u32 {
        let other = self.slots.get(slot.reverse().0 as usize).map_or(0, Slot::last_seen);
        slot.last_seen().max(other)
    }
}
