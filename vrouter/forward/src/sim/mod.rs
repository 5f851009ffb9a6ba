//! Routers in memory: packets to send, nodes to send them through, and a cluster of nodes wired together.
//!
//! For tests, benches and experiments; built with the feature `sim`. Nothing in here stands in for a part of
//! the router: it is the real core with the cables simulated, one packet after the other, so every run is the
//! same.

mod build;
mod cluster;
mod node;

pub use build::PacketBuilder;
pub use cluster::{Cluster, Delivery, HOST_PORT, PodHandle, ServiceSpec, Tunnelled, node_addresses};
pub use node::Node;
