//! Later fragments have no ports: they go the way of their datagram's first, and wait for it, within bounds,
//! where it has not come yet.

use std::collections::{HashMap, VecDeque};

use foldhash::quality::FixedState;
use vrouter_objects::{DropReason, IpProtocol, VrfId};

use super::Outcome;
use super::classify::Arrival;
use crate::address::{Address, Family};
use crate::flow::Origin;
use crate::frame::{Frame, Ingress, Time};
use crate::parse::Packet;

/// Datagrams whose way one worker remembers. Beyond that the oldest is forgotten, whose fragments passed long
/// ago.
const MAX_DECIDED: usize = 4096;
/// Datagrams of one sender that may wait for their first fragment.
const MAX_DATAGRAMS_PER_SENDER: usize = 64;
/// Bytes of one sender that may wait: four of the largest datagrams.
const MAX_BYTES_PER_SENDER: usize = 256 << 10;
/// Fragments that may wait for one first fragment: the largest datagram on an Ethernet has 45.
const MAX_HELD: usize = 64;
/// Bytes that may wait in all, per worker.
const MAX_BYTES: usize = 16 << 20;
/// How long later fragments wait for their first, in milliseconds.
const HOLD: u64 = 2_000;
/// How long a datagram's way is remembered, in milliseconds: as long as Linux tries to reassemble.
const REMEMBER: u64 = 30_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Datagram {
    vrf: VrfId,
    origin: Origin,
    source: Address,
    destination: Address,
    /// `None` in IPv6, whose later fragments name the first header of what was cut, not always the transport
    /// (RFC 8200 section 4.5).
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
    sender: Ingress,
    frames: Vec<Frame>,
    until: Time,
}

/// What one sender has waiting.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    datagrams: usize,
    bytes: usize,
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
    decided_order: VecDeque<(Datagram, Time)>,
    waiting: HashMap<Datagram, Waiting, FixedState>,
    /// The waiting ones in the order in which they are given up.
    waiting_order: VecDeque<(Datagram, Time)>,
    shares: HashMap<Ingress, Share, FixedState>,
    bytes: usize,
}

impl Fragments {
    /// `seed` is secret: identifications are chosen by whoever sends.
    pub(super) fn new(seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        Self {
            decided: HashMap::with_hasher(hasher.clone()),
            decided_order: VecDeque::new(),
            waiting: HashMap::with_hasher(hasher.clone()),
            waiting_order: VecDeque::new(),
            shares: HashMap::with_hasher(hasher),
            bytes: 0,
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
            None if self.may_wait(&datagram, frame) => {
                self.hold(now, datagram, frame);
                Reassociated::Held
            }
            // Without this one the others are of no use, nor is what still comes.
            None => {
                self.remember(now, datagram, Decided::GivenUp);
                Reassociated::Doomed(DropReason::FragmentLimit, self.take_waiting(&datagram))
            }
        }
    }

    fn may_wait(&self, datagram: &Datagram, frame: &Frame) -> bool {
        let share = self.shares.get(&frame.ingress).copied().unwrap_or_default();
        let room = match self.waiting.get(datagram) {
            Some(waiting) => waiting.frames.len() < MAX_HELD,
            None => share.datagrams < MAX_DATAGRAMS_PER_SENDER,
        };
        room && share.bytes + frame.len() <= MAX_BYTES_PER_SENDER && self.bytes + frame.len() <= MAX_BYTES
    }

    fn hold(&mut self, now: Time, datagram: Datagram, frame: &Frame) {
        let until = now.plus_millis(HOLD);
        let share = self.shares.entry(frame.ingress).or_default();
        let waiting = self.waiting.entry(datagram).or_insert_with(|| {
            share.datagrams += 1;
            self.waiting_order.push_back((datagram, until));
            Waiting { sender: frame.ingress, frames: Vec::new(), until }
        });
        share.bytes += frame.len();
        self.bytes += frame.len();
        waiting.frames.push(copy(frame));
    }

    fn remember(&mut self, now: Time, datagram: Datagram, decided: Decided) {
        let until = now.plus_millis(REMEMBER);
        self.decided.insert(datagram, Remembered { decided, until });
        self.decided_order.push_back((datagram, until));
        while self.decided_order.len() > MAX_DECIDED {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((datagram, until)) = self.decided_order.pop_front() else { return };
        // It may have been decided anew since.
        if self.decided.get(&datagram).is_some_and(|remembered| remembered.until == until) {
            self.decided.remove(&datagram);
        }
    }

    fn take_waiting(&mut self, datagram: &Datagram) -> Vec<Frame> {
        let Some(waiting) = self.waiting.remove(datagram) else { return Vec::new() };
        let bytes = waiting.frames.iter().map(Frame::len).sum::<usize>();
        self.bytes -= bytes;
        if let Some(share) = self.shares.get_mut(&waiting.sender) {
            share.datagrams -= 1;
            share.bytes -= bytes;
            if share.datagrams == 0 {
                self.shares.remove(&waiting.sender);
            }
        }
        waiting.frames
    }

    /// Gives up what waited too long and forgets what is over.
    pub(super) fn expire(&mut self, now: Time, mut dropped: impl FnMut(&Frame, DropReason)) {
        while self.decided_order.front().is_some_and(|(_, until)| *until <= now) {
            self.forget_oldest();
        }
        while let Some((datagram, until)) = self.waiting_order.pop_front_if(|(_, until)| *until <= now) {
            // Its first fragment may have come, and others of its name may wait since.
            if self.waiting.get(&datagram).is_some_and(|waiting| waiting.until == until) {
                let frames = self.take_waiting(&datagram);
                frames.iter().for_each(|frame| dropped(frame, DropReason::FragmentTimeout));
            }
        }
    }

    /// When something is next to expire.
    pub(super) fn next_expiry(&self) -> Option<Time> {
        let fronts = [self.waiting_order.front(), self.decided_order.front()];
        fronts.into_iter().flatten().map(|(_, until)| *until).min()
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
        origin: arrival.origin,
        source: packet.source,
        destination: packet.destination,
        protocol: (packet.family == Family::V4).then_some(packet.protocol),
        id,
    }
}
