//! The one error type of this crate.

use thiserror::Error;

/// Why a value is not what its type says it must be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ObjectError {
    /// Ids are given from 1 on; 0 means "none" where an id is stored as a number.
    #[error("{kind} id 0 is not an id")]
    ZeroId {
        /// The kind of id.
        kind: &'static str,
    },
    /// A VNI is a 24-bit number (RFC 7348 section 5).
    #[error("VNI {0} does not fit 24 bits")]
    VniRange(u32),
    /// A TCP, UDP or SCTP port of a service is 1 to 65535.
    #[error("port {0} is not in 1-65535")]
    PortRange(i64),
    /// Kubernetes allows a second to a day.
    #[error("an affinity timeout of {0} seconds is not in 1-86400")]
    AffinityRange(u32),
    /// Not six hexadecimal octets.
    #[error("\"{0}\" is not a MAC address (six octets, as in 02:00:00:00:00:01)")]
    Mac(String),
    /// Not one of the protocols a Kubernetes Service can have.
    #[error("protocol \"{0}\" is none of TCP, UDP, SCTP")]
    Protocol(String),
    /// Not `namespace/name`.
    #[error("\"{0}\" is not namespace/name")]
    PodName(String),
}
