//! The networks themselves, and the ways between them.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use vrouter_objects::{NextHop, Object, RoutingInstance, Subnet, VrfId};

use super::{Layer, Placed, shared_route};
use crate::Family;
use crate::config::ModelConfig;
use crate::network::{NetworkRole, NetworkSet, PodNetwork, Tenancy, VirtualNetwork};

/// The routes of a network, by prefix.
type Routes = BTreeMap<IpNet, NextHop>;

/// The objects of a network: its table, and its routes into others.
pub fn network_objects(config: &ModelConfig, networks: &NetworkSet, network: &VirtualNetwork) -> Placed {
    let instance = Object::RoutingInstance(routing_instance(config, networks, network));
    let routes = match network.role {
        NetworkRole::Pods(pods) => routes_of_pods(config, networks, network, pods),
        NetworkRole::Services(tenancy) => routes_of_services(config, network, tenancy),
        NetworkRole::Fabric => routes_of_fabric(config),
        NetworkRole::LinkLocal => routes_of_link_local(network),
    };
    let routes = routes.into_iter().map(|(prefix, next_hop)| shared_route(network.vrf, prefix, next_hop));
    let ways_in = ways_in(config, network).into_iter();
    routes.chain(ways_in).chain([(Layer::Network(network.vrf), instance)]).collect()
}

/// Services are found in the network's own service network, peers in theirs, and everything else in the fabric. An address of
/// its own that is no pod's, and one of the cluster's network that is none of its peers, is nobody's: somebody must say so.
fn routes_of_pods(
    config: &ModelConfig,
    networks: &NetworkSet,
    network: &VirtualNetwork,
    PodNetwork { services, .. }: PodNetwork,
) -> Routes {
    let mut routes = Routes::new();
    for prefix in config.pods.prefixes() {
        routes.insert(default_prefix(prefix.into()), NextHop::VrfTranslate(config.fabric.vrf));
    }
    routes.extend(config.pods.prefixes().map(|prefix| (prefix, NextHop::Reject)));
    routes.extend(network.prefixes().map(|prefix| (prefix, NextHop::Reject)));
    routes.extend(config.services.prefixes().map(|prefix| (prefix, NextHop::VrfTranslate(services))));
    for peer in networks.peers(network.vrf).filter(|peer| peer.tenancy() == Some(Tenancy::Custom)) {
        for prefix in peer.prefixes() {
            // All of it is the peer's, parts that are the cluster's elsewhere as well.
            routes.retain(|part, _| !prefix.contains(part));
            routes.insert(prefix, NextHop::VrfTranslate(peer.vrf));
        }
    }
    routes
}

/// An address that is no service's is nobody's; isolated namespaces find the services of all that are not isolated.
fn routes_of_services(config: &ModelConfig, network: &VirtualNetwork, tenancy: Tenancy) -> Routes {
    let beyond = match tenancy {
        Tenancy::Cluster | Tenancy::Custom => NextHop::Reject,
        Tenancy::Isolated => NextHop::VrfTranslate(config.services.vrf),
    };
    network.prefixes().map(|prefix| (prefix, beyond.clone())).collect()
}

fn routes_of_fabric(config: &ModelConfig) -> Routes {
    let mut routes = Routes::new();
    for prefix in config.pods.prefixes() {
        // The node itself knows the way to what no vRouter knows.
        routes.insert(default_prefix(prefix.into()), NextHop::Receive);
        routes.insert(prefix, NextHop::VrfTranslate(config.pods.vrf));
    }
    let services = config.services.prefixes();
    routes.extend(services.map(|prefix| (prefix, NextHop::VrfTranslate(config.services.vrf))));
    routes
}

/// An address that no interface of the node has is nobody's.
fn routes_of_link_local(network: &VirtualNetwork) -> Routes {
    network.prefixes().map(|prefix| (prefix, NextHop::Reject)).collect()
}

/// Routes of other networks that come and go with this one: nodes find its link-local addresses. Nobody else is led there, and
/// who comes by the fabric all the same is no node.
fn ways_in(config: &ModelConfig, network: &VirtualNetwork) -> Placed {
    if network.role != NetworkRole::LinkLocal {
        return Placed::new();
    }
    let way_in = |prefix| shared_route(config.fabric.vrf, prefix, NextHop::VrfTranslate(network.vrf));
    network.prefixes().map(way_in).collect()
}

fn routing_instance(
    config: &ModelConfig,
    networks: &NetworkSet,
    network: &VirtualNetwork,
) -> RoutingInstance {
    let subnets = network.subnets.iter();
    let subnets = subnets.filter_map(|subnet| {
        let (prefix, gateway) = (subnet.prefix, subnet.gateway?);
        Some(Subnet { prefix, gateway })
    });
    RoutingInstance {
        id: network.vrf,
        name: network.name.to_string(),
        vni: network.vni,
        kind: network.role.kind(),
        subnets: subnets.collect(),
        address_space: network.space,
        known_in: known_in(config, networks, network),
    }
}

/// Where the network's pods are known by their addresses: where routes lead back to them.
pub fn known_in(config: &ModelConfig, networks: &NetworkSet, network: &VirtualNetwork) -> Vec<VrfId> {
    let own: &[VrfId] = match network.tenancy() {
        Some(Tenancy::Cluster) => &[config.fabric.vrf],
        Some(Tenancy::Isolated) => &[config.pods.vrf, config.fabric.vrf],
        Some(Tenancy::Custom) | None => &[],
    };
    let peers = networks.peers(network.vrf).map(|peer| peer.vrf);
    own.iter().copied().chain(peers).collect::<BTreeSet<VrfId>>().into_iter().collect()
}

fn default_prefix(family: Family) -> IpNet {
    match family {
        Family::V4 => IpNet::V4(ipnet::Ipv4Net::default()),
        Family::V6 => IpNet::V6(ipnet::Ipv6Net::default()),
    }
}
