//! The wire contract: the types and services that `vrouter/v1/*.proto` define, their translation to and from the domain
//! types, the digest that both ends of the control channel must compute alike, and what every user of the local socket
//! needs. Nothing else.

pub mod convert;
mod digest;
mod interface_name;
mod socket;

pub use digest::{Digest, object_digest};
pub use interface_name::is_interface_name;
pub use socket::connect;

/// The generated messages and services of package `vrouter.v1`.
#[allow(missing_docs, clippy::all)]
pub mod v1 {
    tonic::include_proto!("vrouter.v1");
}

/// The largest gRPC message either end accepts, in bytes. Tables are sent in bounded pieces well below it.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// How many bytes of objects a sender puts into one message before it starts the next.
pub const CHUNK_BYTES: usize = 1 << 20;
