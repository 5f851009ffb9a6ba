//! What stands in the words of a slot that are more than a number.

use vrouter_objects::{NextHop, RouterId, VmiId};

use super::tcp::Seen;
use crate::frame::PortId;

/// The number of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FlowIndex(pub(crate) u32);

/// Which side of the connection a flow is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the one who began.
    Initiator,
    /// From the one who answers.
    Responder,
}

/// Where a slot is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// Nothing in it.
    Free,
    /// Written, but its pair is not in force yet.
    Prepared,
    /// In force.
    Live,
}

/// A slot's control word: life, direction, and the slot of the other direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Control {
    pub(super) life: Life,
    pub(super) direction: Direction,
    pub(super) reverse: FlowIndex,
}

impl Control {
    pub(super) fn pack(self) -> u64 {
        let life = match self.life {
            Life::Free => 0,
            Life::Prepared => 1,
            Life::Live => 2,
        };
        let direction = match self.direction {
            Direction::Initiator => 0,
            Direction::Responder => 4,
        };
        u64::from(self.reverse.0) << 32 | life | direction
    }

    pub(super) fn unpack(word: u64) -> Self {
        Self {
            life: match word & 3 {
                1 => Life::Prepared,
                2 => Life::Live,
                _ => Life::Free,
            },
            direction: if word & 4 == 0 { Direction::Initiator } else { Direction::Responder },
            reverse: FlowIndex((word >> 32) as u32),
        }
    }
}

/// Which parts of a packet a flow translates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Actions(u8);

impl Actions {
    /// Nothing.
    pub(crate) const NONE: Self = Self(0);
    /// The destination address and port.
    pub(crate) const DESTINATION: Self = Self(1);
    /// The source address and port.
    pub(crate) const SOURCE: Self = Self(2);
    /// Both.
    pub(crate) const BOTH: Self = Self(3);

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0 && other.0 != 0
    }

    /// What the other direction must undo.
    pub(crate) fn reversed(self) -> Self {
        Self((self.0 & 1) << 1 | (self.0 & 2) >> 1)
    }
}

/// A next hop in one word. Unlike [`vrouter_objects::NextHop`] it is already decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PackedNextHop {
    /// Nothing usable: the packet is dropped and the flow resolved again when the tables change.
    Unreachable,
    /// A local interface.
    Interface(VmiId),
    /// Another node, by the egress VRF's VNI.
    Tunnel(RouterId),
    /// This node.
    Receive,
}

impl PackedNextHop {
    pub(super) fn pack(self) -> u64 {
        match self {
            Self::Unreachable => 0,
            Self::Interface(vmi) => 1 << 32 | u64::from(vmi.get()),
            Self::Tunnel(router) => 2 << 32 | u64::from(router.get()),
            Self::Receive => 3 << 32,
        }
    }

    pub(super) fn unpack(word: u64) -> Self {
        let id = word as u32;
        let decided = match (word >> 32) as u16 {
            1 => VmiId::new(id).map(Self::Interface),
            2 => RouterId::new(id).map(Self::Tunnel),
            3 => Ok(Self::Receive),
            _ => Ok(Self::Unreachable),
        };
        decided.unwrap_or(Self::Unreachable)
    }
}

impl From<PackedNextHop> for NextHop {
    fn from(packed: PackedNextHop) -> Self {
        match packed {
            PackedNextHop::Unreachable => Self::Discard,
            PackedNextHop::Interface(vmi) => Self::Interface(vmi),
            PackedNextHop::Tunnel(router) => Self::Tunnel(router),
            PackedNextHop::Receive => Self::Receive,
        }
    }
}

/// Where in the next hop's word the port stands that its interface was last found at, complemented: zero is a
/// port that no node has.
const NOTED_PORT: u32 = 48;

/// The port that a flow's interface was last found at. Ports are given anew, so it has to be looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotedPort {
    pub(crate) port: PortId,
    interface: u32,
}

impl NotedPort {
    /// The one in a next hop's word. Only an interface's has one that may exist.
    #[inline(always)]
    pub(super) fn unpack(word: u64) -> Self {
        Self { port: PortId((!word >> NOTED_PORT) as u16), interface: word as u32 }
    }

    /// The word of an interface that is at this port.
    pub(super) fn pack(port: PortId, interface: VmiId) -> u64 {
        u64::from(!port.0) << NOTED_PORT | PackedNextHop::Interface(interface).pack()
    }

    /// Whether this is the interface.
    #[inline(always)]
    pub(crate) fn is_of(self, vmi: VmiId) -> bool {
        self.interface == vmi.get()
    }
}

/// The part of a slot that deciding about a packet needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decision {
    pub(crate) translated_port: u16,
    pub(crate) actions: Actions,
    pub(crate) seen: Seen,
    pub(crate) epoch: u32,
}

impl Decision {
    pub(super) fn pack(self) -> u64 {
        u64::from(self.translated_port) << 48
            | u64::from(self.actions.0) << 40
            | u64::from(self.seen.0) << 32
            | u64::from(self.epoch)
    }

    pub(super) fn unpack(word: u64) -> Self {
        Self {
            translated_port: (word >> 48) as u16,
            actions: Actions((word >> 40) as u8 & 3),
            seen: Seen((word >> 32) as u8),
            epoch: word as u32,
        }
    }
}
