//! One queue of a TAP: one descriptor, read and written by one worker.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use vrouter_forward::frame::Frame;

use crate::vnet::{self, HEADER_LEN, PacketSink};

/// One queue of a TAP.
#[derive(Debug)]
pub(crate) struct TapQueue(File);

/// What came of reading.
#[derive(Debug)]
pub(crate) enum Receipt {
    /// A frame.
    Frame,
    /// A frame whose virtio-net header does not fit it.
    Malformed,
    /// No frame is waiting.
    Empty,
    /// The interface is gone.
    Unplugged,
}

impl TapQueue {
    pub(super) fn new(queue: File) -> Self {
        Self(queue)
    }

    /// Reads the next frame into this buffer, with the offload that its header tells of.
    pub(crate) fn receive(&self, frame: &mut Frame) -> Receipt {
        frame.reset();
        let len = match (&self.0).read(frame.room_mut(HEADER_LEN)) {
            Ok(len) => len,
            Err(error) => return Self::receipt_of(&error),
        };
        match vnet::take_in(frame, len) {
            Ok(()) => Receipt::Frame,
            Err(_) => Receipt::Malformed,
        }
    }

    fn receipt_of(error: &io::Error) -> Receipt {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => Receipt::Empty,
            // EBADFD: taken off its interface; EFAULT: shut down while it is being taken off; EIO: being unregistered.
            Some(libc::EBADFD | libc::EBADF | libc::EFAULT | libc::EIO | libc::ENODEV) => Receipt::Unplugged,
            // Out of memory, perhaps: the frame is lost, and the next read says more.
            _ => Receipt::Empty,
        }
    }
}

impl AsFd for TapQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl PacketSink for TapQueue {
    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        // A TAP takes a packet whole or not at all, so the count says nothing.
        match parts {
            [packet] => self.0.write(packet),
            parts => self.0.write_vectored(parts),
        }
        .map(drop)
    }
}
