//! A frame on its way through the router: its bytes, what its sender left undone, where it came from and
//! where it goes.

mod buffer;
mod offload;

pub(crate) use buffer::{CountedAs, HEAD};
pub use buffer::{Frame, HEADROOM, MAX_FRAME};
pub use offload::{Checksum, Offload, SegmentKind, Segmentation};
pub(crate) use offload::{Covered, Packets};

use std::net::IpAddr;

use vrouter_objects::Vni;

/// A local port's number: the index of its row in the port table. Given by the node, used again after a port
/// is gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u16);

/// How many ports a node can have.
pub const MAX_PORTS: usize = 4096;

/// Where a frame came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ingress {
    /// From a local port.
    Port(PortId),
    /// Out of a VXLAN packet, whose outer headers are gone from the frame.
    Tunnel {
        /// The outer source address: the sender's VTEP, if it is one.
        source: IpAddr,
        /// The VXLAN network identifier.
        vni: Vni,
    },
}

/// Where a frame leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Egress {
    /// By a local port.
    Port(PortId),
    /// In a VXLAN packet; `io` puts on the outer headers.
    Tunnel {
        /// The outer destination.
        destination: IpAddr,
        /// The VXLAN network identifier.
        vni: Vni,
        /// A hash of the inner flow, the same for every packet of it: chooses the outer source port (RFC 7348
        /// section 5).
        entropy: u32,
    },
}

/// Time, in microseconds of CLOCK_BOOTTIME. The core has no clock: whoever drives it says what time it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

impl Time {
    /// So many milliseconds after the epoch of the clock.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1000)
    }

    /// So many milliseconds later.
    #[must_use]
    pub const fn plus_millis(self, millis: u64) -> Self {
        Self(self.0 + millis * 1000)
    }
}
