//! VXLAN over UDP sockets of our own: the outer source address is seen, and the outer source port is ours to choose;
//! but super-frames are cut before they leave.

mod gather;
mod header;
mod receive;
mod socket;
mod transmit;

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use vrouter_forward::frame::Frame;

use self::receive::TunnelReceiver;
use self::socket::{Senders, TunnelSockets};
use self::transmit::TunnelTransmitter;
use crate::IoError;
use crate::ledger::Ledger;
use crate::worker::Waiting;

/// A worker's receiving socket, and the sockets that all workers send from.
pub(crate) struct SocketTunnel {
    receiver: TunnelReceiver,
    transmitter: TunnelTransmitter<Arc<Senders>>,
}

impl SocketTunnel {
    /// Opens the sockets of this address for so many workers: each one's share.
    pub(crate) fn open(address: SocketAddr, workers: usize) -> Result<Vec<Self>, IoError> {
        let TunnelSockets { receivers, senders } = TunnelSockets::open(address, workers)?;
        let share = |receiver| Self {
            receiver: TunnelReceiver::new(receiver),
            transmitter: TunnelTransmitter::new(Arc::clone(&senders)),
        };
        Ok(receivers.into_iter().map(share).collect())
    }

    pub(super) fn receive(
        &mut self,
        frames: &mut Vec<Frame>,
        spare: &mut Vec<Frame>,
        ledger: &mut impl Ledger,
    ) -> Waiting {
        self.receiver.receive(frames, spare, ledger)
    }

    pub(super) fn send(&mut self, frames: &mut [Frame], ledger: &mut impl Ledger) {
        self.transmitter.send(frames, ledger);
    }
}

impl AsFd for SocketTunnel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}
