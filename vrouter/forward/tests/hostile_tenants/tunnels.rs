//! What comes out of a tunnel: only nodes send there, each only what its own pods may say, and in their own network.

use std::net::IpAddr;

use vrouter_forward::Family;
use vrouter_forward::frame::{Frame, Ingress};
use vrouter_forward::sim::{Delivery, PodHandle};
use vrouter_objects::{DropReason, MacAddress, Vni};

use crate::frames::{Arp, SOLICITATION, tagged, v4, with_macs};
use crate::stage::{DEFAULT, ISOLATED, NETWORKS, OTHER_TWIN, Stage, TWIN};
use crate::support::{
    FAMILIES, MEMBER_PORT, SYN, VOICES, address, dropped, is_at, node_address, node_mac, outside, vtep,
};

/// A node that is none, and one that is.
const STRANGER: usize = 6;
const OTHER_NODE: usize = 1;

/// A frame to the first node, from this node's address, with this VNI.
fn arrive(stage: &mut Stage, from: usize, vni: u32, frame: &[u8]) -> Vec<Delivery> {
    let ingress = Ingress::Tunnel { source: vtep(from), vni: Vni::new(vni).expect("24 bits") };
    stage.cluster().follow(0, Frame::from_bytes(frame, ingress))
}

fn vni_of(stage: &Stage, network: usize) -> u32 {
    stage.tenancy.networks[network].vni().get()
}

/// A packet of this kind between two addresses, as it comes from the other node.
fn inner(from: IpAddr, to: IpAddr, voice: crate::support::Voice) -> Vec<u8> {
    with_macs(&voice.frame((from, 7000), (to, MEMBER_PORT), SYN), node_mac(OTHER_NODE), node_mac(0))
}

/// The pods of a network that are on the first node, and the one that is not.
fn pods(stage: &Stage, network: usize) -> [PodHandle; 3] {
    stage.pods[network].clone()
}

#[test]
fn honest_packets_of_every_network_arrive() {
    let mut stage = Stage::new(DEFAULT);
    for (network, family) in NETWORKS.into_iter().flat_map(|network| FAMILIES.map(|family| (network, family)))
    {
        let [_, near, far] = pods(&stage, network);
        for voice in VOICES {
            let frame = inner(address(&far, family), address(&near, family), voice);
            let vni = vni_of(&stage, network);
            let got = arrive(&mut stage, OTHER_NODE, vni, &frame);
            assert!(
                got.len() == 1 && is_at(&got[0], &near),
                "network {network}, {family:?} {voice:?}: {got:?}"
            );
        }
    }
}

#[test]
fn an_unknown_vtep_is_nobody() {
    let mut stage = Stage::new(DEFAULT);
    let mut count = 0;
    for (network, family) in NETWORKS.into_iter().flat_map(|network| FAMILIES.map(|family| (network, family)))
    {
        let [_, near, far] = pods(&stage, network);
        for (voice, from) in VOICES.into_iter().flat_map(|voice| {
            [address(&far, family), outside(family), node_address(1, family)].map(|from| (voice, from))
        }) {
            let vni = vni_of(&stage, network);
            let frame = inner(from, address(&near, family), voice);
            assert_eq!(arrive(&mut stage, STRANGER, vni, &frame), []);
            count += 1;
        }
    }
    assert_eq!(dropped(&stage.tenancy.cluster, 0, DropReason::UnknownVtep), count);
    stage.assert_all_is_well();
}

#[test]
fn an_unknown_vni_leads_nowhere() {
    let mut stage = Stage::new(DEFAULT);
    let mut count = 0;
    for (network, family) in NETWORKS.into_iter().flat_map(|network| FAMILIES.map(|family| (network, family)))
    {
        let [_, near, far] = pods(&stage, network);
        for vni in [0, 4, 999, 5000, 5099, 0x00ff_ffff] {
            let frame = inner(address(&far, family), address(&near, family), VOICES[1]);
            assert_eq!(arrive(&mut stage, OTHER_NODE, vni, &frame), [], "VNI {vni}");
            count += 1;
        }
    }
    assert_eq!(dropped(&stage.tenancy.cluster, 0, DropReason::UnknownVni), count);
    stage.assert_all_is_well();
}

/// A pod of one network in another one's tunnel, from the node that it is on: where the two have nothing to do with each
/// other, it gets to nobody, and is told nothing.
#[test]
fn a_pod_does_not_come_by_another_networks_vni() {
    let mut stage = Stage::new(DEFAULT);
    for family in FAMILIES {
        for (of, by) in NETWORKS.into_iter().flat_map(|of| NETWORKS.map(|by| (of, by))) {
            let are_alike = [of, by].iter().all(|network| [TWIN, OTHER_TWIN].contains(network));
            // Isolated namespaces ask the cluster's own pods, through services, by their own addresses; and of what a custom
            // network's address is, others know as little as of any outside.
            let is_known = of == by || are_alike || by == DEFAULT;
            let is_outside = [TWIN, OTHER_TWIN].contains(&of);
            if is_known || is_outside {
                continue;
            }
            let [_, _, source] = pods(&stage, of);
            let [_, victim, _] = pods(&stage, by);
            for voice in VOICES {
                let frame = inner(address(&source, family), address(&victim, family), voice);
                let vni = vni_of(&stage, by);
                let got = arrive(&mut stage, OTHER_NODE, vni, &frame);
                assert_eq!(got, [], "{family:?} {voice:?} of network {of} by the VNI of {by}");
            }
        }
    }
    stage.assert_all_is_well();
}

/// To a pod of one network by the VNI of another: the address is looked up there, where it is nobody's, or another's.
#[test]
fn a_vni_leads_to_pods_of_its_own_network_alone() {
    let mut stage = Stage::new(DEFAULT);
    for family in FAMILIES {
        for (by, to) in
            NETWORKS.into_iter().flat_map(|by| NETWORKS.map(|to| (by, to))).filter(|(by, to)| by != to)
        {
            let [attacker, near, far] = pods(&stage, by);
            let [victim, other_victim, _] = pods(&stage, to);
            for (voice, victim) in
                VOICES.into_iter().flat_map(|voice| [(voice, &victim), (voice, &other_victim)])
            {
                let frame = inner(address(&far, family), address(victim, family), voice);
                let vni = vni_of(&stage, by);
                for delivery in arrive(&mut stage, OTHER_NODE, vni, &frame) {
                    // Or back to who sent it, that nobody is there.
                    let own = [&attacker, &near, &far].into_iter().any(|pod| is_at(&delivery, pod));
                    assert!(own, "{family:?} {voice:?} by the VNI of {by} to a pod of {to}: {delivery:?}");
                }
            }
        }
    }
    stage.assert_all_is_well();
}

/// Services' networks have no pods, so nobody speaks in them.
#[test]
fn the_vni_of_a_services_network_leads_to_nobody() {
    let mut stage = Stage::new(DEFAULT);
    for (network, family) in NETWORKS.into_iter().flat_map(|network| FAMILIES.map(|family| (network, family)))
    {
        let [_, near, far] = pods(&stage, network);
        let services = stage.tenancy.networks[network].services.get();
        let vni = if services == 2 { 2 } else { 5000 + services };
        for from in [address(&far, family), outside(family), node_address(1, family)] {
            let frame = inner(from, address(&near, family), VOICES[0]);
            let got = arrive(&mut stage, OTHER_NODE, vni, &frame);
            assert_eq!(got, [], "{family:?} network {network} from {from}");
        }
    }
    stage.assert_all_is_well();
}

/// The other node speaks for its own pods and for who comes by it: not for pods that are here, on a third node or nowhere,
/// not for gateways and not for services.
#[test]
fn a_node_does_not_speak_for_pods_that_it_does_not_have() {
    let mut stage = Stage::new(DEFAULT);
    for (network, family) in NETWORKS.into_iter().flat_map(|network| FAMILIES.map(|family| (network, family)))
    {
        let [here, near, _] = pods(&stage, network);
        let nowhere: IpAddr = match (network, family) {
            (DEFAULT | ISOLATED, Family::V4) => "10.244.7.7".parse().unwrap(),
            (DEFAULT | ISOLATED, Family::V6) => "fd00:10:244:7::7".parse().unwrap(),
            (_, Family::V4) => "10.50.0.77".parse().unwrap(),
            (_, Family::V6) => "fd00:50::77".parse().unwrap(),
        };
        let gateway = stage.tenancy.networks[network].gateway(family);
        for from in [address(&here, family), nowhere, gateway, crate::support::vip(family)] {
            for voice in VOICES {
                let vni = vni_of(&stage, network);
                let got = arrive(&mut stage, OTHER_NODE, vni, &inner(from, address(&near, family), voice));
                assert_eq!(got, [], "{family:?} {voice:?} network {network} from {from}");
            }
        }
    }
    assert!(dropped(&stage.tenancy.cluster, 0, DropReason::SpoofedAddress) > 0);
    stage.assert_all_is_well();
}

/// A tunnel is no link: nobody asks for addresses through it, or addresses frames as it likes.
#[test]
fn what_belongs_on_a_link_does_not_come_by_a_tunnel() {
    let mut stage = Stage::new(DEFAULT);
    for network in NETWORKS {
        let [_, near, far] = pods(&stage, network);
        let vni = vni_of(&stage, network);
        let arp = Arp {
            from: node_mac(OTHER_NODE),
            to: node_mac(0),
            operation: 1,
            sender: (node_mac(OTHER_NODE), v4(far.v4)),
            target: (MacAddress([0; 6]), v4(near.v4)),
        };
        assert_eq!(arrive(&mut stage, OTHER_NODE, vni, &arp.build()), []);
        let broadcast = Arp { to: MacAddress::BROADCAST, ..arp };
        assert_eq!(arrive(&mut stage, OTHER_NODE, vni, &broadcast.build()), []);
        let gateway = stage.tenancy.networks[network].gateway(Family::V6);
        for kind in [133, 134, SOLICITATION, 136, 137] {
            let message = crate::frames::Neighbour {
                kind,
                source: far.v6,
                destination: near.v6,
                target: gateway,
                option: Some((2, far.mac)),
            };
            let frame = with_macs(&message.build(far.mac), node_mac(OTHER_NODE), node_mac(0));
            assert_eq!(arrive(&mut stage, OTHER_NODE, vni, &frame), []);
        }
        for family in FAMILIES {
            let honest = inner(address(&far, family), address(&near, family), VOICES[1]);
            let to_others = [near.mac, MacAddress::GATEWAY, MacAddress::BROADCAST, node_mac(1), node_mac(5)];
            for mac in to_others {
                let frame = with_macs(&honest, node_mac(OTHER_NODE), mac);
                assert_eq!(arrive(&mut stage, OTHER_NODE, vni, &frame), [], "to {mac}");
            }
            assert_eq!(arrive(&mut stage, OTHER_NODE, vni, &tagged(&honest, 0x8100, 5)), []);
            let own = address(&near, family);
            assert_eq!(arrive(&mut stage, OTHER_NODE, vni, &inner(own, own, VOICES[0])), [], "a land packet");
        }
    }
    stage.assert_all_is_well();
}

/// A connection that stands is no cover for whoever is no node: each packet's outer source is looked at.
#[test]
fn an_established_flow_is_no_cover_for_a_stranger() {
    let mut stage = Stage::new(DEFAULT);
    for (network, family) in NETWORKS.into_iter().flat_map(|network| FAMILIES.map(|family| (network, family)))
    {
        let [_, near, far] = pods(&stage, network);
        let vni = vni_of(&stage, network);
        for voice in VOICES {
            let frame = inner(address(&far, family), address(&near, family), voice);
            for _ in 0..3 {
                assert_eq!(arrive(&mut stage, OTHER_NODE, vni, &frame).len(), 1);
                assert_eq!(
                    arrive(&mut stage, STRANGER, vni, &frame),
                    [],
                    "network {network}, {family:?} {voice:?}"
                );
            }
        }
    }
    stage.assert_all_is_well();
}
