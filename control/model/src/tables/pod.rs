//! What a node must know of a pod before it attaches, static addresses above all.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use vrouter_objects::{Object, PodBinding, PodName};

use super::{Layer, Placed};
use crate::NamespacedName;
use crate::config::ModelConfig;
use crate::index::Index;
use crate::kube::{AddressWish, PodRecord};

/// Why a pod cannot have the addresses it asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// What it asks for cannot be read.
    Malformed(String),
    /// No address of the pod network.
    Outside(IpAddr),
    /// The gateway's, or a prefix's first or last.
    Reserved(IpAddr),
    /// Another pod has it.
    Taken(IpAddr, NamespacedName),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(message) => f.write_str(message),
            Self::Outside(address) => write!(f, "{address} is no address of the pod network"),
            Self::Reserved(address) => write!(f, "{address} is reserved in the pod network"),
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
    let binding = PodBinding {
        pod: PodName::from(name),
        uid: pod.uid.clone(),
        vrf: config.pods.vrf,
        addresses,
        refusal,
    };
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
        let prefix = config.pods.prefixes.iter().find(|prefix| prefix.contains(&address));
        let prefix = prefix.ok_or(Refusal::Outside(address))?;
        if is_reserved(*prefix, address) || config.pods.gateway(*prefix) == Some(address) {
            return Err(Refusal::Reserved(address));
        }
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

/// A prefix's first address, and the last one of an IPv4 prefix, mean the prefix as a whole.
fn is_reserved(prefix: IpNet, address: IpAddr) -> bool {
    address == prefix.network() || (address.is_ipv4() && address == prefix.broadcast())
}
