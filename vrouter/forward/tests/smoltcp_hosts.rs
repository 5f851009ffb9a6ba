//! Whole TCP stacks as pods: a transfer through a ClusterIP across nodes, over cables that lose and reorder
//! frames. All of it is simulated, time too, so every run is the same.

mod support;

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr, IpEndpoint};
use support::{FAMILIES, address, gateway, vip};
use vrouter_forward::Family;
use vrouter_forward::frame::{PortId, Time};
use vrouter_forward::sim::{Cluster, PodHandle, ServiceSpec};
use vrouter_objects::ServiceProtocol;

/// The pods' MTU with their Ethernet header.
const FRAME: usize = 1450 + 14;
/// How long the transfer may take, in simulated microseconds.
const PATIENCE: u64 = 600_000_000;
/// How long a frame is under way, in microseconds.
const DELAY: u64 = 500;

/// A pod's end of its cable.
#[derive(Debug, Default)]
struct Cable {
    incoming: VecDeque<Vec<u8>>,
    outgoing: Vec<Vec<u8>>,
}

struct Receive(Vec<u8>);
struct Transmit<'a>(&'a mut Vec<Vec<u8>>);

impl smoltcp::phy::RxToken for Receive {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl smoltcp::phy::TxToken for Transmit<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut frame = vec![0; len];
        let result = write(&mut frame);
        self.0.push(frame);
        result
    }
}

impl Device for Cable {
    type RxToken<'a> = Receive;
    type TxToken<'a> = Transmit<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Receive, Transmit<'_>)> {
        let frame = self.incoming.pop_front()?;
        Some((Receive(frame), Transmit(&mut self.outgoing)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Transmit<'_>> {
        Some(Transmit(&mut self.outgoing))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        (capabilities.medium, capabilities.max_transmission_unit) = (Medium::Ethernet, FRAME);
        capabilities
    }
}

/// A pod with its own TCP stack and one socket.
struct Host {
    pod: PodHandle,
    cable: Cable,
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
}

impl Host {
    fn new(pod: PodHandle, seed: u64) -> Self {
        let mut cable = Cable::default();
        let mut config = Config::new(EthernetAddress(pod.mac.0).into());
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut cable, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            // smoltcp believes ARP replies from its own subnet only, so IPv4 has the pod network's; the
            // router answers for every pod.
            addresses.push(IpCidr::new(pod.v4.into(), 16)).expect("room for an address");
            addresses.push(IpCidr::new(pod.v6.into(), 128)).expect("room for an address");
        });
        let (IpAddr::V4(v4), IpAddr::V6(v6)) = (gateway(Family::V4), gateway(Family::V6)) else {
            unreachable!("one gateway of each family")
        };
        interface.routes_mut().add_default_ipv4_route(v4).expect("room for a route");
        interface.routes_mut().add_default_ipv6_route(v6).expect("room for a route");
        let buffer = || SocketBuffer::new(vec![0; 65_536]);
        let mut sockets = SocketSet::new(Vec::new());
        let socket = sockets.add(Socket::new(buffer(), buffer()));
        Self { pod, cable, interface, sockets, socket }
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.socket)
    }

    fn connect(&mut self, to: IpAddr, port: u16, from_port: u16) {
        let socket = self.sockets.get_mut::<Socket<'_>>(self.socket);
        socket
            .connect(self.interface.context(), (IpAddress::from(to), port), from_port)
            .expect("a fresh socket");
    }

    /// Lets the stack work at this time; returns the frames it sends.
    fn poll(&mut self, now: Instant) -> Vec<Vec<u8>> {
        self.interface.poll(now, &mut self.cable, &mut self.sockets);
        std::mem::take(&mut self.cable.outgoing)
    }
}

/// What happens to frames on the cables, pseudo-randomly.
struct Weather {
    state: u64,
    lost_per_mille: u64,
    late_per_mille: u64,
}

impl Weather {
    fn roll(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % 1000
    }

    /// After how long a frame arrives; `None`: it does not.
    fn delay(&mut self) -> Option<u64> {
        if self.roll() < self.lost_per_mille {
            return None;
        }
        // Late enough for several frames to overtake.
        Some(if self.roll() < self.late_per_mille { DELAY * (2 + self.roll() % 8) } else { DELAY })
    }
}

/// Hosts on a cluster's ports.
struct World {
    cluster: Cluster,
    hosts: Vec<Host>,
    weather: Weather,
    /// Frames under way to a host, by the time they arrive and their number.
    under_way: BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    now: u64,
    frames: u64,
    next_ageing: u64,
}

impl World {
    /// Lets everything happen that happens now, and moves on to when something happens next.
    fn step(&mut self) {
        let start = Time::from_millis(1_000_000).0;
        self.cluster.now = Time(start + self.now);
        while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (host, frame) = entry.remove();
            self.hosts[host].cable.incoming.push_back(frame);
        }
        let instant = Instant::from_micros(self.now as i64);
        for number in 0..self.hosts.len() {
            for frame in self.hosts[number].poll(instant) {
                self.send(number, &frame);
            }
        }
        if self.now >= self.next_ageing {
            self.cluster.nodes.iter_mut().for_each(|node| node.age(Time(start + self.now)));
            self.next_ageing = self.now + 1_000_000;
        }
        let timers = self.hosts.iter_mut().filter_map(|host| host.interface.poll_at(instant, &host.sockets));
        let timer = timers.min().map_or(u64::MAX, |at| at.total_micros() as u64);
        let arrival = self.under_way.keys().next().map_or(u64::MAX, |(at, _)| *at);
        self.now = timer.min(arrival).clamp(self.now + 1, self.now + 1_000_000);
    }

    fn send(&mut self, from: usize, frame: &[u8]) {
        if self.weather.delay().is_none() {
            return;
        }
        let pod = self.hosts[from].pod.clone();
        for delivery in self.cluster.send(&pod, frame) {
            let Some(delay) = self.weather.delay() else { continue };
            let at = |(node, port): (usize, PortId)| {
                self.hosts.iter().position(|host| (host.pod.node, host.pod.port) == (node, port))
            };
            let to = at((delivery.node, delivery.port)).expect("every pod is a host");
            self.frames += 1;
            self.under_way.insert((self.now + delay, self.frames), (to, delivery.frame));
        }
    }
}

/// Writes as much of what is not sent yet as the socket takes.
fn write(socket: &mut Socket<'_>, all: &[u8], sent: &mut usize) {
    if socket.can_send() {
        *sent += socket.send_slice(&all[*sent..]).expect("an open socket");
    }
}

/// Appends what the socket has.
fn read(socket: &mut Socket<'_>, to: &mut Vec<u8>) {
    while socket.can_recv() {
        socket
            .recv(|bytes| {
                to.extend_from_slice(bytes);
                (bytes.len(), ())
            })
            .expect("an open socket");
    }
}

/// The client sends everything to the service, whose member sends it all back. Returns the world afterwards.
fn transfer(family: Family, member_node: usize, bytes: usize, (lost, late): (u64, u64)) -> World {
    let mut cluster = Cluster::new(2);
    let (client, server) = (cluster.pod(0), cluster.pod(member_node));
    let service =
        ServiceSpec::new(1, vip(family), ServiceProtocol::Tcp, 80, &[(address(&server, family), 8080)]);
    cluster.put(&[service.object()]);
    let weather = Weather { state: 0x9e37_79b9_7f4a_7c15, lost_per_mille: lost, late_per_mille: late };
    let hosts = vec![Host::new(client.clone(), 1), Host::new(server, 2)];
    let mut world =
        World { cluster, hosts, weather, under_way: BTreeMap::new(), now: 0, frames: 0, next_ageing: 0 };
    world.hosts[1].socket().listen(8080).expect("a fresh socket");
    world.hosts[0].connect(vip(family), 80, 49_152);

    let sent: Vec<u8> = (0..bytes as u32).map(|at| (at.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
    let (mut received, mut returned) = (Vec::new(), Vec::new());
    let (mut written, mut echoed) = (0, 0);
    while returned.len() < sent.len() {
        assert!(
            world.now < PATIENCE,
            "{family:?}: {} there, {} back: {}",
            received.len(),
            returned.len(),
            text(&world)
        );
        world.step();
        write(world.hosts[0].socket(), &sent, &mut written);
        read(world.hosts[1].socket(), &mut received);
        write(world.hosts[1].socket(), &received, &mut echoed);
        read(world.hosts[0].socket(), &mut returned);
    }
    assert!(received == sent, "{family:?}: what came differs from what was sent");
    assert!(returned == sent, "{family:?}: what came back differs from what was sent");

    let endpoint = |address: IpAddr, port| Some(IpEndpoint::new(address.into(), port));
    assert_eq!(world.hosts[0].socket().remote_endpoint(), endpoint(vip(family), 80));
    assert_eq!(world.hosts[1].socket().remote_endpoint(), endpoint(address(&client, family), 49_152));
    close(&mut world);
    world
}

fn close(world: &mut World) {
    world.hosts.iter_mut().for_each(|host| host.socket().close());
    while world.hosts.iter_mut().any(|host| host.socket().is_open()) {
        assert!(world.now < PATIENCE, "does not close: {}", text(world));
        world.step();
    }
}

fn text(world: &World) -> String {
    world.cluster.nodes.iter().map(|node| node.flows_text(world.cluster.now)).collect()
}

#[test]
fn a_megabyte_goes_through_a_service_to_another_node_and_back() {
    for family in FAMILIES {
        let world = transfer(family, 1, 1 << 20, (0, 0));
        let drops: Vec<_> = (0..2).map(|node| support::drops(&world.cluster, node)).collect();
        assert_eq!(drops, [[], []], "{family:?}: nothing is lost that the cables do not lose");
    }
}

#[test]
fn nothing_is_damaged_by_loss_and_reordering() {
    for family in FAMILIES {
        for member_node in [0, 1] {
            transfer(family, member_node, 1 << 20, (10, 0));
            transfer(family, member_node, 1 << 20, (0, 100));
            transfer(family, member_node, 1 << 20, (20, 50));
        }
    }
}

#[test]
fn a_closed_connection_is_soon_forgotten() {
    for family in FAMILIES {
        let mut world = transfer(family, 1, 10_000, (20, 50));
        let later = world.cluster.now.plus_millis(70_000);
        for node in &mut world.cluster.nodes {
            node.age(later);
            assert_eq!(node.flows(later), [], "{family:?}");
        }
    }
}
