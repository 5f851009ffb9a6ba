//! Protocols.

use vrouter_objects::ServiceProtocol;

use super::error::Problem;
use crate::v1;

impl From<ServiceProtocol> for v1::ServiceProtocol {
    fn from(protocol: ServiceProtocol) -> Self {
        match protocol {
            ServiceProtocol::Tcp => Self::Tcp,
            ServiceProtocol::Udp => Self::Udp,
            ServiceProtocol::Sctp => Self::Sctp,
        }
    }
}

/// The protocol with this number on the wire.
pub(super) fn service_protocol(number: i32) -> Result<ServiceProtocol, Problem> {
    match v1::ServiceProtocol::try_from(number) {
        Ok(v1::ServiceProtocol::Tcp) => Ok(ServiceProtocol::Tcp),
        Ok(v1::ServiceProtocol::Udp) => Ok(ServiceProtocol::Udp),
        Ok(v1::ServiceProtocol::Sctp) => Ok(ServiceProtocol::Sctp),
        Ok(v1::ServiceProtocol::Unspecified) | Err(_) => Err(Problem::UnknownValue(number)),
    }
}
