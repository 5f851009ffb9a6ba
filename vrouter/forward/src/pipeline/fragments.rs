//! Later fragments have no ports: they go the way of their datagram's first, and wait for it, within bounds, where
//! it has not come yet.

use std::collections::HashMap;

use foldhash::quality::FixedState;
use vrouter_objects::{DropReason, IpProtocol, VrfId};

use super::Outcome;
use super::classify::Arrival;
use crate::address::Address;
use crate::frame::{Frame, Time};
use crate::parse::Packet;

/// Datagrams one worker keeps track of.
const MAX_DATAGRAMS: usize = 1024;
/// Fragments that may wait for one first fragment.
const MAX_HELD: usize = 64;
/// Bytes that may wait in all, per worker.
const MAX_HELD_BYTES: usize = 4 << 20;
/// How long later fragments wait for their first, in milliseconds.
const HOLD: u64 = 2_000;
/// How long a datagram's ports are remembered, in milliseconds: as long as hosts try to reassemble (RFC 8200
/// section 4.5 says 60 s, Linux waits 30).
const REMEMBER: u64 = 30_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Datagram {
    vrf: VrfId,
    source: Address,
    destination: Address,
    protocol: IpProtocol,
    id: u32,
}

#[derive(Debug)]
enum State {
    /// The first fragment has passed; its ports.
    Known((u16, u16)),
    /// These wait for it.
    Waiting(Vec<Frame>),
    /// The datagram is given up, all of it.
    Doomed(DropReason),
}

#[derive(Debug)]
struct Entry {
    state: State,
    until: Time,
}

/// What becomes of a later fragment.
pub(super) enum Reassociated {
    /// It belongs to the flow with these ports.
    Ports((u16, u16)),
    /// A copy of it waits.
    Held,
    /// It is dropped with the rest of its datagram.
    Doomed(DropReason),
}

/// The datagrams in fragments that one worker has seen lately.
#[derive(Debug)]
pub(super) struct Fragments {
    datagrams: HashMap<Datagram, Entry, FixedState>,
    held_bytes: usize,
}

impl Fragments {
    pub(super) fn new() -> Self {
        Self { datagrams: HashMap::with_hasher(FixedState::with_seed(0)), held_bytes: 0 }
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
        let full = self.datagrams.len() >= MAX_DATAGRAMS && !self.datagrams.contains_key(&datagram);
        let doomed = match (&outcome, self.datagrams.get(&datagram)) {
            (Outcome::Drop(reason) | Outcome::Refuse(reason, _), _) => Some(*reason),
            (_, Some(Entry { state: State::Doomed(reason), .. })) => Some(*reason),
            _ => None,
        };
        let state = doomed.map_or(State::Known(packet.ports()), State::Doomed);
        let entry = Entry { state, until: now.plus_millis(REMEMBER) };
        let before = if full { None } else { self.datagrams.insert(datagram, entry) };
        match before {
            Some(Entry { state: State::Waiting(frames), .. }) => {
                self.held_bytes -= frames.iter().map(Frame::len).sum::<usize>();
                frames
            }
            _ => Vec::new(),
        }
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
        let known = self.datagrams.len();
        let (len, held_bytes) = (frame.len(), self.held_bytes);
        match self.datagrams.get_mut(&datagram) {
            Some(Entry { state: State::Known(ports), .. }) => Reassociated::Ports(*ports),
            Some(Entry { state: State::Doomed(reason), .. }) => Reassociated::Doomed(*reason),
            Some(Entry { state: State::Waiting(frames), .. })
                if frames.len() < MAX_HELD && held_bytes + len <= MAX_HELD_BYTES =>
            {
                frames.push(copy(frame));
                self.held_bytes += len;
                Reassociated::Held
            }
            None if known < MAX_DATAGRAMS && held_bytes + len <= MAX_HELD_BYTES => {
                let entry = Entry { state: State::Waiting(vec![copy(frame)]), until: now.plus_millis(HOLD) };
                self.datagrams.insert(datagram, entry);
                self.held_bytes += len;
                Reassociated::Held
            }
            // Those that wait are of no use without this one; they go when their time is up.
            _ => Reassociated::Doomed(DropReason::FragmentLimit),
        }
    }

    /// Gives up what waited too long and forgets what is over.
    pub(super) fn expire(&mut self, now: Time, mut dropped: impl FnMut(&Frame, DropReason)) {
        let held_bytes = &mut self.held_bytes;
        self.datagrams.retain(|_, entry| {
            if now < entry.until {
                return true;
            }
            if let State::Waiting(frames) = &entry.state {
                for frame in frames {
                    *held_bytes -= frame.len();
                    dropped(frame, DropReason::FragmentTimeout);
                }
            }
            false
        });
    }

    /// When something is next to expire.
    pub(super) fn next_expiry(&self) -> Option<Time> {
        self.datagrams.values().map(|entry| entry.until).min()
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
        protocol: packet.protocol,
        id,
    }
}
