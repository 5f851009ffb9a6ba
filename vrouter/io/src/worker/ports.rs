//! A worker's queues, by port.

use vrouter_forward::frame::{MAX_PORTS, PortId};

use crate::tap::TapQueue;
use crate::vnet::Transmitter;

/// One port's queue at one worker.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) queue: Transmitter<TapQueue>,
    /// How many frames are read before they are processed. As many as are usually waiting: so a lone packet is on its
    /// way before the queue is asked for a second one.
    pub(super) appetite: usize,
}

/// A worker's queues, by port.
#[derive(Debug)]
pub(super) struct Ports(Box<[Option<Port>]>);

impl Ports {
    pub(super) fn new() -> Self {
        Self((0..MAX_PORTS).map(|_| None).collect())
    }

    /// The queue of this port.
    pub(super) fn get_mut(&mut self, port: PortId) -> Option<&mut Port> {
        self.0.get_mut(usize::from(port.0))?.as_mut()
    }

    /// Puts a queue in; returns the one that was there.
    pub(super) fn insert(&mut self, port: PortId, queue: Transmitter<TapQueue>) -> Option<Port> {
        self.0.get_mut(usize::from(port.0))?.replace(Port { queue, appetite: 1 })
    }

    /// Takes a queue out.
    pub(super) fn remove(&mut self, port: PortId) -> Option<Port> {
        self.0.get_mut(usize::from(port.0))?.take()
    }
}
