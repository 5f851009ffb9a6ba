//! Many connections while services, members and pods come and go, against a reference model of what
//! established flows are promised.

mod model;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{Connection, Expected, ExpectedAnswer, Model, Request, Service};
use proptest::prelude::*;
use support::{ACK, Client, ClientKind, Frontend, RST, SYN, address, only, packet};
use vrouter_forward::Family;
use vrouter_forward::sim::{Cluster, Delivery, HOST_PORT, PodHandle, ServiceSpec};
use vrouter_objects::{
    MemberState, NextHop, Object, Route, RouteKey, RouterId, ServiceProtocol, TrafficPolicy, VrfId,
};

const PODS: usize = 4;
const NODES: usize = 3;
const CONNECTIONS: u16 = 6;
const MEMBER_PORT: u16 = 8080;
const SERVICE_PORT: u16 = 80;

/// Each is reached by one frontend, from one kind of client: one whose policy binds it.
const SERVICES: [(ServiceProtocol, Family, Frontend, ClientKind); 8] = [
    (ServiceProtocol::Tcp, Family::V4, Frontend::ClusterIp, ClientKind::Pod),
    (ServiceProtocol::Tcp, Family::V6, Frontend::ClusterIp, ClientKind::Pod),
    (ServiceProtocol::Udp, Family::V4, Frontend::ClusterIp, ClientKind::Pod),
    (ServiceProtocol::Sctp, Family::V6, Frontend::ClusterIp, ClientKind::Pod),
    (ServiceProtocol::Udp, Family::V6, Frontend::ClusterIp, ClientKind::Node),
    (ServiceProtocol::Tcp, Family::V4, Frontend::NodePort, ClientKind::Outside),
    (ServiceProtocol::Tcp, Family::V6, Frontend::NodePort, ClientKind::Outside),
    (ServiceProtocol::Udp, Family::V4, Frontend::NodePort, ClientKind::Outside),
];

/// One thing that happens.
#[derive(Debug, Clone)]
enum Step {
    Request(Connection, Request),
    Answer(Connection),
    /// The service has these members now.
    Members(usize, Vec<Option<MemberState>>),
    /// The service's policies are this now.
    Policy(usize, TrafficPolicy),
    Delete(usize),
    /// A pod is on another node now, with the addresses it had.
    Move(usize, usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    let service = 0..SERVICES.len();
    let connection =
        (service.clone(), 0..CONNECTIONS).prop_map(|(service, number)| Connection { service, number });
    let request = prop_oneof![2 => Just(Request::Data), 1 => Just(Request::Opening)];
    let state = prop_oneof![
        3 => Just(Some(MemberState::Ready)),
        1 => Just(Some(MemberState::Serving)),
        1 => Just(Some(MemberState::Leaving)),
        2 => Just(None),
    ];
    let policy = prop_oneof![Just(TrafficPolicy::Cluster), Just(TrafficPolicy::Local)];
    prop_oneof![
        12 => (connection.clone(), request).prop_map(|(connection, what)| Step::Request(connection, what)),
        6 => connection.prop_map(Step::Answer),
        3 => (service.clone(), prop::collection::vec(state, PODS))
            .prop_map(|(at, members)| Step::Members(at, members)),
        1 => (service.clone(), policy).prop_map(|(at, policy)| Step::Policy(at, policy)),
        1 => service.prop_map(Step::Delete),
        1 => (0..PODS, 0..NODES).prop_map(|(pod, node)| Step::Move(pod, node)),
    ]
}

/// The cluster under test beside the model.
struct World {
    cluster: Cluster,
    /// One for each service.
    clients: Vec<Client>,
    pods: Vec<PodHandle>,
    model: Model,
    /// Connections whose member is at another node since the client last sent: that node knows them once it does.
    unsettled: BTreeSet<Connection>,
}

impl World {
    fn new() -> Self {
        let mut cluster = Cluster::with_slots(NODES, 512);
        let pod = Client::Pod(cluster.pod(0));
        let clients = SERVICES.map(|(.., kind)| match kind {
            ClientKind::Pod => pod.clone(),
            ClientKind::Node => Client::Node(0),
            ClientKind::Outside => Client::Outside(0),
        });
        let pods = (0..PODS).map(|number| cluster.pod(number % NODES)).collect();
        let services = SERVICES.map(|(protocol, ..)| Service {
            protocol,
            exists: false,
            members: [].into(),
            policy: TrafficPolicy::Cluster,
        });
        let model = Model::new(services.to_vec());
        let mut world = Self { cluster, clients: clients.to_vec(), pods, model, unsettled: BTreeSet::new() };
        world.find_near();
        world
    }

    /// Tells the model which pods are on the clients' node.
    fn find_near(&mut self) {
        let near = self.pods.iter().enumerate().filter(|(_, pod)| pod.node == 0);
        self.model.near = near.map(|(number, _)| number).collect();
    }

    /// Where a service's client sends to.
    fn place(service: usize) -> (IpAddr, u16) {
        match SERVICES[service] {
            (_, _, Frontend::ClusterIp, _) => (Self::vip(service), SERVICE_PORT),
            (_, family, ..) => (support::node_address(0, family), Self::node_port(service)),
        }
    }

    fn node_port(service: usize) -> u16 {
        30_000 + service as u16
    }

    fn vip(service: usize) -> IpAddr {
        let host = service as u8 + 1;
        match SERVICES[service].1 {
            Family::V4 => IpAddr::from([10, 96, 0, host]),
            Family::V6 => IpAddr::from([0xfd00, 0x10, 0x96, 0, 0, 0, 0, u16::from(host)]),
        }
    }

    fn object(&self, service: usize) -> Object {
        let (protocol, family, ..) = SERVICES[service];
        let known = &self.model.services[service];
        let member = |(pod, state): (&usize, &MemberState)| {
            (*pod as u32 + 1, address(&self.pods[*pod], family), MEMBER_PORT, *state)
        };
        let spec = ServiceSpec {
            number: service as u32 + 1,
            address: Self::vip(service),
            protocol,
            port: SERVICE_PORT,
            members: known.members.iter().map(member).collect(),
        };
        let mut object = spec.floating_ip();
        (object.internal_policy, object.external_policy) = (known.policy, known.policy);
        object.listeners[0].node_port = Some(support::port(Self::node_port(service)));
        for (member, pod) in object.listeners[0].members.iter_mut().zip(known.members.keys()) {
            member.router = RouterId::new(self.pods[*pod].node as u32 + 1).ok();
        }
        Object::FloatingIp(object)
    }

    /// Puts a service as the model knows it.
    fn put(&mut self, service: usize) {
        if self.model.services[service].exists {
            let object = self.object(service);
            self.cluster.put(&[object]);
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        // Enough time for another answer to be allowed.
        self.cluster.now = self.cluster.now.plus_millis(100);
        match step {
            Step::Request(connection, request) => self.request(*connection, *request),
            Step::Answer(connection) => self.answer(*connection),
            Step::Members(service, members) => {
                let present = members.iter().enumerate().filter_map(|(pod, state)| Some((pod, (*state)?)));
                let known = &mut self.model.services[*service];
                (known.exists, known.members) = (true, present.collect());
                self.put(*service);
                Ok(())
            }
            Step::Policy(service, policy) => {
                self.model.services[*service].policy = *policy;
                self.put(*service);
                Ok(())
            }
            Step::Delete(service) => {
                let object = self.object(*service);
                self.model.services[*service].exists = false;
                support::remove_object(&mut self.cluster, &object);
                Ok(())
            }
            Step::Move(pod, node) => {
                self.move_pod(*pod, *node);
                Ok(())
            }
        }
    }

    fn move_pod(&mut self, number: usize, node: usize) {
        let pod = self.pods[number].clone();
        support::detach(&mut self.cluster, &pod);
        self.pods[number] = self.cluster.pod_at(node, pod.v4, pod.v6);
        let next_hop = NextHop::Tunnel(RouterId::new(node as u32 + 1).expect("from 1"));
        let route = |address: IpAddr| {
            let key = RouteKey { vrf: VrfId::new(1).expect("from 1"), prefix: address.into() };
            Object::Route(Route { key, next_hop: next_hop.clone() })
        };
        self.cluster.put(&[route(pod.v4), route(pod.v6)]);
        self.find_near();
        (0..SERVICES.len()).for_each(|service| self.put(service));
        self.unsettled.extend(self.model.connections_of(number));
    }

    fn client_port(connection: Connection) -> u16 {
        10_000 + connection.service as u16 * 100 + connection.number
    }

    /// The pod at whose port a frame came out.
    fn reached(&self, deliveries: &[Delivery]) -> Option<usize> {
        let [delivery] = deliveries else { return None };
        self.pods.iter().position(|pod| (pod.node, pod.port) == (delivery.node, delivery.port))
    }

    fn request(&mut self, connection: Connection, request: Request) -> Result<(), TestCaseError> {
        let (protocol, family, frontend, _) = SERVICES[connection.service];
        let flags = if request == Request::Opening { SYN } else { ACK };
        let (to, to_port) = Self::place(connection.service);
        let ports = (Self::client_port(connection), to_port);
        let client = self.clients[connection.service].clone();
        let frame = packet(client.address(family), to, protocol, ports, flags);
        let deliveries = client.send(&mut self.cluster, &frame);
        self.unsettled.remove(&connection);
        let reached = self.reached(&deliveries);
        match self.model.request(connection, request) {
            Expected::Member(member) => prop_assert_eq!(reached, Some(member), "stays; {:?}", deliveries),
            Expected::OneOf(members) => {
                prop_assert!(
                    reached.is_some_and(|reached| members.contains(&reached)),
                    "{:?} of {:?}; {:?}",
                    reached,
                    members,
                    deliveries
                );
                self.model.chose(connection, reached.expect("just seen"));
            }
            // Without the service, the port is the node's own affair.
            Expected::Refused
                if frontend == Frontend::NodePort && !self.model.services[connection.service].exists =>
            {
                let told = only(&deliveries);
                prop_assert!(told.ports == ports && deliveries[0].port == HOST_PORT, "{:?}", told);
            }
            Expected::Refused => {
                let told = only(&deliveries);
                let is_refusal = if protocol == ServiceProtocol::Tcp {
                    told.tcp_flags & RST != 0
                } else {
                    told.protocol != 17
                };
                prop_assert!(is_refusal && client.is_at(&deliveries[0]), "{:?}", told);
            }
            Expected::Dropped => prop_assert_eq!(&deliveries[..], &[][..], "policy says nothing"),
        }
        if let (Some(member), Some(delivery)) = (reached, deliveries.first()) {
            let got = support::read(&delivery.frame);
            prop_assert_eq!(got.destination, address(&self.pods[member], family));
            prop_assert_eq!(got.ports, (ports.0, MEMBER_PORT));
        }
        Ok(())
    }

    fn answer(&mut self, connection: Connection) -> Result<(), TestCaseError> {
        let Some(member) = self.model.member(connection) else { return Ok(()) };
        let (protocol, family, _, kind) = SERVICES[connection.service];
        if kind != ClientKind::Pod && self.unsettled.contains(&connection) {
            return Ok(());
        }
        let (server, client) = (self.pods[member].clone(), self.clients[connection.service].clone());
        let ports = (MEMBER_PORT, Self::client_port(connection));
        let frame = packet(address(&server, family), client.address(family), protocol, ports, ACK);
        let deliveries = self.cluster.send(&server, &frame);
        match (self.model.answer(connection), &deliveries[..]) {
            (ExpectedAnswer::Translated | ExpectedAnswer::Either, [delivery]) => {
                let got = support::read(&delivery.frame);
                prop_assert!(client.is_at(delivery), "{:?}", delivery);
                let (from, from_port) = Self::place(connection.service);
                prop_assert_eq!((got.source, got.ports), (from, (from_port, ports.1)));
            }
            (ExpectedAnswer::Either, []) => self.model.forget(connection),
            (ExpectedAnswer::Nothing, []) => {}
            (expected, _) => prop_assert!(false, "answer: {:?}, not {:?}", expected, deliveries),
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn established_flows_keep_what_they_are_promised(steps in prop::collection::vec(any_step(), 1..150)) {
        let mut world = World::new();
        for (number, step) in steps.iter().enumerate() {
            world.step(step).map_err(|error| {
                let flows = world.cluster.nodes[0].flows_text(world.cluster.now);
                TestCaseError::fail(format!("step {number}, {step:?}: {error}\n{:?}\n{flows}", world.model))
            })?;
        }
    }
}
