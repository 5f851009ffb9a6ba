//! The short way of established flows against the long way: on two equal nodes, the same frames come out the
//! same, and leave the same behind.

#[path = "../support/mod.rs"]
mod support;
mod throw;

use std::net::IpAddr;

use proptest::prelude::*;
use proptest::sample::select;
use support::{
    ACK, FAMILIES, FIN, NODE_PORT, RST, SYN, address, gateway, node_address, node_mac, outside, vtep,
};
use throw::{Throw, Way, any_throw};
use vrouter_forward::flow::FlowRecord;
use vrouter_forward::frame::{Egress, Frame, Ingress, Offload, PortId};
use vrouter_forward::sim::{Cluster, HOST_PORT, PodHandle, ServiceSpec};
use vrouter_forward::{Family, PacketCounters, PortCounters};
use vrouter_objects::{
    FloatingIp, Listener, ListenerId, MacAddress, MemberState, Object, RouterId, ServiceProtocol,
    TrafficPolicy, VirtualRouter, Vmi, VmiKind, Vni, VrfId,
};

/// How many services there are.
const SERVICES: u32 = 3;
/// Ports of the simulated node that anything may go to.
const PORTS: u16 = 4;

/// What happens to the tables between two bursts.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// They are published anew.
    Nothing,
    /// A service's first member is this, and another is active; `None`: it is gone.
    Member(u32, Option<MemberState>),
    /// A service's policy for who comes from outside.
    Policy(u32, TrafficPolicy),
    /// The node has so many of its addresses.
    OwnAddresses(usize),
    /// The other node has another MAC address.
    NodeMac(u32),
    /// The other node has another address.
    NodeAddress(usize),
    /// A pod is gone.
    Detach,
    /// It is there again, at another port.
    Attach,
}

#[derive(Debug, Clone)]
enum Step {
    Burst(Vec<Throw>),
    Change(Change),
    Wait { millis: u64 },
}

/// A node of two, and what is said between its pods, its services and the other node's pod.
struct Scene {
    cluster: Cluster,
    client: PodHandle,
    near: PodHandle,
    far: PodHandle,
    ways: Vec<Way>,
    /// The services' policies for who comes from outside.
    policies: [TrafficPolicy; SERVICES as usize],
}

/// Everything that can be seen of a node after a burst.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    sent: Vec<(Vec<u8>, Option<Egress>, Offload, Ingress)>,
    totals: PacketCounters,
    ports: Vec<PortCounters>,
    flows: Vec<FlowRecord>,
}

fn vip(family: Family, number: u32) -> IpAddr {
    let text = match family {
        Family::V4 => format!("10.96.0.{number}"),
        Family::V6 => format!("fd00:10:96::{number}"),
    };
    text.parse().expect("an address")
}

impl Scene {
    fn new() -> Self {
        let mut cluster = Cluster::with_slots(2, 2048);
        let (client, near, far) = (cluster.pod(0), cluster.pod(0), cluster.pod(1));
        let policies = [TrafficPolicy::Cluster; SERVICES as usize];
        let mut scene = Self { cluster, client, near, far, ways: Vec::new(), policies };
        scene.ways = FAMILIES.iter().flat_map(|family| scene.ways_of(*family)).collect();
        for number in 1..=SERVICES {
            scene.put_service(number, Some(MemberState::Ready));
        }
        scene.greet();
        scene
    }

    fn ways_of(&self, family: Family) -> Vec<Way> {
        let from_pod = |pod: &PodHandle, to, ports| {
            let (ingress, macs) = (Ingress::Port(pod.port), (pod.mac, MacAddress::GATEWAY));
            Way { family, ingress, macs, from: address(pod, family), to, ports }
        };
        let vni = Vni::new(1).expect("a small VNI");
        let from_far = |to, ports| {
            let (ingress, macs) = (Ingress::Tunnel { source: vtep(1), vni }, (node_mac(1), node_mac(0)));
            Way { family, ingress, macs, from: address(&self.far, family), to, ports }
        };
        let from_host = |from, to, ports| {
            let (ingress, macs) =
                (Ingress::Port(HOST_PORT), (MacAddress::local(0x48, 1), MacAddress::GATEWAY));
            Way { family, ingress, macs, from, to, ports }
        };
        let by_far = |from, to, ports| Way { from, ..from_far(to, ports) };
        let at = |pod: &PodHandle| address(pod, family);
        let (client, near, far) = (&self.client, &self.near, &self.far);
        let (node, outside) = (node_address(0, family), outside(family));
        vec![
            // Between pods of one node, and of two.
            from_pod(client, at(near), (5000, 9000)),
            from_pod(near, at(client), (9000, 5000)),
            from_pod(client, at(far), (5000, 9000)),
            from_far(at(client), (9000, 5000)),
            from_far(at(near), (6000, 9000)),
            from_pod(near, at(far), (9000, 6000)),
            // Through services: of a pod here, of the other node's, and of the client itself.
            from_pod(client, vip(family, 1), (4000, 80)),
            from_pod(near, at(client), (8080, 4000)),
            from_pod(client, vip(family, 2), (4000, 80)),
            from_far(at(client), (8080, 4000)),
            from_pod(client, vip(family, 3), (4000, 80)),
            from_pod(client, gateway(family), (8080, 4000)),
            // From the other node through a service to here.
            from_far(vip(family, 1), (7000, 80)),
            from_pod(near, at(far), (8080, 7000)),
            // From outside through node ports, to here and to the other node.
            from_host(outside, node, (7100, NODE_PORT + 1)),
            from_pod(near, outside, (8080, 7100)),
            from_host(outside, node, (7101, NODE_PORT + 2)),
            from_far(outside, (8080, 7101)),
            // The same by the other node to here, and directly.
            by_far(outside, at(near), (7102, 8080)),
            from_pod(near, outside, (8080, 7102)),
            from_host(outside, at(near), (7103, 9000)),
            from_pod(near, outside, (9000, 7103)),
            // Of the node itself, through services and to its own address.
            from_host(node, vip(family, 1), (7104, 80)),
            from_pod(near, node, (8080, 7104)),
            from_host(node, node, (7105, NODE_PORT + 2)),
            from_far(node, (8080, 7105)),
            from_host(outside, node, (7106, 22)),
            // To nodes and to the outside; answers from there are added once it is known to which port.
            from_pod(client, node, (7107, 22)),
            from_host(node, at(client), (22, 7107)),
            from_pod(client, node_address(1, family), (7108, 22)),
            from_pod(client, outside, (7109, 9000)),
            // Past the service from the port that a connection through it has: it gets another.
            from_pod(client, at(near), (4000, 8080)),
        ]
    }

    /// Opens a connection of each kind, as far as its packets are answered to its own ports.
    fn greet(&mut self) {
        let numbers = 0..self.ways.len();
        let all = |throw: fn(usize) -> Throw| numbers.clone().map(throw).collect::<Vec<_>>();
        let (opening, answer) = (|way| Throw::segment(way, SYN), |way| Throw::segment(way, SYN | ACK));
        for throws in [all(opening), all(Throw::datagram), all(answer), all(|way| Throw::segment(way, ACK))] {
            let frames = self.frames(&throws);
            self.cluster.nodes[0].process(self.cluster.now, frames);
        }
        self.add_answers_from_outside();
        let last = (numbers.end..self.ways.len()).flat_map(|way| [Throw::datagram(way), answer(way)]);
        let frames = self.frames(&last.collect::<Vec<_>>());
        self.cluster.nodes[0].process(self.cluster.now, frames);
    }

    /// Adds the ways of answers to what left in the node's name.
    fn add_answers_from_outside(&mut self) {
        let flows = self.cluster.nodes[0].flows(self.cluster.now);
        let left = flows.iter().filter(|flow| flow.key.source_port == 7109);
        let answers = left.map(|flow| Way {
            family: flow.key.source.family(),
            ingress: Ingress::Port(HOST_PORT),
            macs: (MacAddress::local(0x48, 1), MacAddress::GATEWAY),
            from: flow.key.destination.into(),
            to: flow.translated_source.into(),
            ports: (9000, flow.translated_source_port),
        });
        let answers: Vec<_> = answers.collect();
        assert_eq!(answers.len(), 4, "of both families and protocols");
        self.ways.extend(answers);
    }

    fn frames(&self, throws: &[Throw]) -> Vec<Frame> {
        throws.iter().map(|throw| throw.frame(&self.ways)).collect()
    }

    /// Puts the service of this number, for both protocols, with one member or none.
    fn put_service(&mut self, number: u32, state: Option<MemberState>) {
        for (offset, family) in (0..).zip(FAMILIES) {
            let member = self.members(family)[number as usize - 1];
            let id = number + SERVICES * offset;
            let spec = ServiceSpec::new(id, vip(family, number), ServiceProtocol::Tcp, 80, &[]);
            let members = state.map(|state| (1, member, 8080, state)).into_iter().collect();
            let mut service = FloatingIp {
                external_policy: self.policies[number as usize - 1],
                ..ServiceSpec { members, ..spec }.floating_ip()
            };
            service.listeners[0].node_port = Some(support::port(NODE_PORT + number as u16));
            let id = ListenerId::new(100 + id).expect("not zero");
            service.listeners.push(Listener {
                id,
                protocol: ServiceProtocol::Udp,
                ..service.listeners[0].clone()
            });
            self.publish(Object::FloatingIp(service));
        }
    }

    /// Whose the services are, in their order: a pod here, the other node's pod, and the client.
    fn members(&self, family: Family) -> [IpAddr; SERVICES as usize] {
        [&self.near, &self.far, &self.client].map(|pod| address(pod, family))
    }

    fn publish(&mut self, object: Object) {
        support::publish(&mut self.cluster, 0, &[object]);
    }

    fn change(&mut self, change: Change) {
        let far_node = |address, mac| {
            let id = RouterId::new(2).expect("not zero");
            Object::VirtualRouter(VirtualRouter::new(id, "n2", address, mac))
        };
        match change {
            Change::Nothing => self.cluster.nodes[0].publish(),
            Change::Member(number, state) => self.put_service(number, state),
            Change::Policy(number, policy) => {
                self.policies[number as usize - 1] = policy;
                self.put_service(number, Some(MemberState::Ready));
            }
            Change::OwnAddresses(count) => {
                let node = &mut self.cluster.nodes[0];
                let mut host = node.tables.host().expect("the cluster sets it").clone();
                host.addresses = FAMILIES[..count].iter().map(|family| node_address(0, *family)).collect();
                node.tables.set_host(host);
                node.publish();
            }
            Change::NodeMac(number) => self.publish(far_node(vtep(1), MacAddress::local(0x56, number))),
            Change::NodeAddress(number) => self.publish(far_node(vtep(number), node_mac(1))),
            Change::Detach => support::detach(&mut self.cluster, &self.near),
            Change::Attach => self.attach_near(),
        }
    }

    /// Attaches the near pod, if it is not, at another port than before.
    fn attach_near(&mut self) {
        support::detach(&mut self.cluster, &self.near);
        // Its frames come from where they did: now nobody's port, or its own again.
        self.near.port = PortId(if self.near.port.0 == 2 { 3 } else { 2 });
        let near = &self.near;
        let interface = Vmi {
            id: near.vmi,
            name: "default/near".to_owned(),
            kind: VmiKind::Pod,
            vrf: VrfId::new(1).expect("not zero"),
            mac: near.mac,
            addresses: vec![near.v4, near.v6],
            link_local: None,
            uid: String::new(),
            mtu: 1450,
        };
        self.cluster.nodes[0].attach(interface, near.port);
    }

    fn seen(&self, sent: Vec<Frame>) -> Seen {
        let node = &self.cluster.nodes[0];
        Seen {
            sent: sent
                .iter()
                .map(|frame| (frame.bytes().to_vec(), frame.egress, frame.offload, frame.ingress))
                .collect(),
            totals: node.shared.totals(),
            ports: (0..PORTS).map(PortId).chain([HOST_PORT]).map(|port| node.shared.port(port)).collect(),
            flows: node.flows(self.cluster.now),
        }
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    let state =
        select(vec![Some(MemberState::Ready), Some(MemberState::Serving), Some(MemberState::Leaving), None]);
    let policy = select(vec![TrafficPolicy::Cluster, TrafficPolicy::Local]);
    let change = prop_oneof![
        2 => Just(Change::Nothing),
        4 => (1..=SERVICES, state).prop_map(|(number, state)| Change::Member(number, state)),
        2 => (1..=SERVICES, policy).prop_map(|(number, policy)| Change::Policy(number, policy)),
        1 => (0..=FAMILIES.len()).prop_map(Change::OwnAddresses),
        1 => (2..4_u32).prop_map(Change::NodeMac),
        1 => (1..3_usize).prop_map(Change::NodeAddress),
        1 => Just(Change::Detach),
        1 => Just(Change::Attach),
    ];
    prop_oneof![
        4 => prop::collection::vec(any_throw(), 1..40).prop_map(Step::Burst),
        2 => change.prop_map(Step::Change),
        1 => (1..2000_u64).prop_map(|millis| Step::Wait { millis }),
    ]
}

fn compare(steps: &[Step]) -> Result<(), TestCaseError> {
    let (mut short, mut long) = (Scene::new(), Scene::new());
    for step in steps {
        match step {
            Step::Burst(throws) => {
                let (one, other) = (short.frames(throws), long.frames(throws));
                let sent = short.cluster.nodes[0].process(short.cluster.now, one);
                let expected = long.cluster.nodes[0].process_the_long_way(long.cluster.now, other);
                prop_assert_eq!(short.seen(sent), long.seen(expected), "after {:#?}", throws);
            }
            Step::Change(change) => {
                [&mut short, &mut long].into_iter().for_each(|scene| scene.change(*change))
            }
            Step::Wait { millis } => {
                for scene in [&mut short, &mut long] {
                    scene.cluster.now = scene.cluster.now.plus_millis(*millis);
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_short_way_does_what_the_long_way_does(steps in prop::collection::vec(any_step(), 1..12)) {
        compare(&steps)?;
    }
}

/// All frames' flows are looked up before the first frame is sent on, which may end them.
#[test]
fn a_flow_that_a_packet_of_the_same_burst_ends_is_not_used_by_the_next() {
    for way in 0..Scene::new().ways.len() {
        let closing = [FIN | ACK, ACK].map(|flags| Throw::segment(way, flags));
        let again = [SYN, ACK, SYN, ACK].map(|flags| Throw::segment(way, flags));
        let reset = [RST, ACK, SYN, ACK].map(|flags| Throw::segment(way, flags));
        let steps = [closing.to_vec(), reset.to_vec(), again.to_vec()].map(Step::Burst);
        compare(&steps).expect("the two ways do the same");
    }
    for number in 1..=SERVICES {
        let all =
            (0..Scene::new().ways.len()).flat_map(|way| vec![Throw::segment(way, ACK), Throw::datagram(way)]);
        let burst = Step::Burst(all.flat_map(|throw| [throw.clone(), throw]).collect());
        let gone = Step::Change(Change::Member(number, None));
        compare(&[burst.clone(), gone, burst]).expect("the two ways do the same");
    }
}
