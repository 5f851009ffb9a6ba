//! Taking up what an earlier process left in the slots.

use std::sync::Mutex;
use std::sync::atomic::AtomicU32 as SharedU32;

use super::config::FlowConfig;
use super::decision::{Control, Direction, FlowIndex, Life};
use super::index::Index;
use super::key::KeyHasher;
use super::reserve::FreeSlots;
use super::share::Shares;
use super::slot::Slot;
use super::sync::{AtomicU32, Ordering};
use super::table::{FlowTable, tenths};
use super::tcp::Seen;
use crate::frame::Time;

/// What [`FlowTable::recover`] found in the slots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Connections that go on.
    pub connections: u32,
    /// Slots that a kill left half-written, or whose pair was incomplete; freed.
    pub discarded: u32,
}

impl FlowTable {
    /// Takes up what the slots hold: complete connections go on, anything else is freed.
    ///
    /// `high_water` is kept with the slots: zero for slots that were never used, else as a table left it.
    pub fn recover(
        slots: &'static [Slot],
        high_water: &'static SharedU32,
        config: FlowConfig,
        now: Time,
    ) -> (Self, Recovered) {
        assert!(slots.len() < u32::MAX as usize, "slot numbers are 32 bits");
        let table = Self {
            slots,
            index: Index::new(slots.len()),
            hasher: KeyHasher::new(config.hash_seed),
            config,
            free: Mutex::default(),
            high_water,
            used: AtomicU32::new(0),
            cursor: AtomicU32::new(0),
            shares: Shares::new(),
        };
        let recovered = table.take_up(tenths(now));
        (table, recovered)
    }

    fn take_up(&self, now: u32) -> Recovered {
        let mut recovered = Recovered::default();
        let mut last_used = 0;
        let bound = self.high_water.load(Ordering::Relaxed).min(self.slots.len() as u32);
        for number in 0..bound {
            let index = FlowIndex(number);
            let slot = self.slot(index);
            let control = slot.control();
            if control.life == Life::Free {
                continue;
            }
            last_used = number + 1;
            let forward = control.direction == Direction::Initiator && control.life == Life::Live;
            // The responder's slot is judged with its initiator's.
            if forward && self.take_up_pair(index, control.reverse, now) {
                recovered.connections += 1;
            }
        }
        // Room for all: giving slots back never waits for memory, which is not there before it is used.
        let recycled = Vec::with_capacity(self.slots.len());
        let mut free = FreeSlots { recycled, next_fresh: last_used };
        for number in 0..last_used {
            let index = FlowIndex(number);
            if self.is_indexed(index) {
                continue;
            }
            recovered.discarded += u32::from(self.slot(index).control().life != Life::Free);
            self.slot(index).free();
            free.recycled.push(index);
        }
        self.high_water.store(last_used, Ordering::Relaxed);
        *self.free() = free;
        recovered
    }

    fn take_up_pair(&self, forward: FlowIndex, reverse: FlowIndex, now: u32) -> bool {
        let Some(other) = self.slots.get(reverse.0 as usize) else { return false };
        let control = other.control();
        let paired = control.life != Life::Free
            && control.direction == Direction::Responder
            && control.reverse == forward;
        let slot = self.slot(forward);
        if !paired || slot.key().is_none() || other.key().is_none() {
            return false;
        }
        let (hash, other_hash) = (self.hash_of(slot), self.hash_of(other));
        if !self.index.insert(hash, forward) {
            return false;
        }
        if !self.index.insert(other_hash, reverse) {
            self.index.remove(hash, forward);
            return false;
        }
        other.set_control(Control { life: Life::Live, ..control });
        slot.cap_last_seen(now);
        other.cap_last_seen(now);
        self.used.fetch_add(2, Ordering::Relaxed);
        let share = self.shares.of(slot.owner());
        if other.seen() == Seen::default() {
            share.add_unreplied();
        } else {
            share.add_replied();
        }
        true
    }

    fn is_indexed(&self, index: FlowIndex) -> bool {
        let slot = self.slot(index);
        slot.control().life == Life::Live
            && self.index.find(self.hash_of(slot), |found| found == index).is_some()
    }
}
