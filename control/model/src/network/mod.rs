//! Virtual networks, each with its routing instance: the two are one to one.

mod leak;
mod place;
mod resolve;
mod set;

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use vrouter_objects::{NetworkKind, Vni, VrfId};

use crate::NamespacedName;
use crate::family::{self, Family};

pub use leak::selected_networks;
pub use place::{Misplaced, NetworkFault, PodPlace, ServiceNetworks};
pub use resolve::{Resolved, Resolver};
pub use set::NetworkSet;

/// What the pod network of an isolated namespace is called, as the cluster's own is.
pub const POD_NETWORK: &str = "default-podnetwork";
/// What its service network is called.
pub const SERVICE_NETWORK: &str = "default-servicenetwork";
/// What the network is called by whose addresses each node reaches its own pods.
pub const LINK_LOCAL_NETWORK: &str = "link-local";
/// How a custom network's service network is called after it.
const SERVICE_NETWORK_SUFFIX: &str = "-servicenetwork";

/// A virtual network, with its routing instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtualNetwork {
    /// What it is called.
    pub name: NamespacedName,
    /// Its routing instance.
    pub vrf: VrfId,
    /// What marks its packets between nodes.
    pub vni: Vni,
    /// Its subnets, at most one per family; the first one's family is the primary. The fabric has none of its own.
    pub subnets: Vec<NetworkSubnet>,
    /// Whose addresses these are: its own, or those of the network that it shares its subnets with.
    pub space: VrfId,
    /// What its addresses are for.
    pub role: NetworkRole,
}

/// A prefix of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkSubnet {
    /// What the Subnet is called. Several networks may have it.
    pub name: NamespacedName,
    /// The prefix.
    pub prefix: IpNet,
    /// Where nodes answer, on every node alike; `None`: no interface is in it.
    pub gateway: Option<IpAddr>,
    /// The only addresses that are picked for pods, from the first to the last of each; empty: any.
    pub ranges: Vec<(IpAddr, IpAddr)>,
}

/// What a network's addresses are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkRole {
    /// Interfaces.
    Pods(PodNetwork),
    /// Virtual addresses of services; it has no gateway, as no interface is in it.
    Services(Tenancy),
    /// The nodes' own, and all that are beyond them.
    Fabric,
    /// Interfaces once more, whatever network they are in: by these their own node reaches them. Each node gives them out by
    /// itself, so one may be another pod's on another node, and none is of any use there.
    LinkLocal,
}

/// What is particular to a network of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodNetwork {
    /// Whose it is.
    pub tenancy: Tenancy,
    /// Where its pods find services.
    pub services: VrfId,
}

/// Whose a network is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tenancy {
    /// The cluster's: everybody's who asks for nothing else.
    Cluster,
    /// An isolated namespace's, with addresses of the cluster's.
    Isolated,
    /// Whose manifest says so, with addresses of its own.
    Custom,
}

impl NetworkRole {
    /// What such a network is to a node.
    pub const fn kind(self) -> NetworkKind {
        match self {
            Self::Pods(_) | Self::Services(_) => NetworkKind::Overlay,
            Self::Fabric => NetworkKind::Fabric,
            Self::LinkLocal => NetworkKind::LinkLocal,
        }
    }
}

impl NetworkSubnet {
    /// A subnet of interfaces, whose gateway is its first address.
    pub fn of_pods(name: NamespacedName, prefix: IpNet) -> Self {
        let first = family::address(prefix.into(), family::number(prefix.network()) + 1);
        Self { name, prefix, gateway: Some(first), ranges: Vec::new() }
    }

    /// A prefix of virtual addresses.
    pub fn of_services(name: NamespacedName, prefix: IpNet) -> Self {
        Self { name, prefix, gateway: None, ranges: Vec::new() }
    }

    /// Whether it is no single address: a prefix's first address, and the last one of an IPv4 prefix, mean the prefix as a
    /// whole.
    pub fn is_whole(&self, address: IpAddr) -> bool {
        address == self.prefix.network() || (address.is_ipv4() && address == self.prefix.broadcast())
    }

    /// Whether the address may be picked for a pod.
    pub fn may_be_picked(&self, address: IpAddr) -> bool {
        let is_in = |(from, to): &(IpAddr, IpAddr)| (*from..=*to).contains(&address);
        let in_range = self.ranges.is_empty() || self.ranges.iter().any(is_in);
        in_range && !self.is_whole(address) && self.gateway != Some(address)
    }
}

impl VirtualNetwork {
    /// Its prefixes.
    pub fn prefixes(&self) -> impl Iterator<Item = IpNet> + Clone {
        self.subnets.iter().map(|subnet| subnet.prefix)
    }

    /// Its prefix of this family.
    pub fn prefix(&self, family: Family) -> Option<IpNet> {
        self.subnet(family).map(|subnet| subnet.prefix)
    }

    /// Its subnet of this family.
    pub fn subnet(&self, family: Family) -> Option<&NetworkSubnet> {
        self.subnets.iter().find(|subnet| Family::from(subnet.prefix) == family)
    }

    /// The gateway of a prefix, where the network has gateways.
    pub fn gateway(&self, prefix: IpNet) -> Option<IpAddr> {
        self.subnets.iter().find(|subnet| subnet.prefix == prefix)?.gateway
    }

    /// What is particular to it, if it is a network of pods.
    pub fn pods(&self) -> Option<PodNetwork> {
        match self.role {
            NetworkRole::Pods(pods) => Some(pods),
            NetworkRole::Services(_) | NetworkRole::Fabric | NetworkRole::LinkLocal => None,
        }
    }

    /// Whose it is, if it is a network of pods.
    pub fn tenancy(&self) -> Option<Tenancy> {
        self.pods().map(|pods| pods.tenancy)
    }

    /// Whether an interface can have the address.
    pub fn check(&self, address: IpAddr) -> Result<(), AddressFault> {
        let subnet = self.subnets.iter().find(|subnet| subnet.prefix.contains(&address));
        let subnet = subnet.ok_or(AddressFault::Outside)?;
        let is_reserved = subnet.is_whole(address) || subnet.gateway == Some(address);
        if is_reserved { Err(AddressFault::Reserved) } else { Ok(()) }
    }

    /// Whether the address belongs to the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.prefixes().any(|prefix| prefix.contains(&address))
    }
}

/// Why no interface can have an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressFault {
    /// No address of the network.
    Outside,
    /// The gateway's, or a prefix's first or last.
    Reserved,
}

impl fmt::Display for AddressFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Outside => "is no address of the pod network",
            Self::Reserved => "is reserved in the pod network",
        })
    }
}

/// Whether two prefixes share an address.
pub fn overlap(one: IpNet, other: IpNet) -> bool {
    one.contains(&other) || other.contains(&one)
}
