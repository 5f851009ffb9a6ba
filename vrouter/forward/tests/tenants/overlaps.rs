//! A custom network may have any subnets: those of whoever is outside, and those of the nodes themselves.

use vrouter_objects::{Object, PodBinding, Ports};

use crate::support::{
    Client, Conversation, FAMILIES, MEMBER_PORT, NODE_PORT, SERVICE_PORT, VOICES, Voice, address, allow,
    binding, govern, hold, in_set, ingress, node_address, peer_address, protocols, publish, voices,
};
use crate::topology::{PodPlan, ServicePlan, Topology};
use crate::world::{Place, World, external_ip};

const OUTSIDE: [&str; 2] = ["203.0.113.0/24", "2001:db8:99::/64"];
const UNDERLAY: [&str; 2] = ["172.30.0.0/24", "fd00:172:30::/64"];

/// In the cluster's own network, a pod on each of two nodes; likewise in one with these subnets, with a service that has
/// this one of the two for its member.
fn world(subnets: [&'static str; 2], member: usize) -> World {
    let mut topology = Topology::new(2, 0, &[subnets]);
    let plans = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(network, node)| PodPlan { network, node });
    topology.pods = plans.to_vec();
    topology.services.push(ServicePlan { network: 1, members: vec![member] });
    World::new(&topology)
}

#[test]
fn pods_of_such_a_network_reach_each_other() {
    for (subnets, family) in
        [OUTSIDE, UNDERLAY].into_iter().flat_map(|of| FAMILIES.map(|family| (of, family)))
    {
        let mut world = world(subnets, 2);
        for ((from, to), voice) in
            [(2, 3), (3, 2)].into_iter().flat_map(|ends| VOICES.map(|voice| (ends, voice)))
        {
            let asked =
                Conversation::of(&world.pods[from], voice, address(&world.pods[to], family), MEMBER_PORT);
            let there = asked.must_open(&mut world.tenancy.cluster);
            assert_eq!(world.place(&there), Some(Place::Pod(to)), "{family:?} {voice:?} in {subnets:?}");
        }
    }
}

#[test]
fn whom_others_reach_by_its_addresses_is_not_in_it() {
    for (subnets, family) in
        [OUTSIDE, UNDERLAY].into_iter().flat_map(|of| FAMILIES.map(|family| (of, family)))
    {
        let mut world = world(subnets, 2);
        for (to, voice) in [2, 3].into_iter().flat_map(|to| VOICES.map(|voice| (to, voice))) {
            let asked =
                Conversation::of(&world.pods[0], voice, address(&world.pods[to], family), MEMBER_PORT);
            for delivery in asked.say(&mut world.tenancy.cluster, 2) {
                let place = world.place(&delivery);
                assert!(!matches!(place, Some(Place::Pod(2 | 3))), "{family:?} {voice:?}: {delivery:?}");
            }
        }
    }
}

/// Whoever comes by a node port may bear an address of the network's own, and is a stranger all the same: to a member
/// here, they get through; to one on another node, which cannot tell them from a pod that is not where it says, at worst
/// not, and never to anybody else.
#[test]
fn its_node_ports_lead_to_its_members_and_nobody_else() {
    for ((family, protocol), (subnets, member)) in protocols().flat_map(|case| {
        [OUTSIDE, UNDERLAY].into_iter().flat_map(move |of| [2, 3].map(|at| (case, (of, at))))
    }) {
        let mut world = world(subnets, member);
        let clients = [Client::Outside(0), Client::Node(0), Client::Pod(world.pods[0].clone())];
        for (from_port, client) in (4000..).zip(clients) {
            let voice = Voice::Service(protocol);
            let asked = Conversation::new(client, voice, node_address(0, family), NODE_PORT).by(from_port);
            let there = asked.open(&mut world.tenancy.cluster);
            let is_here = member == 2;
            assert!(there.is_some() || !is_here, "{asked:?} in {subnets:?}");
            let place = there.and_then(|there| world.place(&there));
            assert!(place.is_none_or(|place| place == Place::Pod(member)), "{asked:?} in {subnets:?}");
        }
    }
}

/// What is exempt from policy is the pod's own node, not a pod of a network in which that address is a pod's.
#[test]
fn a_pod_with_a_nodes_address_is_not_the_node() {
    for (family, voice) in voices() {
        let mut world = world(UNDERLAY, 2);
        let victim = world.pods[2].clone();
        let [v4, v6] = FAMILIES.map(|family| node_address(victim.node, family));
        let double = world.tenancy.pod(1, 1, v4, v6);
        let (network, cluster) = (world.topology.networks[1].pods, &mut world.tenancy.cluster);
        let asked = Conversation::of(&double, voice, address(&victim, family), MEMBER_PORT);
        let there = asked.must_open(cluster);
        hold(cluster, ingress(1, &[]));
        let bound = PodBinding { vrf: network, ..binding(&victim, &[1]) };
        publish(cluster, victim.node, &[Object::PodBinding(bound)]);
        asked.must_be_cut(cluster, &there);
        assert!(!asked.by(4001).is_open(cluster), "{family:?} {voice:?}");
    }
}

/// Nor is a pod that goes in its node's name the pod that has the node's address in the tenant's own network.
#[test]
fn who_goes_in_a_nodes_name_is_no_pod_with_the_nodes_address() {
    for (family, protocol) in protocols() {
        let mut topology = Topology::new(2, 0, &[UNDERLAY]);
        topology.pods = [(0, 0), (1, 0)].map(|(network, node)| PodPlan { network, node }).to_vec();
        topology.services.push(ServicePlan { network: 0, members: vec![0] });
        let mut world = World::new(&topology);
        let (victim, stranger) = (world.pods[0].clone(), world.pods[1].clone());
        let peer = peer_address(1, world.topology.networks[1].pods, node_address(0, family));
        let cluster = &mut world.tenancy.cluster;
        let asked =
            Conversation::of(&stranger, Voice::Service(protocol), external_ip(0, family), SERVICE_PORT);
        let there = asked.must_open(cluster);
        cluster.put(&[peer]);
        govern(cluster, &victim, ingress(1, &[allow(in_set(1), Ports::Any)]));
        asked.must_be_cut(cluster, &there);
        assert!(!asked.by(4001).is_open(cluster), "{family:?} {protocol}");
    }
}
