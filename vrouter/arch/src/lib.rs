//! Safe faces over the few CPU-specific lines: the Internet checksum, as wide as the CPU allows, and prefetching.
//!
//! Nothing here knows about packets; it is a leaf that every other room may stand on.

pub mod checksum;
mod prefetch;

pub use prefetch::{prefetch_read, prefetch_write};
