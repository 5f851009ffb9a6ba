//! ICMP errors about what others said: nobody can end, slow down or turn away a connection that is not its own.

use std::net::IpAddr;

use vrouter_forward::Family;
use vrouter_forward::sim::PacketBuilder;
use vrouter_objects::{MacAddress, ServiceProtocol};

use crate::stage::{NETWORKS, OTHER_TWIN, Stage, TWIN, stages_of_families};
use crate::support::{
    ACK, MEMBER_PORT, SYN, VOICES, address, is_at, node_address, outside, packet, read, vip,
};

/// Every kind of error of a family: type, code and the four bytes behind the checksum.
fn kinds(family: Family) -> Vec<(u8, u8, [u8; 4])> {
    match family {
        Family::V4 => vec![
            (3, 0, [0; 4]),
            (3, 3, [0; 4]),
            (3, 4, [0, 0, 2, 64]),
            (4, 0, [0; 4]),
            (5, 1, [10, 244, 1, 66]),
            (11, 0, [0; 4]),
            (12, 0, [0; 4]),
        ],
        Family::V6 => {
            vec![(1, 0, [0; 4]), (1, 4, [0; 4]), (2, 0, [0, 0, 5, 0]), (3, 0, [0; 4]), (4, 0, [0; 4])]
        }
    }
}

/// What the attacker says about a packet, to its sender.
fn about(stage: &Stage, from: IpAddr, to: IpAddr, quoted: &[u8], family: Family) -> Vec<Vec<u8>> {
    let mac = stage.attacker().mac;
    let error = |(kind, code, rest)| {
        let error = PacketBuilder::new(from, to).macs(mac, MacAddress::GATEWAY);
        error.icmp(kind, code, rest).payload(&quoted[14..]).build()
    };
    kinds(family).into_iter().map(error).collect()
}

/// Connections that stand, of everybody in every network, by all protocols and both ends.
#[test]
fn nobody_can_speak_of_anothers_connections() {
    for (mut stage, family) in stages_of_families() {
        let own = address(&stage.attacker(), family);
        for [_, near, far] in stage.pods.clone() {
            for voice in VOICES {
                let ends = (address(&near, family), address(&far, family));
                for (from, to, ports) in
                    [(ends.0, ends.1, (4000, MEMBER_PORT)), (ends.1, ends.0, (MEMBER_PORT, 4000))]
                {
                    let quoted = voice.frame((from, ports.0), (to, ports.1), ACK);
                    // In its own name, and in the name of who is said to have got the packet.
                    for name in [own, to] {
                        for frame in about(&stage, name, from, &quoted, family) {
                            stage.assert_in_vain(&frame, "about another's connection");
                        }
                    }
                }
            }
        }
        stage.assert_all_is_well();
    }
}

/// About what went out in the node's name, through a service, or to the attacker itself, of which there is no flow.
#[test]
fn nobody_can_speak_of_what_was_never_said() {
    for (mut stage, family) in stages_of_families() {
        let own = address(&stage.attacker(), family);
        let victim = address(&stage.neighbour(), family);
        let node = node_address(0, family);
        for (from, to) in [
            (victim, own),
            (victim, vip(family)),
            (victim, outside(family)),
            (node, outside(family)),
            (node, own),
        ] {
            for voice in VOICES {
                for port in [443, MEMBER_PORT] {
                    let quoted = voice.frame((from, 4443), (to, port), ACK);
                    for frame in about(&stage, own, from, &quoted, family) {
                        stage.assert_in_vain(&frame, "about what was never said");
                    }
                }
            }
        }
        stage.assert_all_is_well();
    }
}

/// In a network whose addresses are the same, the very same connection is another's.
#[test]
fn an_error_is_about_the_connection_in_its_own_network() {
    for family in [Family::V4, Family::V6] {
        let mut stage = Stage::new(TWIN);
        let (attacker, victim) = (stage.attacker(), stage.neighbour());
        let [other_attacker, other_victim, _] = stage.pods[OTHER_TWIN].clone();
        assert_eq!(address(&attacker, family), address(&other_attacker, family));
        assert_eq!(address(&victim, family), address(&other_victim, family));
        let ends = (address(&victim, family), address(&attacker, family));
        let said = packet(ends.0, ends.1, ServiceProtocol::Udp, (4500, 53), 0);
        // Only in the other network is anything said.
        let heard = stage.cluster().send(&other_victim, &said);
        assert!(is_at(&heard[0], &other_attacker));
        for frame in about(&stage, ends.1, ends.0, &said, family) {
            stage.assert_in_vain(&frame, "about its double's connection");
        }
        // Once it is said here too, whoever got it may say so, here.
        stage.cluster().send(&victim, &said);
        let unreachable = if family == Family::V4 { (3, 3) } else { (1, 4) };
        let honest = crate::support::error_about(&said, ends.1, unreachable, 0);
        let honest = crate::frames::with_macs(&honest, attacker.mac, MacAddress::GATEWAY);
        stage.assert_passes(&honest, &victim, "about what it got itself");
    }
}

/// The attacker has got one packet, and quotes another one of the same sender, or the same with other ends.
#[test]
fn an_error_is_about_the_packet_that_it_quotes() {
    for (mut stage, family) in stages_of_families() {
        let (attacker, victim, far) = (stage.attacker(), stage.neighbour(), stage.far());
        let (own, from) = (address(&attacker, family), address(&victim, family));
        let said = packet(from, own, ServiceProtocol::Udp, (4600, 53), 0);
        assert!(is_at(&stage.cluster().send(&victim, &said)[0], &attacker));
        for (quoted, to) in [
            // Another port, another protocol, the other direction, another's, and to somebody else.
            (packet(from, own, ServiceProtocol::Udp, (4600, 54), 0), from),
            (packet(from, own, ServiceProtocol::Udp, (4601, 53), 0), from),
            (packet(from, own, ServiceProtocol::Tcp, (4600, 53), SYN), from),
            (packet(own, from, ServiceProtocol::Udp, (53, 4600), 0), from),
            (packet(address(&far, family), own, ServiceProtocol::Udp, (4600, 53), 0), address(&far, family)),
            (said.clone(), address(&far, family)),
            (said.clone(), node_address(0, family)),
        ] {
            for frame in about(&stage, own, to, &quoted, family) {
                stage.assert_in_vain(&frame, "about another packet than it got");
            }
        }
        stage.assert_all_is_well();
    }
}

/// Errors in fragments, errors about errors, and what quotes too little to say which connection it is about.
#[test]
fn errors_in_disguise_get_nowhere() {
    for (mut stage, family) in stages_of_families() {
        let (attacker, victim, far) = (stage.attacker(), stage.neighbour(), stage.far());
        let (own, from) = (address(&attacker, family), address(&victim, family));
        let said = packet(from, address(&far, family), ServiceProtocol::Tcp, (4000, MEMBER_PORT), ACK);
        let error = |payload: &[u8]| {
            let (kind, code, rest) = kinds(family)[0];
            PacketBuilder::new(own, from)
                .macs(attacker.mac, MacAddress::GATEWAY)
                .icmp(kind, code, rest)
                .payload(payload)
        };
        let inner = error(&said[14..]).build();
        let mut frames = vec![error(&inner[14..]).build(), error(&said[14..40]).build(), error(&[]).build()];
        frames.extend(error(&[&said[14..], &[0; 200]].concat()).build_fragments(64));
        for frame in frames {
            stage.assert_in_vain(&frame, "an error in disguise");
        }
        stage.assert_all_is_well();
    }
}

/// Where nobody is governed and everybody honest, errors do come through: the refusals above are not for want of a way.
#[test]
fn honest_errors_reach_who_asked() {
    for (mut stage, family) in stages_of_families() {
        for network in NETWORKS {
            let [_, near, far] = stage.pods[network].clone();
            let said =
                packet(address(&near, family), address(&far, family), ServiceProtocol::Udp, (4700, 53), 0);
            let there = stage.cluster().send(&near, &said);
            let too_big = if family == Family::V4 { (3, 4) } else { (2, 0) };
            let error = crate::support::error_about(&there[0].frame, address(&far, family), too_big, 1280);
            let back = stage.cluster().send(&far, &error);
            assert!(back.len() == 1 && is_at(&back[0], &near), "network {network}, {family:?}: {back:?}");
            assert_eq!(read(&back[0].frame).source, address(&far, family));
        }
    }
}
