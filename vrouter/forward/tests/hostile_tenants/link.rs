//! Lies about who is where on the link: ARP and neighbour discovery.

use std::net::{IpAddr, Ipv4Addr};

use vrouter_forward::Family;
use vrouter_forward::frame::{Frame, Ingress};
use vrouter_forward::sim::{Delivery, PacketBuilder, PodHandle};
use vrouter_objects::MacAddress;

use crate::frames::{ADVERTISEMENT, Arp, Neighbour, SOLICITATION, v4};
use crate::stage::{Stage, stages};
use crate::support::{address, is_at};

const REQUEST: u16 = 1;
const REPLY: u16 = 2;

/// Whether all that came of a frame is an answer to who sent it, that the gateway has the address.
fn is_honest_answer(deliveries: &[Delivery], asked: &PodHandle) -> bool {
    deliveries.iter().all(|delivery| {
        let frame = &delivery.frame;
        is_at(delivery, asked) && frame[6..12] == MacAddress::GATEWAY.0 && frame[12..14] == [8, 6]
    })
}

/// What every other pod of the attacker's node is told of where the others are.
fn assert_nobody_is_deceived(stage: &mut Stage) {
    for (network, [_, near, far]) in stage.pods.clone().iter().enumerate() {
        let gateway = stage.tenancy.networks[network].gateway(Family::V4);
        for whom in [gateway, far.v4] {
            let ask = Arp {
                from: near.mac,
                to: MacAddress::BROADCAST,
                operation: REQUEST,
                sender: (near.mac, v4(near.v4)),
                target: (MacAddress([0; 6]), v4(whom)),
            };
            let frame = Frame::from_bytes(&ask.build(), Ingress::Port(near.port));
            let answer = stage.cluster().follow(near.node, frame);
            assert!(answer.len() == 1 && is_honest_answer(&answer, near), "{answer:?}");
            assert_eq!(answer[0].frame[22..28], MacAddress::GATEWAY.0, "whoever it is, the router has it");
        }
    }
    stage.assert_all_is_well();
}

#[test]
fn arp_lies_are_neither_passed_on_nor_believed() {
    for mut stage in stages() {
        let (attacker, neighbour, far) = (stage.attacker(), stage.neighbour(), stage.far());
        let own = v4(attacker.v4);
        let addresses: Vec<Ipv4Addr> = stage.everybody(Family::V4).into_iter().map(v4).collect();
        let macs = [attacker.mac, neighbour.mac, far.mac, MacAddress::GATEWAY, MacAddress::BROADCAST];
        for operation in [REQUEST, REPLY, 3, 0] {
            for to in [MacAddress::BROADCAST, MacAddress::GATEWAY, neighbour.mac] {
                for (sender_mac, sender) in
                    macs.iter().flat_map(|mac| addresses.iter().map(move |of| (*mac, *of)))
                {
                    for target in [sender, own, v4(neighbour.v4), v4(far.v4)] {
                        let lie = Arp {
                            from: attacker.mac,
                            to,
                            operation,
                            sender: (sender_mac, sender),
                            target: (MacAddress([0; 6]), target),
                        };
                        let told = stage.assert_in_vain(&lie.build(), "an ARP lie");
                        let is_honest = (sender_mac, sender) == (attacker.mac, own);
                        assert!(is_honest || told.is_empty(), "{lie:?} is answered: {told:?}");
                        assert!(is_honest_answer(&told, &attacker), "{lie:?}: {told:?}");
                    }
                }
            }
        }
        assert_nobody_is_deceived(&mut stage);
    }
}

/// "I am the gateway", "I am my neighbour", to everybody, as request and as reply.
#[test]
fn gratuitous_arp_for_another_moves_nobody() {
    for mut stage in stages() {
        let attacker = stage.attacker();
        let gateway = stage.tenancy.networks[stage.home].gateway(Family::V4);
        for (whom, operation) in [gateway, stage.neighbour().v4, stage.far().v4]
            .into_iter()
            .flat_map(|whom| [(whom, REQUEST), (whom, REPLY)])
        {
            let claim = Arp {
                from: attacker.mac,
                to: MacAddress::BROADCAST,
                operation,
                sender: (attacker.mac, v4(whom)),
                target: (MacAddress::BROADCAST, v4(whom)),
            };
            assert_eq!(stage.assert_in_vain(&claim.build(), "a claim"), []);
        }
        assert_nobody_is_deceived(&mut stage);
    }
}

/// Whoever asks whether an address of another network is in use learns nothing of it.
#[test]
fn arp_tells_nothing_of_other_networks() {
    for mut stage in stages() {
        let attacker = stage.attacker();
        let ask = |target: IpAddr| {
            let ask = Arp {
                from: attacker.mac,
                to: MacAddress::BROADCAST,
                operation: REQUEST,
                sender: (attacker.mac, v4(attacker.v4)),
                target: (MacAddress([0; 6]), v4(target)),
            };
            ask.build()
        };
        // The answer is the same for an address that somebody has and for one that nobody has.
        for [pod, ..] in stage.pods.clone() {
            let IpAddr::V4(taken) = pod.v4 else { panic!("IPv4's") };
            let [a, b, c, _] = taken.octets();
            let free = IpAddr::from([a, b, c, 222]);
            if pod.v4 != attacker.v4 {
                let of = |stage: &mut Stage, whom| stage.assert_in_vain(&ask(whom), "a question").len();
                assert_eq!(of(&mut stage, pod.v4), of(&mut stage, free), "{}", pod.v4);
            }
        }
    }
}

/// Every message of neighbour discovery with foreign contents.
#[test]
fn neighbour_lies_are_neither_passed_on_nor_believed() {
    let [all_nodes, all_routers] = ["ff02::1", "ff02::2"].map(|text| text.parse::<IpAddr>().unwrap());
    for mut stage in stages() {
        let (attacker, neighbour, far) = (stage.attacker(), stage.neighbour(), stage.far());
        let gateway = stage.tenancy.networks[stage.home].gateway(Family::V6);
        let sources = [attacker.v6, neighbour.v6, gateway, "fe80::1".parse().unwrap(), "::".parse().unwrap()];
        let destinations = [neighbour.v6, far.v6, gateway, all_nodes, all_routers];
        let targets = [attacker.v6, neighbour.v6, far.v6, gateway];
        let options = [None, Some((1, attacker.mac)), Some((1, neighbour.mac)), Some((2, attacker.mac))];
        for kind in [133, 134, SOLICITATION, ADVERTISEMENT, 137] {
            for (source, destination) in sources.iter().flat_map(|from| destinations.map(|to| (*from, to))) {
                for (target, option) in targets.iter().flat_map(|of| options.map(|option| (*of, option))) {
                    let lie = Neighbour { kind, source, destination, target, option };
                    let told = stage.assert_in_vain(&lie.build(attacker.mac), "a neighbour lie");
                    // What is answered is that the router has it.
                    for answer in &told {
                        assert_eq!(kind, SOLICITATION, "{lie:?}: {answer:?}");
                        assert_eq!(answer.frame[6..12], MacAddress::GATEWAY.0, "{lie:?}");
                        assert!(source != neighbour.v6 && source != gateway, "{lie:?} in another's name");
                    }
                }
            }
        }
        assert_nobody_is_deceived(&mut stage);
    }
}

/// Behind extension headers, in fragments, from afar or in an IPv4 packet, it is still no message for others.
#[test]
fn neighbour_messages_are_not_forwarded_in_disguise() {
    for mut stage in stages() {
        let (attacker, neighbour, far) = (stage.attacker(), stage.neighbour(), stage.far());
        let gateway = stage.tenancy.networks[stage.home].gateway(Family::V6);
        for (kind, destination) in [134, SOLICITATION, ADVERTISEMENT, 137]
            .into_iter()
            .flat_map(|kind| [(kind, neighbour.v6), (kind, far.v6)])
        {
            let option = Some((2, attacker.mac));
            let lie = Neighbour { kind, source: attacker.v6, destination, target: gateway, option };
            let plain = lie.builder().macs(attacker.mac, MacAddress::GATEWAY);
            let disguises = [
                plain.clone().extension(0, &[0; 8]).build(),
                plain.clone().extension(60, &[0; 8]).build(),
                plain.clone().extension(44, &[0; 8]).build(),
                plain.clone().hops(64).build(),
            ];
            let fragments = plain.clone().payload(&[0; 64]).build_fragments(24);
            for frame in disguises.iter().chain(&fragments) {
                stage.assert_in_vain(frame, "a neighbour message in disguise");
            }
            let message = plain.build()[54..].to_vec();
            let in_v4 =
                PacketBuilder::new(attacker.v4, address(&neighbour, Family::V4)).protocol(58, &message);
            stage.assert_in_vain(&in_v4.macs(attacker.mac, MacAddress::GATEWAY).build(), "ICMPv6 over IPv4");
        }
        stage.assert_all_is_well();
    }
}
