//! The networks themselves, and the ways between them.

use ipnet::IpNet;
use vrouter_objects::{NextHop, Object, RoutingInstance, Subnet};

use super::{Layer, Placed, shared_route};
use crate::Family;
use crate::config::{ModelConfig, VirtualNetwork};

/// The objects of the networks: each one's table, and its routes into the others.
pub fn network_objects(config: &ModelConfig) -> Placed {
    let mut placed = Placed::new();
    for network in config.networks() {
        placed.push((Layer::Network(network.vrf), Object::RoutingInstance(routing_instance(network))));
    }
    let [pods, services, fabric] = config.networks().map(|network| network.vrf);
    for &prefix in &config.services.prefixes {
        for client in [pods, fabric] {
            placed.push(shared_route(client, prefix, NextHop::VrfTranslate(services)));
        }
        // An address that is no service's: somebody must say so.
        placed.push(shared_route(services, prefix, NextHop::Reject));
    }
    for &prefix in &config.pods.prefixes {
        placed.push(shared_route(fabric, prefix, NextHop::VrfTranslate(pods)));
        let everywhere = default_prefix(prefix.into());
        placed.push(shared_route(pods, everywhere, NextHop::VrfTranslate(fabric)));
        // The node itself knows the way to what no vRouter knows.
        placed.push(shared_route(fabric, everywhere, NextHop::Receive));
    }
    placed
}

fn routing_instance(network: &VirtualNetwork) -> RoutingInstance {
    let subnet = |&prefix| network.gateway(prefix).map(|gateway| Subnet { prefix, gateway });
    RoutingInstance {
        id: network.vrf,
        name: network.name.to_string(),
        vni: network.vni,
        kind: network.role.kind(),
        subnets: network.prefixes.iter().filter_map(subnet).collect(),
        address_space: network.vrf,
        known_in: Vec::new(),
    }
}

fn default_prefix(family: Family) -> IpNet {
    match family {
        Family::V4 => IpNet::V4(ipnet::Ipv4Net::default()),
        Family::V6 => IpNet::V6(ipnet::Ipv6Net::default()),
    }
}
