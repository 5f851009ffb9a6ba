//! Fields at fixed offsets of a frame's beginning.

use crate::frame::HEAD;

/// The beginning of a frame, longer than any header that is read or changed at fixed offsets.
pub(crate) type Head = [u8; HEAD];

/// The 16-bit field at this offset.
#[inline(always)]
pub(crate) fn get_word(head: &Head, at: usize) -> u16 {
    u16::from_be_bytes([head[at], head[at + 1]])
}

/// The 32-bit field at this offset.
#[inline(always)]
pub(crate) fn get_double(head: &Head, at: usize) -> u32 {
    u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

/// Writes the 16-bit field at this offset.
#[inline(always)]
pub(crate) fn put_word(head: &mut Head, at: usize, value: u16) {
    [head[at], head[at + 1]] = value.to_be_bytes();
}

/// Writes the 32-bit field at this offset.
#[inline(always)]
pub(crate) fn put_double(head: &mut Head, at: usize, value: u32) {
    [head[at], head[at + 1], head[at + 2], head[at + 3]] = value.to_be_bytes();
}
