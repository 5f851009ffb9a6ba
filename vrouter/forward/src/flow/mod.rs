//! The flow table: one entry per direction of a connection.
//!
//! Entries are plain data in slots of atomics that `io` maps from a file, so that a process that was killed
//! and started again finds its connections. They refer to everything else by stable id. The index in front of
//! the slots is private memory and is built anew at start. Finding and touching an established flow takes no
//! lock and no allocation.

mod ageing;
mod config;
mod decision;
mod index;
mod key;
mod pairs;
mod quiescence;
mod record;
mod recovery;
mod reserve;
mod share;
mod slot;
mod sync;
mod table;
mod tcp;

pub use config::{FlowConfig, Timeouts};
pub use key::{FlowKey, Origin};
pub use quiescence::Boundary;
pub(crate) use quiescence::Quiescence;
pub use record::{FlowRecord, FlowState};
pub use recovery::Recovered;
pub use share::FlowShare;
pub use slot::{LAYOUT_VERSION, Slot};
pub use table::FlowTable;

pub use decision::Direction;
pub(crate) use decision::{Actions, Decision, FlowIndex, PackedNextHop};
pub(crate) use key::{PackedKey, TableKey, entropy, pack_place};
pub(crate) use pairs::{NewConnection, NotInstalled};
pub(crate) use reserve::WorkerFlows;
pub(crate) use slot::{Adjustments, NewFlow, Translated};
pub(crate) use table::tenths;
pub use tcp::ConnectionState;
pub(crate) use tcp::Seen;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
