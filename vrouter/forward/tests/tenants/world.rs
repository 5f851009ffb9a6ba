//! A topology, laid out on nodes.

use std::net::IpAddr;

use vrouter_forward::Family;
use vrouter_forward::sim::{Delivery, HOST_PORT, PodHandle};
use vrouter_objects::Object;

use crate::support::{
    CLUSTER_PODS, FAMILIES, Kind, MEMBER_PORT, SERVICE_PORT, SERVICES, Tenancy, address, nth, prefixes,
    published,
};
use crate::topology::Topology;

/// A cluster of several tenants.
#[derive(Debug)]
pub struct World {
    pub topology: Topology,
    pub tenancy: Tenancy,
    pub pods: Vec<PodHandle>,
}

/// Where a frame may come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    Pod(usize),
    /// The node's own stack, which is the way out of the cluster as well.
    Host(usize),
}

impl World {
    pub fn new(topology: &Topology) -> Self {
        let tenancy = Tenancy::new(topology.nodes, topology.networks.clone(), topology.leaks.clone());
        let mut world = Self { topology: topology.clone(), tenancy, pods: Vec::new() };
        for (number, plan) in topology.pods.iter().enumerate() {
            let [v4, v6] = pod_addresses(topology, number);
            world.pods.push(world.tenancy.pod(plan.network, plan.node, v4, v6));
        }
        for service in 0..topology.services.len() {
            for family in FAMILIES {
                world.publish(service, family);
            }
        }
        world
    }

    fn publish(&mut self, service: usize, family: Family) {
        let plan = &self.topology.services[service];
        let network = &self.topology.networks[plan.network];
        let number = 1 + 2 * service as u32 + u32::from(family == Family::V6);
        let member =
            |at: &usize| network.member(100 * number + *at as u32, &self.pods[*at], family, MEMBER_PORT);
        let members: Vec<_> = plan.members.iter().map(member).collect();
        let address = cluster_ip(&self.topology, service, family);
        let service_of = network.service(number, address, SERVICE_PORT, &members);
        let object = published(service_of, node_port(service), external_ip(service, family));
        self.tenancy.cluster.put(&[Object::FloatingIp(object)]);
    }

    pub fn place(&self, delivery: &Delivery) -> Option<Place> {
        if delivery.port == HOST_PORT {
            return Some(Place::Host(delivery.node));
        }
        let is_there = |pod: &PodHandle| (pod.node, pod.port) == (delivery.node, delivery.port);
        self.pods.iter().position(is_there).map(Place::Pod)
    }

    /// Lets all connections be forgotten.
    pub fn forget_connections(&mut self) {
        let cluster = &mut self.tenancy.cluster;
        cluster.now = cluster.now.plus_millis(25 * 3_600_000);
        let now = cluster.now;
        cluster.nodes.iter_mut().for_each(|node| node.age(now));
        cluster.wire.clear();
    }

    pub fn address(&self, pod: usize, family: Family) -> IpAddr {
        address(&self.pods[pod], family)
    }
}

/// The addresses of a pod. In networks with the same subnets, pods have the same ones, unless the networks share them.
fn pod_addresses(topology: &Topology, pod: usize) -> [IpAddr; 2] {
    let plan = topology.pods[pod];
    let network = &topology.networks[plan.network];
    let rank = topology.rank(pod) as u16;
    let own_range = if network.kind == Kind::Isolated { 40 + 20 * plan.network as u16 } else { 10 };
    let host = own_range + rank;
    if network.subnets.map(|subnet| subnet.prefix) != prefixes(CLUSTER_PODS) {
        return network.subnets.map(|subnet| nth(subnet.prefix, host));
    }
    let block = plan.node as u8 + 1;
    [
        IpAddr::from([10, 244, block, host as u8]),
        IpAddr::from([0xfd00, 0x10, 0x244, u16::from(block), 0, 0, 0, host]),
    ]
}

pub fn cluster_ip(topology: &Topology, service: usize, family: Family) -> IpAddr {
    let [v4, v6] = prefixes(SERVICES);
    let prefix = if family == Family::V4 { v4 } else { v6 };
    nth(prefix, 10 + topology.service_number(service) as u16)
}

pub fn node_port(service: usize) -> u16 {
    30_080 + service as u16
}

pub fn external_ip(service: usize, family: Family) -> IpAddr {
    let [v4, v6] = prefixes(["198.51.100.0/24", "2001:db8:51::/64"]);
    nth(if family == Family::V4 { v4 } else { v6 }, 10 + service as u16)
}
