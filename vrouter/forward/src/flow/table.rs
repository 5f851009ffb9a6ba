//! The table itself: finding, installing, ageing and recovering flows.

use std::sync::atomic::AtomicU32 as SharedU32;
use std::sync::{Mutex, PoisonError};

use vrouter_objects::{IpProtocol, VmiId};

use super::index::Index;
use super::key::{FlowKey, KEY_WORDS, KeyHasher};
use super::quiescence::{Boundary, Quiescence};
use super::record::{FlowRecord, record};
use super::slot::{Control, Direction, FlowIndex, Life, NewFlow, Slot};
use super::sync::{AtomicU32, Ordering};
use super::tcp::{ConnectionState, Seen};
use crate::frame::Time;

/// How long a flow may be idle before it is forgotten, in milliseconds, by the state of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Nothing came back, or a TCP handshake is not complete.
    pub unreplied: u32,
    /// An established TCP connection or SCTP association.
    pub established: u32,
    /// A TCP connection that one side has finished.
    pub closing: u32,
    /// A TCP connection that is over.
    pub closed: u32,
    /// UDP with traffic both ways, and any other protocol.
    pub datagram: u32,
    /// Answered ICMP queries.
    pub icmp: u32,
}

impl Default for Timeouts {
    /// What a node's conntrack would use under kube-proxy.
    fn default() -> Self {
        Self {
            unreplied: 30_000,
            established: 24 * 3_600_000,
            closing: 60_000,
            closed: 10_000,
            datagram: 180_000,
            icmp: 30_000,
        }
    }
}

impl Timeouts {
    /// How long a connection of this protocol in this state may be idle, in milliseconds.
    pub const fn of(&self, protocol: IpProtocol, state: ConnectionState) -> u32 {
        match (state, protocol) {
            (ConnectionState::Unreplied | ConnectionState::Handshake, _) => self.unreplied,
            (ConnectionState::Closing, _) => self.closing,
            (ConnectionState::Closed, _) => self.closed,
            (ConnectionState::Established, IpProtocol::TCP | IpProtocol::SCTP) => self.established,
            (ConnectionState::Established, IpProtocol::ICMP | IpProtocol::ICMPV6) => self.icmp,
            (ConnectionState::Established, _) => self.datagram,
        }
    }
}

/// Bounds of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowConfig {
    /// Secret: keys are chosen by whoever sends packets. Kept with the slots, since choices depend on it.
    pub hash_seed: u64,
    /// Idle times.
    pub timeouts: Timeouts,
    /// Connections that may count against one interface: those it began, and those that came to it from other nodes.
    pub connections_per_interface: u32,
    /// The same for those that nobody answered yet.
    pub unreplied_per_interface: u32,
}

impl FlowConfig {
    /// For a table of so many slots, of which no interface may take more than its part: an eighth of the connections,
    /// and a thirty-second of them unanswered.
    pub fn sized(slots: usize, hash_seed: u64) -> Self {
        let connections = u32::try_from(slots / 2).unwrap_or(u32::MAX);
        Self {
            hash_seed,
            connections_per_interface: connections / 8,
            unreplied_per_interface: connections / 32,
            ..Self::default()
        }
    }
}

impl Default for FlowConfig {
    /// Without bounds for single interfaces.
    fn default() -> Self {
        Self {
            hash_seed: 0,
            timeouts: Timeouts::default(),
            connections_per_interface: u32::MAX,
            unreplied_per_interface: u32::MAX,
        }
    }
}

/// What counts against one interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowShare {
    /// Connections.
    pub connections: u32,
    /// Those of them that nobody answered yet.
    pub unreplied: u32,
}

#[derive(Debug)]
struct Share {
    connections: AtomicU32,
    unreplied: AtomicU32,
}

/// What [`FlowTable::recover`] found in the slots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Connections that go on.
    pub connections: u32,
    /// Slots that a kill left half-written, or whose pair was incomplete; freed.
    pub discarded: u32,
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

#[derive(Debug, Default)]
struct FreeSlots {
    recycled: Vec<FlowIndex>,
    next_fresh: u32,
}

/// The flow table of a node, shared by its workers.
#[derive(Debug)]
pub struct FlowTable {
    slots: &'static [Slot],
    index: Index,
    hasher: KeyHasher,
    config: FlowConfig,
    free: Mutex<FreeSlots>,
    /// No slot at or above this one was ever used, nor is ever looked at: a sparse file stays sparse. It is kept with the
    /// slots.
    high_water: &'static SharedU32,
    used: AtomicU32,
    /// The piece of the table that is looked at next for what is too old, by whichever worker comes to it.
    cursor: AtomicU32,
    /// By interface id; interfaces far apart may share one.
    shares: Box<[Share]>,
}

/// What one worker keeps for itself: slots at hand, and slots that others may still be looking at.
#[derive(Debug)]
pub(crate) struct WorkerFlows {
    spare: Vec<FlowIndex>,
    limbo: Vec<FlowIndex>,
    limbo_boundary: Option<(Boundary, usize)>,
}

/// How many slots a worker takes from the shared list at a time.
const BATCH: usize = 64;
/// Interfaces are counted in so many places.
const SHARES: usize = 4096;
/// Ageing looks at so many slots at a time.
const SWEEP: u32 = 4096;
/// A look at the whole table takes about so many milliseconds.
const PASS: u64 = 1_000;
/// The same for a table that is mostly empty.
const SLOW_PASS: u64 = 8_000;

/// The clock of the slots: tenths of a second, good for thirteen years of uptime.
pub(crate) fn tenths(now: Time) -> u32 {
    (now.0 / 100_000) as u32
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
        let share = |_| Share { connections: AtomicU32::new(0), unreplied: AtomicU32::new(0) };
        let table = Self {
            slots,
            index: Index::new(slots.len()),
            hasher: KeyHasher::new(config.hash_seed),
            config,
            free: Mutex::default(),
            high_water,
            used: AtomicU32::new(0),
            cursor: AtomicU32::new(0),
            shares: (0..SHARES).map(share).collect(),
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
        let mut free = FreeSlots { recycled: Vec::new(), next_fresh: last_used };
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
        let share = self.share(slot.owner());
        share.connections.fetch_add(1, Ordering::Relaxed);
        if other.seen() == Seen::default() {
            share.unreplied.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    fn is_indexed(&self, index: FlowIndex) -> bool {
        let slot = self.slot(index);
        slot.control().life == Life::Live
            && self.index.find(self.hash_of(slot), |found| found == index).is_some()
    }

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

    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// A slot that probably is this hash's flow, fetched ahead of its use.
    #[inline]
    pub(crate) fn prefetch_slot(&self, hash: u64) {
        if let Some(index) = self.index.find(hash, |_| true) {
            let slot = self.slot(index);
            vrouter_arch::prefetch_read(slot);
            vrouter_arch::prefetch_write(slot.second_line());
        }
    }

    /// The flow with this key.
    #[inline]
    pub(crate) fn find(&self, key: &FlowKey, hash: u64) -> Option<FlowIndex> {
        let words = key.pack();
        self.find_packed(&words, hash)
    }

    #[inline]
    fn find_packed(&self, words: &[u64; KEY_WORDS], hash: u64) -> Option<FlowIndex> {
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

    fn hash_of(&self, slot: &Slot) -> u64 {
        self.hasher.hash(&slot.key_words())
    }

    fn share(&self, owner: Option<VmiId>) -> &Share {
        // No interface has the id 0.
        &self.shares[owner.map_or(0, VmiId::get) as usize % SHARES]
    }

    fn free(&self) -> std::sync::MutexGuard<'_, FreeSlots> {
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

    /// Forgets flows that were idle too long, a piece of the table at a time. Returns after how many milliseconds to go
    /// on; `None` once there are no flows at all.
    pub(crate) fn age(&self, worker: &mut WorkerFlows, now: Time, quiescence: &Quiescence) -> Option<u64> {
        worker.reclaim(self, quiescence);
        let high = self.high_water.load(Ordering::Acquire);
        let pieces = high.div_ceil(SWEEP).max(1);
        let piece = self.cursor.fetch_add(1, Ordering::Relaxed) % pieces;
        let tenths = tenths(now);
        for number in piece * SWEEP..((piece + 1) * SWEEP).min(high) {
            self.age_one(worker, FlowIndex(number), tenths);
        }
        worker.reclaim(self, quiescence);
        if self.is_empty() && worker.limbo.is_empty() {
            return None;
        }
        // No single step is long. A table that was once full and is nearly empty is not worth waking up for often.
        let pass = if self.len() < high as usize / 4 { SLOW_PASS } else { PASS };
        Some((pass / u64::from(pieces)).clamp(5, 250))
    }

    fn age_one(&self, worker: &mut WorkerFlows, index: FlowIndex, now: u32) {
        let slot = self.slot(index);
        let control = slot.control();
        if control.life != Life::Live || control.direction != Direction::Initiator {
            return;
        }
        let timeout = self.config.timeouts.of(slot.protocol(), self.state(slot)) / 100;
        if now.saturating_sub(self.last_seen(slot)) > timeout {
            self.remove(worker, index);
        }
    }
}

impl WorkerFlows {
    pub(crate) fn new() -> Self {
        Self { spare: Vec::with_capacity(4 * BATCH), limbo: Vec::new(), limbo_boundary: None }
    }

    fn take_pair(&mut self, table: &FlowTable) -> Option<(FlowIndex, FlowIndex)> {
        if self.spare.len() < 2 {
            self.refill(table);
        }
        if self.spare.len() < 2 {
            return None;
        }
        Some((self.spare.pop()?, self.spare.pop()?))
    }

    fn refill(&mut self, table: &FlowTable) {
        let mut free = table.free();
        let recycled = free.recycled.len().saturating_sub(BATCH);
        self.spare.extend(free.recycled.drain(recycled..));
        let room = table.slots.len() as u32 - free.next_fresh;
        let fresh = (BATCH.saturating_sub(self.spare.len()) as u32).min(room);
        self.spare.extend((free.next_fresh..free.next_fresh + fresh).map(FlowIndex));
        free.next_fresh += fresh;
        table.high_water.store(free.next_fresh, Ordering::Release);
    }

    /// Gives back the removed slots that no worker can be looking at any more.
    fn reclaim(&mut self, table: &FlowTable, quiescence: &Quiescence) {
        if let Some((boundary, count)) = self.limbo_boundary {
            if !quiescence.passed(boundary) {
                return;
            }
            table.free().recycled.extend(self.limbo.drain(..count));
            self.limbo_boundary = None;
        }
        if !self.limbo.is_empty() {
            self.limbo_boundary = Some((quiescence.draw(), self.limbo.len()));
        }
    }
}
