//! The controller process: sources of Kubernetes objects, the one task that owns the model, and its publishing over
//! gRPC.
//!
//! ```text
//! source ─Event→ ┐                        ┌→ session per node (Control.Exchange)
//!                Core (Model, Published) ─┤
//! gRPC ─Command→ ┘                        └→ Inspect
//! ```
//!
//! Everything that changes passes through one channel into [`core::Core`], which alone writes.

pub mod args;
pub mod core;
mod error;
mod grpc;
mod lock;
mod node;
mod published;
mod serve;
mod socket;
pub mod source;
mod store;

pub use error::ServerError;
pub use serve::{Running, start};
