//! Other names than its own: MAC and IP addresses.

use std::net::IpAddr;

use vrouter_forward::Family;
use vrouter_forward::sim::PacketBuilder;
use vrouter_objects::{DropReason, MacAddress};

use crate::frames::with_macs;
use crate::stage::stages_of_families;
use crate::support::{MEMBER_PORT, SYN, VOICES, address, dropped, node_address, node_mac, outside, vip};

#[test]
fn a_foreign_mac_address_gets_nowhere() {
    for (mut stage, family) in stages_of_families() {
        let (attacker, neighbour, far) = (stage.attacker(), stage.neighbour(), stage.far());
        let foreign = [neighbour.mac, far.mac, MacAddress::GATEWAY, node_mac(0), MacAddress([0; 6])];
        for to in [&neighbour, &far] {
            for voice in VOICES {
                let from = (address(&attacker, family), 7000);
                let frame = voice.frame(from, (address(to, family), MEMBER_PORT), SYN);
                for mac in foreign {
                    stage.assert_in_vain(&with_macs(&frame, mac, MacAddress::GATEWAY), "another's MAC");
                }
                let honest = with_macs(&frame, attacker.mac, MacAddress::GATEWAY);
                stage.assert_passes(&honest, to, "its own MAC");
                // Past the router, to the other's own.
                stage.assert_in_vain(&with_macs(&frame, attacker.mac, to.mac), "straight to the other's MAC");
            }
        }
        let count = (foreign.len() * 2 * VOICES.len()) as u64;
        assert_eq!(dropped(&stage.tenancy.cluster, 0, DropReason::SpoofedMac), count);
        stage.assert_all_is_well();
    }
}

/// Addresses that nobody has, by family.
fn nobodys(family: Family) -> Vec<IpAddr> {
    let texts: &[&str] = match family {
        Family::V4 => &[
            "0.0.0.0",
            "127.0.0.1",
            "169.254.0.7",
            "224.0.0.1",
            "255.255.255.255",
            "10.50.0.200",
            "10.244.1.200",
        ],
        Family::V6 => {
            &["::", "::1", "fe80::7", "ff02::1", "fd00:50::c8", "fd00:10:244:1::c8", "::ffff:10.244.1.20"]
        }
    };
    texts.iter().map(|text| text.parse().expect("a literal address")).collect()
}

#[test]
fn a_foreign_ip_address_gets_nowhere() {
    for (mut stage, family) in stages_of_families() {
        let (attacker, neighbour, far) = (stage.attacker(), stage.neighbour(), stage.far());
        let own = address(&attacker, family);
        let mut foreign = stage.everybody(family);
        foreign.extend(nobodys(family));
        foreign.insert(vip(family));
        foreign.remove(&own);
        let targets = [
            address(&neighbour, family),
            address(&far, family),
            node_address(0, family),
            node_address(1, family),
            outside(family),
            vip(family),
        ];
        for (from, to) in foreign.iter().flat_map(|from| targets.map(|to| (*from, to))) {
            for voice in VOICES {
                let frame = voice.frame((from, 7000), (to, MEMBER_PORT), SYN);
                let told = stage.assert_in_vain(
                    &with_macs(&frame, attacker.mac, MacAddress::GATEWAY),
                    "another's address",
                );
                assert_eq!(told, [], "who lies is told nothing: {from} to {to}");
            }
        }
        stage.assert_all_is_well();
    }
}

/// One connection's packets may not become another's in the middle: each is looked at.
#[test]
fn an_established_flow_is_no_cover_for_another_name() {
    for (mut stage, family) in stages_of_families() {
        let (attacker, neighbour, far) = (stage.attacker(), stage.neighbour(), stage.far());
        for voice in VOICES {
            let to = (address(&far, family), MEMBER_PORT);
            for flags in [SYN, crate::support::ACK, crate::support::ACK] {
                let honest = voice.frame((address(&attacker, family), 7000), to, flags);
                stage.assert_passes(&with_macs(&honest, attacker.mac, MacAddress::GATEWAY), &far, "its own");
            }
            // The neighbour has the very same connections.
            let of_neighbour = voice.frame((address(&neighbour, family), 4000), to, crate::support::ACK);
            stage.assert_in_vain(
                &with_macs(&of_neighbour, attacker.mac, MacAddress::GATEWAY),
                "its neighbour's",
            );
            stage
                .assert_in_vain(&with_macs(&of_neighbour, neighbour.mac, MacAddress::GATEWAY), "both of its");
        }
        stage.assert_all_is_well();
    }
}

/// To itself, from itself, on whatever ports.
#[test]
fn land_packets_get_nowhere() {
    for (mut stage, family) in stages_of_families() {
        let attacker = stage.attacker();
        for whom in stage.everybody(family) {
            for voice in VOICES {
                let frame = voice.frame((whom, 139), (whom, 139), SYN);
                let frame = with_macs(&frame, attacker.mac, MacAddress::GATEWAY);
                assert_eq!(stage.assert_in_vain(&frame, "a land packet"), []);
            }
        }
        let own = address(&attacker, family);
        let bare = PacketBuilder::new(own, own).macs(attacker.mac, MacAddress::GATEWAY).protocol(47, &[0; 8]);
        stage.assert_in_vain(&bare.build(), "one without ports");
        stage.assert_all_is_well();
    }
}
