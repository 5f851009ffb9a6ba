//! The forwarding core of the vRouter, without I/O: bytes, tables and the time in; bytes, verdicts and events
//! out.
//!
//! No sockets, threads, clocks, globals or randomness of its own, so a whole cluster of routers can be wired
//! together inside one test. The modules bear the names of the stages a packet meets (`ARCHITECTURE.md`, "One
//! packet's way").

mod address;
mod checksum;
mod counters;
pub mod flow;
pub mod frame;
mod observer;
pub mod offload;
pub mod parse;
mod pipeline;
mod rewrite;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
pub mod tables;

/// What network policy says of a connection, for people to read.
pub mod policy {
    pub use crate::pipeline::{Lead, Opinion, Opinions, Question};
    pub use crate::tables::{DirectionUse, PolicyUse};
}

pub use address::{Address, Family};
pub use counters::{Counter, PacketCounters, PortCounters, WorkerCounters};
pub use observer::{Event, NoObserver, Observer};
pub use pipeline::{Burst, DroppedPacket, ForwardConfig, Shared, Worker};
pub use tables::{Epoch, Snapshot};
