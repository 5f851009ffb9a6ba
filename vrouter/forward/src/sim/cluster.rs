//! Nodes wired together: what leaves one by a tunnel comes in at another.

use std::net::IpAddr;

use vrouter_objects::{
    FloatingIp, FloatingIpId, IpNet, Listener, ListenerId, MacAddress, Member, MemberId, MemberState,
    NetworkKind, NextHop, Object, Port, Route, RouteKey, RouterId, RoutingInstance, ServiceProtocol, Subnet,
    VirtualRouter, Vmi, VmiId, VmiKind, Vni, VrfId,
};

use super::node::Node;
use crate::frame::{Egress, Frame, Ingress, Offload, PortId, Time};
use crate::tables::HostNetwork;

const POD_VRF: u32 = 1;
const SERVICE_VRF: u32 = 2;
const FABRIC_VRF: u32 = 3;

/// Where `vhost0` is at every node.
pub const HOST_PORT: PortId = PortId(1000);

/// A cluster as the controller would lay it out: node *n* has the addresses `172.30.0.n` and `fd00:172:30::n`, the
/// blocks `10.244.n.0/24` and `fd00:10:244:n::/64`, and a `vhost0`; services are in `10.96.0.0/12` and
/// `fd00:10:96::/108`. Whoever has none of these addresses is outside.
#[derive(Debug)]
pub struct Cluster {
    /// Its nodes, numbered from 0; their blocks and VTEPs count from 1.
    pub nodes: Vec<Node>,
    /// The time, to be moved by the test.
    pub now: Time,
    /// Everything that went from node to node so far.
    pub wire: Vec<Tunnelled>,
    pods: u32,
}

/// A pod's interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodHandle {
    /// The node it is on.
    pub node: usize,
    /// Its port there.
    pub port: PortId,
    /// Its interface.
    pub vmi: VmiId,
    /// Its MAC address.
    pub mac: MacAddress,
    /// Its IPv4 address.
    pub v4: IpAddr,
    /// Its IPv6 address.
    pub v6: IpAddr,
}

/// A packet between two nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tunnelled {
    /// The sending node.
    pub from: usize,
    /// Where it went, as the sender said.
    pub egress: Egress,
    /// The inner frame.
    pub frame: Vec<u8>,
    /// Its offload state.
    pub offload: Offload,
}

/// A frame that reached a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The node.
    pub node: usize,
    /// The port.
    pub port: PortId,
    /// The frame.
    pub frame: Vec<u8>,
    /// Its offload state.
    pub offload: Offload,
}

/// A service with one port.
#[derive(Debug, Clone)]
pub struct ServiceSpec {
    /// Its number: gives it its ids.
    pub number: u32,
    /// Its address.
    pub address: IpAddr,
    /// Its protocol.
    pub protocol: ServiceProtocol,
    /// Its port.
    pub port: u16,
    /// Its members: number, address, port, state.
    pub members: Vec<(u32, IpAddr, u16, MemberState)>,
}

impl ServiceSpec {
    /// A service whose members all take new flows, numbered from 1 in their order.
    pub fn new(
        number: u32,
        address: IpAddr,
        protocol: ServiceProtocol,
        port: u16,
        members: &[(IpAddr, u16)],
    ) -> Self {
        let member =
            |(number, (address, port)): (u32, &(IpAddr, u16))| (number, *address, *port, MemberState::Ready);
        Self { number, address, protocol, port, members: (1..).zip(members).map(member).collect() }
    }

    /// The floating IP, as an object.
    pub fn object(&self) -> Object {
        Object::FloatingIp(self.floating_ip())
    }

    /// The floating IP. Its members are on the nodes that their addresses are of.
    pub fn floating_ip(&self) -> FloatingIp {
        let member = |(number, address, port, state): &(u32, IpAddr, u16, MemberState)| {
            let (network, router) = place_of(*address);
            let number = id(MemberId::new, self.number * 100 + number);
            let member = Member::new(number, vrf(network), *address, port_of(*port));
            Member { state: *state, router, ..member }
        };
        let listener = Listener {
            id: id(ListenerId::new, self.number),
            name: String::new(),
            protocol: self.protocol,
            port: port_of(self.port),
            node_port: None,
            members: self.members.iter().map(member).collect(),
        };
        let name = format!("default/service-{}", self.number);
        let fip = id(FloatingIpId::new, self.number);
        FloatingIp {
            listeners: vec![listener],
            ..FloatingIp::new(fip, &name, vrf(SERVICE_VRF), self.address, vrf(FABRIC_VRF))
        }
    }
}

impl Cluster {
    /// So many nodes, without pods and services.
    pub fn new(nodes: usize) -> Self {
        Self::with_slots(nodes, 4096)
    }

    /// So many nodes with so many flow slots each.
    pub fn with_slots(nodes: usize, slots: usize) -> Self {
        let build = |number: usize| {
            let mut node = Node::new(&node_name(number), slots);
            let refusals = node.put(base_objects(nodes, number));
            assert_eq!(refusals, []);
            node.tables.set_host(host_network(number));
            node.attach(vhost0(number), HOST_PORT);
            node
        };
        let nodes = (0..nodes).map(build).collect();
        Self { nodes, now: Time::from_millis(1_000_000), wire: Vec::new(), pods: 0 }
    }

    /// Attaches another pod to a node, with the next free addresses of its block.
    pub fn pod(&mut self, node: usize) -> PodHandle {
        let host = self.pods + 2;
        let block = node as u8 + 1;
        let v4 = IpAddr::from([10, 244, block, host as u8]);
        let v6 = IpAddr::from([0xfd00, 0x10, 0x244, u16::from(block), 0, 0, 0, host as u16]);
        self.pod_at(node, v4, v6)
    }

    /// Attaches another pod to a node, with these addresses.
    pub fn pod_at(&mut self, node: usize, v4: IpAddr, v6: IpAddr) -> PodHandle {
        self.pod_in(vrf(POD_VRF), node, v4, v6)
    }

    /// Attaches another pod to a node, with these addresses of a network that the node holds.
    pub fn pod_in(&mut self, network: VrfId, node: usize, v4: IpAddr, v6: IpAddr) -> PodHandle {
        self.pods += 1;
        let vmi = id(VmiId::new, self.pods + node as u32 * 10_000);
        let mac = MacAddress::local(0x50, vmi.get());
        let port = PortId(self.pods as u16);
        let interface = Vmi {
            id: vmi,
            name: format!("default/pod-{}", self.pods),
            kind: VmiKind::Pod,
            vrf: network,
            mac,
            addresses: vec![v4, v6],
            link_local: None,
            uid: String::new(),
            mtu: 1450,
        };
        self.nodes[node].attach(interface, port);
        PodHandle { node, port, vmi, mac, v4, v6 }
    }

    /// Puts objects on every node.
    ///
    /// # Panics
    /// If a node refuses one.
    pub fn put(&mut self, objects: &[Object]) {
        for node in &mut self.nodes {
            assert_eq!(node.put(objects.iter().cloned()), []);
        }
    }

    /// Sends a pod's frame and follows it, and all that comes of it, to the ports it reaches. The frame's MAC
    /// addresses are set to the pod's and the gateway's.
    pub fn send(&mut self, from: &PodHandle, frame: &[u8]) -> Vec<Delivery> {
        self.send_with(from, frame, Offload::default())
    }

    /// The same, for a frame that its sender left unfinished.
    pub fn send_with(&mut self, from: &PodHandle, frame: &[u8], offload: Offload) -> Vec<Delivery> {
        let mut bytes = frame.to_vec();
        bytes[6..12].copy_from_slice(&from.mac.0);
        let mut frame = Frame::from_bytes(&bytes, Ingress::Port(from.port));
        frame.offload = offload;
        self.follow(from.node, frame)
    }

    /// Sends a frame of a node's own stack, or one that came from outside and was steered to the router, and follows it
    /// like [`Cluster::send`].
    pub fn send_from_host(&mut self, node: usize, frame: &[u8]) -> Vec<Delivery> {
        let mut bytes = frame.to_vec();
        bytes[6..12].copy_from_slice(&host_mac(node).0);
        self.follow(node, Frame::from_bytes(&bytes, Ingress::Port(HOST_PORT)))
    }

    /// Lets a frame come in at a node and follows it.
    ///
    /// # Panics
    /// If it goes round in circles.
    pub fn follow(&mut self, node: usize, frame: Frame) -> Vec<Delivery> {
        let mut delivered = Vec::new();
        let mut waiting = vec![(node, frame)];
        for _ in 0..100 {
            let Some((node, frame)) = waiting.pop() else { return delivered };
            let now = self.now;
            for frame in self.nodes[node].process(now, [frame]) {
                match frame.egress {
                    Some(Egress::Port(port)) => delivered.push(Delivery {
                        node,
                        port,
                        frame: frame.bytes().to_vec(),
                        offload: frame.offload,
                    }),
                    Some(egress @ Egress::Tunnel { destination, vni, .. }) => {
                        let bytes = frame.bytes().to_vec();
                        self.wire.push(Tunnelled {
                            from: node,
                            egress,
                            frame: bytes,
                            offload: frame.offload,
                        });
                        if let Some(to) = (0..self.nodes.len()).find(|to| vtep(*to) == destination) {
                            let ingress = Ingress::Tunnel { source: vtep(node), vni };
                            let mut arriving = Frame::from_bytes(frame.bytes(), ingress);
                            arriving.offload = frame.offload;
                            waiting.push((to, arriving));
                        }
                    }
                    None => {}
                }
            }
        }
        panic!("a packet goes round in circles: {:?}", self.wire)
    }
}

fn id<T, E: std::fmt::Debug>(new: impl Fn(u32) -> Result<T, E>, number: u32) -> T {
    new(number).expect("tests number from 1")
}

fn vrf(number: u32) -> VrfId {
    id(VrfId::new, number)
}

fn port_of(number: u16) -> Port {
    Port::new(number.into()).expect("tests use ports that exist")
}

fn node_name(number: usize) -> String {
    format!("n{}", number + 1)
}

/// The underlay address of a node.
fn vtep(number: usize) -> IpAddr {
    IpAddr::from([172, 30, 0, number as u8 + 1])
}

/// The addresses of a node.
pub fn node_addresses(number: usize) -> [IpAddr; 2] {
    [vtep(number), IpAddr::from([0xfd00, 0x172, 0x30, 0, 0, 0, 0, number as u16 + 1])]
}

fn host_mac(number: usize) -> MacAddress {
    MacAddress::local(0x48, number as u32 + 1)
}

fn host_network(number: usize) -> HostNetwork {
    HostNetwork {
        vrf: vrf(FABRIC_VRF),
        addresses: node_addresses(number).to_vec(),
        node_port_addresses: Vec::new(),
        source_ports: 61_000..=u16::MAX,
    }
}

fn vhost0(number: usize) -> Vmi {
    Vmi {
        id: VmiId::HOST,
        name: "vhost0".to_owned(),
        kind: VmiKind::Host,
        vrf: vrf(FABRIC_VRF),
        mac: host_mac(number),
        addresses: Vec::new(),
        link_local: None,
        uid: String::new(),
        mtu: 1500,
    }
}

/// The network that an endpoint's address is in, and the node it is on; `None`: it is outside.
fn place_of(address: IpAddr) -> (u32, Option<RouterId>) {
    match address {
        IpAddr::V4(v4) => match v4.octets() {
            [10, 244, node, _] => (POD_VRF, RouterId::new(node.into()).ok()),
            [172, 30, 0, node] => (FABRIC_VRF, RouterId::new(node.into()).ok()),
            _ => (FABRIC_VRF, None),
        },
        IpAddr::V6(v6) => match v6.segments() {
            [0xfd00, 0x10, 0x244, node, ..] => (POD_VRF, RouterId::new(node.into()).ok()),
            [0xfd00, 0x172, 0x30, .., node] => (FABRIC_VRF, RouterId::new(node.into()).ok()),
            _ => (FABRIC_VRF, None),
        },
    }
}

fn net(text: &str) -> IpNet {
    text.parse().expect("a literal prefix")
}

fn base_objects(nodes: usize, own: usize) -> Vec<Object> {
    let subnet = |prefix: &str, gateway: &str| Subnet {
        prefix: net(prefix),
        gateway: gateway.parse().expect("a literal address"),
    };
    let instance = |number, name: &str, kind, subnets| {
        let vni = Vni::new(number).expect("tests use small VNIs");
        let known_in = if number == POD_VRF { vec![vrf(FABRIC_VRF)] } else { Vec::new() };
        Object::RoutingInstance(RoutingInstance {
            kind,
            known_in,
            ..RoutingInstance::new(vrf(number), name, vni, subnets)
        })
    };
    let route = |number, prefix: &str, next_hop| {
        Object::Route(Route { key: RouteKey { vrf: vrf(number), prefix: net(prefix) }, next_hop })
    };
    let pods = vec![subnet("10.244.0.0/16", "10.244.0.1"), subnet("fd00:10:244::/48", "fd00:10:244::1")];
    let mut objects = vec![
        instance(POD_VRF, "default/default-podnetwork", NetworkKind::Overlay, pods),
        instance(SERVICE_VRF, "default/default-servicenetwork", NetworkKind::Overlay, Vec::new()),
        instance(FABRIC_VRF, "default/ip-fabric", NetworkKind::Fabric, Vec::new()),
    ];
    for prefix in ["0.0.0.0/0", "::/0"] {
        objects.push(route(POD_VRF, prefix, NextHop::VrfTranslate(vrf(FABRIC_VRF))));
        objects.push(route(FABRIC_VRF, prefix, NextHop::Receive));
    }
    for prefix in ["10.244.0.0/16", "fd00:10:244::/48"] {
        objects.push(route(FABRIC_VRF, prefix, NextHop::VrfTranslate(vrf(POD_VRF))));
    }
    for prefix in ["10.96.0.0/12", "fd00:10:96::/108"] {
        objects.push(route(POD_VRF, prefix, NextHop::VrfTranslate(vrf(SERVICE_VRF))));
        objects.push(route(FABRIC_VRF, prefix, NextHop::VrfTranslate(vrf(SERVICE_VRF))));
        objects.push(route(SERVICE_VRF, prefix, NextHop::Reject));
    }
    for number in 0..nodes {
        let router = id(RouterId::new, number as u32 + 1);
        let mac = MacAddress::local(0x56, router.get());
        let addresses = node_addresses(number);
        for address in addresses {
            objects.push(route(FABRIC_VRF, &IpNet::from(address).to_string(), NextHop::Tunnel(router)));
        }
        objects.push(Object::VirtualRouter(VirtualRouter {
            addresses: addresses.to_vec(),
            ..VirtualRouter::new(router, &node_name(number), vtep(number), mac)
        }));
        let block = number + 1;
        for prefix in [format!("10.244.{block}.0/24"), format!("fd00:10:244:{block}::/64")] {
            let next_hop = if number == own { NextHop::Reject } else { NextHop::Tunnel(router) };
            objects.push(route(POD_VRF, &prefix, next_hop));
        }
    }
    objects
}
