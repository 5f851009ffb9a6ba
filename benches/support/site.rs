//! A node with a client pod, and services whose members are beside it or on another node.

use std::net::{IpAddr, SocketAddr};

use vrouter_forward::Family;
use vrouter_forward::frame::Ingress;
use vrouter_forward::sim::{Cluster, PodHandle, ServiceSpec};
use vrouter_objects::{MacAddress, Object, PodName, ServiceProtocol, Vni};

use crate::{Host, Router, rules};

/// Where the members are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On the client's node.
    Same,
    /// On another node: packets leave and come by the tunnel.
    Cross,
}

/// What the client's packets are sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Services: they are translated.
    Services,
    /// The members themselves: they are not.
    Members,
}

/// What a site is to have.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Where the members are.
    pub place: Place,
    /// What the client's packets are sent to.
    pub target: Target,
    /// The family of all addresses.
    pub family: Family,
    /// How many services, each with one port.
    pub services: usize,
    /// How many members each service has: the same pods, at a port of their own for each service.
    pub members: usize,
    /// How many rules the policy has that says whom the client may speak to. The last one allows the members; 0: there is no
    /// policy.
    pub rules: usize,
    /// How many flow slots.
    pub slots: usize,
    /// How many workers.
    pub workers: usize,
}

/// A node with what its packets meet.
#[derive(Debug)]
pub struct Site {
    /// The node's router.
    pub router: Router,
    layout: Layout,
    client: Host,
    members: Vec<Host>,
}

/// The port of every service.
pub const SERVICE_PORT: u16 = 80;
/// The port of the first service's members.
const FIRST_TARGET_PORT: usize = 8_000;
/// The client uses the ports from this one on.
const FIRST_CLIENT_PORT: usize = 2_000;
/// The network that the pods are in.
const POD_VNI: u32 = 1;

impl Layout {
    /// One worker, and services with ten members on the same node, IPv4, without policy.
    pub const fn new(services: usize, slots: usize) -> Self {
        let (place, target, family) = (Place::Same, Target::Services, Family::V4);
        Self { place, target, family, services, members: 10, rules: 0, slots, workers: 1 }
    }
}

impl Site {
    /// A site laid out like this.
    pub fn new(layout: Layout) -> Self {
        // The cluster is only drawn up: its own flow tables may be small.
        let mut cluster = Cluster::with_slots(2, 64);
        let client = cluster.pod(0);
        let member_node = if layout.place == Place::Same { 0 } else { 1 };
        let members: Vec<_> = (0..=layout.members).map(|_| cluster.pod(member_node)).collect();
        let site = Self {
            router: Router::new(cluster.nodes.swap_remove(0), layout.slots, layout.workers),
            layout,
            client: host(&client, layout.family),
            members: members.iter().map(|member| host(member, layout.family)).collect(),
        };
        let services: Vec<_> =
            (0..layout.services).map(|number| site.service(number, layout.members)).collect();
        site.router.put(services);
        if layout.rules > 0 {
            let members: Vec<_> = site.members.iter().map(|member| member.address).collect();
            site.router.put(rules::governing(pod_name(&client), layout.rules, &members));
        }
        site
    }

    /// What it was asked to have.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The client.
    pub fn client(&self) -> &Host {
        &self.client
    }

    /// The pods that services have as members, in their order, and one more that can come and go.
    pub fn members(&self) -> &[Host] {
        &self.members
    }

    /// A service as an object, with the first so many pods as members.
    pub fn service(&self, number: usize, members: usize) -> Object {
        let members: Vec<_> =
            self.members[..members].iter().map(|host| (host.address, target_port(number))).collect();
        let address = self.service_address(number);
        ServiceSpec::new(number as u32 + 1, address, ServiceProtocol::Tcp, SERVICE_PORT, &members).object()
    }

    /// The client's end of a connection, and the end it connects to. Connections go round over the services.
    ///
    /// # Panics
    /// If the client has not so many ports.
    pub fn connection(&self, number: usize) -> (SocketAddr, SocketAddr) {
        let (service, turn) = (number % self.layout.services, number / self.layout.services);
        let port = u16::try_from(FIRST_CLIENT_PORT + turn).expect("more connections need more services");
        let target = match self.layout.target {
            Target::Services => SocketAddr::new(self.service_address(service), SERVICE_PORT),
            Target::Members => self.member_end(number % self.layout.members, number),
        };
        (SocketAddr::new(self.client.address, port), target)
    }

    /// A member's end of a connection.
    pub fn member_end(&self, member: usize, connection: usize) -> SocketAddr {
        SocketAddr::new(self.members[member].address, target_port(connection % self.layout.services))
    }

    /// The address of a service.
    pub fn service_address(&self, number: usize) -> IpAddr {
        let number = number as u16 + 10;
        let [high, low] = number.to_be_bytes();
        match self.layout.family {
            Family::V4 => IpAddr::from([10, 96, high, low]),
            Family::V6 => IpAddr::from([0xfd00, 0x10, 0x96, 0, 0, 0, 0, number]),
        }
    }
}

/// The port of this service's members: another for each service, since it is the same pods.
fn target_port(service: usize) -> u16 {
    u16::try_from(FIRST_TARGET_PORT + service).expect("at most 57,000 services")
}

/// What the node calls a pod.
fn pod_name(pod: &PodHandle) -> PodName {
    PodName { namespace: "default".to_owned(), name: format!("pod-{}", pod.port.0) }
}

/// How the pod's packets come in at the first node.
fn host(pod: &PodHandle, family: Family) -> Host {
    let router_mac = |number| MacAddress::local(0x56, number);
    let (ingress, macs) = match pod.node {
        0 => (Ingress::Port(pod.port), (MacAddress::GATEWAY, pod.mac)),
        node => {
            let source = IpAddr::from([172, 30, 0, node as u8 + 1]);
            let vni = Vni::new(POD_VNI).expect("a VNI");
            (Ingress::Tunnel { source, vni }, (router_mac(1), router_mac(node as u32 + 1)))
        }
    };
    let address = match family {
        Family::V4 => pod.v4,
        Family::V6 => pod.v6,
    };
    Host { ingress, macs, address }
}
