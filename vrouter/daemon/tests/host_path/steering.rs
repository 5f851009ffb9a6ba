//! Which packets reach the router, and which the node keeps.

use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::router::{LAST, Seen, What};
use crate::stage::Stage;
use crate::{ip, path, port};

/// Of the ports of source translation.
const POOL_PORT: u16 = 65_000;

pub fn seen(from: &str, to: &str, what: What) -> Seen {
    Seen { from: ip(from), to: ip(to), what }
}

pub fn udp(from: &str, to: &str, port: u16, payload: &[u8]) {
    let socket = UdpSocket::bind((ip(from), 0)).unwrap();
    socket.send_to(payload, (ip(to), port)).unwrap();
}

/// A connection that nobody answers or somebody refuses.
fn syn(to: &str, port: u16) {
    let _ = TcpStream::connect_timeout(&SocketAddr::new(ip(to), port), Duration::from_millis(1));
}

fn icmp(to: &str, message: &[u8]) {
    let address = SocketAddr::new(ip(to), 0);
    let protocol = if address.is_ipv4() { Protocol::ICMPV4 } else { Protocol::ICMPV6 };
    let socket = Socket::new(Domain::for_address(address), Type::RAW, Some(protocol)).unwrap();
    let mut message = message.to_vec();
    if address.is_ipv4() {
        let sum: u32 = message.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        message[2..4].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    }
    socket.send_to(&message, &address.into()).unwrap();
}

/// An ICMP message of this type, about or with this identifier.
fn message(kind: u8, identifier: u16) -> Vec<u8> {
    let [high, low] = identifier.to_be_bytes();
    [&[kind, 0, 0, 0, high, low, 0, 1][..], &[0; 40]].concat()
}

#[test]
fn what_comes_from_outside_goes_to_the_router_only_if_it_may_be_the_routers() {
    let Some(stage) = Stage::new("outside") else { return };
    let router = stage.router();
    stage.follow(&mut stage.keeper(), &path());
    let node = stage.inside(|| UdpSocket::bind("[::]:7000").unwrap());
    for (client, own, port_unreachable, echo_reply) in
        [("172.30.0.9", "172.30.0.1", 3, 0), ("fd00::9", "fd00::1", 1, 129)]
    {
        stage.inside_outside(|| {
            udp(client, own, 30_053, b"node port");
            udp(client, own, 5353, b"a service's port at the node's address");
            udp(client, own, POOL_PORT, b"source translation");
            udp(client, own, 7000, &[7; 3000]);
            icmp(own, &message(port_unreachable, 0));
            icmp(own, &message(echo_reply, POOL_PORT));
            // These are the node's own.
            icmp(own, &message(echo_reply, 77));
            udp(client, own, 7000, b"own");
            udp(client, own, 30_054, b"nobody's");
            udp(client, own, POOL_PORT, LAST);
        });
        let expected = [
            What::Udp(30_053),
            What::Udp(5353),
            What::Udp(POOL_PORT),
            What::Fragment,
            What::Fragment,
            What::Fragment,
            What::Icmp(port_unreachable),
            What::Icmp(echo_reply),
        ];
        assert_eq!(router.seen(), expected.map(|what| seen(client, own, what)));
        let mut payload = [0; 16];
        let (length, from) = node.recv_from(&mut payload).unwrap();
        assert_eq!(&payload[..length], b"own");
        assert!(from.ip().to_canonical() == ip(client), "{from}");
    }
}

#[test]
fn tpol_8_node_ports_are_at_the_nodes_addresses_alone_and_external_addresses_are_wholly_the_routers() {
    let Some(stage) = Stage::new("external") else { return };
    let router = stage.router();
    stage.follow(&mut stage.keeper(), &path());
    stage.inside_outside(|| {
        syn("172.30.0.1", 30_080);
        syn("203.0.113.7", 30_080);
        icmp("203.0.113.7", &message(8, 1));
        // A node port is one protocol's.
        syn("172.30.0.1", 30_053);
        udp("172.30.0.9", "172.30.0.1", POOL_PORT, LAST);
    });
    let client = "172.30.0.9";
    assert_eq!(
        router.seen(),
        [
            seen(client, "172.30.0.1", What::Tcp(30_080)),
            seen(client, "203.0.113.7", What::Tcp(30_080)),
            seen(client, "203.0.113.7", What::Icmp(8)),
        ]
    );
}

#[test]
fn what_the_node_itself_sends_goes_to_the_router_where_it_is_a_services() {
    let Some(stage) = Stage::new("node") else { return };
    let router = stage.router();
    stage.follow(&mut stage.keeper(), &path());
    stage.node("ip route add 203.0.113.0/24 via 172.30.0.9");
    let node = stage.inside(|| UdpSocket::bind("[::]:7000").unwrap());
    let _another = stage.inside_outside(|| UdpSocket::bind("[::]:30053").unwrap());
    stage.inside(|| {
        udp("0.0.0.0", "10.244.3.4", 80, b"pod");
        udp("0.0.0.0", "10.96.0.10", 53, b"service");
        udp("::", "fd00:10:244::7", 80, b"pod");
        udp("0.0.0.0", "172.30.0.1", 30_053, b"node port");
        udp("::", "fd00::1", 30_053, b"node port");
        udp("0.0.0.0", "172.30.0.1", 5353, b"a service's port at the node's address");
        udp("0.0.0.0", "203.0.113.7", 53, b"external");
        udp("0.0.0.0", "172.30.0.1", POOL_PORT, b"a reply to what was translated");
        // These are the node's own.
        udp("0.0.0.0", "172.30.0.1", 7000, b"own");
        udp("0.0.0.0", "172.30.0.9", 30_053, b"another's node port");
        udp("127.0.0.1", "127.0.0.1", 30_053, b"no node port");
        udp("127.0.0.1", "172.30.0.1", 30_053, b"never from a loopback address");
        udp("0.0.0.0", "172.30.0.1", POOL_PORT, LAST);
    });
    let (v4, v6) = ("172.30.0.1", "fd00::1");
    assert_eq!(
        router.seen(),
        [
            seen(v4, "10.244.3.4", What::Udp(80)),
            seen(v4, "10.96.0.10", What::Udp(53)),
            seen(v6, "fd00:10:244::7", What::Udp(80)),
            seen(v4, v4, What::Udp(30_053)),
            seen(v6, v6, What::Udp(30_053)),
            seen(v4, v4, What::Udp(5353)),
            seen(v4, "203.0.113.7", What::Udp(53)),
            seen(v4, v4, What::Udp(POOL_PORT)),
        ]
    );
    let mut payload = [0; 16];
    let length = node.recv(&mut payload).unwrap();
    assert_eq!(&payload[..length], b"own");
}

#[test]
fn tpol_14_a_node_port_is_not_served_at_a_loopback_address() {
    let Some(stage) = Stage::new("loopback") else { return };
    let router = stage.router();
    stage.follow(&mut stage.keeper(), &path());
    stage.inside(|| {
        let refused = TcpStream::connect("127.0.0.1:30080").unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        udp("0.0.0.0", "172.30.0.1", POOL_PORT, LAST);
    });
    assert_eq!(router.seen(), []);
}

/// A UDP packet as the router would make it.
pub fn packet(from: IpAddr, to: IpAddr, port: u16, payload: &[u8]) -> Vec<u8> {
    let builder = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => etherparse::PacketBuilder::ipv4(from.octets(), to.octets(), 63),
        (IpAddr::V6(from), IpAddr::V6(to)) => etherparse::PacketBuilder::ipv6(from.octets(), to.octets(), 63),
        _ => panic!("one family"),
    };
    let builder = builder.udp(port, port);
    let mut packet = Vec::new();
    builder.write(&mut packet, payload).unwrap();
    packet
}

#[test]
fn what_the_router_gives_back_the_node_takes_or_forwards() {
    let Some(stage) = Stage::new("back") else { return };
    let router = stage.router();
    // As distributions have it.
    stage.node("sysctl -qw net.ipv4.conf.all.rp_filter=2 net.ipv4.conf.eth0.rp_filter=1");
    stage.follow(&mut stage.keeper(), &path());
    let node = stage.inside(|| UdpSocket::bind("[::]:30053").unwrap());
    let outside = stage.inside_outside(|| UdpSocket::bind("[::]:30053").unwrap());
    let expect = |socket: &UdpSocket, from: &str| {
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut payload = [0; 16];
        let (_, sender) = socket.recv_from(&mut payload).unwrap();
        assert_eq!(sender.ip().to_canonical(), ip(from));
    };
    for (own, pod, client) in
        [("172.30.0.1", "10.244.3.4", "172.30.0.9"), ("fd00::1", "fd00:10:244::7", "fd00::9")]
    {
        // What it was steered and is the node's after all; a pod; the node's own through a service.
        for from in [client, pod, own] {
            router.send(&packet(ip(from), ip(own), 30_053, b"to the node"));
            expect(&node, from);
        }
        // A service's reply, in the node's name.
        router.send(&packet(ip(own), ip(client), 30_053, b"to the client"));
        expect(&outside, own);
    }
    router.send(&packet(ip("203.0.113.7"), ip("172.30.0.9"), 30_053, b"from an external address"));
    expect(&outside, "203.0.113.7");
}

#[test]
fn while_no_router_is_there_the_node_has_what_may_be_its_own_and_nobody_has_what_is_not() {
    let Some(stage) = Stage::new("away") else { return };
    let router = stage.router();
    stage.follow(&mut stage.keeper(), &path());
    drop(router);
    // The kernel takes notice of a lost carrier at its leisure.
    while ["ip route", "ip -6 route"]
        .iter()
        .any(|routes| !stage.node(&format!("{routes} show table 1641")).contains("linkdown"))
    {
        std::thread::sleep(Duration::from_millis(10));
    }
    let node = stage.inside(|| UdpSocket::bind("[::]:7000").unwrap());
    let clients = [("172.30.0.9", "172.30.0.1"), ("fd00::9", "fd00::1")];
    for (client, own) in clients {
        stage.inside_outside(|| udp(client, own, 7000, &[7; 3000]));
        node.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert_eq!(node.recv(&mut [0; 4000]).unwrap(), 3000, "fragments are the node's own");
    }
    // A refusal would end a connection that goes on when the router is back.
    for (client, own) in clients {
        let connected = stage.inside_outside(|| {
            let socket = UdpSocket::bind((ip(client), 0)).unwrap();
            socket.connect((ip(own), 30_053)).unwrap();
            socket
        });
        connected.send(b"node port").unwrap();
        stage.inside_outside(|| {
            let other = UdpSocket::bind((ip(client), 0)).unwrap();
            other.connect((ip(own), 7001)).unwrap();
            other.send(b"nobody's").unwrap();
            other.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            assert_eq!(other.recv(&mut [0; 16]).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
        });
        connected.set_nonblocking(true).unwrap();
        assert_eq!(connected.recv(&mut [0; 16]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
    // What is for pods leaves the node by no other way.
    stage.node("ip route add default via 172.30.0.9");
    stage.inside(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        assert_eq!(
            socket.connect((ip("10.244.3.4"), port(80).get())).unwrap_err().kind(),
            std::io::ErrorKind::HostUnreachable
        );
    });
}
