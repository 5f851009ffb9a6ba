//! The buffer of one frame.

use super::{Egress, Ingress, Offload, PortId};

/// Bytes kept free before a received frame, for the headers that an egress puts in front of it.
pub const HEADROOM: usize = 128;

/// The largest frame: a 64 KiB IP packet with its Ethernet header and an 802.1Q tag.
pub const MAX_FRAME: usize = 65_535 + 18;

/// Bytes of a frame that [`Frame::head`] shows: Ethernet, IPv6 and TCP without options.
pub(crate) const HEAD: usize = 14 + 40 + 20;

/// A frame with its buffer. Buffers are allocated once and go round; a frame is moved, never copied, through
/// the router.
#[derive(Debug)]
pub struct Frame {
    buffer: Box<[u8]>,
    /// Less wide than the end, so that a header's length added to it is never too much.
    start: u32,
    end: usize,
    /// What its sender left undone.
    pub offload: Offload,
    /// Where it came in.
    pub ingress: Ingress,
    /// Where it leaves; `None`: it does not.
    pub egress: Option<Egress>,
    pub(crate) counted_as: CountedAs,
}

/// How a frame is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountedAs {
    /// As a frame that was received.
    Received,
    /// As a packet that the router made itself, or cut from a received one.
    Made,
}

impl Frame {
    /// An empty frame that takes up to `capacity` bytes behind [`HEADROOM`].
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            buffer: vec![0; HEADROOM + capacity].into_boxed_slice(),
            start: HEADROOM as u32,
            end: HEADROOM,
            offload: Offload::default(),
            ingress: Ingress::Port(PortId(0)),
            egress: None,
            counted_as: CountedAs::Received,
        }
    }

    /// A frame with these bytes, from this ingress, and some room to spare.
    pub fn from_bytes(bytes: &[u8], ingress: Ingress) -> Self {
        let mut frame = Self::with_capacity(bytes.len() + 256);
        frame.set(bytes);
        frame.ingress = ingress;
        frame
    }

    #[inline(always)]
    fn start(&self) -> usize {
        self.start as usize
    }

    /// The frame's bytes, from the Ethernet header on.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start()..self.end]
    }

    /// The frame's bytes, to be changed in place.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let start = self.start();
        &mut self.buffer[start..self.end]
    }

    /// The buffer where the frame begins, as far as headers of the usual lengths reach; `None` in a small
    /// buffer. Where the frame is shorter, what follows it is left from others: whoever looks here has to
    /// know the frame's length.
    #[inline(always)]
    pub(crate) fn head(&self) -> Option<&[u8; HEAD]> {
        let start = self.start();
        self.buffer.get(start..start + HEAD)?.first_chunk()
    }

    /// [`Frame::head`], to be changed in place.
    #[inline(always)]
    pub(crate) fn head_mut(&mut self) -> Option<&mut [u8; HEAD]> {
        let start = self.start();
        self.buffer.get_mut(start..start + HEAD)?.first_chunk_mut()
    }

    /// How many bytes the frame has.
    #[allow(clippy::len_without_is_empty)]
    #[inline]
    pub fn len(&self) -> usize {
        self.end - self.start()
    }

    /// How many bytes the frame could have, from where it starts.
    pub fn capacity(&self) -> usize {
        self.buffer.len() - self.start()
    }

    /// Makes it an empty frame again, plain, at its usual headroom.
    pub fn reset(&mut self) {
        self.start = HEADROOM as u32;
        self.end = HEADROOM;
        self.offload = Offload::default();
        self.egress = None;
        self.counted_as = CountedAs::Received;
    }

    /// The whole room behind the headroom, to be read into; then [`Frame::set_len`] says how much was read.
    /// With `prefix` bytes before it, for a header that is read along and is not part of the frame.
    ///
    /// # Panics
    /// If `prefix` is more than [`HEADROOM`].
    pub fn room_mut(&mut self, prefix: usize) -> &mut [u8] {
        &mut self.buffer[HEADROOM - prefix..]
    }

    /// Makes the first `len` bytes behind the headroom the frame.
    ///
    /// # Panics
    /// If there is less room.
    pub fn set_len(&mut self, len: usize) {
        assert!(HEADROOM + len <= self.buffer.len(), "frame of {len} bytes in too small a buffer");
        self.start = HEADROOM as u32;
        self.end = HEADROOM + len;
    }

    /// Makes these bytes the frame.
    ///
    /// # Panics
    /// If there is less room.
    pub fn set(&mut self, bytes: &[u8]) {
        self.set_len(bytes.len());
        self.bytes_mut().copy_from_slice(bytes);
    }

    /// Drops bytes at the end, so that `len` are left.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.end = self.end.min(self.start() + len);
    }

    /// [`Frame::truncate`], for a frame that is known to have as many.
    #[inline(always)]
    pub(crate) fn set_end(&mut self, len: usize) {
        debug_assert!(len <= self.len(), "{len} bytes left of a frame of {}", self.len());
        self.end = self.start() + len;
    }

    /// Takes bytes off the front, such as an outer header.
    ///
    /// # Panics
    /// If the frame has fewer.
    pub fn take_front(&mut self, count: usize) {
        assert!(count <= self.len(), "taking {count} bytes off a frame of {}", self.len());
        self.start += count as u32;
    }

    /// The frame with `count` bytes of headroom before it, for an egress that writes its own header there.
    /// The frame itself does not change.
    ///
    /// # Panics
    /// If there is less headroom.
    pub fn with_header_mut(&mut self, count: usize) -> &mut [u8] {
        assert!(count <= self.start(), "{count} bytes of header in {} of headroom", self.start());
        let start = self.start() - count;
        &mut self.buffer[start..self.end]
    }

    /// Grows the frame by `count` zeroed bytes at its end and returns them; `None` if there is no room.
    pub fn extend(&mut self, count: usize) -> Option<&mut [u8]> {
        let new_end = self.end.checked_add(count).filter(|end| *end <= self.buffer.len())?;
        let added = &mut self.buffer[self.end..new_end];
        added.fill(0);
        self.end = new_end;
        Some(added)
    }

    /// Puts these bytes at the frame's end; `false`, and nothing done, if there is no room.
    pub fn append(&mut self, bytes: &[u8]) -> bool {
        let new_end = self.end + bytes.len();
        let Some(added) = self.buffer.get_mut(self.end..new_end) else { return false };
        added.copy_from_slice(bytes);
        self.end = new_end;
        true
    }

    /// Takes over another frame's bytes, offload and ingress.
    ///
    /// # Panics
    /// If there is less room.
    pub fn copy_from(&mut self, other: &Self) {
        self.set(other.bytes());
        self.offload = other.offload;
        self.ingress = other.ingress;
        self.egress = other.egress;
        self.counted_as = other.counted_as;
    }
}
