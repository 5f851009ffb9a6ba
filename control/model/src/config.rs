//! The cluster's default networks, and what Services may be given.

use std::net::IpAddr;

use ipnet::IpNet;
use vrouter_objects::{Vni, VrfId};

use crate::family::Family;
use crate::network::{
    LINK_LOCAL_NETWORK, NetworkRole, NetworkSubnet, POD_NETWORK, PodNetwork, SERVICE_NETWORK, Tenancy,
    VirtualNetwork, overlap,
};
use crate::node_port::NodePortRange;
use crate::{ModelError, NamespacedName, family};

/// What the model must be told of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelConfig {
    /// `default/default-podnetwork`.
    pub pods: VirtualNetwork,
    /// `default/default-servicenetwork`, which every pod network reaches.
    pub services: VirtualNetwork,
    /// `default/ip-fabric`: the nodes themselves, and whoever is beyond them.
    pub fabric: VirtualNetwork,
    /// The subnets of `default/link-local`, by whose addresses each node reaches its own pods; empty: there is no such
    /// network. It is numbered as custom networks are.
    pub link_local: Vec<NetworkSubnet>,
    /// The ports that Services may have at the nodes' addresses.
    pub node_ports: NodePortRange,
    /// Where Services of type LoadBalancer get their addresses from, in order of preference; empty: somebody else
    /// gives them.
    pub load_balancer_pool: Vec<IpNet>,
    block_lengths: [u8; 2],
}

/// The namespace of the cluster's own networks.
const NETWORK_NAMESPACE: &str = "default";

/// What an address is for, as far as the cluster's own networks tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressUse {
    /// Pods have such.
    Pods,
    /// Services have such.
    Services,
    /// Each node has given such to its own pods.
    LinkLocal,
    /// Nodes have such, and whoever is beyond them.
    Beyond,
}

/// The VNI of each network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkVnis {
    /// Of the pod network.
    pub pods: Vni,
    /// Of the service network.
    pub services: Vni,
    /// Of the fabric.
    pub fabric: Vni,
}

impl ModelConfig {
    /// A cluster with these networks; each node gets a block of these lengths (IPv4, IPv6) out of the pod prefixes.
    /// It has the usual node ports, no load-balancer pool and no link-local network.
    pub fn new(
        pod_prefixes: Vec<IpNet>,
        service_prefixes: Vec<IpNet>,
        [v4_block, v6_block]: [u8; 2],
        vnis: NetworkVnis,
    ) -> Result<Self, ModelError> {
        let pod_prefixes = at_least_one("pod network", one_per_family("pod network", pod_prefixes)?)?;
        let service_prefixes =
            at_least_one("service network", one_per_family("service network", service_prefixes)?)?;
        for &pods in &pod_prefixes {
            for &services in &service_prefixes {
                if overlap(pods, services) {
                    return Err(ModelError::NetworksOverlap { pods, services });
                }
            }
            check_block_length(pods, [v4_block, v6_block][index(pods.into())])?;
        }
        let vrf =
            |number| VrfId::new(number).expect("any number but 0 is a VRF id, and these are 1, 2 and 3");
        let network = |name, vrf: VrfId, vni, subnets, role| {
            let name = NamespacedName::new(NETWORK_NAMESPACE, name);
            VirtualNetwork { name, vrf, vni, subnets, space: vrf, role }
        };
        let pods = pod_prefixes.into_iter();
        let pods = pods.map(|prefix| NetworkSubnet::of_pods(subnet_name(POD_NETWORK, prefix), prefix));
        let services = service_prefixes.into_iter();
        let services =
            services.map(|prefix| NetworkSubnet::of_services(subnet_name(SERVICE_NETWORK, prefix), prefix));
        let of_pods = NetworkRole::Pods(PodNetwork { tenancy: Tenancy::Cluster, services: vrf(2) });
        let of_services = NetworkRole::Services(Tenancy::Cluster);
        let config = Self {
            pods: network(POD_NETWORK, vrf(1), vnis.pods, pods.collect(), of_pods),
            services: network(SERVICE_NETWORK, vrf(2), vnis.services, services.collect(), of_services),
            fabric: network("ip-fabric", vrf(3), vnis.fabric, Vec::new(), NetworkRole::Fabric),
            link_local: Vec::new(),
            node_ports: NodePortRange::default(),
            load_balancer_pool: Vec::new(),
            block_lengths: [v4_block, v6_block],
        };
        config.check_vnis()?;
        Ok(config)
    }

    /// The same cluster with these node ports.
    pub fn with_node_ports(self, node_ports: NodePortRange) -> Self {
        Self { node_ports, ..self }
    }

    /// The same cluster with these addresses for Services of type LoadBalancer.
    pub fn with_load_balancer_pool(self, pool: Vec<IpNet>) -> Result<Self, ModelError> {
        let pool: Vec<IpNet> = pool.into_iter().map(|prefix| prefix.trunc()).collect();
        for (i, &prefix) in pool.iter().enumerate() {
            let others = self.prefixes().chain(self.link_local.iter().map(|subnet| subnet.prefix));
            if let Some(other) = others.chain(pool[..i].iter().copied()).find(|other| overlap(*other, prefix))
            {
                return Err(ModelError::PoolOverlap { prefix, other });
            }
        }
        Ok(Self { load_balancer_pool: pool, ..self })
    }

    /// The same cluster with these link-local prefixes, at most one per family. Those of a family that pods have no addresses of
    /// are left out.
    pub fn with_link_local(self, prefixes: Vec<IpNet>) -> Result<Self, ModelError> {
        let mut prefixes = one_per_family("link-local network", prefixes)?;
        prefixes.retain(|prefix| self.pods.prefix((*prefix).into()).is_some());
        for &prefix in &prefixes {
            check_link_local(prefix)?;
            let mut others = self.prefixes().chain(self.load_balancer_pool.iter().copied());
            if let Some(other) = others.find(|other| overlap(*other, prefix)) {
                return Err(ModelError::LinkLocalOverlap { prefix, other });
            }
        }
        let subnet = |prefix| NetworkSubnet::of_pods(subnet_name(LINK_LOCAL_NETWORK, prefix), prefix);
        Ok(Self { link_local: prefixes.into_iter().map(subnet).collect(), ..self })
    }

    /// What the link-local network is called, whether there is one or not.
    pub(crate) fn link_local_name() -> NamespacedName {
        NamespacedName::new(NETWORK_NAMESPACE, LINK_LOCAL_NETWORK)
    }

    /// All networks whose numbers are fixed.
    pub fn networks(&self) -> [&VirtualNetwork; 3] {
        [&self.pods, &self.services, &self.fabric]
    }

    /// What an address is for.
    pub(crate) fn use_of(&self, address: IpAddr) -> AddressUse {
        if self.pods.contains(address) {
            AddressUse::Pods
        } else if self.services.contains(address) {
            AddressUse::Services
        } else if self.link_local.iter().any(|subnet| subnet.prefix.contains(&address)) {
            AddressUse::LinkLocal
        } else {
            AddressUse::Beyond
        }
    }

    /// The length of a node's block of this family.
    pub fn block_length(&self, family: Family) -> u8 {
        self.block_lengths[index(family)]
    }

    /// The prefixes of the networks whose numbers are fixed.
    fn prefixes(&self) -> impl Iterator<Item = IpNet> {
        self.networks().into_iter().flat_map(VirtualNetwork::prefixes)
    }

    fn check_vnis(&self) -> Result<(), ModelError> {
        let networks = self.networks();
        for (i, network) in networks.iter().enumerate() {
            if let Some(other) = networks[..i].iter().find(|other| other.vni == network.vni) {
                let names = [other.name.clone(), network.name.clone()];
                return Err(ModelError::SharedVni { vni: network.vni.get(), networks: names });
            }
        }
        Ok(())
    }
}

fn index(family: Family) -> usize {
    match family {
        Family::V4 => 0,
        Family::V6 => 1,
    }
}

/// What the subnet of a network of the cluster's own is called.
fn subnet_name(network: &str, prefix: IpNet) -> NamespacedName {
    let name = match Family::from(prefix) {
        Family::V4 => format!("{network}-v4-subnet"),
        Family::V6 => format!("{network}-v6-subnet"),
    };
    NamespacedName::new(NETWORK_NAMESPACE, name)
}

fn one_per_family(network: &'static str, prefixes: Vec<IpNet>) -> Result<Vec<IpNet>, ModelError> {
    let mut kept: Vec<IpNet> = Vec::new();
    for prefix in prefixes.into_iter().map(|prefix| prefix.trunc()) {
        if let Some(&first) = kept.iter().find(|&&other| Family::from(other) == Family::from(prefix)) {
            return Err(ModelError::TwoPrefixesOfOneFamily { network, first, second: prefix });
        }
        kept.push(prefix);
    }
    Ok(kept)
}

fn at_least_one(network: &'static str, prefixes: Vec<IpNet>) -> Result<Vec<IpNet>, ModelError> {
    if prefixes.is_empty() { Err(ModelError::NoPrefix { network }) } else { Ok(prefixes) }
}

/// Beside the gateway and what means the prefix as a whole, there must be an address for an interface.
fn check_link_local(prefix: IpNet) -> Result<(), ModelError> {
    let most = prefix.max_prefix_len() - 2;
    if prefix.prefix_len() > most {
        Err(ModelError::LinkLocalRoom { prefix, most })
    } else if [prefix.network(), prefix.broadcast()].into_iter().all(family::is_routed) {
        Ok(())
    } else {
        Err(ModelError::LinkLocalUnrouted { prefix })
    }
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

    fn vnis(numbers: [u32; 3]) -> NetworkVnis {
        let [pods, services, fabric] = numbers.map(|number| Vni::new(number).unwrap());
        NetworkVnis { pods, services, fabric }
    }

    fn config(pods: &[&str], services: &[&str], blocks: [u8; 2]) -> Result<ModelConfig, ModelError> {
        let parse = |list: &[&str]| list.iter().map(|prefix| prefix.parse().unwrap()).collect();
        ModelConfig::new(parse(pods), parse(services), blocks, vnis([1, 2, 3]))
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
    fn each_network_has_a_vni_of_its_own() {
        let prefixes = |prefix: &str| vec![prefix.parse().unwrap()];
        for (numbers, names) in [
            ([7, 7, 3], "default/default-podnetwork and default/default-servicenetwork"),
            ([1, 7, 7], "default/default-servicenetwork and default/ip-fabric"),
        ] {
            let config = ModelConfig::new(
                prefixes("10.244.0.0/16"),
                prefixes("10.96.0.0/12"),
                [24, 64],
                vnis(numbers),
            );
            assert_eq!(config.unwrap_err().to_string(), format!("{names} share VNI 7"));
        }
    }

    #[test]
    fn a_pool_is_apart_from_everything_else() {
        let config = config(&["10.244.0.0/16"], &["10.96.0.0/12"], [24, 64]).unwrap();
        let with = |pool: &[&str]| {
            let pool = pool.iter().map(|prefix| prefix.parse().unwrap()).collect();
            config.clone().with_load_balancer_pool(pool)
        };
        with(&["192.0.2.0/24", "2001:db8::/64", "198.51.100.7/32"]).unwrap();
        for (pool, part) in [
            (&["10.244.7.0/24"][..], "10.244.7.0/24 overlaps 10.244.0.0/16"),
            (&["10.0.0.0/8"], "overlaps"),
            (&["192.0.2.0/24", "192.0.2.128/25"], "192.0.2.128/25 overlaps 192.0.2.0/24"),
        ] {
            let error = with(pool).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_link_local_prefix_is_apart_from_everything_else_and_has_room() {
        let parse =
            |list: &[&str]| -> Vec<IpNet> { list.iter().map(|prefix| prefix.parse().unwrap()).collect() };
        let config = config(&["10.244.0.0/16", "fd00::/64"], &["10.96.0.0/12"], [24, 80]).unwrap();
        let pool = || config.clone().with_load_balancer_pool(parse(&["192.0.2.0/24"])).unwrap();
        for (prefixes, part) in [
            (&["10.244.7.0/24"][..], "link-local network: 10.244.7.0/24 overlaps 10.244.0.0/16"),
            (&["10.96.0.0/16"], "10.96.0.0/16 overlaps 10.96.0.0/12"),
            (&["169.254.0.0/16", "fd00::1:0/112"], "fd00::1:0/112 overlaps fd00::/64"),
            (&["192.0.2.64/26"], "192.0.2.64/26 overlaps 192.0.2.0/24"),
            (&["169.254.0.0/18", "169.254.64.0/18"], "at most one prefix per family"),
            (&["169.254.64.0/31"], "169.254.64.0/31 has no room for interfaces: it must be at least a /30"),
            (
                &["fd00:169:254::/127"],
                "fd00:169:254::/127 has no room for interfaces: it must be at least a /126",
            ),
            (&["fe80::/64"], "fe80::/64 is no prefix that nodes can have routes to"),
            (&["224.0.0.0/24"], "224.0.0.0/24 is no prefix that nodes can have routes to"),
        ] {
            let error = pool().with_link_local(parse(prefixes)).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        // Whichever of the two is asked for first.
        let config = config.with_link_local(parse(&["169.254.64.1/30", "fd00:169:254::/126"])).unwrap();
        assert_eq!(config.link_local[0].prefix.to_string(), "169.254.64.0/30");
        let error = config.with_load_balancer_pool(parse(&["169.254.0.0/16"])).unwrap_err().to_string();
        assert_eq!(error, "load-balancer pool: 169.254.0.0/16 overlaps 169.254.64.0/30");
    }

    #[test]
    fn pods_have_link_local_addresses_of_the_families_that_they_have_others_of() {
        let config = config(&["10.244.0.0/16"], &["10.96.0.0/12", "fd00:96::/108"], [24, 64]).unwrap();
        assert!(config.link_local.is_empty());
        let prefixes = ["169.254.64.0/18", "fd00:169:254::/112"].map(|prefix| prefix.parse().unwrap());
        let config = config.with_link_local(prefixes.to_vec()).unwrap();
        let shown: Vec<_> =
            config.link_local.iter().map(|subnet| (subnet.name.to_string(), subnet.gateway)).collect();
        let gateway = "169.254.64.1".parse().ok();
        assert_eq!(shown, [("default/link-local-v4-subnet".to_owned(), gateway)]);
        for (address, expected) in [
            ("10.244.1.1", AddressUse::Pods),
            ("10.96.0.1", AddressUse::Services),
            ("169.254.127.255", AddressUse::LinkLocal),
            ("169.254.128.0", AddressUse::Beyond),
            ("fd00:169:254::1", AddressUse::Beyond),
        ] {
            assert_eq!(config.use_of(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn the_first_address_is_the_gateway() {
        let config = config(&["10.244.0.0/16", "fd00:10:244::/48"], &["10.96.0.0/12"], [24, 64]).unwrap();
        let gateways: Vec<_> = config.pods.prefixes().map(|prefix| config.pods.gateway(prefix)).collect();
        assert_eq!(gateways, [Some("10.244.0.1".parse().unwrap()), Some("fd00:10:244::1".parse().unwrap())]);
    }
}
