//! The translation between the wire and the domain types, once for both ends.
//!
//! Out is infallible. In checks every rule that the domain types state, and says which object and which field broke
//! one; so what has passed here needs no second look. An object that went out and came in again is the same.

mod address;
mod error;
mod floating_ip;
mod node;
mod object;
mod pod;
mod policy;
mod protocol;
mod route;
mod routing_instance;
#[cfg(test)]
mod tests;

pub use address::{mac_from_bytes, mac_to_bytes};
pub use error::{ConvertError, Problem};
pub use object::key_of;
