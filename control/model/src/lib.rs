//! Kubernetes objects to Contrail objects to what each node holds. Pure: no I/O, no clock, no randomness.
//!
//! ```text
//! KubeObject ─apply→ Index ─settle→ LoadBalancer, blocks, bindings ─→ Tables ─→ Change per layer
//!                                    └──────────→ documents (what `vrctl get` shows)
//! ```
//!
//! [`Model`] is the one writer. Applying an object only records it and marks what depends on it; [`Model::settle`]
//! recomputes what is marked, and nothing else, and says which objects of which [`Layer`] changed. What must outlive
//! the process (ids, addresses, attachments) is its [`State`].

mod allocate;
mod claim;
mod config;
mod contrail;
mod document;
mod error;
mod family;
mod index;
mod interest;
mod kube;
mod model;
mod multimap;
mod name;
mod network;
mod node_port;
mod policy;
mod problem;
mod tables;

pub use allocate::{State, StateChange};
pub use config::{ModelConfig, NetworkVnis};
pub use document::{Document, DocumentKind, Selection};
pub use error::ModelError;
pub use family::Family;
pub use index::{Attachment, Origin};
pub use interest::{Holding, InterestChange};
pub use kube::{
    ClusterNetworkPolicySpec, Custom, IpRange, Kind, KubeObject, ObjectRef, RouterEntry, RouterImport,
    SubnetRange, SubnetReference, SubnetSpec, VirtualNetworkRouterSpec, VirtualNetworkSpec,
};
pub use model::{Model, Settlement};
pub use name::NamespacedName;
pub use network::VirtualNetwork;
pub use node_port::NodePortRange;
pub use problem::{Finding, Problem};
pub use tables::{Change, Layer};
