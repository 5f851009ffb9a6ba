//! Where pods and services are, and why they cannot be anywhere.

use std::fmt;
use std::net::IpAddr;

use vrouter_objects::VrfId;

use crate::NamespacedName;
use crate::kube::{NETWORK_ANNOTATION, ObjectRef};

/// Where a pod is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodPlace {
    /// Its network.
    pub vrf: VrfId,
    /// Whose addresses it has.
    pub space: VrfId,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// The networks of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceNetworks {
    /// Its members' network.
    pub pods: VrfId,
    /// The network of its cluster addresses.
    pub services: VrfId,
    /// Whose cluster addresses these are.
    pub space: VrfId,
}

/// Nothing can be in the network that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misplaced {
    /// Who asks for it: a pod or a service itself, or its namespace.
    pub asker: Box<ObjectRef>,
    /// Why not.
    pub fault: NetworkFault,
}

/// What is wrong with a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkFault {
    /// What is asked for cannot be read.
    Malformed(String),
    /// There is no such network.
    Unknown(NamespacedName),
    /// It cannot be used.
    Unusable(NamespacedName, String),
    /// No interfaces are in it.
    NotForPods(NamespacedName),
}

impl fmt::Display for Misplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "annotation {NETWORK_ANNOTATION} of {}: {}", self.asker, self.fault)
    }
}

impl fmt::Display for NetworkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(message) => f.write_str(message),
            Self::Unknown(name) => write!(f, "there is no network {name}"),
            Self::Unusable(name, reason) => write!(f, "network {name} cannot be used: {reason}"),
            Self::NotForPods(name) => write!(f, "network {name} is not for pods"),
        }
    }
}
