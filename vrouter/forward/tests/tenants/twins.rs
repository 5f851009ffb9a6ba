//! Two custom networks that are alike in everything: subnets, pods' addresses, services' addresses, on the same nodes.

use std::net::IpAddr;

use vrouter_forward::Family;
use vrouter_forward::frame::Egress;
use vrouter_objects::Vni;

use crate::journey::Journey;
use crate::reach::Sender;
use crate::support::{
    ACK, FAMILIES, MEMBER_PORT, SERVICE_PORT, SYN, VOICES, Voice, answer, drops, node_address, packet, read,
};
use crate::topology::{PodPlan, ServicePlan, Topology};
use crate::world::{Place, World, cluster_ip, node_port};

const ALIKE: [&str; 2] = ["10.50.0.0/24", "fd00:50::/64"];

/// The networks of the twins.
const TWINS: [usize; 2] = [1, 2];

/// Two networks, each with a client, and a server on either node behind a service.
fn twins() -> Topology {
    let mut topology = Topology::new(2, 0, &[ALIKE, ALIKE]);
    topology.pods.clear();
    for network in TWINS {
        topology.pods.extend([0, 0, 1].map(|node| PodPlan { network, node }));
        let first = topology.pods.len() - 3;
        topology.services.push(ServicePlan { network, members: vec![first + 1, first + 2] });
    }
    topology
}

/// The pods of one twin: its client and its servers.
fn pods(twin: usize) -> [usize; 3] {
    [3 * twin, 3 * twin + 1, 3 * twin + 2]
}

#[test]
fn all_speak_within_and_nobody_across() {
    assert!(crate::everybody_speaks_to_everything(&twins()) > 0);
}

/// Every packet of both has the same addresses and ports, and all connections stand at once.
#[test]
fn the_same_connections_in_both_at_once() {
    let mut world = World::new(&twins());
    for family in FAMILIES {
        assert_eq!(world.address(0, family), world.address(3, family));
        let vip = (cluster_ip(&world.topology, 0, family), SERVICE_PORT);
        assert_eq!(vip.0, cluster_ip(&world.topology, 1, family));
        let servers = [1, 2].map(|pod| (world.address(pod, family), MEMBER_PORT));
        let voices = VOICES.into_iter().filter(|voice| *voice != Voice::Ping);
        let cases = voices.flat_map(|voice| [vip, servers[0], servers[1]].map(|to| (voice, to)));
        for (from_port, (voice, to)) in (4001..).zip(cases) {
            // The first twin's stands while the second's begins and ends, and goes on.
            for twin in [0, 1, 0, 1] {
                let [client, ..] = pods(twin);
                let journey =
                    Journey { sender: Sender::Pod(client), family, voice, to: to.0, port: to.1, from_port };
                assert_eq!(journey.run(&mut world), 1);
            }
        }
    }
}

/// A packet in one, a packet in the other, through all states of a connection: each at its own server, and each with
/// its own VNI, answers too.
#[test]
fn packets_that_take_turns_stay_apart() {
    for (family, to_service) in FAMILIES.into_iter().flat_map(|family| [(family, false), (family, true)]) {
        let mut world = World::new(&twins());
        let to = match to_service {
            true => (cluster_ip(&world.topology, 0, family), SERVICE_PORT),
            false => (world.address(2, family), MEMBER_PORT),
        };
        let mut servers = [None; 2];
        for flags in [SYN, ACK, ACK, ACK] {
            for twin in [0, 1] {
                let [client, ..] = pods(twin);
                let from = world.address(client, family);
                let frame = packet(from, to.0, vrouter_objects::ServiceProtocol::Tcp, (4000, to.1), flags);
                let handle = world.pods[client].clone();
                world.tenancy.cluster.wire.clear();
                let there = world.tenancy.cluster.send(&handle, &frame);
                assert_eq!(there.len(), 1, "{family:?}");
                let Some(Place::Pod(server)) = world.place(&there[0]) else { panic!("{there:?}") };
                assert!(pods(twin).contains(&server), "{family:?}: {server} is not of twin {twin}");
                let kept = *servers[twin].get_or_insert(server);
                assert_eq!(kept, server, "{family:?}: one connection, one server");
                let protocol = vrouter_objects::ServiceProtocol::Tcp;
                let back = answer(&mut world.tenancy.cluster, &there[0], protocol, flags | ACK);
                assert_eq!(back.len(), 1, "{family:?}");
                assert_eq!(world.place(&back[0]), Some(Place::Pod(client)), "{family:?}");
                assert_eq!(read(&back[0].frame).source, to.0);
                assert_eq!(
                    vnis(&world),
                    if world.topology.pods[server].node == 0 { vec![] } else { vec![vni(&world, twin); 2] }
                );
            }
        }
    }
}

/// Their services' node ports differ, and lead each to its own; they speak to each other's in their node's name.
#[test]
fn node_ports_lead_each_to_its_own() {
    let mut world = World::new(&twins());
    for (family, node) in FAMILIES.into_iter().flat_map(|family| [(family, 0), (family, 1)]) {
        for (service, twin) in [(0, 0), (1, 1)] {
            let to = node_address(node, family);
            for client in [pods(0)[0], pods(1)[0]] {
                let own = pods(twin).contains(&client);
                let from = world.address(client, family);
                let ports = (5000 + node as u16, node_port(service));
                let frame = packet(from, to, vrouter_objects::ServiceProtocol::Udp, ports, 0);
                let handle = world.pods[client].clone();
                let there = world.tenancy.cluster.send(&handle, &frame);
                assert_eq!(there.len(), 1, "{:?}", drops(&world.tenancy.cluster, 0));
                let Some(Place::Pod(server)) = world.place(&there[0]) else { panic!("{there:?}") };
                assert!(pods(twin).contains(&server));
                let name: IpAddr = if own { from } else { node_address(0, family) };
                assert_eq!(read(&there[0].frame).source, name, "{family:?} {service} from {client}");
            }
        }
    }
}

fn vni(world: &World, twin: usize) -> Vni {
    world.topology.networks[TWINS[twin]].vni()
}

fn vnis(world: &World) -> Vec<Vni> {
    let of = |egress| match egress {
        Egress::Tunnel { vni, .. } => vni,
        Egress::Port(_) => panic!("the wire is between nodes"),
    };
    world.tenancy.cluster.wire.iter().map(|tunnelled| of(tunnelled.egress)).collect()
}

/// That the two are told apart in the node's flows, too.
#[test]
fn flows_of_both_are_in_their_own_vrf() {
    let mut world = World::new(&twins());
    let (from, to) = (world.address(0, Family::V4), world.address(1, Family::V4));
    let frame = packet(from, to, vrouter_objects::ServiceProtocol::Tcp, (4000, MEMBER_PORT), SYN);
    for twin in [0, 1] {
        let handle = world.pods[pods(twin)[0]].clone();
        world.tenancy.cluster.send(&handle, &frame);
    }
    let node = &world.tenancy.cluster.nodes[0];
    let mut flows: Vec<_> = node.flows(world.tenancy.cluster.now).iter().map(|flow| flow.key.vrf).collect();
    flows.sort_unstable();
    let own = TWINS.map(|network| world.topology.networks[network].pods);
    assert_eq!(flows, [own[0], own[0], own[1], own[1]]);
}
