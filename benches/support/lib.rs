//! What the benches share: a node's router with services and connections in memory, and packets to send through it.
//!
//! # What is measured
//!
//! Nothing but [`Lane::process_burst`]: what `io` does with a burst between receiving and transmitting it. Packets are
//! put back into their buffers between the measured parts, [`ROUND`] at a time ([`Round`]), so a burst finds its packets
//! in the cache, as it does behind a `read` that has just copied them there. Nothing is subtracted: the clock is
//! read twice per round, which is well below a nanosecond per packet.
//!
//! Flow slots are on the heap here; a node has them in a file on tmpfs.
//!
//! # Running them
//!
//! `cargo bench -p vrouter-benches` runs all, `--bench NAME` one, `-- --quick` shortens it. `--bench allocations` counts
//! instead of timing, and `scripts/instructions` counts instructions. `workers` and `changes` need two idle cores.

mod established;
mod estate;
mod lane;
mod newcomers;
mod random;
mod round;
mod router;
pub mod rules;
mod site;
mod template;

pub use established::{Direction, Established, EstablishedTraffic};
pub use estate::{Estate, Labels};
pub use lane::Lane;
pub use newcomers::Newcomers;
pub use random::Random;
pub use round::{ROUND, Round, Traffic};
pub use router::Router;
pub use site::{Layout, Place, SERVICE_PORT, Site, Target};
pub use template::{Host, Template};

/// How many flow slots a node has where nobody configured it.
pub const DEFAULT_SLOTS: usize = 1 << 20;
