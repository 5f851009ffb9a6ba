//! One slot of the flow table: one direction of a connection in two cache lines.
//!
//! The first line is read by every packet and written only when a flow comes or goes; the second is written
//! by every packet of its own direction.

use vrouter_objects::{FloatingIpId, IpProtocol, MemberId, VmiId, VrfId};

use super::decision::{Actions, Control, Decision, Direction, FlowIndex, Life, NotedPort, PackedNextHop};
use super::key::{self, FlowKey, KEY_WORDS, PackedKey, TableKey};
use super::sync::{AtomicU64, Ordering};
use super::tcp::Seen;
use crate::address::{Address, Family};
use crate::checksum::{Adjustment, Delta};
use crate::frame::PortId;

/// Changes with every change of [`Slot`]'s layout or meaning; a file of another version is not used.
pub const LAYOUT_VERSION: u32 = 6;

/// The epoch of no snapshot: the first published one has a greater.
const NEVER: u32 = 0;

/// One direction of a connection. All zero is a free slot.
///
/// | Words | What, from the highest bits down |
/// |---|---|
/// | 0–5 | key |
/// | 6 | control |
/// | 7 | checksum adjustments, of addresses then endpoints, in the machine's byte order; egress VRF |
/// | 8–9 | translated address |
/// | 10 | translated port, actions, seen, epoch |
/// | 11 | port, next hop |
/// | 12 | floating IP, member |
/// | 13 | packets |
/// | 14 | bytes |
/// | 15 | last seen, owner |
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Slot {
    words: [AtomicU64; 16],
}

const CONTROL: usize = 6;
const EGRESS_VRF: usize = 7;
const TRANSLATED_HIGH: usize = 8;
const TRANSLATED_LOW: usize = 9;
const DECISION: usize = 10;
const NEXT_HOP: usize = 11;
const SERVICE: usize = 12;
const PACKETS: usize = 13;
const BYTES: usize = 14;
const LAST_SEEN_OWNER: usize = 15;

/// Everything about one direction when it begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewFlow {
    pub(crate) key: TableKey,
    pub(crate) translated: Translated,
    pub(crate) egress_vrf: VrfId,
    pub(crate) next_hop: PackedNextHop,
    pub(crate) service: Option<(FloatingIpId, MemberId)>,
    pub(crate) seen: Seen,
}

/// What a flow does to the ends of its packets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Translated {
    actions: Actions,
    /// The new destination, or where only the source is translated the new source. Where both are, the new
    /// source is the reverse flow's destination.
    address: Address,
    port: u16,
    adjustments: Adjustments,
}

impl Translated {
    /// By these actions; of the end that stands in the slot, what it was and what it becomes.
    #[inline]
    pub(crate) fn new(actions: Actions, from: (Address, u16), to: (Address, u16)) -> Self {
        let adjustments = match actions {
            Actions::DESTINATION | Actions::SOURCE => Adjustments::between(from, to),
            _ => Adjustments::default(),
        };
        Self { actions, address: to.0, port: to.1, adjustments }
    }

    /// What the other direction does, whose packets get this end back.
    #[inline]
    pub(crate) fn reversed(&self, (address, port): (Address, u16)) -> Self {
        let Adjustments { addresses, endpoints } = self.adjustments;
        let adjustments = Adjustments { addresses: addresses.reversed(), endpoints: endpoints.reversed() };
        Self { actions: self.actions.reversed(), address, port, adjustments }
    }
}

/// What translating one end of a packet does to its checksums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Adjustments {
    /// To one over its addresses: of an IPv4 header, or the pseudo-header's sum.
    pub(crate) addresses: Adjustment,
    /// To one over its addresses and ports: of TCP and UDP.
    pub(crate) endpoints: Adjustment,
}

impl Adjustments {
    /// Those of one address and port in place of another of the same family.
    #[inline]
    fn between((old, old_port): (Address, u16), (new, new_port): (Address, u16)) -> Self {
        // IPv4 addresses have the rest in common.
        let width = if old.family() == Family::V4 { 32 } else { 128 };
        let addresses = (0..width).step_by(32).fold(Delta::default(), |delta, shift| {
            delta.double((old.bits() >> shift) as u32, (new.bits() >> shift) as u32)
        });
        let endpoints = addresses.word(old_port, new_port);
        Self { addresses: addresses.into(), endpoints: endpoints.into() }
    }
}

impl Slot {
    /// A free slot.
    pub fn new() -> Self {
        Self { words: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    #[inline]
    fn load(&self, word: usize) -> u64 {
        self.words[word].load(Ordering::Relaxed)
    }

    #[inline]
    fn store(&self, word: usize, value: u64) {
        self.words[word].store(value, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn key_words(&self) -> PackedKey {
        std::array::from_fn(|word| self.load(word))
    }

    /// Whether it is this key's. Out of line: who looks for what is not there mostly needs no word of the key.
    #[inline(never)]
    pub(super) fn has_key(&self, words: &PackedKey) -> bool {
        (0..KEY_WORDS).all(|word| self.load(word) == words[word])
    }

    /// [`Slot::has_key`], for a key of this family.
    #[inline(always)]
    pub(crate) fn has_key_of(&self, words: &PackedKey, family: Family) -> bool {
        key::distinct_words(family).iter().all(|word| self.load(*word) == words[*word])
    }

    pub(crate) fn key(&self) -> Option<FlowKey> {
        FlowKey::unpack(self.key_words())
    }

    #[inline]
    pub(super) fn control(&self) -> Control {
        Control::unpack(self.words[CONTROL].load(Ordering::Acquire))
    }

    pub(super) fn set_control(&self, control: Control) {
        self.words[CONTROL].store(control.pack(), Ordering::Release);
    }

    /// Takes it out of force. Whoever found it a moment ago may still follow it to its partner, and sees that
    /// it was decided at no time.
    pub(super) fn free(&self) {
        self.set_control(Control { life: Life::Free, ..self.control() });
        self.set_epoch(NEVER);
    }

    pub(crate) fn direction(&self) -> Direction {
        self.control().direction
    }

    #[inline]
    pub(crate) fn reverse(&self) -> FlowIndex {
        self.control().reverse
    }

    /// The slot's second cache line, the one its packets write.
    #[inline]
    pub(super) fn second_line(&self) -> &AtomicU64 {
        &self.words[TRANSLATED_HIGH]
    }

    #[inline]
    pub(super) fn protocol(&self) -> IpProtocol {
        IpProtocol(self.load(4) as u8)
    }

    /// Writes all but the control word.
    pub(super) fn fill(&self, flow: &NewFlow, owner: Option<VmiId>, epoch: u32, now: u32) {
        for (word, value) in flow.key.words.into_iter().enumerate() {
            self.store(word, value);
        }
        let Translated { actions, address, port, adjustments } = flow.translated;
        let translated = address.bits();
        let decision = Decision { translated_port: port, actions, seen: flow.seen, epoch };
        let Adjustments { addresses, endpoints } = adjustments;
        let adjustments = u64::from(addresses.bits()) << 48 | u64::from(endpoints.bits()) << 32;
        self.store(EGRESS_VRF, adjustments | u64::from(flow.egress_vrf.get()));
        self.store(TRANSLATED_HIGH, (translated >> 64) as u64);
        self.store(TRANSLATED_LOW, translated as u64);
        self.store(DECISION, decision.pack());
        self.store(NEXT_HOP, flow.next_hop.pack());
        self.set_service(flow.service);
        self.store(PACKETS, 0);
        self.store(BYTES, 0);
        let vmi = owner.map_or(0, VmiId::get);
        self.store(LAST_SEEN_OWNER, u64::from(now) << 32 | u64::from(vmi));
    }

    /// What the flow's translation does to checksums, where it has one end.
    #[inline(always)]
    pub(crate) fn adjustments(&self) -> Adjustments {
        let word = self.load(EGRESS_VRF);
        Adjustments {
            addresses: Adjustment::from_bits((word >> 48) as u16),
            endpoints: Adjustment::from_bits((word >> 32) as u16),
        }
    }

    #[inline]
    pub(crate) fn decision(&self) -> Decision {
        // After the rest of the slot was filled: whoever decides by an epoch decides by what was written
        // under it.
        Decision::unpack(self.words[DECISION].load(Ordering::Acquire))
    }

    #[inline]
    pub(crate) fn translated(&self) -> Address {
        Address::from_bits(
            u128::from(self.load(TRANSLATED_HIGH)) << 64 | u128::from(self.load(TRANSLATED_LOW)),
        )
    }

    /// [`Slot::translated`], where it is an IPv4 address.
    #[inline(always)]
    pub(crate) fn translated_v4(&self) -> Address {
        Address::v4((self.load(TRANSLATED_LOW) as u32).to_be_bytes())
    }

    #[inline]
    pub(crate) fn next_hop(&self) -> PackedNextHop {
        PackedNextHop::unpack(self.load(NEXT_HOP))
    }

    /// Where the interface was last found that the flow's packets go to: nowhere if that is not known, or
    /// they go to none.
    #[inline(always)]
    pub(crate) fn noted_port(&self) -> NotedPort {
        NotedPort::unpack(self.load(NEXT_HOP))
    }

    /// Notes where the interface is that the flow's packets go to, to be found sooner.
    pub(crate) fn note_port(&self, port: PortId) {
        let word = self.load(NEXT_HOP);
        if let PackedNextHop::Interface(vmi) = PackedNextHop::unpack(word) {
            // Another worker may have decided anew: then it is that next hop that counts.
            let order = Ordering::Relaxed;
            self.words[NEXT_HOP].compare_exchange(word, NotedPort::pack(port, vmi), order, order).ok();
        }
    }

    pub(crate) fn set_next_hop(&self, next_hop: PackedNextHop) {
        self.store(NEXT_HOP, next_hop.pack());
    }

    #[inline]
    pub(crate) fn egress_vrf(&self) -> Option<VrfId> {
        VrfId::new(self.load(EGRESS_VRF) as u32).ok()
    }

    /// The interface that the flow counts against; `None`: it leads to no interface of this node.
    pub(crate) fn owner(&self) -> Option<VmiId> {
        VmiId::new(self.load(LAST_SEEN_OWNER) as u32).ok()
    }

    pub(crate) fn service(&self) -> Option<(FloatingIpId, MemberId)> {
        let word = self.load(SERVICE);
        Some((FloatingIpId::new((word >> 32) as u32).ok()?, MemberId::new(word as u32).ok()?))
    }

    fn set_service(&self, service: Option<(FloatingIpId, MemberId)>) {
        let word = service.map_or(0, |(fip, member)| u64::from(fip.get()) << 32 | u64::from(member.get()));
        self.store(SERVICE, word);
    }

    pub(crate) fn seen(&self) -> Seen {
        self.decision().seen
    }

    /// Changes one part of the decision word; of workers that meet here, none overwrites another's part.
    /// Returns what was there before.
    fn update_decision(&self, change: impl Fn(Decision) -> Decision) -> Decision {
        let mut word = self.load(DECISION);
        loop {
            let before = Decision::unpack(word);
            let after = change(before).pack();
            match self.words[DECISION].compare_exchange_weak(word, after, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return before,
                Err(now) => word = now,
            }
        }
    }

    /// Adds what was seen, and returns what had been seen before.
    pub(crate) fn add_seen(&self, seen: Seen) -> Seen {
        self.update_decision(|decision| Decision { seen: decision.seen.and(seen), ..decision }).seen
    }

    pub(crate) fn set_epoch(&self, epoch: u32) {
        self.update_decision(|decision| Decision { epoch, ..decision });
    }

    /// Counts a packet (or a super-frame's) at a time. Counters may miss one where two workers meet.
    #[inline]
    pub(crate) fn touch(&self, packets: u64, bytes: u64, now: u32) {
        self.store(PACKETS, self.load(PACKETS) + packets);
        self.store(BYTES, self.load(BYTES) + bytes);
        let word = self.load(LAST_SEEN_OWNER);
        if (word >> 32) as u32 != now {
            self.store(LAST_SEEN_OWNER, u64::from(now) << 32 | word & 0xffff_ffff);
        }
    }

    pub(crate) fn packets(&self) -> u64 {
        self.load(PACKETS)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.load(BYTES)
    }

    pub(crate) fn last_seen(&self) -> u32 {
        (self.load(LAST_SEEN_OWNER) >> 32) as u32
    }

    /// Makes the table's clock go on from `now`: a slot cannot have been seen later.
    pub(super) fn cap_last_seen(&self, now: u32) {
        if self.last_seen() > now {
            let word = self.load(LAST_SEEN_OWNER);
            self.store(LAST_SEEN_OWNER, u64::from(now) << 32 | word & 0xffff_ffff);
        }
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self::new()
    }
}
