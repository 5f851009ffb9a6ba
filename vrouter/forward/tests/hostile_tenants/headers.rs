//! Headers that would have somebody else decide where a packet goes, and addresses that mean more than one.

use std::net::IpAddr;

use vrouter_forward::Family;
use vrouter_forward::sim::PacketBuilder;
use vrouter_objects::{DropReason, MacAddress};

use crate::frames::{group_or_gateway, tagged};
use crate::stage::{stages, stages_of_families};
use crate::support::{
    CLUSTER_PODS, MEMBER_PORT, SYN, Voice, address, dropped, drops, is_at_host, node_address, prefixes, read,
};

/// Loose and strict source routing (RFC 791): whoever gets it sends it on to who was not asked about.
#[test]
fn ipv4_source_routes_get_nowhere() {
    for mut stage in stages() {
        let (attacker, neighbour, far) = (stage.attacker(), stage.neighbour(), stage.far());
        for (kind, via) in [0x83, 0x89].into_iter().flat_map(|kind| [(kind, &neighbour), (kind, &far)]) {
            for [victim, ..] in stage.pods.clone() {
                let IpAddr::V4(hop) = victim.v4 else { panic!("IPv4's") };
                let options = [&[kind, 7, 4][..], &hop.octets(), &[0]].concat();
                let packet = PacketBuilder::new(attacker.v4, via.v4).macs(attacker.mac, MacAddress::GATEWAY);
                let routed = packet.clone().ip_options(&options).tcp(7000, MEMBER_PORT, SYN);
                stage.assert_in_vain(&routed.build(), "a source route");
                let behind_others = [&[1, 1, 1][..], &options, &[0]].concat();
                let routed = packet.clone().ip_options(&behind_others).udp(7000, MEMBER_PORT);
                stage.assert_in_vain(&routed.build(), "a source route behind other options");
                // Other options do no harm.
                let harmless = packet.ip_options(&[0x94, 4, 0, 0]).udp(7001, MEMBER_PORT);
                stage.assert_passes(&harmless.build(), via, "a router alert");
            }
        }
        stage.assert_all_is_well();
    }
}

/// Routing headers of any type with segments left (RFC 5095, RFC 8754).
#[test]
fn ipv6_routing_headers_get_nowhere() {
    for mut stage in stages() {
        let (attacker, neighbour, far) = (stage.attacker(), stage.neighbour(), stage.far());
        for (kind, via) in [0, 2, 3, 4].into_iter().flat_map(|kind| [(kind, &neighbour), (kind, &far)]) {
            for [victim, ..] in stage.pods.clone() {
                let IpAddr::V6(hop) = victim.v6 else { panic!("IPv6's") };
                let header = |left: u8| [&[0, 2, kind, left, 0, 0, 0, 0][..], &hop.octets()].concat();
                let packet = PacketBuilder::new(attacker.v6, via.v6).macs(attacker.mac, MacAddress::GATEWAY);
                let routed = |left| packet.clone().extension(43, &header(left)).udp(7000, MEMBER_PORT);
                stage.assert_in_vain(&routed(1).build(), "a routing header");
                let hidden =
                    packet.clone().extension(60, &[0; 8]).extension(43, &header(1)).udp(7000, MEMBER_PORT);
                stage.assert_in_vain(&hidden.build(), "a routing header behind another");
                stage.assert_passes(&routed(0).build(), via, "one that is used up");
            }
        }
        stage.assert_all_is_well();
    }
}

#[test]
fn groups_reach_nobody() {
    for (mut stage, family) in stages_of_families() {
        let attacker = stage.attacker();
        let groups: &[&str] = match family {
            Family::V4 => &["224.0.0.1", "224.0.0.251", "239.1.2.3", "255.255.255.255"],
            Family::V6 => &["ff02::1", "ff02::fb", "ff05::2", "ff0e::1234"],
        };
        for group in groups {
            let group: IpAddr = group.parse().unwrap();
            for voice in crate::support::VOICES {
                let frame = voice.frame((address(&attacker, family), 7000), (group, 5353), SYN);
                let to = group_or_gateway(group);
                let by_group = crate::frames::with_macs(&frame, attacker.mac, to);
                let by_gateway = crate::frames::with_macs(&frame, attacker.mac, MacAddress::GATEWAY);
                for frame in [by_group, by_gateway] {
                    assert_eq!(stage.assert_in_vain(&frame, "to a group"), []);
                }
            }
        }
        stage.assert_all_is_well();
    }
}

/// An address of a link is nobody beyond it. A cloud tells its machines about themselves at one of IPv4's, which is
/// outside, in the node's name.
#[test]
fn link_local_addresses_reach_no_pod() {
    for (mut stage, family) in stages_of_families() {
        let (attacker, home) = (stage.attacker(), stage.home);
        let link_local: IpAddr = match family {
            Family::V4 => "169.254.169.254".parse().unwrap(),
            Family::V6 => "fe80::5054:ff:fe12:3456".parse().unwrap(),
        };
        for voice in crate::support::VOICES {
            let frame = voice.frame((address(&attacker, family), 7000), (link_local, 80), SYN);
            let frame = crate::frames::with_macs(&frame, attacker.mac, MacAddress::GATEWAY);
            for delivery in stage.throw(&frame) {
                let got = read(&delivery.frame);
                let is_told = got.destination == address(&attacker, family);
                let is_in_nodes_name = family == Family::V4
                    && is_at_host(&delivery, attacker.node)
                    && got.source == node_address(attacker.node, family);
                assert!(is_told || is_in_nodes_name, "from network {home}: {delivery:?}");
            }
        }
        stage.assert_all_is_well();
    }
}

#[test]
fn vlan_tags_lead_nowhere_else() {
    for (mut stage, family) in stages_of_families() {
        let (attacker, far) = (stage.attacker(), stage.far());
        let to = (address(&far, family), MEMBER_PORT);
        let frame = Voice::Service(vrouter_objects::ServiceProtocol::Udp).frame(
            (address(&attacker, family), 7000),
            to,
            0,
        );
        let frame = crate::frames::with_macs(&frame, attacker.mac, MacAddress::GATEWAY);
        for vlan in [1, 2, 10, 12, 14, 0x0fff, 0x2001] {
            stage.assert_in_vain(&tagged(&frame, 0x8100, vlan), "an 802.1Q tag");
            stage.assert_in_vain(
                &tagged(&tagged(&frame, 0x8100, vlan), 0x8100, 0),
                "a tag behind a priority tag",
            );
            stage.assert_in_vain(&tagged(&frame, 0x88a8, vlan), "an 802.1ad tag");
        }
        assert!(dropped(&stage.tenancy.cluster, 0, DropReason::VlanTagged) >= 7);
        // A priority tag says nothing about networks, and does not get in the way.
        stage.assert_passes(&tagged(&frame, 0x8100, 0xe000), &far, "a priority tag");
        let untagged = stage.throw(&tagged(&frame, 0x8100, 0xe000));
        assert_eq!(
            read(&untagged[0].frame).source,
            address(&attacker, family),
            "{:?}",
            drops(stage.cluster(), 0)
        );
        stage.assert_all_is_well();
    }
}

/// To what is another tenant's, by its address, its gateway, its service prefix: whatever a default route makes of it.
#[test]
fn addresses_of_other_networks_lead_to_nobody_in_them() {
    for (mut stage, family) in stages_of_families() {
        let (attacker, home) = (stage.attacker(), stage.home);
        for to in stage.everybody(family) {
            for voice in crate::support::VOICES {
                let frame = voice.frame((address(&attacker, family), 7100), (to, MEMBER_PORT), SYN);
                let frame = crate::frames::with_macs(&frame, attacker.mac, MacAddress::GATEWAY);
                for delivery in stage.throw(&frame) {
                    let is_own = stage.pods[home].iter().any(|pod| crate::support::is_at(&delivery, pod));
                    let is_node = (0..2).any(|node| is_at_host(&delivery, node));
                    assert!(is_own || is_node, "network {home} to {to}: {delivery:?}");
                    // Nor does the node bring it to one of the pods that it knows itself.
                    let is_clusters = prefixes(CLUSTER_PODS).iter().any(|prefix| prefix.contains(&to));
                    assert!(!is_node || !is_clusters, "network {home} to {to}: {delivery:?}");
                }
            }
        }
        stage.assert_all_is_well();
    }
}
