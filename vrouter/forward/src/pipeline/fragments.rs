//! Later fragments have no ports: they go the way of their datagram's first, and wait for it, within bounds, where
//! it has not come yet.

use std::collections::{HashMap, VecDeque};

use foldhash::quality::FixedState;
use vrouter_objects::{DropReason, IpProtocol, VmiId, VrfId};

use super::Outcome;
use super::classify::Arrival;
use crate::address::{Address, Family};
use crate::frame::{Frame, Time};
use crate::parse::Packet;

/// Datagrams whose way one worker remembers. Beyond that the oldest is forgotten, whose fragments passed long ago.
const MAX_DECIDED: usize = 4096;
/// Datagrams of one sender that may wait for their first fragment.
const MAX_WAITING_PER_SENDER: usize = 64;
/// Fragments that may wait for one first fragment.
const MAX_HELD: usize = 64;
/// Bytes that may wait in all, per worker.
const MAX_HELD_BYTES: usize = 4 << 20;
/// How long later fragments wait for their first, in milliseconds.
const HOLD: u64 = 2_000;
/// How long a datagram's way is remembered, in milliseconds: as long as Linux tries to reassemble.
const REMEMBER: u64 = 30_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Datagram {
    vrf: VrfId,
    source: Address,
    destination: Address,
    /// `None` in IPv6, whose later fragments name the first header of what was cut, not always the transport (RFC 8200
    /// section 4.5).
    protocol: Option<IpProtocol>,
    id: u32,
}

/// What was decided about a datagram.
#[derive(Debug, Clone, Copy)]
enum Decided {
    /// The first fragment has passed; its transport and ports.
    Flow(IpProtocol, (u16, u16)),
    /// The first fragment was dropped for this reason; so is the rest.
    Refused(DropReason),
    /// More of it waited than may, so all of it is dropped, its first fragment too.
    GivenUp,
}

#[derive(Debug)]
struct Remembered {
    decided: Decided,
    until: Time,
}

/// Fragments that wait for their first.
#[derive(Debug)]
struct Waiting {
    sender: Option<VmiId>,
    frames: Vec<Frame>,
    until: Time,
}

/// What becomes of a later fragment.
pub(super) enum Reassociated {
    /// It belongs to the flow of this transport with these ports.
    Flow {
        /// The transport.
        protocol: IpProtocol,
        /// Its ports.
        ports: (u16, u16),
    },
    /// A copy of it waits.
    Held,
    /// It is dropped with the rest of its datagram, and with these that waited.
    Doomed(DropReason, Vec<Frame>),
}

/// The datagrams in fragments that one worker has seen lately.
#[derive(Debug)]
pub(super) struct Fragments {
    decided: HashMap<Datagram, Remembered, FixedState>,
    /// The decided ones in the order in which they are forgotten.
    order: VecDeque<(Datagram, Time)>,
    waiting: HashMap<Datagram, Waiting, FixedState>,
    held_bytes: usize,
}

impl Fragments {
    pub(super) fn new() -> Self {
        Self {
            decided: HashMap::with_hasher(FixedState::with_seed(0)),
            order: VecDeque::new(),
            waiting: HashMap::with_hasher(FixedState::with_seed(0)),
            held_bytes: 0,
        }
    }

    /// Whether a datagram was given up before its first fragment came, so that this one goes the same way.
    pub(super) fn is_given_up(&self, packet: &Packet, arrival: &Arrival, id: u32) -> Option<DropReason> {
        match self.decided.get(&datagram(packet, arrival, id))?.decided {
            Decided::GivenUp => Some(DropReason::FragmentLimit),
            // Another datagram by the same id: they come round.
            Decided::Refused(_) | Decided::Flow(..) => None,
        }
    }

    /// A first fragment has come to this end. Returns those that waited for it.
    pub(super) fn first(
        &mut self,
        now: Time,
        packet: &Packet,
        arrival: &Arrival,
        id: u32,
        outcome: Outcome,
    ) -> Vec<Frame> {
        let datagram = datagram(packet, arrival, id);
        let decided = match outcome {
            Outcome::Drop(reason) | Outcome::Refuse(reason, _) => Decided::Refused(reason),
            _ => Decided::Flow(packet.protocol, packet.ports()),
        };
        self.remember(now, datagram, decided);
        self.take_waiting(&datagram)
    }

    /// A later fragment came.
    pub(super) fn later(
        &mut self,
        now: Time,
        packet: &Packet,
        arrival: &Arrival,
        id: u32,
        frame: &Frame,
    ) -> Reassociated {
        let datagram = datagram(packet, arrival, id);
        match self.decided.get(&datagram).map(|remembered| remembered.decided) {
            Some(Decided::Flow(protocol, ports)) => Reassociated::Flow { protocol, ports },
            Some(Decided::Refused(reason)) => Reassociated::Doomed(reason, Vec::new()),
            Some(Decided::GivenUp) => Reassociated::Doomed(DropReason::FragmentLimit, Vec::new()),
            None if self.may_wait(&datagram, arrival.owner.vmi, frame.len()) => {
                let fresh = || Waiting {
                    sender: arrival.owner.vmi,
                    frames: Vec::new(),
                    until: now.plus_millis(HOLD),
                };
                self.waiting.entry(datagram).or_insert_with(fresh).frames.push(copy(frame));
                self.held_bytes += frame.len();
                Reassociated::Held
            }
            // Without this one the others are of no use, nor is what still comes.
            None => {
                self.remember(now, datagram, Decided::GivenUp);
                Reassociated::Doomed(DropReason::FragmentLimit, self.take_waiting(&datagram))
            }
        }
    }

    fn may_wait(&self, datagram: &Datagram, sender: Option<VmiId>, len: usize) -> bool {
        let room = match self.waiting.get(datagram) {
            Some(waiting) => waiting.frames.len() < MAX_HELD,
            None => {
                let same = self.waiting.values().filter(|waiting| waiting.sender == sender);
                same.count() < MAX_WAITING_PER_SENDER
            }
        };
        room && self.held_bytes + len <= MAX_HELD_BYTES
    }

    fn remember(&mut self, now: Time, datagram: Datagram, decided: Decided) {
        let until = now.plus_millis(REMEMBER);
        self.decided.insert(datagram, Remembered { decided, until });
        self.order.push_back((datagram, until));
        while self.order.len() > MAX_DECIDED {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((datagram, until)) = self.order.pop_front() else { return };
        // It may have been decided anew since.
        if self.decided.get(&datagram).is_some_and(|remembered| remembered.until == until) {
            self.decided.remove(&datagram);
        }
    }

    fn take_waiting(&mut self, datagram: &Datagram) -> Vec<Frame> {
        let frames = self.waiting.remove(datagram).map(|waiting| waiting.frames).unwrap_or_default();
        self.held_bytes -= frames.iter().map(Frame::len).sum::<usize>();
        frames
    }

    /// Gives up what waited too long and forgets what is over.
    pub(super) fn expire(&mut self, now: Time, mut dropped: impl FnMut(&Frame, DropReason)) {
        while self.order.front().is_some_and(|(_, until)| *until <= now) {
            self.forget_oldest();
        }
        let held_bytes = &mut self.held_bytes;
        self.waiting.retain(|_, waiting| {
            let keep = now < waiting.until;
            if !keep {
                for frame in &waiting.frames {
                    *held_bytes -= frame.len();
                    dropped(frame, DropReason::FragmentTimeout);
                }
            }
            keep
        });
    }

    /// When something is next to expire.
    pub(super) fn next_expiry(&self) -> Option<Time> {
        let waiting = self.waiting.values().map(|waiting| waiting.until).min();
        let decided = self.order.front().map(|(_, until)| *until);
        match (waiting, decided) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }
}

/// A copy with no more room than it needs: the frame's own buffer is wanted for receiving.
fn copy(frame: &Frame) -> Frame {
    let mut copy = Frame::from_bytes(frame.bytes(), frame.ingress);
    copy.offload = frame.offload;
    copy
}

fn datagram(packet: &Packet, arrival: &Arrival, id: u32) -> Datagram {
    Datagram {
        vrf: arrival.vrf,
        source: packet.source,
        destination: packet.destination,
        protocol: (packet.family == Family::V4).then_some(packet.protocol),
        id,
    }
}
