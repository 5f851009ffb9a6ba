//! Pods that have, each in its own network, the same address: to nobody are they one.

use std::net::IpAddr;

use vrouter_forward::Family;
use vrouter_objects::{AffinityTimeout, ExternalAddress, ExternalKind, FloatingIp, Object, ServiceProtocol};

use crate::stage::{DEFAULT, OTHER_TWIN, Stage, TWIN};
use crate::support::{
    ACK, ALL_PROTOCOLS, Conversation, FAMILIES, MEMBER_PORT, VOICES, Voice, address, binding, hold, ingress,
    is_at, node_address, outside, publish, read,
};

const NODE_PORT: u16 = 30_099;

/// A service of a network by all its frontends; its members are these pods of it.
pub fn service(stage: &Stage, network: usize, family: Family, members: &[usize]) -> FloatingIp {
    let [v4, v6] = crate::support::prefixes(crate::support::SERVICES);
    let at = crate::support::nth(if family == Family::V4 { v4 } else { v6 }, 99);
    let of = &stage.tenancy.networks[network];
    let member = |at: &usize| of.member(9 + *at as u32, &stage.pods[network][*at], family, MEMBER_PORT);
    let members: Vec<_> = members.iter().map(member).collect();
    crate::support::published(of.service(9, at, 80, &members), NODE_PORT, external(family))
}

fn external(family: Family) -> IpAddr {
    if family == Family::V4 { "198.51.100.9" } else { "2001:db8:51::9" }.parse().expect("a literal address")
}

fn serve(stage: &mut Stage, network: usize, family: Family, member: usize) {
    let fip = service(stage, network, family, &[member]);
    stage.cluster().put(&[Object::FloatingIp(fip)]);
}

/// Two tenants' pods that are alike speak to one stranger by one port: each gets its own answers, whatever the other sends.
#[test]
fn doubles_that_leave_by_one_node_are_not_taken_for_each_other() {
    for (family, voice) in FAMILIES.into_iter().flat_map(|family| VOICES.map(|voice| (family, voice))) {
        let mut stage = Stage::new(TWIN);
        let doubles = [stage.pods[TWIN][0].clone(), stage.pods[OTHER_TWIN][0].clone()];
        assert_eq!(address(&doubles[0], family), address(&doubles[1], family));
        let asked = doubles.clone().map(|pod| Conversation::of(&pod, voice, outside(family), 443).by(4999));
        let there = asked.clone().map(|asked| asked.must_open(stage.cluster()));
        let ports = [0, 1].map(|at| voice.answered_port(&read(&answerable(&there[at].frame, voice))));
        assert_ne!(ports[0], ports[1], "{family:?} {voice:?}: both leave in the node's name");
        for round in [0, 1, 1, 0] {
            asked[round].must_go_on(stage.cluster(), &there[round]);
        }
        stage.assert_all_is_well();
    }
}

/// The answer to a packet, of which the port that it is for can be read.
fn answerable(frame: &[u8], voice: Voice) -> Vec<u8> {
    voice.answer(&read(frame), ACK)
}

/// The same to one service of the cluster's own network, by its node port, where both go in the node's name.
#[test]
fn doubles_that_ask_one_service_are_not_taken_for_each_other() {
    for (family, protocol, member) in FAMILIES
        .into_iter()
        .flat_map(|family| ALL_PROTOCOLS.map(|of| (family, of)))
        .flat_map(|(family, of)| [(family, of, 1), (family, of, 2)])
    {
        let mut stage = Stage::new(TWIN);
        serve(&mut stage, DEFAULT, family, member);
        let doubles = [stage.pods[TWIN][0].clone(), stage.pods[OTHER_TWIN][0].clone()];
        let to = node_address(0, family);
        let asked = doubles
            .clone()
            .map(|pod| Conversation::of(&pod, Voice::Service(protocol), to, NODE_PORT).by(4999));
        let there = asked.clone().map(|asked| asked.must_open(stage.cluster()));
        let sources = [0, 1].map(|at| read(&there[at].frame).ports.0);
        assert_ne!(sources[0], sources[1], "{family:?} {protocol}");
        for round in [0, 1, 1, 0] {
            assert_eq!(read(&there[round].frame).source, node_address(0, family));
            asked[round].must_go_on(stage.cluster(), &there[round]);
        }
        stage.assert_all_is_well();
    }
}

/// A pod whose address is, in its own network, what the member's is in another: it is not the member itself.
#[test]
fn a_double_of_a_member_is_not_the_member() {
    for family in FAMILIES {
        let mut stage = Stage::new(TWIN);
        serve(&mut stage, OTHER_TWIN, family, 1);
        let [double, member] = [TWIN, OTHER_TWIN].map(|network| stage.pods[network][1].clone());
        assert_eq!(address(&double, family), address(&member, family));
        let asked = Conversation::of(
            &double,
            Voice::Service(ServiceProtocol::Tcp),
            node_address(0, family),
            NODE_PORT,
        );
        let there = asked.must_open(stage.cluster());
        assert!(is_at(&there, &member), "{there:?}");
        assert_eq!(read(&there.frame).source, node_address(0, family), "a stranger there, not a hairpin");
        // Nor is it let in as the member itself would be.
        hold(stage.cluster(), ingress(1, &[]));
        let network = stage.tenancy.networks[OTHER_TWIN].pods;
        let bound = vrouter_objects::PodBinding { vrf: network, ..binding(&member, &[1]) };
        publish(stage.cluster(), member.node, &[Object::PodBinding(bound)]);
        asked.must_be_cut(stage.cluster(), &there);
        assert!(!asked.by(4001).is_open(stage.cluster()), "{family:?}");
    }
}

/// Source ranges mean addresses outside. A tenant gives itself whatever addresses it likes, and has those of its node there.
#[test]
fn a_tenant_does_not_choose_its_way_into_source_ranges() {
    for family in FAMILIES {
        let mut stage = Stage::new(TWIN);
        let range = |text: &str| text.parse().expect("a literal prefix");
        let (tenants, nodes) = match family {
            Family::V4 => (range("10.50.0.0/24"), range("172.30.0.0/24")),
            Family::V6 => (range("fd00:50::/64"), range("fd00:172:30::/64")),
        };
        for (from_port, admitted, is_open) in [(4400, tenants, false), (4401, nodes, true)] {
            let guarded = FloatingIp {
                external: vec![ExternalAddress {
                    address: external(family),
                    kind: ExternalKind::LoadBalancer,
                }],
                source_ranges: vec![admitted],
                ..service(&stage, DEFAULT, family, &[1])
            };
            stage.cluster().put(&[Object::FloatingIp(guarded)]);
            let tcp = Voice::Service(ServiceProtocol::Tcp);
            let asked = Conversation::of(&stage.attacker(), tcp, external(family), 80).by(from_port);
            assert_eq!(asked.is_open(stage.cluster()), is_open, "{family:?}: {admitted} is admitted");
        }
    }
}

/// A client keeps its member, whoever else has its address.
#[test]
fn session_affinity_holds_for_each_of_two_doubles() {
    for family in FAMILIES {
        let mut stage = Stage::new(TWIN);
        let sticky = FloatingIp {
            affinity: AffinityTimeout::new(600).ok(),
            ..service(&stage, DEFAULT, family, &[0, 1, 2])
        };
        stage.cluster().put(&[Object::FloatingIp(sticky)]);
        let tcp = Voice::Service(ServiceProtocol::Tcp);
        let mut kept = [None; 2];
        for port in 4500..4530 {
            for (double, network) in [TWIN, OTHER_TWIN].into_iter().enumerate() {
                let pod = stage.pods[network][0].clone();
                let asked = Conversation::of(&pod, tcp, node_address(0, family), NODE_PORT).by(port);
                let there = asked.must_open(stage.cluster());
                let member = stage.pods[DEFAULT].iter().position(|pod| is_at(&there, pod)).expect("a member");
                assert_eq!(
                    *kept[double].get_or_insert(member),
                    member,
                    "{family:?}: it stays with its member"
                );
            }
        }
    }
}
