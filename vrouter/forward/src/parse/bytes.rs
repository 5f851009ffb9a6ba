//! Reading and writing big-endian fields at checked offsets.

/// The 16-bit field at `offset`.
///
/// # Panics
/// If the slice ends before the field does; callers have checked the header's length.
#[inline]
pub(crate) fn read_u16(bytes: &[u8], offset: usize) -> u16 {
    u16::from_be_bytes([bytes[offset], bytes[offset + 1]])
}

/// The 32-bit field at `offset`.
///
/// # Panics
/// If the slice ends before the field does; callers have checked the header's length.
#[inline]
pub(crate) fn read_u32(bytes: &[u8], offset: usize) -> u32 {
    u32::from_be_bytes([bytes[offset], bytes[offset + 1], bytes[offset + 2], bytes[offset + 3]])
}

/// Writes the 16-bit field at `offset`.
///
/// # Panics
/// If the slice ends before the field does; callers have checked the header's length.
#[inline]
pub(crate) fn write_u16(bytes: &mut [u8], offset: usize, value: u16) {
    bytes[offset..offset + 2].copy_from_slice(&value.to_be_bytes());
}

/// Writes the 32-bit field at `offset`.
///
/// # Panics
/// If the slice ends before the field does; callers have checked the header's length.
#[inline]
pub(crate) fn write_u32(bytes: &mut [u8], offset: usize, value: u32) {
    bytes[offset..offset + 4].copy_from_slice(&value.to_be_bytes());
}
