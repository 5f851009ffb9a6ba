//! What a sender may leave to a later stage, done in software: finishing checksums, cutting super-frames, and
//! the reverse, gathering a run of packets into a super-frame.
//!
//! Pure functions over bytes. `io` uses them where an egress cannot take a frame as it is, or takes many
//! packets in one write; they make headers and say which bytes of payload go with them, so that payload need
//! not be copied.

mod checksum;
mod coalesce;
mod cut;
mod layout;
mod recognise;
#[cfg(test)]
mod testing;

pub use checksum::{finish_checksum, has_valid_checksum};
pub use coalesce::Run;
pub use cut::{Cut, SegmentChecksum};
pub use layout::Layout;
pub use recognise::recognise;

/// The most packets a super-frame is gathered from: what every kernel's GSO accepts (`UDP_MAX_SEGMENTS`
/// before 6.9).
pub const MAX_SEGMENTS: usize = 64;

/// The longest frame that is gathered. Below 64 KiB by enough for the headers that a tunnel may put before
/// it.
pub const MAX_GATHERED: usize = 65_000;
