//! Why a pod's interface was not attached, or not detached.

use std::net::IpAddr;

use thiserror::Error;
use vrouter_forward::tables::TableError;
use vrouter_objects::{PodName, VrfId};

use super::Missing;
use crate::addressing::AddressingError;
use crate::attachment::ContainerInterface;
use crate::plane::PlaneError;
use crate::state::StateError;

/// Why attaching failed. Nothing is left behind then.
#[derive(Debug, Error)]
pub enum AttachError {
    /// The request lacks something, or has it wrong.
    #[error("{field}: {problem}")]
    Request {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The controller said so.
    #[error("pod {pod} is refused: {reason}")]
    Refused {
        /// The pod.
        pod: PodName,
        /// What the controller said.
        reason: String,
    },
    /// The controller has not said in time what this pod gets.
    #[error("pod {pod}: the controller has not said yet {missing} (waited {waited_ms} ms)")]
    NotAssigned {
        /// The pod.
        pod: PodName,
        /// What it has not said.
        missing: Missing,
        /// For how long.
        waited_ms: u128,
    },
    /// Without a controller and without a lease nobody says what network a pod is in.
    #[error("no controller is connected, and no addresses are leased to this node")]
    NothingLeased,
    /// Nothing can be given out, whatever a controller says.
    #[error("no addresses are leased to this node yet")]
    NoLease,
    /// No controller says what this pod gets, and without one it is not attached.
    #[error("pod {pod}: no controller says what network it belongs to and which policies govern it")]
    Unassigned {
        /// The pod.
        pod: PodName,
    },
    /// The network that pods get into by default is not among the tables.
    #[error("vrf {0} is not known here yet")]
    NoNetwork(VrfId),
    /// The network that a pod belongs to is not among the tables.
    #[error("pod {pod} belongs to vrf {vrf}, which is not known here yet")]
    UnknownNetwork {
        /// The pod.
        pod: PodName,
        /// The network.
        vrf: VrfId,
    },
    /// The pod's network has no place for it.
    #[error("pod {pod} in network {network}: {fault}")]
    NoPlace {
        /// The pod.
        pod: PodName,
        /// The network.
        network: String,
        /// Why not.
        fault: Box<PlaceFault>,
    },
    /// The node's own tunnel address decides the MTU.
    #[error("this node's tunnel address is not known yet, so neither is the MTU of a pod")]
    NoVtep,
    /// The node's own tunnel end could not be opened.
    #[error("{0}")]
    VtepFailed(String),
    /// The interface was detached while it was being attached, or whoever asked for it went away.
    #[error("{0} was called off while it was being attached")]
    CalledOff(ContainerInterface),
    /// Every port of the data path is in use.
    #[error("all ports of this node are in use")]
    NoPort,
    /// It could not be written down.
    #[error(transparent)]
    State(#[from] StateError),
    /// The device or its port could not be made.
    #[error("{interface}: {error}")]
    Plane {
        /// The interface.
        interface: ContainerInterface,
        /// What the data path said.
        error: PlaneError,
    },
    /// The tables refused the interface.
    #[error("{interface}: {error}")]
    Table {
        /// The interface.
        interface: ContainerInterface,
        /// What the tables said.
        error: TableError,
    },
    /// Nothing is attached by that name.
    #[error("{0} is not attached")]
    NotAttached(ContainerInterface),
    /// What was attached is no longer as it was.
    #[error("{interface}: {problem}")]
    Damaged {
        /// The interface.
        interface: ContainerInterface,
        /// What is wrong.
        problem: String,
    },
    /// Some of what the runtime no longer knows is still there.
    #[error("{removed} attachments were removed, {} could not be: {}", failures.len(), list(failures))]
    Garbage {
        /// How many are gone.
        removed: u32,
        /// Why the others are not.
        failures: Vec<AttachError>,
    },
}

/// Why a network has no place for a pod.
#[derive(Debug, Error)]
pub enum PlaceFault {
    /// It has no gateway for such an address.
    #[error("there is no gateway for {0}")]
    NoGateway(IpAddr),
    /// The address that the pod must get is another pod's.
    #[error("address {address} is in use by pod {holder}")]
    AddressInUse {
        /// The address.
        address: IpAddr,
        /// Whose it is.
        holder: PodName,
    },
    /// No address or interface id is left.
    #[error(transparent)]
    Addressing(#[from] AddressingError),
}

fn list(errors: &[AttachError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
