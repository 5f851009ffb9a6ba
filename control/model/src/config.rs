//! The cluster's default networks.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use vrouter_objects::{Vni, VrfId};

use crate::family::{self, Family};
use crate::{ModelError, NamespacedName};

/// A virtual network, with its routing instance: the two are one to one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtualNetwork {
    /// What it is called.
    pub name: NamespacedName,
    /// Its routing instance.
    pub vrf: VrfId,
    /// What marks its packets between nodes.
    pub vni: Vni,
    /// Its prefixes, at most one per family; the first one's family is the primary.
    pub prefixes: Vec<IpNet>,
    /// What its addresses are for.
    pub role: NetworkRole,
}

/// What a network's addresses are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkRole {
    /// Interfaces; the first address of each prefix is the gateway, on every node alike.
    Pods,
    /// Virtual addresses of services; it has no gateway, as no interface is in it.
    Services,
}

impl VirtualNetwork {
    /// The network's prefix of this family.
    pub fn prefix(&self, family: Family) -> Option<IpNet> {
        self.prefixes.iter().copied().find(|&prefix| Family::from(prefix) == family)
    }

    /// The gateway of a prefix, where the network has gateways.
    pub fn gateway(&self, prefix: IpNet) -> Option<IpAddr> {
        match self.role {
            NetworkRole::Pods => Some(family::address(prefix.into(), family::number(prefix.network()) + 1)),
            NetworkRole::Services => None,
        }
    }

    /// Whether an interface can have the address.
    pub fn check(&self, address: IpAddr) -> Result<(), AddressFault> {
        let prefix = self.prefix(address.into()).filter(|prefix| prefix.contains(&address));
        let prefix = prefix.ok_or(AddressFault::Outside)?;
        // A prefix's first address, and the last one of an IPv4 prefix, mean the prefix as a whole.
        let is_whole = address == prefix.network() || (address.is_ipv4() && address == prefix.broadcast());
        if is_whole || self.gateway(prefix) == Some(address) { Err(AddressFault::Reserved) } else { Ok(()) }
    }

    /// Whether the address belongs to the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.prefixes.iter().any(|prefix| prefix.contains(&address))
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

/// What the model must be told of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelConfig {
    /// `default/default-podnetwork`.
    pub pods: VirtualNetwork,
    /// `default/default-servicenetwork`, which every pod network reaches.
    pub services: VirtualNetwork,
    block_lengths: [u8; 2],
}

/// The namespace of the cluster's own networks.
const NETWORK_NAMESPACE: &str = "default";

impl ModelConfig {
    /// A cluster with these networks; each node gets a block of these lengths (IPv4, IPv6) out of the pod prefixes.
    pub fn new(
        pod_prefixes: Vec<IpNet>,
        service_prefixes: Vec<IpNet>,
        [v4_block, v6_block]: [u8; 2],
        [pod_vni, service_vni]: [Vni; 2],
    ) -> Result<Self, ModelError> {
        let pod_prefixes = one_per_family("pod network", pod_prefixes)?;
        let service_prefixes = one_per_family("service network", service_prefixes)?;
        for &pods in &pod_prefixes {
            for &services in &service_prefixes {
                if overlap(pods, services) {
                    return Err(ModelError::NetworksOverlap { pods, services });
                }
            }
            check_block_length(pods, [v4_block, v6_block][index(pods.into())])?;
        }
        if pod_vni == service_vni {
            return Err(ModelError::SharedVni(pod_vni.get()));
        }
        let network = |name, vrf: u32, vni, prefixes, role| VirtualNetwork {
            name: NamespacedName::new(NETWORK_NAMESPACE, name),
            vrf: VrfId::new(vrf).expect("any number but 0 is a VRF id, and these are 1 and 2"),
            vni,
            prefixes,
            role,
        };
        let (pods, services) = (NetworkRole::Pods, NetworkRole::Services);
        Ok(Self {
            pods: network("default-podnetwork", 1, pod_vni, pod_prefixes, pods),
            services: network("default-servicenetwork", 2, service_vni, service_prefixes, services),
            block_lengths: [v4_block, v6_block],
        })
    }

    /// All networks.
    pub fn networks(&self) -> [&VirtualNetwork; 2] {
        [&self.pods, &self.services]
    }

    /// The length of a node's block of this family.
    pub fn block_length(&self, family: Family) -> u8 {
        self.block_lengths[index(family)]
    }
}

fn index(family: Family) -> usize {
    match family {
        Family::V4 => 0,
        Family::V6 => 1,
    }
}

/// Whether two prefixes share an address.
pub fn overlap(one: IpNet, other: IpNet) -> bool {
    one.contains(&other) || other.contains(&one)
}

fn one_per_family(network: &'static str, prefixes: Vec<IpNet>) -> Result<Vec<IpNet>, ModelError> {
    let mut kept: Vec<IpNet> = Vec::new();
    for prefix in prefixes.into_iter().map(|prefix| prefix.trunc()) {
        if let Some(&first) = kept.iter().find(|&&other| Family::from(other) == Family::from(prefix)) {
            return Err(ModelError::TwoPrefixesOfOneFamily { network, first, second: prefix });
        }
        kept.push(prefix);
    }
    if kept.is_empty() { Err(ModelError::NoPrefix { network }) } else { Ok(kept) }
}

/// A block must leave the gateway's block and at least one other, and hold at least two addresses.
fn check_block_length(prefix: IpNet, length: u8) -> Result<(), ModelError> {
    let (least, most) = (prefix.prefix_len() + 1, prefix.max_prefix_len() - 1);
    if (least..=most).contains(&length) {
        Ok(())
    } else {
        Err(ModelError::BlockLength { length, prefix, least, most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(pods: &[&str], services: &[&str], blocks: [u8; 2]) -> Result<ModelConfig, ModelError> {
        let parse = |list: &[&str]| list.iter().map(|prefix| prefix.parse().unwrap()).collect();
        ModelConfig::new(parse(pods), parse(services), blocks, [Vni::new(1).unwrap(), Vni::new(2).unwrap()])
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        for (pods, services, blocks, part) in [
            (&["10.244.0.0/16", "10.1.0.0/16"][..], &["10.96.0.0/12"][..], [24, 64], "one address family"),
            (&["10.96.0.0/16"], &["10.96.0.0/12"], [24, 64], "overlap"),
            (&["10.244.0.0/16"], &[], [24, 64], "no prefix"),
            (&["10.244.0.0/16"], &["10.96.0.0/12"], [16, 64], "from /17 to /31"),
            (&["fd00::/64"], &["10.96.0.0/12"], [24, 64], "from /65 to /127"),
        ] {
            let error = config(pods, services, blocks).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn the_first_address_is_the_gateway() {
        let config = config(&["10.244.0.0/16", "fd00:10:244::/48"], &["10.96.0.0/12"], [24, 64]).unwrap();
        let gateways: Vec<_> =
            config.pods.prefixes.iter().map(|&prefix| config.pods.gateway(prefix)).collect();
        assert_eq!(gateways, [Some("10.244.0.1".parse().unwrap()), Some("fd00:10:244::1".parse().unwrap())]);
    }
}
