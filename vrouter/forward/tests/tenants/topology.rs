//! What there is in a cluster of several tenants, as a description, and random ones.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::Index;

use crate::support::{CLUSTER_PODS, Kind, Network};

/// Networks, who is in them and what they publish.
#[derive(Debug, Clone)]
pub struct Topology {
    pub nodes: usize,
    /// The first is the cluster's own.
    pub networks: Vec<Network>,
    /// Pairs of networks that know each other, the lower number first.
    pub leaks: BTreeSet<(usize, usize)>,
    pub pods: Vec<PodPlan>,
    pub services: Vec<ServicePlan>,
}

/// A pod to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodPlan {
    pub network: usize,
    pub node: usize,
}

/// A service to be, whose members are pods of its network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePlan {
    pub network: usize,
    pub members: Vec<usize>,
}

/// What custom networks take their subnets from: few, so that many have the same, the cluster's own among them.
const SUBNETS: [[&str; 2]; 4] = [
    ["10.50.0.0/24", "fd00:50::/64"],
    ["10.50.0.0/16", "fd00:50::/56"],
    ["192.168.7.0/24", "fd00:7::/64"],
    CLUSTER_PODS,
];

/// Any topology of two or three nodes and four to seven networks.
pub fn any_topology() -> impl Strategy<Value = Topology> {
    let custom = prop::collection::vec(prop::sample::select(&SUBNETS[..]), 2..=4);
    let pods = prop::collection::vec((any::<Index>(), any::<Index>()), 4..=7);
    let services =
        prop::collection::vec((any::<Index>(), prop::collection::vec(any::<Index>(), 0..3)), 3..=6);
    let leaks = prop::collection::vec((any::<Index>(), any::<Index>()), 0..8);
    (2..=3_usize, 1..=2_u32, custom, pods, services, leaks).prop_map(
        |(nodes, isolated, custom, pods, services, leaks)| {
            let mut topology = Topology::new(nodes, isolated, &custom);
            topology.pods.extend(pods.iter().map(|(network, node)| PodPlan {
                network: network.index(topology.networks.len()),
                node: node.index(nodes),
            }));
            for (network, members) in &services {
                topology.publish(network.index(topology.networks.len()), members);
            }
            for (one, other) in &leaks {
                topology.leak(one.index(topology.networks.len()), other.index(topology.networks.len()));
            }
            topology
        },
    )
}

impl Topology {
    /// The cluster's own network, isolated namespaces and custom networks with these subnets, each with a pod.
    pub fn new(nodes: usize, isolated: u32, custom: &[[&'static str; 2]]) -> Self {
        let isolated = (0..isolated).map(Network::isolated);
        let custom = (10..).zip(custom).map(|(number, prefixes)| Network::custom(number, *prefixes));
        let networks: Vec<Network> =
            [Network::default_pods()].into_iter().chain(isolated).chain(custom).collect();
        let pods = (0..networks.len()).map(|network| PodPlan { network, node: network % nodes }).collect();
        Self { nodes, networks, leaks: BTreeSet::new(), pods, services: Vec::new() }
    }

    /// Adds a service with some of the network's pods for members.
    pub fn publish(&mut self, network: usize, members: &[Index]) {
        let candidates: Vec<usize> = self.pods_of(network).collect();
        let members: BTreeSet<usize> =
            members.iter().map(|at| candidates[at.index(candidates.len())]).collect();
        self.services.push(ServicePlan { network, members: members.into_iter().collect() });
    }

    /// Lets two networks know each other, unless somebody would then know one address twice.
    pub fn leak(&mut self, one: usize, other: usize) {
        let pair = (one.min(other), one.max(other));
        let would_know_twice = |of: usize, new: usize| {
            let new = &self.networks[new];
            [of].into_iter().chain(self.leaked(of)).any(|known| self.networks[known].overlaps(new))
        };
        if one != other
            && !self.knows(one, other)
            && !would_know_twice(one, other)
            && !would_know_twice(other, one)
        {
            self.leaks.insert(pair);
        }
    }

    /// Whether two networks leak into each other.
    pub fn knows(&self, one: usize, other: usize) -> bool {
        self.leaks.contains(&(one.min(other), one.max(other)))
    }

    pub fn leaked(&self, network: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.networks.len()).filter(move |other| self.knows(network, *other))
    }

    pub fn pods_of(&self, network: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.pods.len()).filter(move |pod| self.pods[*pod].network == network)
    }

    /// Which of its network's pods it is.
    pub fn rank(&self, pod: usize) -> usize {
        self.pods_of(self.pods[pod].network).position(|of| of == pod).expect("its network has it")
    }

    /// The number of a service among those whose addresses must differ from its own: custom networks have their own.
    pub fn service_number(&self, service: usize) -> usize {
        let network = self.services[service].network;
        let is_custom = |network: usize| self.networks[network].kind == Kind::Custom;
        let beside = |other: &&ServicePlan| {
            other.network == network || !(is_custom(other.network) || is_custom(network))
        };
        self.services[..service].iter().filter(beside).count()
    }
}
