//! Pods, as far as a node must know them before they attach.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::{ObjectError, PolicyId, Port, ServiceProtocol, VrfId};

/// A pod's `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodName {
    /// The namespace.
    pub namespace: String,
    /// The name in it.
    pub name: String,
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for PodName {
    type Err = ObjectError;

    fn from_str(text: &str) -> Result<Self, ObjectError> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err(ObjectError::PodName(text.to_owned())),
        }
    }
}

/// What the controller decided about a pod of this node, before it attaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodBinding {
    /// The pod.
    pub pod: PodName,
    /// Its UID, empty where the source gives none.
    pub uid: String,
    /// The network it is to be attached to.
    pub vrf: VrfId,
    /// The addresses it must get; empty: any from the node's leases, one per family.
    pub addresses: Vec<IpAddr>,
    /// Why it cannot be attached, where it cannot: the message goes to whoever asks.
    pub refusal: Option<String>,
    /// The policies that select it. One that the node does not hold denies everything.
    pub policies: Vec<PolicyId>,
    /// Those of its named ports that these policies speak of.
    pub ports: Vec<NamedPort>,
}

/// A port that a pod has given a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamedPort {
    /// The name, which is looked up per protocol.
    pub name: String,
    /// The protocol.
    pub protocol: ServiceProtocol,
    /// The number.
    pub port: Port,
}

impl PodBinding {
    /// Whether it speaks of the pod of its name that has this UID. Where one of the two is not known, it does.
    pub fn is_of(&self, uid: &str) -> bool {
        uid.is_empty() || self.uid.is_empty() || self.uid == uid
    }

    /// A pod of this network that may have any address, and that no policy selects.
    pub fn new(pod: PodName, uid: &str, vrf: VrfId) -> Self {
        Self {
            pod,
            uid: uid.to_owned(),
            vrf,
            addresses: Vec::new(),
            refusal: None,
            policies: Vec::new(),
            ports: Vec::new(),
        }
    }
}
