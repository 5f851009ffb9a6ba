//! The one error type of this crate.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

/// Why something of the data path could not be set up or taken down. What happens to single packets is no error: it is
/// counted, by [`vrouter_objects::DropReason`].
#[derive(Debug, Error)]
pub enum IoError {
    /// A network namespace could not be entered.
    #[error("network namespace {}: {source}", path.display())]
    Namespace {
        /// The namespace's file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Not a name that an interface can have.
    #[error("interface name \"{0}\" is not 1 to 15 bytes without '/', ':' or white space")]
    InterfaceName(String),
    /// A TAP could not be made, attached to or set up.
    #[error("TAP {name}: {step}: {source}")]
    Tap {
        /// The interface's name.
        name: String,
        /// What was being done.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A TAP must have one queue for each worker.
    #[error("TAP {name}: it was opened with {queues} queues, for {workers} workers")]
    Queues {
        /// The interface's name.
        name: String,
        /// How many queues it has.
        queues: usize,
        /// How many workers there are.
        workers: usize,
    },
    /// A port number beyond the port table.
    #[error("port {0}: the port table ends at {max}", max = vrouter_forward::frame::MAX_PORTS - 1)]
    PortRange(u16),
    /// A VXLAN socket could not be opened.
    #[error("VXLAN socket on {address}: {step}: {source}")]
    Vxlan {
        /// The address it was to be bound to.
        address: SocketAddr,
        /// What was being done.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A vxlan device of the kernel cannot be used.
    #[error("VXLAN device {name}: {step}: {source}")]
    TunnelDevice {
        /// The device's name.
        name: String,
        /// What was being done.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The flow table's file could not be opened or mapped.
    #[error("flow table {}: {step}: {source}", path.display())]
    FlowFile {
        /// The file.
        path: PathBuf,
        /// What was being done.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Another process has the flow table's file.
    #[error("flow table {}: another process uses it", .0.display())]
    FlowFileBusy(PathBuf),
    /// The flow table's file is not what it should be.
    #[error("flow table {}: {problem}", path.display())]
    FlowFileUnsafe {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A flow table of no flows, or of more than can be numbered.
    #[error("flow table: a capacity of {0} flow directions is not in 1 to 2^31")]
    FlowCapacity(usize),
    /// The file system has no room for the flow table, and would kill the process once it is full.
    #[error("flow table {}: it may grow to {needed} bytes, its file system has {free} left", path.display())]
    FlowFileRoom {
        /// The file.
        path: PathBuf,
        /// The flow table's size in bytes.
        needed: u64,
        /// Free bytes there.
        free: u64,
    },
    /// The kernel's boot id could not be read.
    #[error("/proc/sys/kernel/random/boot_id: {0}")]
    BootId(io::Error),
    /// A worker thread could not be started.
    #[error("worker {worker}: {step}: {source}")]
    Worker {
        /// The worker's number.
        worker: usize,
        /// What was being done.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A worker could not watch a descriptor.
    #[error("watching a descriptor: {0}")]
    Watch(io::Error),
    /// A worker thread is gone.
    #[error("worker {0} has stopped")]
    WorkerStopped(usize),
}
