//! Whatever changes between two packets: what a node sends is to whoever has the address now, and what is no answer to that
//! reaches nobody.

use std::net::IpAddr;

use proptest::prelude::*;
use vrouter_forward::Family;
use vrouter_forward::sim::{Delivery, PodHandle};
use vrouter_objects::{LinkLocal, Object, Vmi};

use super::support::{
    self, ACK, Client, Conversation, FAMILIES, MEMBER_PORT, SYN, VOICES, address, is_at, nth, prefixes, read,
    vrf,
};
use super::world::{NETWORK, PREFIXES, Scene, interface, link_local_network};

/// Pods of the first node, and the numbers that their link-local addresses are out of.
const PODS: usize = 3;
const NUMBERS: u16 = 4;
/// The addresses that the first node may have: its own, and those of a node that is not there.
const NODE_NUMBERS: [usize; 2] = [0, 9];

/// One thing that happens.
#[derive(Debug, Clone)]
enum Step {
    /// The node speaks, or its speech goes on.
    Say {
        number: u16,
        conversation: usize,
        flags: u8,
    },
    /// Whoever was spoken to last answers.
    Answer,
    /// A pod is called by this number now, or by none; where another is, nothing happens.
    Name(usize, Option<u16>),
    Detach(usize),
    /// The network of link-local addresses is there, or is not.
    Network(bool),
    Renumber(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    let say = (0..NUMBERS, 0..2 * VOICES.len(), prop_oneof![Just(SYN), Just(ACK)]);
    prop_oneof![
        12 => say.prop_map(|(number, conversation, flags)| Step::Say { number, conversation, flags }),
        8 => Just(Step::Answer),
        4 => (0..PODS, prop::option::weighted(0.8, 0..NUMBERS)).prop_map(|(pod, name)| Step::Name(pod, name)),
        1 => (0..PODS).prop_map(Step::Detach),
        2 => any::<bool>().prop_map(Step::Network),
        1 => prop::sample::select(&NODE_NUMBERS).prop_map(Step::Renumber),
    ]
}

/// The first node beside what is true of it.
struct World {
    scene: Scene,
    interfaces: [Vmi; PODS],
    /// The pods that are attached, with the numbers they are called by.
    names: [Option<Option<u16>>; PODS],
    has_network: bool,
    node_number: usize,
    last: Option<Said>,
}

/// What was said and got through.
struct Said {
    asked: Conversation,
    pod: usize,
    number: u16,
    node_number: usize,
    delivery: Delivery,
    /// Whether nothing has changed since.
    is_news: bool,
}

impl World {
    fn new() -> Self {
        let scene = Scene::new();
        let node = &scene.tenancy.cluster.nodes[0];
        let interfaces = [0, 1, 2].map(|pod| interface(node, &scene.pods[pod]));
        let mut world = Self {
            scene,
            interfaces,
            names: [Some(None); PODS],
            has_network: true,
            node_number: 0,
            last: None,
        };
        (0..PODS).for_each(|pod| world.name(pod, None));
        world
    }

    fn called(number: u16) -> [IpAddr; 2] {
        prefixes(PREFIXES).map(|prefix| nth(prefix, number + 20))
    }

    fn take(&mut self, step: &Step) {
        let is_change = !matches!(step, Step::Say { .. } | Step::Answer);
        self.last.iter_mut().for_each(|last| last.is_news &= !is_change);
        match *step {
            Step::Say { number, conversation, flags } => self.say(number, conversation, flags),
            Step::Answer => self.answer(),
            Step::Name(pod, name) => self.name(pod, name),
            Step::Detach(pod) => {
                let handle = self.pod(pod);
                support::detach(self.scene.cluster(), &handle);
                self.names[pod] = None;
            }
            Step::Network(there) => self.set_network(there),
            Step::Renumber(number) => {
                self.scene.renumber_node(number);
                self.node_number = number;
            }
        }
    }

    fn pod(&self, pod: usize) -> PodHandle {
        self.scene.pods[pod].clone()
    }

    fn name(&mut self, pod: usize, name: Option<u16>) {
        let is_taken =
            (0..PODS).any(|other| other != pod && name.is_some() && self.names[other] == Some(name));
        if is_taken {
            return;
        }
        let addresses = name.map_or(Vec::new(), |number| Self::called(number).to_vec());
        let link_local = Some(LinkLocal { vrf: vrf(NETWORK), addresses });
        let port = self.pod(pod).port;
        self.scene.cluster().nodes[0].attach(Vmi { link_local, ..self.interfaces[pod].clone() }, port);
        self.names[pod] = Some(name);
    }

    fn set_network(&mut self, there: bool) {
        let objects = link_local_network();
        if there {
            self.scene.cluster().put(&objects);
        } else {
            objects
                .iter()
                .rev()
                .for_each(|object: &Object| support::remove_object(self.scene.cluster(), object));
        }
        self.has_network = there;
    }

    /// Who is called so.
    fn meant(&self, number: u16) -> Option<usize> {
        self.names.iter().position(|name| *name == Some(Some(number))).filter(|_| self.has_network)
    }

    fn say(&mut self, number: u16, conversation: usize, flags: u8) {
        let (voice, family) = (VOICES[conversation / 2], FAMILIES[conversation % 2]);
        let to = Self::called(number)[usize::from(family == Family::V6)];
        let client = Client::Node(self.node_number);
        let asked = Conversation::new(client, voice, to, MEMBER_PORT);
        // By whatever addresses, it is the first node.
        let from = asked.client.address(family);
        let frame = voice.frame((from, asked.from_port), (to, MEMBER_PORT), flags);
        let delivered = self.scene.cluster().send_from_host(0, &frame);
        let pods = (0..self.scene.pods.len())
            .filter(|pod| delivered.iter().any(|delivery| is_at(delivery, &self.scene.pods[*pod])));
        assert_eq!(pods.collect::<Vec<_>>(), Vec::from_iter(self.meant(number)), "{asked:?}: {delivered:?}");
        let Some(pod) = self.meant(number) else { return };
        let [delivery] = &delivered[..] else { panic!("{asked:?}: {delivered:?}") };
        let got = read(&delivery.frame);
        let expected = (self.scene.gateway(pod, family), address(&self.scene.pods[pod], family));
        assert_eq!((got.source, got.destination), expected, "{asked:?}");
        let (node_number, delivery) = (self.node_number, delivery.clone());
        self.last = Some(Said { asked, pod, number, node_number, delivery, is_news: true });
    }

    fn answer(&mut self) {
        let Some(Said { asked, pod, number, node_number, delivery, is_news }) = &self.last else { return };
        if self.names[*pod].is_none() {
            return;
        }
        let answer = asked.voice.answer(&read(&delivery.frame), ACK);
        let back = support::send_from(&mut self.scene.tenancy.cluster, delivery, &answer);
        let told = self.pod(*pod);
        let heard: Vec<_> = back.iter().filter(|delivery| !is_at(delivery, &told)).collect();
        let is_wanted = self.meant(*number) == Some(*pod) && self.node_number == *node_number;
        match heard[..] {
            [back] if is_wanted => {
                let got = read(&back.frame);
                let from = asked.client.address(if asked.to.is_ipv4() { Family::V4 } else { Family::V6 });
                assert!(support::is_at_host(back, 0), "{asked:?}: {back:?}");
                assert_eq!((got.source, got.destination), (asked.to, from), "{asked:?}");
                assert_eq!(asked.voice.answered_port(&got), asked.from_port, "{asked:?}");
            }
            // What it is an answer to may have ended, and the node has not spoken since.
            [] if !is_news => {}
            _ => panic!("{asked:?}: {heard:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn what_a_node_says_is_for_whoever_has_the_address_now(steps in prop::collection::vec(any_step(), 1..80)) {
        let mut world = World::new();
        steps.iter().for_each(|step| world.take(step));
    }
}
