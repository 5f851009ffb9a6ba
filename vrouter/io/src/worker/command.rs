//! What a worker is told to do, and how it is woken to do it.

use std::sync::Arc;

use crossbeam::channel::{Receiver, Sender, unbounded};
use nix::sys::eventfd::{EfdFlags, EventFd};
use vrouter_forward::frame::PortId;

use crate::IoError;
use crate::tap::TapQueue;
use crate::vnet::Transmitter;
use crate::vxlan::Tunnel;

/// Where a worker says that it did what it was told, or why not.
pub(crate) type Answer = Sender<Result<(), IoError>>;

/// What a worker is told to do between two bursts.
pub(crate) enum Command {
    /// Serve this worker's queue of a port, in place of any it had.
    AddPort {
        /// The port's number.
        port: PortId,
        /// The queue.
        queue: Transmitter<TapQueue>,
        /// Told when it is served.
        done: Answer,
    },
    /// Serve a port no more.
    RemovePort {
        /// The port's number.
        port: PortId,
        /// Told when its queue is closed.
        done: Answer,
    },
    /// Serve a tunnel, in place of any there was.
    SetTunnel {
        /// This worker's share of it.
        tunnel: Tunnel,
        /// Told when it is served.
        done: Answer,
    },
    /// Serve no tunnel.
    EndTunnel {
        /// Told when its sockets are closed.
        done: Answer,
    },
    /// Hand over the sample of dropped packets.
    CollectDrops {
        /// Told when it is handed over.
        done: Answer,
    },
    /// End.
    Stop,
}

/// A way to reach a worker.
#[derive(Debug)]
pub(crate) struct Mailbox {
    commands: Sender<Command>,
    bell: Arc<EventFd>,
}

/// The worker's end of it.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(super) commands: Receiver<Command>,
    pub(super) bell: Arc<EventFd>,
}

/// A mailbox with its inbox.
pub(crate) fn mailbox() -> nix::Result<(Mailbox, Inbox)> {
    let bell = Arc::new(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?);
    // Without a bound: only such a channel drops what its receiver did not get to, so that whoever waits for the answer
    // of a worker that is gone is told. Since they wait, few commands are under way.
    let (sender, receiver) = unbounded();
    Ok((Mailbox { commands: sender, bell: bell.clone() }, Inbox { commands: receiver, bell }))
}

impl Mailbox {
    /// Tells the worker; `false` if it is gone.
    pub(crate) fn send(&self, command: Command) -> bool {
        let is_sent = self.commands.send(command).is_ok();
        self.wake();
        is_sent
    }

    /// Has the worker pass a burst boundary, if it sleeps.
    pub(crate) fn wake(&self) {
        // It only fails when it has been rung 2^64 times and not been heard.
        let _ = self.bell.write(1);
    }
}
