//! Reading requests, and saying in gRPC's terms why one failed.

use std::path::PathBuf;

use tonic::{Code, Status};
use vrouter_objects::PodName;
use vrouter_proto::{is_interface_name, v1};

use crate::addressing::AddressingError;
use crate::agent::{AttachError, AttachRequest, PlaceFault};
use crate::attachment::ContainerInterface;

/// Reads a request to attach.
pub(super) fn attach_request(message: v1::AttachRequest) -> Result<AttachRequest, AttachError> {
    let pod = message.pod.ok_or_else(|| wrong("pod", "is missing"))?;
    let pod = PodName::try_from(pod).map_err(|error| wrong("pod", &error.to_string()))?;
    let netns = PathBuf::from(message.netns);
    if !netns.is_absolute() {
        return Err(wrong("netns", "is not an absolute path"));
    }
    let interface = container_interface(message.container_id, message.interface)?;
    Ok(AttachRequest { pod, uid: message.uid, interface, netns, configuration: message.configuration })
}

/// Reads what the runtime calls an interface.
pub(super) fn interface(message: v1::DetachRequest) -> Result<ContainerInterface, AttachError> {
    container_interface(message.container_id, message.interface)
}

fn container_interface(container_id: String, name: String) -> Result<ContainerInterface, AttachError> {
    if container_id.is_empty() {
        return Err(wrong("container_id", "is missing"));
    }
    if !is_interface_name(&name) {
        return Err(wrong("interface", "is no name that an interface can have"));
    }
    Ok(ContainerInterface { container_id, name })
}

fn wrong(field: &'static str, problem: &str) -> AttachError {
    AttachError::Request { field, problem: problem.to_owned() }
}

impl From<AttachError> for Status {
    fn from(error: AttachError) -> Self {
        let code = match &error {
            AttachError::Request { .. } => Code::InvalidArgument,
            AttachError::Refused { .. } | AttachError::Damaged { .. } => Code::FailedPrecondition,
            AttachError::NoPlace { fault, .. } => code_of(fault),
            AttachError::NotAssigned { .. }
            | AttachError::NothingLeased
            | AttachError::NoLease
            | AttachError::Unassigned { .. }
            | AttachError::NoNetwork(_)
            | AttachError::UnknownNetwork { .. }
            | AttachError::NoVtep
            | AttachError::VtepFailed(_) => Code::Unavailable,
            AttachError::NoPort => Code::ResourceExhausted,
            AttachError::CalledOff(_) => Code::Aborted,
            AttachError::State(_)
            | AttachError::Plane { .. }
            | AttachError::Table { .. }
            | AttachError::Garbage { .. } => Code::Internal,
            AttachError::NotAttached(_) => Code::NotFound,
        };
        Self::new(code, error.to_string())
    }
}

fn code_of(fault: &PlaceFault) -> Code {
    match fault {
        PlaceFault::NoGateway(_) | PlaceFault::AddressInUse { .. } => Code::FailedPrecondition,
        PlaceFault::Addressing(AddressingError::NoLease(_) | AddressingError::NoVmi) => Code::Unavailable,
        PlaceFault::Addressing(AddressingError::Exhausted { .. } | AddressingError::NoVmiLeft) => {
            Code::ResourceExhausted
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> v1::AttachRequest {
        v1::AttachRequest {
            pod: Some(v1::PodName { namespace: "default".to_owned(), name: "web".to_owned() }),
            uid: "uid".to_owned(),
            container_id: "container".to_owned(),
            interface: "eth0".to_owned(),
            netns: "/run/netns/web".to_owned(),
            configuration: "pods".to_owned(),
        }
    }

    #[test]
    fn requests_are_checked_field_by_field() {
        assert!(attach_request(message()).is_ok());
        type Spoil = fn(&mut v1::AttachRequest);
        let table: [(Spoil, &str); 6] = [
            (|m| m.pod = None, "pod: is missing"),
            (|m| m.pod.as_mut().unwrap().name.clear(), "pod: name: is empty or has a '/' in it"),
            (|m| m.netns = "netns".to_owned(), "netns: is not an absolute path"),
            (|m| m.container_id.clear(), "container_id: is missing"),
            (|m| m.interface = "a/b".to_owned(), "interface: is no name that an interface can have"),
            (|m| m.interface = "x".repeat(16), "interface: is no name that an interface can have"),
        ];
        for (spoil, expected) in table {
            let mut message = message();
            spoil(&mut message);
            let status = Status::from(attach_request(message).unwrap_err());
            assert_eq!((status.code(), status.message()), (Code::InvalidArgument, expected));
        }
    }
}
