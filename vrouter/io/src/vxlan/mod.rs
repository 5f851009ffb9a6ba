//! VXLAN (RFC 7348), compatible on the wire with Linux's `vxlan` device, in two kinds: over UDP sockets of our own, and
//! through the kernel's devices. A node runs one of them. Either serves many VNIs, and knows the tunnel end that a
//! packet came from.

mod devices;
mod sockets;
mod syscall;
mod window;

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use vrouter_forward::frame::Frame;

use crate::ledger::Ledger;
use crate::worker::Waiting;

pub(crate) use devices::{DeviceSockets, DeviceTunnel};
pub use devices::{Peers, TunnelDevice};
pub(crate) use sockets::SocketTunnel;

/// This node's end of the tunnels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TunnelEnd {
    /// UDP sockets of our own on this address.
    Sockets(IpAddr),
    /// The kernel's vxlan devices: super-frames cross them whole. They are made by somebody else, who also tells them
    /// which address a peer's MAC address is at, and lets nothing in that is not from a peer's address.
    Devices {
        /// One for each VNI that is carried, in the network namespace of the caller.
        devices: Vec<TunnelDevice>,
        /// Who is at the other ends.
        peers: Arc<Peers>,
    },
}

/// A worker's share of this node's end of the tunnels.
pub(crate) enum Tunnel {
    Sockets(SocketTunnel),
    Devices(DeviceTunnel),
}

impl Tunnel {
    /// What is to be waited on. Each is called by its number from then on.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Self::Sockets(tunnel) => vec![tunnel.as_fd()],
            Self::Devices(tunnel) => tunnel.descriptors().collect(),
        }
    }

    /// Reads what is waiting at the descriptor of this number, within the bounds of a burst, and puts it behind
    /// `frames`.
    pub(crate) fn receive(
        &mut self,
        number: usize,
        frames: &mut Vec<Frame>,
        spare: &mut Vec<Frame>,
        ledger: &mut impl Ledger,
    ) -> Waiting {
        match self {
            Self::Sockets(tunnel) => tunnel.receive(frames, spare, ledger),
            Self::Devices(tunnel) => tunnel.receive(number, frames, spare, ledger),
        }
    }

    /// Sends the frames in their order. Each is sent, or told to the ledger as lost. All must leave by a tunnel.
    pub(crate) fn send(&mut self, frames: &mut [Frame], ledger: &mut impl Ledger) {
        match self {
            Self::Sockets(tunnel) => tunnel.send(frames, ledger),
            Self::Devices(tunnel) => tunnel.send(frames, ledger),
        }
    }
}
