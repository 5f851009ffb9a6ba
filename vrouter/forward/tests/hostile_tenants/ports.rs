//! Ports and addresses chosen so that a packet looks like an answer to somebody else.

use vrouter_forward::Family;
use vrouter_objects::{MacAddress, Object, Ports, ServiceProtocol};

use crate::doubles::service;
use crate::frames::with_macs;
use crate::stage::{DEFAULT, OTHER_TWIN, Stage, TWIN, stages_of_families};
use crate::support::{
    ACK, ALL_PROTOCOLS, Client, Conversation, FAMILIES, MEMBER_PORT, SYN, Voice, address, allow, binding,
    hold, in_block, ingress, is_at, is_at_host, node_address, packet, publish, read,
};

fn serve(stage: &mut Stage, network: usize, family: Family, member: usize) {
    let fip = service(stage, network, family, &[member]);
    stage.cluster().put(&[Object::FloatingIp(fip)]);
}

/// The attacker's packets have every port that somebody else's connection has, and its own name: they are its own.
#[test]
fn an_answer_to_anothers_question_is_not_heard_as_one() {
    for (mut stage, family) in stages_of_families() {
        let attacker = stage.attacker();
        for [_, near, far] in stage.pods.clone() {
            for (victim, protocol) in
                [&near, &far].into_iter().flat_map(|pod| ALL_PROTOCOLS.map(|of| (pod, of)))
            {
                for ports in [(MEMBER_PORT, 4000), (443, 4443), (4000, MEMBER_PORT)] {
                    let to = address(victim, family);
                    let frame = packet(address(&attacker, family), to, protocol, ports, SYN | ACK);
                    let frame = with_macs(&frame, attacker.mac, MacAddress::GATEWAY);
                    for delivery in stage.throw(&frame) {
                        let got = read(&delivery.frame);
                        let is_own_pods = stage.pods[stage.home]
                            .iter()
                            .any(|pod| is_at(&delivery, pod) && address(pod, family) == to);
                        let is_out = is_at_host(&delivery, 0) && got.source == node_address(0, family);
                        let is_told = is_at(&delivery, &attacker);
                        assert!(
                            is_own_pods || is_out || is_told,
                            "network {} to {to}: {delivery:?}",
                            stage.home
                        );
                        assert!(!is_own_pods || got.source == address(&attacker, family), "in its own name");
                    }
                }
            }
        }
        stage.assert_all_is_well();
    }
}

/// Who goes in the node's name is not the node: the pod's own node is let in, and a tenant behind it is not.
#[test]
fn a_tenant_in_its_nodes_name_is_not_let_in_as_the_node() {
    for (family, member) in FAMILIES.into_iter().flat_map(|family| [(family, 1), (family, 2)]) {
        let mut stage = Stage::new(TWIN);
        serve(&mut stage, DEFAULT, family, member);
        let victim = stage.pods[DEFAULT][member].clone();
        hold(stage.cluster(), ingress(1, &[]));
        publish(stage.cluster(), victim.node, &[Object::PodBinding(binding(&victim, &[1]))]);
        for voice in ALL_PROTOCOLS.map(Voice::Service) {
            let to = node_address(victim.node, family);
            let of_tenant =
                Conversation::of(&stage.attacker(), voice, node_address(0, family), 30_099).by(4100);
            assert!(!of_tenant.is_open(stage.cluster()), "{family:?} {voice:?}");
            let of_node = Conversation::new(Client::Node(victim.node), voice, to, 30_099).by(4101);
            assert!(of_node.is_open(stage.cluster()), "{family:?} {voice:?}: the node itself is");
        }
    }
}

/// A rule for a block of addresses means whoever bears one, which a tenant behind its node does not.
#[test]
fn a_tenants_address_is_not_what_a_block_means() {
    for family in FAMILIES {
        let mut stage = Stage::new(TWIN);
        serve(&mut stage, DEFAULT, family, 1);
        let victim = stage.pods[DEFAULT][1].clone();
        let asked = Conversation::of(
            &stage.attacker(),
            Voice::Service(ServiceProtocol::Udp),
            node_address(0, family),
            30_099,
        );
        let (tenants, nodes) = match family {
            Family::V4 => ("10.50.0.0/24", "172.30.0.0/24"),
            Family::V6 => ("fd00:50::/64", "fd00:172:30::/64"),
        };
        for (block, is_open) in [(tenants, false), (nodes, true)] {
            hold(stage.cluster(), ingress(1, &[allow(in_block(block, &[]), Ports::Any)]));
            publish(stage.cluster(), victim.node, &[Object::PodBinding(binding(&victim, &[1]))]);
            assert_eq!(asked.clone().by(4200).is_open(stage.cluster()), is_open, "{block}");
            stage.cluster().now = stage.tenancy.cluster.now.plus_millis(1000);
        }
    }
}

/// A set of the cluster's pods has addresses of the cluster's; a tenant's pod with one of them is not in it.
#[test]
fn a_pod_with_a_peers_address_in_another_space_is_no_peer() {
    for family in FAMILIES {
        let mut stage = Stage::new(TWIN);
        let [client, server] = [0, 1].map(|at| stage.pods[TWIN][at].clone());
        let network = stage.tenancy.networks[TWIN].pods;
        // By whose space the set's addresses are.
        for (number, space, is_open) in [
            (1, network, true),
            (2, stage.tenancy.networks[OTHER_TWIN].pods, false),
            (3, crate::support::vrf(1), false),
        ] {
            let set = vrouter_objects::PeerSet {
                id: crate::support::set_id(number),
                name: format!("set {number}"),
            };
            let members = crate::support::peer_addresses(number, space, &client);
            stage.cluster().put(&[Object::PeerSet(set)]);
            stage.cluster().put(&members);
            hold(stage.cluster(), ingress(number, &[allow(crate::support::in_set(number), Ports::Any)]));
            let bound = vrouter_objects::PodBinding { vrf: network, ..binding(&server, &[number]) };
            publish(stage.cluster(), server.node, &[Object::PodBinding(bound)]);
            let asked = Conversation::of(
                &client,
                Voice::Service(ServiceProtocol::Tcp),
                address(&server, family),
                MEMBER_PORT,
            );
            assert_eq!(
                asked.by(4300 + number as u16).is_open(stage.cluster()),
                is_open,
                "{family:?} set {number}"
            );
        }
    }
}
