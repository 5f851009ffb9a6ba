//! Connections come and go: both directions together, so that neither is ever without the other.

use vrouter_objects::VmiId;

use super::decision::{Control, Direction, FlowIndex, Life};
use super::reserve::WorkerFlows;
use super::slot::{NewFlow, Slot};
use super::sync::Ordering;
use super::table::{FlowTable, tenths};
use super::tcp::Seen;
use crate::frame::Time;

/// A connection to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewConnection {
    pub(crate) initiator: NewFlow,
    pub(crate) responder: NewFlow,
    /// The interface it counts against; `None`: it leads to none of this node.
    pub(crate) owner: Option<VmiId>,
    /// The snapshot it was decided by.
    pub(crate) epoch: u32,
}

/// Why a connection is not in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotInstalled {
    /// The way back is taken by another connection: a different source port is needed.
    ReverseTaken,
    /// No slot, or no room in the index.
    Full,
    /// As many connections count against its interface as may.
    InterfaceLimit,
    /// As many unanswered connections count against its interface as may.
    UnrepliedLimit,
}

impl FlowTable {
    /// Installs both directions of a connection and returns the initiator's. Where another worker was first
    /// with the same key, it is that one's, whose decision counts.
    pub(crate) fn install(
        &self,
        worker: &mut WorkerFlows,
        connection: &NewConnection,
        now: Time,
    ) -> Result<FlowIndex, NotInstalled> {
        let share = self.shares.of(connection.owner);
        share.get().admits_another(&self.config)?;
        let (key, reverse_key) = (&connection.initiator.key, &connection.responder.key);
        let (forward, reverse) = worker.take_pair(self).ok_or(NotInstalled::Full)?;
        // Nobody sees the slots yet: writing them is what to do while the index comes near.
        self.index.prefetch(reverse_key.hash);
        self.fill_pair(connection, forward, reverse, tenths(now));
        let locked = self.index.lock(key.hash, reverse_key.hash);
        let in_the_way = if let Some(existing) = self.find(key) {
            Some(Ok(existing))
        } else {
            let is_taken = key == reverse_key || self.find(reverse_key).is_some();
            is_taken.then_some(Err(NotInstalled::ReverseTaken))
        };
        if let Some(outcome) = in_the_way {
            worker.spare.extend([reverse, forward]);
            return outcome;
        }
        self.put_in_force(forward, reverse);
        // Before an answer can find it and take it off the count of those without one.
        self.used.fetch_add(2, Ordering::Relaxed);
        share.add_unreplied();
        if self.enter(key.hash, forward, reverse_key.hash, reverse) {
            return Ok(forward);
        }
        // The way back stood in the index alone: somebody may have answered.
        self.retire(self.slot(forward), self.slot(reverse));
        drop(locked);
        // They stood in the index for a moment: somebody may be looking.
        worker.limbo.extend([forward, reverse]);
        Err(NotInstalled::Full)
    }

    #[inline]
    fn fill_pair(&self, connection: &NewConnection, forward: FlowIndex, reverse: FlowIndex, now: u32) {
        let NewConnection { initiator, responder, owner, epoch, .. } = connection;
        self.slot(forward).fill(initiator, *owner, *epoch, now);
        self.slot(reverse).fill(responder, *owner, *epoch, now);
    }

    fn put_in_force(&self, forward: FlowIndex, reverse: FlowIndex) {
        let (slot, other) = (self.slot(forward), self.slot(reverse));
        let ahead = Control { life: Life::Prepared, direction: Direction::Initiator, reverse };
        let back = Control { life: Life::Prepared, direction: Direction::Responder, reverse: forward };
        other.set_control(back);
        slot.set_control(ahead);
        // From here on a killed process's successor takes up the pair; before, it frees it.
        slot.set_control(Control { life: Life::Live, ..ahead });
        other.set_control(Control { life: Life::Live, ..back });
    }

    fn enter(&self, hash: u64, forward: FlowIndex, reverse_hash: u64, reverse: FlowIndex) -> bool {
        if !self.index.insert(reverse_hash, reverse) {
            return false;
        }
        let entered = self.index.insert(hash, forward);
        if !entered {
            self.index.remove(reverse_hash, reverse);
        }
        entered
    }

    /// Notes the first packet of the responder.
    pub(crate) fn replied(&self, responder: &Slot) {
        self.shares.of(responder.owner()).note_reply();
    }

    /// Forgets a connection, named by either direction. Of two that try, one does.
    pub(crate) fn remove(&self, worker: &mut WorkerFlows, index: FlowIndex) {
        let slot = self.slot(index);
        let partner = slot.reverse();
        let Some(other) = self.slots.get(partner.0 as usize) else { return };
        let (words, other_words) = (slot.key_words(), other.key_words());
        let (hash, other_hash) = (self.hasher.hash(&words), self.hasher.hash(&other_words));
        let locked = self.index.lock(hash, other_hash);
        let (control, other_control) = (slot.control(), other.control());
        let whole = control.life == Life::Live
            && other_control.life == Life::Live
            && control.reverse == partner
            && other_control.reverse == index
            && slot.has_key(&words)
            && other.has_key(&other_words);
        if !whole {
            return;
        }
        self.index.remove(hash, index);
        self.index.remove(other_hash, partner);
        let (ahead, back) = match control.direction {
            Direction::Initiator => (slot, other),
            Direction::Responder => (other, slot),
        };
        self.retire(ahead, back);
        drop(locked);
        worker.limbo.extend([index, partner]);
    }

    /// Takes a connection that the index does not name any more out of force, and off the counts.
    fn retire(&self, ahead: &Slot, back: &Slot) {
        let share = self.shares.of(ahead.owner());
        // Whoever is first to mark it as answered takes it off the count: this, or the answer that just
        // comes.
        if back.add_seen(Seen::ANY) == Seen::default() {
            share.remove_unreplied();
        } else {
            share.remove_replied();
        }
        // The initiator's first: alone, a responder's slot is freed at recovery.
        ahead.free();
        back.free();
        self.used.fetch_sub(2, Ordering::Relaxed);
    }
}
