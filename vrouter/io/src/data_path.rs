//! The data path of a node: its worker threads, and what the agent tells them.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use crossbeam::queue::ArrayQueue;
use vrouter_forward::frame::{MAX_PORTS, PortId};
use vrouter_forward::{DroppedPacket, Shared, Snapshot, Worker};

pub use vrouter_objects::VXLAN_PORT;

use crate::IoError;
use crate::tap::Tap;
use crate::vxlan::{DeviceSockets, SocketTunnel, Tunnel, TunnelEnd};
use crate::worker::{Answer, Command, Common, Cores, WorkerThread};

/// How many dropped packets are kept for people to look at.
const DROPS_KEPT: usize = 1024;

/// How the data path is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataPathConfig {
    /// The UDP port of tunnels, here and at the other end.
    pub vxlan_port: u16,
    /// The cores that workers are pinned to, in turn. None: the scheduler places them.
    pub cores: Vec<usize>,
}

impl Default for DataPathConfig {
    fn default() -> Self {
        Self { vxlan_port: VXLAN_PORT, cores: Vec::new() }
    }
}

/// The running data path. Dropping it stops the workers.
#[derive(Debug)]
pub struct DataPath {
    workers: Vec<WorkerThread>,
    common: Arc<Common>,
    vxlan_port: u16,
    tunnel_end: Mutex<OpenEnd>,
}

/// What is open of this node's end of the tunnels.
#[derive(Debug)]
enum OpenEnd {
    Nothing,
    Sockets(IpAddr),
    Devices(DeviceSockets),
}

impl DataPath {
    /// Starts as many workers as `shared` has, on the snapshot `first`.
    pub fn start(config: DataPathConfig, shared: Arc<Shared>, first: Arc<Snapshot>) -> Result<Self, IoError> {
        let common = Arc::new(Common {
            snapshot: Arc::new(ArcSwap::new(first)),
            drops: ArrayQueue::new(DROPS_KEPT),
            unplugged: ArrayQueue::new(MAX_PORTS),
            cores: Cores::for_workers(shared.workers()),
        });
        let workers = (0..shared.workers())
            .map(|number| {
                let core = config.cores.get(number % config.cores.len().max(1)).copied();
                WorkerThread::start(number, Worker::new(number, shared.clone()), common.clone(), core)
            })
            .collect::<Result<_, _>>()?;
        let tunnel_end = Mutex::new(OpenEnd::Nothing);
        Ok(Self { workers, common, vxlan_port: config.vxlan_port, tunnel_end })
    }

    /// Puts a snapshot in force. A worker uses it from its next burst on; one that sleeps is woken, so that it lets go
    /// of the old one.
    pub fn publish(&self, snapshot: Arc<Snapshot>) {
        self.common.snapshot.store(snapshot);
        self.workers.iter().for_each(WorkerThread::wake);
    }

    /// Serves a TAP as this port, in place of any there was; returns when every worker has its queue. If one of them
    /// cannot, the port is not served at all.
    pub fn add_port(&self, port: PortId, tap: Tap) -> Result<(), IoError> {
        if usize::from(port.0) >= MAX_PORTS {
            return Err(IoError::PortRange(port.0));
        }
        if tap.queues() != self.workers.len() {
            let (name, queues) = (tap.name().to_owned(), tap.queues());
            return Err(IoError::Queues { name, queues, workers: self.workers.len() });
        }
        self.workers
            .iter()
            .zip(tap.into_transmitters())
            .try_for_each(|(worker, queue)| worker.call(|done| Command::AddPort { port, queue, done }))
            // A worker that is gone serves nothing.
            .inspect_err(|_| drop(self.remove_port(port)))
    }

    /// Serves a port no more; returns when every worker has closed its queue. That it was not served is no error.
    pub fn remove_port(&self, port: PortId) -> Result<(), IoError> {
        self.call_all(|done| Command::RemovePort { port, done })
    }

    /// Makes this the node's end of the tunnels, with sockets in the caller's network namespace. What of it is open
    /// already goes on. If something cannot be opened, it stays what it was; if a worker cannot serve its own share, there
    /// is none, until this is called again: two at once would have flows of one node come from either.
    pub fn set_tunnel_end(&self, end: &TunnelEnd) -> Result<(), IoError> {
        let mut open = self.tunnel_end.lock().unwrap_or_else(PoisonError::into_inner);
        let workers = self.workers.len();
        let (next, tunnels): (_, Vec<_>) = match (end, &*open) {
            (TunnelEnd::Sockets(address), OpenEnd::Sockets(held)) if held == address => return Ok(()),
            (TunnelEnd::Sockets(address), _) => {
                let tunnels = SocketTunnel::open(SocketAddr::new(*address, self.vxlan_port), workers)?;
                (OpenEnd::Sockets(*address), tunnels.into_iter().map(Tunnel::Sockets).collect())
            }
            (TunnelEnd::Devices { devices, peers }, open) => {
                let sockets = open.devices().following(devices, workers)?;
                let share = |number| Tunnel::Devices(sockets.tunnel(number, peers));
                let tunnels = (0..workers).map(share).collect();
                (OpenEnd::Devices(sockets), tunnels)
            }
        };
        *open = OpenEnd::Nothing;
        self.workers
            .iter()
            .zip(tunnels)
            .try_for_each(|(worker, tunnel)| worker.call(|done| Command::SetTunnel { tunnel, done }))
            .inspect_err(|_| drop(self.call_all(|done| Command::EndTunnel { done })))?;
        *open = next;
        Ok(())
    }

    /// Has every worker do something, whatever becomes of it at another; the first error, if there was any.
    fn call_all(&self, command: impl Fn(Answer) -> Command) -> Result<(), IoError> {
        self.workers.iter().map(|worker| worker.call(&command)).reduce(Result::and).unwrap_or(Ok(()))
    }

    /// The packets dropped since this was last asked: a sample of them, if there were many.
    pub fn recent_drops(&self) -> Vec<DroppedPacket> {
        // A worker that is gone has nothing to hand over.
        let _ = self.call_all(|done| Command::CollectDrops { done });
        std::iter::from_fn(|| self.common.drops.pop()).collect()
    }

    /// Ports whose interface has gone since this was last asked. They are not served any more.
    pub fn unplugged_ports(&self) -> Vec<PortId> {
        let mut ports: Vec<_> = std::iter::from_fn(|| self.common.unplugged.pop()).collect();
        // Every worker notices for itself.
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// Stops the workers after the burst they are at, and waits for them. TAPs stay, as does what waits in them.
    pub fn stop(self) {
        // All at once, then one after the other as they are dropped.
        self.workers.iter().for_each(WorkerThread::tell_to_stop);
    }
}

impl OpenEnd {
    /// The open sockets of devices; none, where it is of the other kind.
    fn devices(&self) -> &DeviceSockets {
        static NONE: DeviceSockets = DeviceSockets::none();
        match self {
            Self::Devices(sockets) => sockets,
            Self::Nothing | Self::Sockets(_) => &NONE,
        }
    }
}

#[cfg(test)]
mod tests;
