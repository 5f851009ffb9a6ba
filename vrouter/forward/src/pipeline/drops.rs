//! A sample of dropped packets, for people to look at.

use vrouter_objects::DropReason;

use crate::frame::{Frame, Ingress, Time};

/// The first bytes of a dropped packet that are kept.
pub const HEAD: usize = 96;
/// So many are kept until they are taken.
const KEPT: usize = 64;

/// A dropped packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedPacket {
    /// When.
    pub time: Time,
    /// Why.
    pub reason: DropReason,
    /// Where it came in.
    pub ingress: Ingress,
    /// The whole frame's length in bytes.
    pub length: usize,
    /// The frame's first bytes.
    pub head: Vec<u8>,
}

/// The sample since it was last taken.
#[derive(Debug)]
pub(super) struct DropSample(Vec<DroppedPacket>);

impl DropSample {
    pub(super) fn new() -> Self {
        Self(Vec::with_capacity(KEPT))
    }

    /// Keeps a packet if there is room: a flood of drops costs nothing more.
    pub(super) fn offer(&mut self, time: Time, reason: DropReason, frame: &Frame) {
        if self.0.len() < KEPT {
            let bytes = frame.bytes();
            let head = bytes[..bytes.len().min(HEAD)].to_vec();
            self.0.push(DroppedPacket { time, reason, ingress: frame.ingress, length: bytes.len(), head });
        }
    }

    pub(super) fn take(&mut self, sink: impl FnMut(DroppedPacket)) {
        self.0.drain(..).for_each(sink);
    }
}
