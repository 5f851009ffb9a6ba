//! Networks that know each other, and cease to.

use std::net::IpAddr;

use vrouter_forward::Family;
use vrouter_forward::sim::Delivery;
use vrouter_objects::{IpNet, ObjectKey, RouteKey, ServiceProtocol};

use crate::support::{self, ACK, Kind, MEMBER_PORT, SYN, answer, packet, protocols};
use crate::topology::Topology;
use crate::world::{Place, World};

const ONE: [&str; 2] = ["10.50.0.0/24", "fd00:50::/64"];
const OTHER: [&str; 2] = ["10.60.0.0/24", "fd00:60::/64"];
const THIRD: [&str; 2] = ["10.70.0.0/24", "fd00:70::/64"];

/// The cluster's own network, then these: custom ones, a pod in each, in turn on three nodes.
fn hub_and_spokes() -> Topology {
    let mut topology = Topology::new(3, 0, &[ONE, OTHER, THIRD]);
    topology.leak(1, 2);
    topology.leak(1, 3);
    topology
}

#[test]
fn spokes_know_their_hub_and_not_each_other() {
    let topology = hub_and_spokes();
    assert!(topology.knows(1, 2) && topology.knows(1, 3) && !topology.knows(2, 3));
    assert!(crate::everybody_speaks_to_everything(&topology) > 0);
}

#[test]
fn the_clusters_own_network_can_be_a_hub() {
    let mut topology = Topology::new(2, 1, &[ONE, OTHER]);
    topology.leak(0, 2);
    topology.leak(0, 3);
    assert!(topology.knows(0, 2) && topology.knows(0, 3));
    assert!(crate::everybody_speaks_to_everything(&topology) > 0);
}

#[test]
fn an_isolated_namespace_can_know_a_custom_network() {
    let mut topology = Topology::new(2, 1, &[ONE]);
    topology.leak(1, 2);
    assert!(topology.knows(1, 2));
    assert!(crate::everybody_speaks_to_everything(&topology) > 0);
}

/// Isolated namespaces share the cluster's subnets, and know each other's pods one by one.
#[test]
fn networks_that_share_their_subnets_can_know_each_other() {
    let mut topology = Topology::new(3, 3, &[ONE]);
    for (one, other) in [(0, 1), (1, 2), (2, 4), (3, 4)] {
        topology.leak(one, other);
        assert!(topology.knows(one, other));
    }
    assert!(!topology.knows(0, 2) && !topology.knows(1, 3));
    assert!(crate::everybody_speaks_to_everything(&topology) > 0);
}

/// Ends what two networks know of each other: subnets of their own, and single pods of shared ones.
fn end(world: &mut World, one: usize, other: usize) {
    for (from, to) in [(one, other), (other, one)] {
        let vrf = world.topology.networks[from].pods;
        let subnets = world.topology.networks[to].subnets.map(|subnet| subnet.prefix).to_vec();
        let hosts = world
            .topology
            .pods_of(to)
            .flat_map(|pod| [world.pods[pod].v4, world.pods[pod].v6].map(IpNet::from));
        let prefixes = match world.topology.networks[to].kind {
            Kind::Custom => subnets,
            Kind::Default | Kind::Isolated => hosts.collect(),
        };
        for key in prefixes.into_iter().map(|prefix| RouteKey { vrf, prefix }) {
            for node in 0..world.topology.nodes {
                support::remove(&mut world.tenancy.cluster, node, ObjectKey::Route(key));
            }
        }
    }
}

/// Sends a pod's packet to another's address, and says where it came out.
fn speak(
    world: &mut World,
    (from, to): (usize, IpAddr),
    protocol: ServiceProtocol,
    flags: u8,
) -> Vec<Delivery> {
    let family = if to.is_ipv4() { Family::V4 } else { Family::V6 };
    let frame = packet(world.address(from, family), to, protocol, (4000, MEMBER_PORT), flags);
    let handle = world.pods[from].clone();
    world.tenancy.cluster.send(&handle, &frame)
}

/// Established or not, and whoever speaks first: the next packet of either side goes nowhere near the other.
#[test]
fn a_leak_that_ends_ends_what_it_let_through() {
    let shared = || {
        let mut topology = Topology::new(3, 2, &[ONE]);
        [(0, 1), (1, 2), (1, 3)].into_iter().for_each(|(one, other)| topology.leak(one, other));
        topology
    };
    let cases = [(hub_and_spokes(), 1, 2, 3), (shared(), 1, 0, 2), (shared(), 1, 3, 2), (shared(), 3, 1, 1)];
    for ((topology, hub, spoke, bystander), (family, protocol)) in
        cases.into_iter().flat_map(|case| protocols().map(move |protocol| (case.clone(), protocol)))
    {
        for first in [hub, spoke] {
            let mut world = World::new(&topology);
            let to = world.address(spoke, family);
            let label = format!("{family:?} {protocol} from {hub} to {spoke}, {first} first");
            let there = speak(&mut world, (hub, to), protocol, SYN);
            assert_eq!(world.place(&there[0]), Some(Place::Pod(spoke)), "{label}");
            let back = answer(&mut world.tenancy.cluster, &there[0], protocol, SYN | ACK);
            assert_eq!(world.place(&back[0]), Some(Place::Pod(hub)), "{label}");
            let kept = (bystander != spoke).then(|| {
                let elsewhere = world.address(bystander, family);
                speak(&mut world, (hub, elsewhere), protocol, SYN).remove(0)
            });

            end(&mut world, hub, spoke);
            for sender in [first, hub, spoke, hub] {
                let came = match sender == hub {
                    true => speak(&mut world, (hub, to), protocol, ACK),
                    false => answer(&mut world.tenancy.cluster, &there[0], protocol, ACK),
                };
                // Out of the cluster, as to any stranger, or nowhere; not to the pod.
                assert!(came.iter().all(|delivery| is_of(&world, delivery, sender)), "{label}: {came:?}");
            }
            // And the others lose nothing.
            if let Some(kept) = kept {
                let back = answer(&mut world.tenancy.cluster, &kept, protocol, SYN | ACK);
                assert_eq!(world.place(&back[0]), Some(Place::Pod(hub)), "{label}");
            }
        }
    }
}

/// Whether a frame came out at this pod, or at none.
fn is_of(world: &World, delivery: &Delivery, pod: usize) -> bool {
    !matches!(world.place(delivery), Some(Place::Pod(other)) if other != pod)
}
