//! A cluster with one service at a time: its addresses, and its counters.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use vrouter_forward::Family;
use vrouter_forward::flow::FlowRecord;
use vrouter_forward::sim::{Cluster, Delivery, HOST_PORT, PodHandle, Tunnelled, node_addresses};
use vrouter_objects::{
    AffinityTimeout, DropReason, ExternalAddress, ExternalKind, FloatingIp, FloatingIpId, IpNet, Listener,
    ListenerId, Member as ObjectMember, MemberId, Object, RouterId, ServiceProtocol,
};

use crate::case::{Affinity, Client, Frontend, Member, NODES, Place, Ranges, Service};
use crate::expectation::Exit;
use crate::ids::{FABRIC, POD_NETWORK, SERVICE_NETWORK, id, port_of, vrf};
use crate::journey::{Checked, REFUSED, same};
use crate::kernel_node;
use crate::support::{address, drops, remove_object};

/// The port of every service's cluster address and external addresses.
const SERVICE_PORT: u16 = 80;
/// Clients' ports begin here, anew with every service.
const FIRST_CLIENT_PORT: u16 = 10_000;
/// Long enough for every flow to be forgotten.
const PAUSE_MILLIS: u64 = 25 * 3_600_000;

/// An address and a port.
pub type Endpoint = (IpAddr, u16);

/// Three nodes with pods, whoever is outside, and the service that is being tried.
pub struct World {
    pub protocol: ServiceProtocol,
    pub family: Family,
    cluster: Cluster,
    clients: Vec<PodHandle>,
    servers: Vec<PodHandle>,
    /// Numbers the services: every one has ids and addresses of its own.
    number: u32,
    service: Option<Object>,
    next_port: u16,
    /// Whom the service keeps a client with, on the node where it enters.
    kept: BTreeMap<(usize, IpAddr), Place>,
}

/// The member that a client is to stay with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// The service has no affinity.
    Nobody,
    /// The client is new, and stays with whomever it gets.
    First,
    /// It has this one, and stays with it if it can.
    With(Place),
}

impl World {
    pub fn new(protocol: ServiceProtocol, family: Family) -> Self {
        let mut cluster = Cluster::with_slots(NODES, 16_384);
        let mut pods = || (0..NODES).map(|node| cluster.pod(node)).collect();
        let (clients, servers) = (pods(), pods());
        kernel_node::join(&mut cluster);
        Self {
            protocol,
            family,
            cluster,
            clients,
            servers,
            number: 0,
            service: None,
            next_port: FIRST_CLIENT_PORT,
            kept: BTreeMap::new(),
        }
    }

    /// Puts a service on every node.
    pub fn install(&mut self, service: &Service) {
        self.number += 1;
        let object = Object::FloatingIp(self.floating_ip(service));
        self.cluster.put(std::slice::from_ref(&object));
        self.service = Some(object);
    }

    /// Takes it away again and lets its flows be forgotten.
    pub fn retire(&mut self) {
        if let Some(service) = self.service.take() {
            remove_object(&mut self.cluster, &service);
        }
        self.cluster.now = self.cluster.now.plus_millis(PAUSE_MILLIS);
        for node in &mut self.cluster.nodes {
            node.age(self.cluster.now);
            assert_eq!(node.flows(self.cluster.now), [], "every flow is over");
        }
        self.next_port = FIRST_CLIENT_PORT;
        self.kept.clear();
    }

    fn floating_ip(&self, service: &Service) -> FloatingIp {
        let nodes = (0..NODES).map(|node| (self.node_address(node), ExternalKind::ExternalIp));
        let own = [
            (self.frontend(Frontend::ExternalIp, 0).0, ExternalKind::ExternalIp),
            (self.frontend(Frontend::LoadBalancerIp, 0).0, ExternalKind::LoadBalancer),
        ];
        let external = own.into_iter().chain(nodes);
        let (id, name) = (id(FloatingIpId::new, self.number), format!("default/service-{}", self.number));
        let address = self.frontend(Frontend::ClusterIp, 0).0;
        FloatingIp {
            external: external.map(|(address, kind)| ExternalAddress { address, kind }).collect(),
            internal_policy: service.internal_policy,
            external_policy: service.external_policy,
            affinity: match service.affinity {
                Affinity::None => None,
                Affinity::ClientIp => AffinityTimeout::new(AffinityTimeout::DEFAULT_SECONDS).ok(),
            },
            source_ranges: source_ranges(service.ranges),
            listeners: vec![self.listener(service)],
            ..FloatingIp::new(id, &name, vrf(SERVICE_NETWORK), address, vrf(FABRIC))
        }
    }

    fn listener(&self, service: &Service) -> Listener {
        let member = |(index, member): (u32, &Member)| {
            let (network, node) = match member.place {
                Place::Pod(node) => (POD_NETWORK, Some(node)),
                Place::Host(node) => (FABRIC, Some(node)),
                Place::PodOfKernelNode => (POD_NETWORK, Some(kernel_node::NUMBER)),
                Place::Outside => (FABRIC, None),
            };
            let (address, port) = self.member(member.place);
            let number = id(MemberId::new, self.number * 10 + index);
            ObjectMember {
                router: node.map(|node| id(RouterId::new, node as u32 + 1)),
                state: member.state,
                ..ObjectMember::new(number, vrf(network), address, port_of(port))
            }
        };
        Listener {
            id: id(ListenerId::new, self.number),
            name: String::new(),
            protocol: self.protocol,
            port: port_of(SERVICE_PORT),
            node_port: Some(port_of(self.node_port())),
            members: (0..).zip(&service.members).map(member).collect(),
        }
    }

    fn node_port(&self) -> u16 {
        30_000 + (self.number % 2_768) as u16
    }

    pub fn node_address(&self, node: usize) -> IpAddr {
        node_addresses(node)[usize::from(self.family == Family::V6)]
    }

    /// Where a frontend is, for who enters at a node.
    pub fn frontend(&self, frontend: Frontend, entry: usize) -> Endpoint {
        let address = match (frontend.node(entry), frontend) {
            (Some(node), _) => self.node_address(node),
            (None, Frontend::ClusterIp) => self.numbered([10, 96], [0xfd00, 0x10, 0x96]),
            (None, Frontend::LoadBalancerIp | Frontend::NodePortAtLoadBalancerIp) => {
                self.numbered([198, 19], [0x2001, 0xdb8, 0x19])
            }
            (None, _) => self.numbered([198, 18], [0x2001, 0xdb8, 0x18]),
        };
        let port = match frontend {
            Frontend::NodePortHere | Frontend::NodePortOfAnother | Frontend::NodePortAtLoadBalancerIp => {
                self.node_port()
            }
            _ => SERVICE_PORT,
        };
        (address, port)
    }

    fn numbered(&self, v4: [u8; 2], v6: [u16; 3]) -> IpAddr {
        let [.., high, low] = self.number.to_be_bytes();
        match self.family {
            Family::V4 => Ipv4Addr::new(v4[0], v4[1], high, low).into(),
            Family::V6 => Ipv6Addr::new(v6[0], v6[1], v6[2], 0, 0, 0, 0, self.number as u16).into(),
        }
    }

    fn outside(&self, v4: [u8; 4], v6: [u16; 8]) -> IpAddr {
        match self.family {
            Family::V4 => v4.into(),
            Family::V6 => v6.into(),
        }
    }

    /// Where a member answers.
    pub fn member(&self, place: Place) -> Endpoint {
        match place {
            Place::Pod(node) => (address(&self.servers[node], self.family), 8080),
            Place::Host(node) => (self.node_address(node), 9090),
            Place::PodOfKernelNode => (kernel_node::pod(self.family), 6060),
            Place::Outside => (self.outside([203, 0, 113, 77], [0x2001, 0xdb8, 0x113, 0, 0, 0, 0, 77]), 7070),
        }
    }

    /// The address of a client that enters at a node.
    pub fn client(&self, client: Client, entry: usize) -> IpAddr {
        match client {
            Client::Pod => address(&self.clients[entry], self.family),
            Client::Node => self.node_address(entry),
            Client::Outside => {
                let host = entry as u8 + 1;
                self.outside([203, 0, 113, host], [0x2001, 0xdb8, 0x113, 0, 0, 0, 0, host.into()])
            }
            Client::Member(place) => self.member(place).0,
        }
    }

    /// A port that no connection to this service had yet.
    pub fn fresh_port(&mut self) -> u16 {
        self.next_port += 1;
        self.next_port
    }

    /// The node and port by which a client is reached.
    pub fn client_port(&self, client: Client, entry: usize) -> (usize, u16) {
        let port = match client {
            Client::Pod => self.clients[entry].port,
            Client::Member(Place::Pod(node)) => self.servers[node].port,
            Client::Node | Client::Outside | Client::Member(_) => HOST_PORT,
        };
        (entry, port.0)
    }

    /// The node and port by which packets to a member leave.
    pub fn exit_port(&self, exit: Exit) -> (usize, u16) {
        match exit {
            Exit::Pod(node) => (node, self.servers[node].port.0),
            Exit::Host(node) => (node, HOST_PORT.0),
            Exit::KernelNode(_) => (kernel_node::NUMBER, kernel_node::PORT.0),
        }
    }

    /// The first address of a node's block, which no pod has.
    pub fn block_source(&self, node: usize) -> IpAddr {
        kernel_node::block(node, self.family).network()
    }

    /// Sends a client's packet; returns what reached ports and what went from node to node.
    pub fn send_as_client(
        &mut self,
        client: Client,
        entry: usize,
        frame: &[u8],
    ) -> (Vec<Delivery>, Vec<Tunnelled>) {
        let delivered = match client {
            Client::Pod => self.cluster.send(&self.clients[entry], frame),
            Client::Member(Place::Pod(node)) => self.cluster.send(&self.servers[node], frame),
            Client::Node | Client::Outside | Client::Member(_) => self.cluster.send_from_host(entry, frame),
        };
        self.with_wire(delivered)
    }

    /// Sends a member's answer from where its packets came out.
    pub fn send_as_member(&mut self, exit: Exit, frame: &[u8]) -> (Vec<Delivery>, Vec<Tunnelled>) {
        let delivered = match exit {
            Exit::Pod(node) => self.cluster.send(&self.servers[node], frame),
            Exit::Host(node) => self.cluster.send_from_host(node, frame),
            Exit::KernelNode(to) => self.cluster.follow(to, kernel_node::sent(frame, to)),
        };
        self.with_wire(delivered)
    }

    fn with_wire(&mut self, mut delivered: Vec<Delivery>) -> (Vec<Delivery>, Vec<Tunnelled>) {
        let wire = std::mem::take(&mut self.cluster.wire);
        delivered.extend(wire.iter().filter_map(kernel_node::arrival));
        (delivered, wire)
    }

    /// Whom a client is kept with so far.
    pub fn kept(&self, client: (usize, IpAddr)) -> Kept {
        self.kept.get(&client).map_or(Kept::First, |place| Kept::With(*place))
    }

    /// The service keeps the client with this member from now on.
    pub fn keep(&mut self, client: (usize, IpAddr), member: Place) {
        self.kept.insert(client, member);
    }

    /// What every node dropped so far.
    pub fn drops(&self) -> Vec<BTreeMap<DropReason, u64>> {
        (0..NODES).map(|node| drops(&self.cluster, node).into_iter().collect()).collect()
    }

    /// Nothing was dropped since, apart from what is refused for this reason at the entry.
    pub fn check_drops(
        &self,
        before: &[BTreeMap<DropReason, u64>],
        entry: usize,
        refused: Option<DropReason>,
    ) -> Checked<()> {
        let mut expected = before.to_vec();
        if let Some(reason) = refused {
            *expected[entry].entry(reason).or_default() += REFUSED;
        }
        same("drops by node", &self.drops(), &expected)
    }
}

/// What the nodes hold: the service, and the flows of the last connection.
impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "    service: {:?}", self.service)?;
        for (number, node) in self.cluster.nodes.iter().enumerate() {
            writeln!(f, "    flows of node {number}:")?;
            for flow in node.flows(self.cluster.now).iter().filter(|flow| is_of(flow, self.next_port)) {
                writeln!(f, "        {flow:?}")?;
            }
        }
        Ok(())
    }
}

/// Whether a flow is a connection's from this client port, or leads back to it.
fn is_of(flow: &FlowRecord, client_port: u16) -> bool {
    flow.key.source_port == client_port || flow.translated_destination_port == client_port
}

fn source_ranges(ranges: Ranges) -> Vec<IpNet> {
    let texts: &[&str] = match ranges {
        Ranges::None => &[],
        Ranges::OfInsiders => &["10.244.0.0/16", "172.30.0.0/24", "fd00::/8"],
        Ranges::OfOutsiders => &["192.0.2.0/24", "203.0.113.0/24", "2001:db8:113::/48"],
    };
    texts.iter().map(|text| text.parse().expect("a literal prefix")).collect()
}
