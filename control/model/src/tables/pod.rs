//! What a node must know of a pod before it attaches: its network and addresses, and the policies that select it.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use vrouter_objects::{NamedPort, Object, PodBinding, PodName, PolicyId, VrfId};

use super::{Layer, Placed};
use crate::NamespacedName;
use crate::config::ModelConfig;
use crate::index::Index;
use crate::kube::{AddressWish, PodRecord};
use crate::network::{AddressFault, Misplaced, Tenancy, VirtualNetwork};

/// Why a pod cannot be attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such network.
    Misplaced(Misplaced),
    /// The addresses that it asks for cannot be read.
    Malformed(String),
    /// No interface can have one of them.
    Unusable(IpAddr, AddressFault),
    /// Another pod has one of them.
    Taken(IpAddr, NamespacedName),
    /// All addresses of a subnet are taken.
    Exhausted(NamespacedName, IpNet),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misplaced(misplaced) => misplaced.fmt(f),
            Self::Malformed(message) => f.write_str(message),
            Self::Unusable(address, fault) => write!(f, "{address} {fault}"),
            Self::Taken(address, holder) => write!(f, "{address} is pod {holder}'s already"),
            Self::Exhausted(network, prefix) => {
                write!(f, "network {network} has no free address in {prefix}")
            }
        }
    }
}

/// What the pod's node is told, if it is to attach the pod.
pub fn binding(
    config: &ModelConfig,
    index: &Index,
    (name, pod): (&NamespacedName, &PodRecord),
    (policies, ports): (Vec<PolicyId>, Vec<NamedPort>),
) -> Placed {
    let Some(node) = pod.node.as_ref().filter(|_| pod.has_interface()) else { return Placed::new() };
    let (addresses, refusal) = match grant(index, name, pod) {
        Ok(addresses) => (addresses, None),
        Err(refusal) => (Vec::new(), Some(format!("pod {name}: {refusal}"))),
    };
    // Where there is no such network as it is to be in, it belongs where no pod can be: it is cut off from whatever it is
    // attached to.
    let vrf = index.wanted_network(name, pod).map_or(config.fabric.vrf, |network| network.vrf);
    let (pod, uid) = (PodName::from(name), pod.uid.clone());
    let binding = PodBinding { pod, uid, vrf, addresses, refusal, policies, ports };
    vec![(Layer::Node(node.clone()), Object::PodBinding(binding))]
}

/// The addresses that the pod must get; empty: any that its node leases.
pub fn grant(index: &Index, name: &NamespacedName, pod: &PodRecord) -> Result<Vec<IpAddr>, Refusal> {
    let network = index.wanted_network(name, pod).map_err(Refusal::Misplaced)?;
    match &pod.wish {
        AddressWish::Malformed(message) => Err(Refusal::Malformed(message.clone())),
        AddressWish::These(addresses) => {
            addresses.iter().try_for_each(|&address| check(index, network, name, address))?;
            Ok(addresses.clone())
        }
        AddressWish::Any if network.tenancy() == Some(Tenancy::Custom) => picked(index, network, name),
        AddressWish::Any => Ok(Vec::new()),
    }
}

/// Whether a pod may have an address that it asks for.
fn check(
    index: &Index,
    network: &VirtualNetwork,
    name: &NamespacedName,
    address: IpAddr,
) -> Result<(), Refusal> {
    network.check(address).map_err(|fault| Refusal::Unusable(address, fault))?;
    match holder(index, network.space, address).filter(|holder| *holder != name) {
        Some(holder) => Err(Refusal::Taken(address, holder.clone())),
        None => Ok(()),
    }
}

/// The addresses that were picked for a pod: one of each of its network's subnets.
fn picked(index: &Index, network: &VirtualNetwork, name: &NamespacedName) -> Result<Vec<IpAddr>, Refusal> {
    let picked = index.picked.get(name).filter(|picked| picked.space == network.space);
    let addresses = picked.map(|picked| picked.addresses.as_slice()).unwrap_or_default();
    let of_subnet = |prefix: IpNet| {
        let address = addresses.iter().copied().find(|address| prefix.contains(address));
        address.ok_or_else(|| Refusal::Exhausted(network.name.clone(), prefix))
    };
    network.prefixes().map(of_subnet).collect()
}

/// Whose an address is: the pod that has it, or that it was picked for, or else the one that asked first, by age and then
/// by name.
fn holder(index: &Index, space: VrfId, address: IpAddr) -> Option<&NamespacedName> {
    let owner = index.owner(space, address).map(|owner| owner.pod);
    let picked = || index.picked.holder(space, address);
    owner.or_else(picked).or_else(|| {
        let first =
            index.pods_wishing_in(space, address).min_by_key(|(name, pod)| (pod.created.clone(), *name));
        first.map(|(name, _)| name)
    })
}
