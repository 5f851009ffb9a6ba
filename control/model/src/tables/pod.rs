//! What a node must know of a pod before it attaches, static addresses above all.

use std::fmt;
use std::net::IpAddr;

use vrouter_objects::{Object, PodBinding, PodName};

use super::{Layer, Placed};
use crate::NamespacedName;
use crate::config::{AddressFault, ModelConfig};
use crate::index::Index;
use crate::kube::{AddressWish, PodRecord};

/// Why a pod cannot have the addresses it asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// What it asks for cannot be read.
    Malformed(String),
    /// No interface can have it.
    Unusable(IpAddr, AddressFault),
    /// Another pod has it.
    Taken(IpAddr, NamespacedName),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(message) => f.write_str(message),
            Self::Unusable(address, fault) => write!(f, "{address} {fault}"),
            Self::Taken(address, holder) => write!(f, "{address} is pod {holder}'s already"),
        }
    }
}

/// What the pod's node is told, if it is to attach the pod.
pub fn binding(config: &ModelConfig, index: &Index, name: &NamespacedName, pod: &PodRecord) -> Placed {
    let Some(node) = pod.node.as_ref().filter(|_| pod.has_interface()) else { return Placed::new() };
    let (addresses, refusal) = match grant(config, index, name, pod) {
        Ok(addresses) => (addresses.to_vec(), None),
        Err(refusal) => (Vec::new(), Some(format!("pod {name}: {refusal}"))),
    };
    let binding =
        PodBinding { addresses, refusal, ..PodBinding::new(PodName::from(name), &pod.uid, config.pods.vrf) };
    vec![(Layer::Node(node.clone()), Object::PodBinding(binding))]
}

/// The addresses that the pod asks for and may have; empty: it asks for none.
pub fn grant<'a>(
    config: &ModelConfig,
    index: &Index,
    name: &NamespacedName,
    pod: &'a PodRecord,
) -> Result<&'a [IpAddr], Refusal> {
    let addresses = match &pod.wish {
        AddressWish::Any => return Ok(&[]),
        AddressWish::Malformed(message) => return Err(Refusal::Malformed(message.clone())),
        AddressWish::These(addresses) => addresses,
    };
    for &address in addresses {
        config.pods.check(address).map_err(|fault| Refusal::Unusable(address, fault))?;
        if let Some(holder) = holder(config, index, address).filter(|holder| *holder != name) {
            return Err(Refusal::Taken(address, holder.clone()));
        }
    }
    Ok(addresses)
}

/// Whose an address is: the pod that has it, or else the one that asked first, by age and then by name.
fn holder<'a>(config: &ModelConfig, index: &'a Index, address: IpAddr) -> Option<&'a NamespacedName> {
    let owner = index.owner(config.pods.vrf, address).map(|owner| owner.pod);
    owner.or_else(|| {
        let first = index.pods_wishing(address).min_by_key(|(name, pod)| (pod.created.clone(), *name));
        first.map(|(name, _)| name)
    })
}
