//! The table itself: finding, installing and removing flows.

use std::sync::atomic::AtomicU32 as SharedU32;
use std::sync::{Mutex, PoisonError};

use vrouter_objects::VmiId;

use super::config::{FlowConfig, Timeouts};

use super::index::Index;
use super::key::{FlowKey, KeyHasher, PackedKey};
use super::record::{FlowRecord, record};
use super::reserve::{FreeSlots, WorkerFlows};
use super::slot::{Control, Direction, FlowIndex, Life, NewFlow, Slot};
use super::sync::{AtomicU32, Ordering};
use super::tcp::{ConnectionState, Seen};
use crate::frame::Time;

/// What counts against one interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowShare {
    /// Connections.
    pub connections: u32,
    /// Those of them that nobody answered yet.
    pub unreplied: u32,
}

#[derive(Debug)]
pub(super) struct Share {
    pub(super) connections: AtomicU32,
    pub(super) unreplied: AtomicU32,
}

/// What became of an attempt to install a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Installed {
    /// It is in force.
    New,
    /// Another worker was first with the same key; its decision counts.
    Existing,
    /// The way back is taken by another connection: a different source port is needed.
    ReverseTaken,
    /// No slot, or no room in the index.
    Full,
    /// As many connections count against its interface as may.
    InterfaceLimit,
    /// As many unanswered connections count against its interface as may.
    UnrepliedLimit,
}

/// The flow table of a node, shared by its workers.
#[derive(Debug)]
pub struct FlowTable {
    pub(super) slots: &'static [Slot],
    pub(super) index: Index,
    pub(super) hasher: KeyHasher,
    pub(super) config: FlowConfig,
    pub(super) free: Mutex<FreeSlots>,
    /// No slot at or above this one was ever used, nor is ever looked at: a sparse file stays sparse. It is kept with the
    /// slots.
    pub(super) high_water: &'static SharedU32,
    pub(super) used: AtomicU32,
    /// The piece of the table that is looked at next for what is too old, by whichever worker comes to it.
    pub(super) cursor: AtomicU32,
    /// By interface id; interfaces far apart may share one.
    pub(super) shares: Box<[Share]>,
}

/// Interfaces are counted in so many places.
pub(super) const SHARES: usize = 4096;

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
        let share = self.share(owner);
        FlowShare {
            connections: share.connections.load(Ordering::Relaxed),
            unreplied: share.unreplied.load(Ordering::Relaxed),
        }
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

    #[inline]
    pub(crate) fn hash(&self, key: &FlowKey) -> u64 {
        self.hasher.hash(&key.pack())
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
    pub(crate) fn candidate(&self, hash: u64) -> Option<FlowIndex> {
        let index = self.index.find(hash, |_| true)?;
        let slot = self.slot(index);
        vrouter_arch::prefetch_read(slot);
        vrouter_arch::prefetch_write(slot.second_line());
        Some(index)
    }

    /// The flow with this key.
    #[inline]
    pub(crate) fn find(&self, key: &FlowKey, hash: u64) -> Option<FlowIndex> {
        let words = key.pack();
        self.find_packed(&words, hash)
    }

    #[inline]
    fn find_packed(&self, words: &PackedKey, hash: u64) -> Option<FlowIndex> {
        self.index.find(hash, |index| self.slot(index).has_key(words))
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

    pub(super) fn share(&self, owner: Option<VmiId>) -> &Share {
        // No interface has the id 0.
        &self.shares[owner.map_or(0, VmiId::get) as usize % SHARES]
    }

    pub(super) fn free(&self) -> std::sync::MutexGuard<'_, FreeSlots> {
        // The list is whole between any two statements: a panic elsewhere does not make it wrong.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Installs both directions of a connection together.
    pub(crate) fn install(
        &self,
        worker: &mut WorkerFlows,
        initiator: &NewFlow,
        responder: &NewFlow,
        owner: Option<VmiId>,
        epoch: u32,
        now: Time,
    ) -> Installed {
        let share = self.share(owner);
        if share.connections.load(Ordering::Relaxed) >= self.config.connections_per_interface {
            return Installed::InterfaceLimit;
        }
        if share.unreplied.load(Ordering::Relaxed) >= self.config.unreplied_per_interface {
            return Installed::UnrepliedLimit;
        }
        let (words, reverse_words) = (initiator.key.pack(), responder.key.pack());
        let (hash, reverse_hash) = (self.hasher.hash(&words), self.hasher.hash(&reverse_words));
        let Some((forward, reverse)) = worker.take_pair(self) else { return Installed::Full };
        let (slot, other) = (self.slot(forward), self.slot(reverse));
        let locked = self.index.lock(hash, reverse_hash);
        let outcome = if self.find_packed(&words, hash).is_some() {
            Installed::Existing
        } else if self.find_packed(&reverse_words, reverse_hash).is_some() || words == reverse_words {
            Installed::ReverseTaken
        } else {
            let now = tenths(now);
            slot.fill(initiator, owner, epoch, now);
            other.fill(responder, owner, epoch, now);
            let ahead = Control { life: Life::Prepared, direction: Direction::Initiator, reverse };
            let back = Control { life: Life::Prepared, direction: Direction::Responder, reverse: forward };
            other.set_control(back);
            slot.set_control(ahead);
            // From here on a killed process's successor takes up the pair; before, it frees it.
            slot.set_control(Control { life: Life::Live, ..ahead });
            other.set_control(Control { life: Life::Live, ..back });
            self.enter(hash, forward, reverse_hash, reverse)
        };
        drop(locked);
        if outcome == Installed::New {
            self.used.fetch_add(2, Ordering::Relaxed);
            share.connections.fetch_add(1, Ordering::Relaxed);
            share.unreplied.fetch_add(1, Ordering::Relaxed);
            return outcome;
        }
        slot.free();
        other.free();
        match outcome {
            // They stood in the index for a moment: somebody may be looking.
            Installed::Full => worker.limbo.extend([forward, reverse]),
            _ => worker.spare.extend([forward, reverse]),
        }
        outcome
    }

    fn enter(&self, hash: u64, forward: FlowIndex, reverse_hash: u64, reverse: FlowIndex) -> Installed {
        if !self.index.insert(reverse_hash, reverse) {
            return Installed::Full;
        }
        if !self.index.insert(hash, forward) {
            self.index.remove(reverse_hash, reverse);
            return Installed::Full;
        }
        Installed::New
    }

    /// Notes the first packet of the responder.
    pub(crate) fn replied(&self, responder: &Slot) {
        let share = self.share(responder.owner());
        share.unreplied.fetch_sub(1, Ordering::Relaxed);
    }

    /// Forgets a connection, named by either direction. Of two that try, one does.
    pub(crate) fn remove(&self, worker: &mut WorkerFlows, index: FlowIndex) {
        let slot = self.slot(index);
        let partner = slot.reverse();
        let Some(other) = self.slots.get(partner.0 as usize) else { return };
        let (hash, other_hash) = (self.hash_of(slot), self.hash_of(other));
        let locked = self.index.lock(hash, other_hash);
        let (control, other_control) = (slot.control(), other.control());
        let whole = control.life == Life::Live
            && other_control.life == Life::Live
            && control.reverse == partner
            && other_control.reverse == index
            && self.hash_of(slot) == hash
            && self.hash_of(other) == other_hash;
        if !whole {
            return;
        }
        self.index.remove(hash, index);
        self.index.remove(other_hash, partner);
        // The initiator's first: alone, a responder's slot is freed at recovery.
        let (ahead, back) = match control.direction {
            Direction::Initiator => (slot, other),
            Direction::Responder => (other, slot),
        };
        let share = self.share(ahead.owner());
        share.connections.fetch_sub(1, Ordering::Relaxed);
        // Whoever is first to mark it as answered takes it off the count: this, or the answer that just comes.
        if back.add_seen(Seen::any()) == Seen::default() {
            share.unreplied.fetch_sub(1, Ordering::Relaxed);
        }
        ahead.free();
        back.free();
        drop(locked);
        self.used.fetch_sub(2, Ordering::Relaxed);
        worker.limbo.extend([index, partner]);
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
