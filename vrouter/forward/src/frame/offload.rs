//! What a frame's sender left for a later stage: checksums and segmentation, as a virtio-net header says it.

use std::num::NonZeroU16;

/// The state of the transport checksum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Checksum {
    /// Nothing is said about it: it stands in the packet, right or wrong, as from a wire.
    #[default]
    Unverified,
    /// Someone verified it.
    Valid,
    /// It holds the pseudo-header's sum only. The sum over everything from `start` on, complemented, belongs at
    /// `start + offset`.
    Partial {
        /// Offset of the transport header from the start of the frame, in bytes.
        start: u16,
        /// Offset of the checksum field from `start`, in bytes.
        offset: u16,
    },
}

/// What a transport checksum covers so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Covered {
    /// The pseudo-header only.
    PseudoHeader,
    /// All that it should.
    All,
}

impl Checksum {
    /// What it covers.
    #[inline(always)]
    pub(crate) const fn covered(&self) -> Covered {
        match self {
            Self::Partial { .. } => Covered::PseudoHeader,
            Self::Unverified | Self::Valid => Covered::All,
        }
    }
}

/// The transport that a super-frame is cut by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SegmentKind {
    /// TCP: sequence numbers advance (TSO).
    Tcp,
    /// UDP: equal datagrams, the last may be shorter (USO).
    Udp,
}

/// How a super-frame is to be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Segmentation {
    /// By which transport.
    pub kind: SegmentKind,
    /// Bytes of transport payload per segment; it does not change when headers are put on or taken off.
    pub size: NonZeroU16,
}

/// A frame's offload state. The default is a plain frame, complete in itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Offload {
    /// The transport checksum.
    pub checksum: Checksum,
    /// `None`: one packet. A super-frame always has a partial checksum.
    pub segmentation: Option<Segmentation>,
}
