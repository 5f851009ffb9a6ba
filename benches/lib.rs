//! What the benches share: a node with one service and established connections through it.

use std::net::IpAddr;

use vrouter_forward::Burst;
use vrouter_forward::frame::{Frame, Ingress};
use vrouter_forward::sim::{Cluster, PacketBuilder, PodHandle, ServiceSpec};
use vrouter_objects::{MemberState, ServiceProtocol};

/// How many frames go through the router together.
pub const BURST: usize = 64;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// A node whose clients have TCP connections to one member through a ClusterIP.
#[derive(Debug)]
pub struct Established {
    /// The node is `cluster.nodes[0]`.
    pub cluster: Cluster,
    client: PodHandle,
    connections: usize,
}

impl Established {
    /// With so many connections, each through its whole handshake.
    pub fn new(connections: usize) -> Self {
        let mut cluster = Cluster::with_slots(1, connections * 2 + 1024);
        let (client, server) = (cluster.pod(0), cluster.pod(0));
        let spec = ServiceSpec::new(1, vip(0), ServiceProtocol::Tcp, 80, &[(server.v4, 8080)]);
        let vips: Vec<_> = (0..connections.div_ceil(PORTS)).map(vip).collect();
        let specs = vips.iter().zip(1..).map(|(address, number)| {
            let members = (1..).zip([(server.v4, 8080 + number as u16)]);
            let members = members
                .map(|(member, (address, port))| (member, address, port, MemberState::Active))
                .collect();
            ServiceSpec { number, address: *address, members, ..spec.clone() }.object()
        });
        cluster.put(&specs.collect::<Vec<_>>());
        let mut bench = Self { cluster, client, connections };
        for connection in 0..connections {
            let (address, port) = endpoint(connection);
            let to_server = |flags| PacketBuilder::new(bench.client.v4, address).tcp(port, 80, flags).build();
            let (syn, ack) = (to_server(SYN), to_server(ACK));
            let target_port = 8080 + (connection / PORTS) as u16 + 1;
            let answer =
                PacketBuilder::new(server.v4, bench.client.v4).tcp(target_port, port, SYN | ACK).build();
            bench.cluster.send(&bench.client.clone(), &syn);
            bench.cluster.send(&server, &answer);
            bench.cluster.send(&bench.client.clone(), &ack);
        }
        bench.cluster.wire.clear();
        bench
    }

    /// A burst of small data segments, of connections that follow each other pseudo-randomly from `seed`.
    pub fn burst(&self, seed: usize) -> Burst {
        let frames = (0..BURST).map(|number| {
            let connection = (seed * BURST + number).wrapping_mul(0x9e37_79b1) % self.connections;
            let (address, port) = endpoint(connection);
            let packet = PacketBuilder::new(self.client.v4, address).tcp(port, 80, ACK).payload(&[0; 64]);
            let mut bytes = packet.build();
            bytes[6..12].copy_from_slice(&self.client.mac.0);
            Frame::from_bytes(&bytes, Ingress::Port(self.client.port))
        });
        Burst { frames: frames.collect(), spare: Vec::new() }
    }
}

/// Client ports per service address.
const PORTS: usize = 50_000;

fn vip(number: usize) -> IpAddr {
    IpAddr::from([10, 96, (number / 250) as u8, 10 + (number % 250) as u8])
}

fn endpoint(connection: usize) -> (IpAddr, u16) {
    (vip(connection / PORTS), 10_000 + (connection % PORTS) as u16)
}

/// Puts the bytes of `from` back into `to`, as the next packets of the same connections.
pub fn refill(to: &mut Burst, from: &Burst) {
    for (frame, original) in to.frames.iter_mut().zip(&from.frames) {
        frame.copy_from(original);
    }
}
