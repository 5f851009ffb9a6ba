//! The receiving side of a worker's tunnel.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use vrouter_forward::frame::Frame;

use super::super::syscall::ReceiveBatch;
use super::super::window::{MOST_BUFFERS, Window};
use super::gather::Gatherer;
use crate::ledger::Ledger;
use crate::worker::{Waiting, take};

/// A worker's receiving socket, with the buffers to read into.
pub(super) struct TunnelReceiver {
    socket: OwnedFd,
    batch: ReceiveBatch,
    buffers: Vec<Frame>,
    window: Window,
}

impl TunnelReceiver {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket, batch: ReceiveBatch::new(MOST_BUFFERS), buffers: Vec::new(), window: Window::new() }
    }

    /// Reads what is waiting, within the bounds of a burst, and puts it behind `frames`.
    pub(super) fn receive(
        &mut self,
        frames: &mut Vec<Frame>,
        spare: &mut Vec<Frame>,
        ledger: &mut impl Ledger,
    ) -> Waiting {
        let room = self.window.get();
        while self.buffers.len() < room {
            self.buffers.push(take(spare));
        }
        let buffers = &mut self.buffers[..room];
        // An error on a receiving socket is about something that was sent, or passes; what waits is read next time.
        let Ok(count) = self.batch.receive(self.socket.as_fd(), buffers, 0) else { return Waiting::Nothing };
        let mut gatherer = Gatherer::new(frames, spare);
        let mut bytes = 0;
        for (number, buffer) in buffers[..count].iter_mut().enumerate() {
            let Some(received) = self.batch.received(number) else { continue };
            bytes += received.len;
            buffer.set_len(received.len);
            gatherer.take(buffer, received.source, received.segment, ledger);
            buffer.reset();
        }
        gatherer.finish(ledger);
        self.window.adapt(count, bytes);
        if count < room { Waiting::Nothing } else { Waiting::Perhaps }
    }
}

impl AsFd for TunnelReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
