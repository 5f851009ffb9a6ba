//! Several tenants on the same nodes: who reaches whom, in whose name, and who never sees a packet.
//!
//! What is right is said by `reach.rs`, from networks, leaks and published services alone. Random topologies
//! (`topology.rs`) are laid out on nodes (`world.rs`), and everybody speaks to everything (`journey.rs`).

mod journey;
mod leaks;
mod overlaps;
mod reach;
#[path = "../support/mod.rs"]
mod support;
mod topology;
mod twins;
mod world;

use std::collections::BTreeSet;
use std::net::IpAddr;

use journey::Journey;
use proptest::prelude::*;
use reach::Sender;
use support::{FAMILIES, MEMBER_PORT, SERVICE_PORT, VOICES, Voice, node_address, outside};
use topology::{Topology, any_topology};
use vrouter_forward::Family;
use world::{World, cluster_ip, external_ip, node_port};

const FIRST_PORT: u16 = 2000;

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everybody_reaches_exactly_whom_they_should(topology in any_topology()) {
        let reached = everybody_speaks_to_everything(&topology);
        prop_assert!(reached > 0, "a test in which nobody reaches anybody shows nothing");
    }
}

/// Lets everybody speak to everything by all protocols of both families, and says how many reached somebody.
fn everybody_speaks_to_everything(topology: &Topology) -> usize {
    let mut world = World::new(topology);
    let mut reached = 0;
    for sender in senders(topology) {
        let mut from_port = FIRST_PORT;
        for family in FAMILIES {
            for (to, port) in targets(&world, sender, family) {
                for voice in VOICES {
                    if voice == Voice::Ping && port != MEMBER_PORT && port != SERVICE_PORT {
                        continue; // It has been pinged as itself.
                    }
                    from_port += 1;
                    reached += Journey { sender, family, voice, to, port, from_port }.run(&mut world);
                }
            }
        }
        world.forget_connections();
    }
    reached
}

fn senders(topology: &Topology) -> Vec<Sender> {
    let pods = (0..topology.pods.len()).map(Sender::Pod);
    let nodes = (0..topology.nodes).flat_map(|node| [Sender::Node(node), Sender::Outside(node)]);
    pods.chain(nodes).collect()
}

/// Every address and port that somebody may be at, for this sender or for another.
fn targets(world: &World, sender: Sender, family: Family) -> BTreeSet<(IpAddr, u16)> {
    let topology = &world.topology;
    let pods = (0..topology.pods.len()).map(|pod| (world.address(pod, family), MEMBER_PORT));
    let mut targets: BTreeSet<_> = pods.collect();
    for service in 0..topology.services.len() {
        let here = sender.node(topology);
        let nodes = (0..topology.nodes).filter(|node| *node == here || matches!(sender, Sender::Pod(_)));
        targets.extend(nodes.map(|node| (node_address(node, family), node_port(service))));
        targets.insert((external_ip(service, family), SERVICE_PORT));
        if !matches!(sender, Sender::Outside(_)) {
            targets.insert((cluster_ip(topology, service, family), SERVICE_PORT));
        }
    }
    if matches!(sender, Sender::Pod(_)) {
        targets.extend((0..topology.nodes).map(|node| (node_address(node, family), MEMBER_PORT)));
        targets.insert((outside(family), MEMBER_PORT));
    }
    targets
}
