//! A service by all its frontends, and everybody who may be a client of it.

use std::net::IpAddr;

use vrouter_forward::Family;
use vrouter_forward::frame::{Frame, Ingress};
use vrouter_forward::parse::IcmpTypes;
use vrouter_forward::sim::{
    Cluster, Delivery, HOST_PORT, PacketBuilder, PodHandle, ServiceSpec, node_addresses,
};
use vrouter_objects::{
    ExternalAddress, ExternalKind, FloatingIp, MemberState, Object, Port, ServiceProtocol, TrafficPolicy,
};

use super::network::{ACK, ALL_PROTOCOLS, FAMILIES, RST, SYN, address, packet, vip};
use super::reader::{Read, only, read};

pub const SERVICE_PORT: u16 = 80;
pub const NODE_PORT: u16 = 30_080;
pub const MEMBER_PORT: u16 = 8080;
pub const CLIENT_PORT: u16 = 4000;

/// How a service is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frontend {
    ClusterIp,
    NodePort,
    ExternalIp,
    LoadBalancer,
}

pub const FRONTENDS: [Frontend; 4] =
    [Frontend::ClusterIp, Frontend::NodePort, Frontend::ExternalIp, Frontend::LoadBalancer];

/// Those that policy for external traffic is about.
pub const EXTERNAL_FRONTENDS: [Frontend; 3] =
    [Frontend::NodePort, Frontend::ExternalIp, Frontend::LoadBalancer];

impl Frontend {
    /// Its address and port at a node.
    pub fn place(self, family: Family, node: usize) -> (IpAddr, u16) {
        match self {
            Self::ClusterIp => (vip(family), SERVICE_PORT),
            Self::NodePort => (node_address(node, family), NODE_PORT),
            Self::ExternalIp => (external_ip(family), SERVICE_PORT),
            Self::LoadBalancer => (load_balancer_ip(family), SERVICE_PORT),
        }
    }
}

/// Where a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientKind {
    Pod,
    /// A process of the node.
    Node,
    Outside,
}

pub const CLIENT_KINDS: [ClientKind; 3] = [ClientKind::Pod, ClientKind::Node, ClientKind::Outside];

/// Somebody who sends to services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Client {
    Pod(PodHandle),
    /// A process of this node.
    Node(usize),
    /// Somebody whose packets come to this node.
    Outside(usize),
}

impl Client {
    /// Another of this kind at a node.
    pub fn new(cluster: &mut Cluster, kind: ClientKind, node: usize) -> Self {
        match kind {
            ClientKind::Pod => Self::Pod(cluster.pod(node)),
            ClientKind::Node => Self::Node(node),
            ClientKind::Outside => Self::Outside(node),
        }
    }

    pub fn address(&self, family: Family) -> IpAddr {
        match self {
            Self::Pod(pod) => address(pod, family),
            Self::Node(node) => node_address(*node, family),
            Self::Outside(_) => outside(family),
        }
    }

    /// The node that its packets come to.
    pub fn node(&self) -> usize {
        match self {
            Self::Pod(pod) => pod.node,
            Self::Node(node) | Self::Outside(node) => *node,
        }
    }

    pub fn send(&self, cluster: &mut Cluster, frame: &[u8]) -> Vec<Delivery> {
        match self {
            Self::Pod(pod) => cluster.send(pod, frame),
            Self::Node(node) | Self::Outside(node) => cluster.send_from_host(*node, frame),
        }
    }

    /// Whether a frame came out where the client is.
    pub fn is_at(&self, delivery: &Delivery) -> bool {
        let port = if let Self::Pod(pod) = self { pod.port } else { HOST_PORT };
        (delivery.node, delivery.port) == (self.node(), port)
    }
}

/// Somebody beyond the cluster.
pub fn outside(family: Family) -> IpAddr {
    of(family, "203.0.113.9", "2001:db8:99::9")
}

pub fn external_ip(family: Family) -> IpAddr {
    of(family, "198.51.100.10", "2001:db8:51::10")
}

pub fn load_balancer_ip(family: Family) -> IpAddr {
    of(family, "198.51.100.20", "2001:db8:51::20")
}

pub fn node_address(node: usize, family: Family) -> IpAddr {
    node_addresses(node)[if family == Family::V4 { 0 } else { 1 }]
}

fn of(family: Family, v4: &str, v6: &str) -> IpAddr {
    if family == Family::V4 { v4 } else { v6 }.parse().expect("a literal address")
}

/// Gives a floating IP one address of each kind, and its first listener a node port.
pub fn by_all_frontends(mut service: FloatingIp, node_port: u16) -> FloatingIp {
    let family = if service.address.is_ipv4() { Family::V4 } else { Family::V6 };
    service.external = vec![
        ExternalAddress { address: external_ip(family), kind: ExternalKind::ExternalIp },
        ExternalAddress { address: load_balancer_ip(family), kind: ExternalKind::LoadBalancer },
    ];
    service.listeners[0].node_port = Some(port(node_port));
    service
}

pub fn port(number: u16) -> Port {
    Port::new(number.into()).expect("not 0")
}

/// A client at the first node, and a service by all its frontends, reached by one of them.
#[derive(Debug)]
pub struct Scene {
    pub cluster: Cluster,
    pub family: Family,
    pub protocol: ServiceProtocol,
    pub frontend: Frontend,
    pub kind: ClientKind,
    pub client: Client,
    /// Pods that may be members, numbered from 0.
    pub pods: Vec<PodHandle>,
}

/// A scene of each kind there is: of both families, all protocols, frontends and clients; with pods on these nodes.
pub fn scenes(pods: &'static [usize]) -> impl Iterator<Item = Scene> {
    scenes_of(&FRONTENDS, &CLIENT_KINDS, pods)
}

/// The same for some frontends and clients only.
pub fn scenes_of(
    frontends: &'static [Frontend],
    kinds: &'static [ClientKind],
    pods: &'static [usize],
) -> impl Iterator<Item = Scene> {
    let families = FAMILIES.into_iter();
    families.flat_map(move |family| {
        ALL_PROTOCOLS.into_iter().flat_map(move |protocol| {
            frontends.iter().flat_map(move |frontend| {
                kinds.iter().map(move |kind| Scene::new(family, protocol, *frontend, *kind, pods))
            })
        })
    })
}

impl Scene {
    pub fn new(
        family: Family,
        protocol: ServiceProtocol,
        frontend: Frontend,
        kind: ClientKind,
        pods: &[usize],
    ) -> Self {
        let mut cluster = Cluster::with_slots(3, 512);
        let client = Client::new(&mut cluster, kind, 0);
        let pods = pods.iter().map(|node| cluster.pod(*node)).collect();
        Self { cluster, family, protocol, frontend, kind, client, pods }
    }

    pub fn label(&self) -> String {
        let Self { family, protocol, frontend, kind, .. } = self;
        format!("{family:?} {protocol} {frontend:?} from {kind:?}")
    }

    /// The service with these of the pods for members, in these states.
    pub fn service_in(&self, members: &[(usize, MemberState)]) -> FloatingIp {
        let mut spec = ServiceSpec::new(1, vip(self.family), self.protocol, SERVICE_PORT, &[]);
        let member = |(pod, state): &(usize, MemberState)| {
            (*pod as u32 + 1, address(&self.pods[*pod], self.family), MEMBER_PORT, *state)
        };
        spec.members = members.iter().map(member).collect();
        spec.members.sort_by_key(|(number, ..)| *number);
        by_all_frontends(spec.floating_ip(), NODE_PORT)
    }

    /// The service with these of the pods for members, all of them ready.
    pub fn service(&self, members: &[usize]) -> FloatingIp {
        let ready: Vec<_> = members.iter().map(|pod| (*pod, MemberState::Ready)).collect();
        self.service_in(&ready)
    }

    pub fn put(&mut self, service: FloatingIp) {
        self.cluster.put(&[Object::FloatingIp(service)]);
    }

    /// Puts the service with these of the pods for members.
    pub fn put_members(&mut self, members: &[usize]) {
        self.put(self.service(members));
    }

    pub fn delete_service(&mut self) {
        let service = Object::FloatingIp(self.service(&[]));
        super::network::remove_object(&mut self.cluster, &service);
    }

    /// Where the client sends to.
    pub fn place(&self) -> (IpAddr, u16) {
        self.frontend.place(self.family, self.client.node())
    }

    pub fn frame_from(&self, port: u16, flags: u8) -> Vec<u8> {
        let (to, to_port) = self.place();
        packet(self.client.address(self.family), to, self.protocol, (port, to_port), flags)
    }

    /// Lets the client send from a port of its own.
    pub fn request_from(&mut self, port: u16, flags: u8) -> Vec<Delivery> {
        let frame = self.frame_from(port, flags);
        self.client.clone().send(&mut self.cluster, &frame)
    }

    /// Lets the client send.
    pub fn request(&mut self, flags: u8) -> Vec<Delivery> {
        self.request_from(CLIENT_PORT, flags)
    }

    /// The pod at whose port a frame came out.
    pub fn reached(&self, deliveries: &[Delivery]) -> Option<usize> {
        let [delivery] = deliveries else { return None };
        self.pods.iter().position(|pod| (pod.node, pod.port) == (delivery.node, delivery.port))
    }

    /// Lets the client send, and expects it to reach a pod, at the member's address and port.
    pub fn reach(&mut self, flags: u8) -> (usize, Delivery) {
        self.reach_from(CLIENT_PORT, flags)
    }

    /// The same from a port of its own.
    pub fn reach_from(&mut self, port: u16, flags: u8) -> (usize, Delivery) {
        let mut deliveries = self.request_from(port, flags);
        let label = self.label();
        let Some(pod) = self.reached(&deliveries) else {
            let drops: Vec<_> = (0..self.cluster.nodes.len())
                .map(|node| super::network::drops(&self.cluster, node))
                .collect();
            panic!("{label}: reaches no pod: {deliveries:#?}, {drops:?}")
        };
        let got = read(&deliveries[0].frame);
        assert_eq!(got.destination, address(&self.pods[pod], self.family), "{label}");
        assert_eq!(got.ports.1, MEMBER_PORT, "{label}");
        (pod, deliveries.remove(0))
    }

    /// Expects that the client was told that nobody is there.
    pub fn assert_refused(&self, deliveries: &[Delivery]) {
        let label = self.label();
        assert!(deliveries.len() == 1 && self.client.is_at(&deliveries[0]), "{label}: {deliveries:#?}");
        let told = only(deliveries);
        assert_eq!(told.source, self.place().0, "{label}");
        assert!(is_refusal(&told, self.protocol, self.family), "{label}: {told:?}");
    }

    /// Lets whoever got a frame answer it, and expects the answer to come to the client as from the frontend.
    pub fn answer(&mut self, delivery: &Delivery, flags: u8) -> Read {
        self.answer_to(CLIENT_PORT, delivery, flags)
    }

    /// The same for a port of the client's.
    pub fn answer_to(&mut self, port: u16, delivery: &Delivery, flags: u8) -> Read {
        let back = answer(&mut self.cluster, delivery, self.protocol, flags);
        let label = self.label();
        assert!(back.len() == 1 && self.client.is_at(&back[0]), "{label}: {back:#?}");
        let got = only(&back);
        let (from, from_port) = self.place();
        assert_eq!((got.source, got.ports), (from, (from_port, port)), "{label}");
        assert_eq!(got.destination, self.client.address(self.family), "{label}");
        got
    }

    /// Opens a connection, or whatever the protocol has for one, as far as both sides have spoken. Returns the member
    /// and what it got first.
    pub fn connect(&mut self) -> (usize, Delivery) {
        let (pod, delivery) = self.reach(SYN);
        self.answer(&delivery, SYN | ACK);
        let (again, _) = self.reach(ACK);
        assert_eq!(again, pod, "{}", self.label());
        (pod, delivery)
    }
}

/// Whether it says that nobody is there: a reset, or port unreachable.
pub fn is_refusal(told: &Read, protocol: ServiceProtocol, family: Family) -> bool {
    let (kind, code) = IcmpTypes::of(family).port_unreachable;
    match protocol {
        ServiceProtocol::Tcp => told.tcp_flags & RST != 0,
        ServiceProtocol::Udp | ServiceProtocol::Sctp => {
            matches!(told.protocol, 1 | 58) && told.payload[..2] == [kind, code]
        }
    }
}

/// Lets whoever got a frame answer it from where it came out: a pod, or the node's own stack, where a process has the
/// address or from where it goes on and comes back.
pub fn answer(
    cluster: &mut Cluster,
    delivery: &Delivery,
    protocol: ServiceProtocol,
    flags: u8,
) -> Vec<Delivery> {
    let got = read(&delivery.frame);
    let ports = (got.ports.1, got.ports.0);
    send_from(cluster, delivery, &packet(got.destination, got.source, protocol, ports, flags))
}

/// Sends a frame from where another came out.
pub fn send_from(cluster: &mut Cluster, delivery: &Delivery, frame: &[u8]) -> Vec<Delivery> {
    let mut bytes = frame.to_vec();
    // Who it was for.
    bytes[6..12].copy_from_slice(&delivery.frame[..6]);
    cluster.follow(delivery.node, Frame::from_bytes(&bytes, Ingress::Port(delivery.port)))
}

/// An error of this type and code about a packet that arrived, from this address to the packet's sender.
pub fn error_about(frame: &[u8], from: IpAddr, (kind, code): (u8, u8), parameter: u32) -> Vec<u8> {
    let about = read(frame);
    let error = PacketBuilder::new(from, about.source).icmp(kind, code, parameter.to_be_bytes());
    error.payload(&frame[14..]).build()
}

/// The packet that an ICMP error quotes, framed to be read, without the hops it had left.
pub fn quoted(error: &Read) -> Vec<u8> {
    let ethertype: &[u8] = if error.source.is_ipv4() { &[0x08, 0] } else { &[0x86, 0xdd] };
    [&[0; 12][..], ethertype, &error.payload[8..]].concat()
}

/// A service whose external traffic stays on the node it comes to.
pub fn local_outside(service: FloatingIp) -> FloatingIp {
    FloatingIp { external_policy: TrafficPolicy::Local, ..service }
}

/// A service whose traffic from inside the cluster stays on its node.
pub fn local_inside(service: FloatingIp) -> FloatingIp {
    FloatingIp { internal_policy: TrafficPolicy::Local, ..service }
}
