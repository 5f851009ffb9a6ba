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
    /// It holds the pseudo-header's sum only. The sum over everything from `start` on, complemented, belongs
    /// at `start + offset`.
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

/// What a frame is or will be cut into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packets {
    /// How many packets.
    pub(crate) count: u64,
    /// The length of the largest, from its IP header on.
    pub(crate) largest: usize,
}

/// A frame's offload state. The default is a plain frame, complete in itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Offload {
    /// The transport checksum.
    pub checksum: Checksum,
    /// `None`: one packet. A super-frame always has a partial checksum.
    pub segmentation: Option<Segmentation>,
}

impl Offload {
    /// What a frame with this is or will be cut into, that holds so many bytes from its IP header on, so many
    /// of them IP and transport header.
    #[inline(always)]
    pub(crate) fn packets(&self, ip_len: usize, headers_len: usize) -> Packets {
        match self.segmentation {
            None => Packets { count: 1, largest: ip_len },
            Some(segmentation) => {
                let size = usize::from(segmentation.size.get());
                let count = (ip_len - headers_len).div_ceil(size).max(1) as u64;
                Packets { count, largest: ip_len.min(headers_len + size) }
            }
        }
    }
}
