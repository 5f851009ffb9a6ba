//! Packets as if in the middle of a connection, to get where policy lets no connection begin.

use vrouter_forward::Family;
use vrouter_forward::sim::{Cluster, Delivery, PacketBuilder, PodHandle};
use vrouter_objects::{DropReason, Peers, Policy, Ports, ServiceProtocol};

use crate::support::{
    ACK, Conversation, FAMILIES, FIN, MEMBER_PORT, RST, SYN, VOICES, Voice, address, allow, dropped, egress,
    govern, in_set, ingress, is_at, one_port, peer_addresses, peer_set, read, remove_object, select, vrf,
};

const PSH: u8 = 8;
const URG: u8 = 32;
const TCP: Voice = Voice::Service(ServiceProtocol::Tcp);

/// Everything that begins no connection.
const MIDSTREAM: [u8; 9] =
    [ACK, ACK | PSH, ACK | FIN, ACK | RST, RST, SYN | ACK, FIN, 0, ACK | PSH | FIN | URG];

struct Scene {
    cluster: Cluster,
    attacker: PodHandle,
    victim: PodHandle,
    family: Family,
    label: String,
}

fn scenes() -> impl Iterator<Item = Scene> {
    FAMILIES.into_iter().flat_map(|family| {
        [(0, 0), (0, 1), (1, 0)].map(|(from, to)| {
            let mut cluster = Cluster::new(2);
            let (attacker, victim) = (cluster.pod(from), cluster.pod(to));
            let label = format!("{family:?} from node {from} to {to}");
            Scene { cluster, attacker, victim, family, label }
        })
    })
}

impl Scene {
    fn attack(&mut self, ports: (u16, u16), flags: u8) -> Vec<Delivery> {
        let (from, to) = (address(&self.attacker, self.family), address(&self.victim, self.family));
        let frame = PacketBuilder::new(from, to).tcp(ports.0, ports.1, flags).payload(b"data").build();
        self.cluster.send(&self.attacker.clone(), &frame)
    }

    /// Expects that the victim got nothing. The attacker may have been reset.
    #[track_caller]
    fn assert_in_vain(&mut self, ports: (u16, u16), flags: u8) {
        let deliveries = self.attack(ports, flags);
        for delivery in &deliveries {
            let got = read(&delivery.frame);
            assert!(is_at(delivery, &self.attacker), "{} {flags:#04x}: {delivery:?}", self.label);
            assert!(got.tcp_flags & RST != 0, "{} {flags:#04x}: {got:?}", self.label);
        }
    }

    /// With every set of control bits there is.
    fn assert_all_in_vain(&mut self, ports: (u16, u16)) {
        (0..=u8::MAX).for_each(|flags| self.assert_in_vain(ports, flags));
    }

    fn answer(&mut self, ports: (u16, u16), flags: u8) -> Vec<Delivery> {
        let (from, to) = (address(&self.victim, self.family), address(&self.attacker, self.family));
        let frame = PacketBuilder::new(from, to).tcp(ports.1, ports.0, flags).payload(b"data").build();
        self.cluster.send(&self.victim.clone(), &frame)
    }
}

#[test]
fn no_control_bits_get_past_a_policy_that_lets_nobody_in() {
    for mut scene in scenes() {
        let victim = scene.victim.clone();
        govern(&mut scene.cluster, &victim, ingress(1, &[]));
        scene.assert_all_in_vain((7000, MEMBER_PORT));
    }
}

/// On the attacker's own side, as well.
#[test]
fn no_control_bits_get_past_a_policy_that_lets_nothing_out() {
    for mut scene in scenes() {
        let attacker = scene.attacker.clone();
        govern(&mut scene.cluster, &attacker, egress(1, &[]));
        scene.assert_all_in_vain((7000, MEMBER_PORT));
    }
}

/// Where policy allows the port, the middle of a connection that nobody knows is reset, since nobody can tell who began it.
#[test]
fn the_middle_of_an_unknown_connection_is_reset_where_a_policy_governs() {
    for mut scene in scenes() {
        let victim = scene.victim.clone();
        let rules = [allow(Peers::Any, one_port(ServiceProtocol::Tcp, MEMBER_PORT))];
        govern(&mut scene.cluster, &victim, ingress(1, &rules));
        for (number, flags) in (0..).zip(MIDSTREAM) {
            scene.assert_in_vain((7000 + number, MEMBER_PORT), flags);
        }
        let deliveries = scene.attack((7100, MEMBER_PORT), ACK);
        assert!(deliveries.len() == 1 && is_at(&deliveries[0], &scene.attacker), "{}: told so", scene.label);
        assert!(dropped(&scene.cluster, victim.node, DropReason::NoFlow) > 0, "{}", scene.label);
        // And what begins properly goes on.
        let asked =
            Conversation::of(&scene.attacker, TCP, address(&victim, scene.family), MEMBER_PORT).by(7200);
        let there = asked.must_open(&mut scene.cluster);
        asked.must_go_on(&mut scene.cluster, &there);
    }
}

/// A server that may answer and not ask passes nothing off as answers.
#[test]
fn what_looks_like_an_answer_is_none_where_nobody_asked() {
    for mut scene in scenes() {
        let attacker = scene.attacker.clone();
        let rules = [allow(Peers::Any, one_port(ServiceProtocol::Tcp, MEMBER_PORT))];
        let policy = Policy { egress: Some(Vec::new()), ..ingress(1, &rules) };
        govern(&mut scene.cluster, &attacker, policy);
        scene.assert_all_in_vain((MEMBER_PORT, 7000));
        for voice in VOICES {
            let begun = Conversation::of(&attacker, voice, address(&scene.victim, scene.family), 7000)
                .by(MEMBER_PORT);
            assert_eq!(begun.say(&mut scene.cluster, 0x10), [], "{} {voice:?}", scene.label);
        }
    }
}

/// A peer that is removed: neither its own packets nor the server's open the way again.
#[test]
fn the_servers_own_packets_do_not_let_a_removed_peer_back_in() {
    for mut scene in scenes() {
        let (attacker, victim) = (scene.attacker.clone(), scene.victim.clone());
        scene.cluster.put(&peer_set(1, &[&attacker]));
        govern(&mut scene.cluster, &victim, ingress(1, &[allow(in_set(1), Ports::Any)]));
        let asked = Conversation::of(&attacker, TCP, address(&victim, scene.family), MEMBER_PORT);
        let there = asked.must_open(&mut scene.cluster);
        for address in peer_addresses(1, vrf(1), &attacker) {
            remove_object(&mut scene.cluster, &address);
        }
        let ports = (4000, MEMBER_PORT);
        for flags in MIDSTREAM {
            let got = scene.answer(ports, flags);
            assert!(
                got.iter().all(|delivery| !is_at(delivery, &attacker)),
                "{} {flags:#04x}: {got:?}",
                scene.label
            );
            scene.assert_in_vain(ports, ACK);
            scene.assert_in_vain(ports, SYN);
            scene.assert_in_vain(ports, flags);
        }
        asked.must_be_cut(&mut scene.cluster, &there);
        // Nor does it help to wait until the connection is forgotten.
        scene.cluster.now = scene.cluster.now.plus_millis(25 * 3_600_000);
        let now = scene.cluster.now;
        scene.cluster.nodes.iter_mut().for_each(|node| node.age(now));
        for flags in MIDSTREAM {
            let got = scene.answer(ports, flags);
            assert!(
                got.iter().all(|delivery| !is_at(delivery, &attacker)),
                "{} {flags:#04x}: {got:?}",
                scene.label
            );
            scene.assert_in_vain(ports, ACK);
            scene.assert_in_vain(ports, ACK | PSH);
        }
    }
}

/// The same where it is the client's policy that changed.
#[test]
fn the_servers_own_packets_do_not_let_a_forbidden_client_out() {
    for mut scene in scenes() {
        let attacker = scene.attacker.clone();
        let asked = Conversation::of(&attacker, TCP, address(&scene.victim, scene.family), MEMBER_PORT);
        let there = asked.must_open(&mut scene.cluster);
        govern(&mut scene.cluster, &attacker, egress(1, &[]));
        for flags in MIDSTREAM {
            let got = scene.answer((4000, MEMBER_PORT), flags);
            assert!(got.iter().all(|delivery| !is_at(delivery, &attacker)), "{} {flags:#04x}", scene.label);
            scene.assert_in_vain((4000, MEMBER_PORT), ACK);
            scene.assert_in_vain((4000, MEMBER_PORT), flags);
        }
        asked.must_be_cut(&mut scene.cluster, &there);
        select(&mut scene.cluster, &attacker, &[]);
        asked.by(4001).must_open(&mut scene.cluster);
    }
}

/// A ping that stands lets the one who answers it ask nothing, not even by the same number.
#[test]
fn a_ping_is_not_answered_by_another_question() {
    for mut scene in scenes() {
        let attacker = scene.attacker.clone();
        let (own, other) = (address(&attacker, scene.family), address(&scene.victim, scene.family));
        let policy = Policy { ingress: Some(Vec::new()), ..egress(1, &[allow(Peers::Any, Ports::Any)]) };
        govern(&mut scene.cluster, &attacker, policy);
        let asked = Conversation::of(&attacker, Voice::Ping, other, MEMBER_PORT);
        let there = asked.must_open(&mut scene.cluster);
        let question = PacketBuilder::new(other, own).echo_request(4000, 1).payload(b"ping").build();
        let got = scene.cluster.send(&scene.victim.clone(), &question);
        assert!(got.iter().all(|delivery| !is_at(delivery, &attacker)), "{}: {got:?}", scene.label);
        asked.must_go_on(&mut scene.cluster, &there);
    }
}
