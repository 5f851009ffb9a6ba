//! The receiving side of a worker's tunnel.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use vrouter_forward::frame::Frame;

use super::gather::Gatherer;
use super::syscall::ReceiveBatch;
use crate::ledger::Ledger;
use crate::worker::{Waiting, take};

/// The most buffers that are read at once, when they are small.
const MOST_BUFFERS: usize = 32;
/// As many bytes may be read at once as stay in the cache until they are sent.
const MOST_BYTES: usize = 192 << 10;

/// A worker's receiving socket, with the buffers to read into.
pub(crate) struct TunnelReceiver {
    socket: OwnedFd,
    batch: ReceiveBatch,
    buffers: Vec<Frame>,
    /// How many buffers the next read offers. Buffers that come back full are few and hot; small ones many.
    window: usize,
}

impl TunnelReceiver {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket, batch: ReceiveBatch::new(MOST_BUFFERS), buffers: Vec::new(), window: 2 }
    }

    /// Reads what is waiting, within the bounds of a burst, and puts it behind `frames`.
    pub(crate) fn receive(
        &mut self,
        frames: &mut Vec<Frame>,
        spare: &mut Vec<Frame>,
        ledger: &mut impl Ledger,
    ) -> Waiting {
        while self.buffers.len() < self.window {
            self.buffers.push(take(spare));
        }
        let buffers = &mut self.buffers[..self.window];
        // An error on a receiving socket is about something that was sent, or passes; what waits is read next time.
        let Ok(count) = self.batch.receive(self.socket.as_fd(), buffers) else { return Waiting::Nothing };
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
        let waiting = if count < self.window { Waiting::Nothing } else { Waiting::Perhaps };
        self.window = next_window(self.window, count, bytes);
        waiting
    }
}

/// Doubles where more small buffers were waiting than could be read, and shrinks where few large ones are enough.
fn next_window(window: usize, count: usize, bytes: usize) -> usize {
    if bytes > MOST_BYTES {
        (window / 2).max(2)
    } else if count == window && 2 * bytes <= MOST_BYTES {
        (window * 2).min(MOST_BUFFERS)
    } else {
        window
    }
}

impl AsFd for TunnelReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::next_window;

    #[test]
    fn large_buffers_are_few_and_small_ones_many() {
        let settle = |size: usize| (0..20).fold(2, |window, _| next_window(window, window, window * size));
        assert_eq!(settle(64_000), 2);
        assert_eq!(settle(1_500), 32);
        assert_eq!((0..20).fold(32, |window, _| next_window(window, 1, 100)), 32);
        assert_eq!(next_window(32, 32, 32 * 64_000), 16);
    }
}
