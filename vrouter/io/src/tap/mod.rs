//! TAP interfaces: made or attached to in any network namespace, one queue for each worker.

mod device;
mod queue;

use std::path::PathBuf;

use vrouter_objects::MacAddress;

pub(crate) use queue::{Receipt, TapQueue};

use self::device::{InterfaceName, Persistence};
use crate::IoError;
use crate::netns::within;
use crate::vnet::{SuperFrames, Transmitter};

/// Which TAP, and how it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapSpec {
    /// The network namespace's file; `None`: the caller's own.
    pub netns: Option<PathBuf>,
    /// The interface's name there.
    pub name: String,
    /// One for each worker.
    pub queues: u16,
    /// The interface's own MAC address.
    pub mac: MacAddress,
    /// The largest IP packet that the interface's owner sends.
    pub mtu: u16,
}

/// An open TAP. It stays when its descriptors are closed, and keeps what its owner configured; [`Tap::remove`] ends it.
#[derive(Debug)]
pub struct Tap {
    name: String,
    super_frames: SuperFrames,
    queues: Vec<TapQueue>,
}

impl Tap {
    /// Makes the TAP, or attaches to the one of that name, inside its namespace. Its MAC address and MTU are set; up it
    /// is set by whoever gives it addresses.
    ///
    /// Its descriptors go on working when the caller leaves the namespace, and when the interface itself is moved into
    /// another.
    pub fn open(spec: &TapSpec) -> Result<Self, IoError> {
        let name = InterfaceName::new(&spec.name)?;
        within(spec.netns.as_deref(), || Self::open_here(&name, spec))
    }

    fn open_here(name: &InterfaceName, spec: &TapSpec) -> Result<Self, IoError> {
        let queues = (0..spec.queues.max(1))
            .map(|_| device::open_queue(name))
            .collect::<Result<Vec<_>, _>>()
            .map_err(name.failed("opening a queue"))?;
        let first = &queues[0];
        let super_frames = device::accept_offloads(first).map_err(name.failed("setting offloads"))?;
        device::set_persistence(first, Persistence::Stays).map_err(name.failed("making it persistent"))?;
        device::set_mac(name, first, spec.mac).map_err(name.failed("setting the MAC address"))?;
        device::set_mtu(name, spec.mtu).map_err(name.failed("setting the MTU"))?;
        let queues = queues.into_iter().map(TapQueue::new).collect();
        Ok(Self { name: name.as_str().to_owned(), super_frames, queues })
    }

    /// Removes the interface, once its last descriptor is closed. That it is not there is no error, nor that its
    /// namespace is gone and took it along.
    pub fn remove(spec: &TapSpec) -> Result<(), IoError> {
        let name = InterfaceName::new(&spec.name)?;
        if spec.netns.as_ref().is_some_and(|path| !path.exists()) {
            return Ok(());
        }
        within(spec.netns.as_deref(), || {
            // Opening makes it if need be: then it goes as it came.
            let queue = device::open_queue(&name).map_err(name.failed("opening a queue"))?;
            device::set_persistence(&queue, Persistence::Goes).map_err(name.failed("ending its persistence"))
        })
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many queues are open.
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// A TAP of these descriptors, whatever they are.
    #[cfg(test)]
    pub(crate) fn of_queues(queues: impl IntoIterator<Item = std::fs::File>) -> Self {
        let queues = queues.into_iter().map(TapQueue::new).collect();
        Self { name: "test".to_owned(), super_frames: SuperFrames::TcpAndUdp, queues }
    }

    /// Each queue's transmitter, which owns its descriptor.
    pub(crate) fn into_transmitters(self) -> impl Iterator<Item = Transmitter<TapQueue>> {
        self.queues.into_iter().map(move |queue| Transmitter::new(queue, self.super_frames))
    }
}
