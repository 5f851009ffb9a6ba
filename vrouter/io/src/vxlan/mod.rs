//! VXLAN over UDP sockets (RFC 7348), compatible on the wire with Linux's `vxlan` device.

mod gather;
mod header;
mod receive;
mod socket;
mod syscall;
mod transmit;

pub(crate) use receive::TunnelReceiver;
pub(crate) use socket::{Senders, TunnelSockets};
pub(crate) use transmit::TunnelTransmitter;
