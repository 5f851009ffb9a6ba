//! What must not pass between pods, the node and whoever is beyond it, whatever else the node is set to. Each is seen to pass
//! once the chain that keeps it out is gone.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use etherparse::{IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header, Ipv4Options, PacketBuilder};
use socket2::{Domain, Protocol, Socket, Type};
use vrouter_objects::VXLAN_PORT;

use crate::router::{LAST, What};
use crate::stage::Stage;
use crate::steering::{packet, seen, udp};
use crate::{ip, path};

const FAMILIES: [[&str; 3]; 2] =
    [["172.30.0.1", "10.244.3.4", "172.30.0.9"], ["fd00::1", "fd00:10:244::7", "fd00::9"]];

/// Who listens, and has a time in which what comes has come.
fn listen(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket
}

/// What came before the last packet, which comes to another socket.
fn came(socket: &UdpSocket, last: &UdpSocket) -> Vec<IpAddr> {
    last.recv(&mut [0; 64]).unwrap();
    socket.set_nonblocking(true).unwrap();
    let senders = std::iter::from_fn(|| match socket.recv_from(&mut [0; 64]) {
        Ok((_, sender)) => Some(sender.ip().to_canonical()),
        Err(error) => (error.kind() != ErrorKind::WouldBlock).then(|| panic!("{error}")),
    });
    senders.collect()
}

#[test]
fn pods_do_not_speak_in_a_tunnel_with_this_node_or_with_others() {
    let Some(stage) = Stage::new("tunnel") else { return };
    let router = stage.router();
    stage.follow(&mut stage.keeper(), &path());
    let tunnel = format!("[::]:{VXLAN_PORT}");
    let node = stage.inside(|| (listen(&tunnel), listen("[::]:7000")));
    let other = stage.inside_outside(|| (listen(&tunnel), listen("[::]:7000")));
    let speak = || {
        for [own, pod, outside] in FAMILIES.map(|family| family.map(ip)) {
            // In its own name, and in the node's.
            for from in [pod, own] {
                router.send(&packet(from, own, VXLAN_PORT, b"tunnel"));
            }
            router.send(&packet(own, outside, VXLAN_PORT, b"tunnel"));
        }
        let [own, pod, outside] = FAMILIES[0].map(ip);
        router.send(&packet(pod, own, 7000, LAST));
        router.send(&packet(own, outside, 7000, LAST));
    };
    speak();
    assert_eq!((came(&node.0, &node.1), came(&other.0, &other.1)), (vec![], vec![]));

    stage.node("nft flush chain inet vrouter_host from_pods");
    speak();
    let [[own4, pod4, _], [own6, pod6, _]] = FAMILIES.map(|family| family.map(ip));
    assert_eq!(came(&node.0, &node.1), [pod4, own4, pod6, own6]);
    assert_eq!(came(&other.0, &other.1), [own4, own6], "another node believes it");
}

#[test]
fn pods_do_not_reach_what_the_node_keeps_to_itself() {
    let Some(stage) = Stage::new("itself") else { return };
    // As kube-proxy has it.
    stage.node("sysctl -qw net.ipv4.conf.all.route_localnet=1");
    let router = stage.router();
    stage.follow(&mut stage.keeper(), &path());
    let (inner, last) = stage.inside(|| (listen("127.0.0.1:7000"), listen("0.0.0.0:7001")));
    let [own, pod, _] = FAMILIES[0].map(ip);
    let speak = || {
        router.send(&packet(pod, ip("127.0.0.1"), 7000, b"pod"));
        router.send(&packet(pod, own, 7001, LAST));
    };
    speak();
    assert_eq!(came(&inner, &last), [] as [IpAddr; 0]);
    stage.node("nft flush chain inet vrouter_host from_pods");
    speak();
    assert_eq!(came(&inner, &last), [pod]);
}

#[test]
fn pods_do_not_speak_in_tunnels_that_the_nodes_kernel_may_take() {
    let Some(stage) = Stage::new("kernel") else { return };
    let router = stage.router();
    stage.follow(&mut stage.keeper(), &path());
    let last = stage.inside(|| listen("[::]:7000"));
    for family in FAMILIES {
        let [own, pod, _] = family.map(ip);
        // IP in IP, 6in4 and GRE.
        for protocol in [4, 41, 47] {
            let ear = stage.inside(|| {
                let domain = Domain::for_address(SocketAddr::new(own, 0));
                UdpSocket::from(Socket::new(domain, Type::RAW, Some(Protocol::from(protocol))).unwrap())
            });
            let speak = || {
                router.send(&plain_packet(pod, own, protocol as u8));
                router.send(&packet(pod, own, 7000, LAST));
                came(&ear, &last)
            };
            assert_eq!(speak(), [] as [IpAddr; 0], "{own} {protocol}");
            stage.node("nft flush chain inet vrouter_host to_the_node");
            assert_eq!(speak(), [pod], "{own} {protocol}");
            stage.follow(&mut stage.keeper(), &path());
        }
    }
}

/// A packet of another protocol, with nothing in it that makes sense.
fn plain_packet(from: IpAddr, to: IpAddr, protocol: u8) -> Vec<u8> {
    let builder = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), 63),
        (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), 63),
        _ => panic!("one family"),
    };
    let mut packet = Vec::new();
    builder.write(&mut packet, IpNumber(protocol), &[0; 40]).unwrap();
    packet
}

/// The node's own processes reach its pods whatever policies say, so nobody else may pass for one. IPv4's kernel drops
/// what comes with an address of its own unless it is told otherwise; IPv6's does not.
#[test]
fn nobody_beyond_the_node_passes_for_it() {
    let Some(stage) = Stage::new("pose") else { return };
    stage.node("ip address add 172.30.0.77/24 dev eth0");
    stage.node("ip address add fd00::77/64 dev eth0 nodad");
    stage.node("sysctl -qw net.ipv4.conf.eth0.accept_local=1 net.ipv4.conf.eth0.rp_filter=0");
    let router = stage.router();
    stage.follow(&mut stage.keeper(), &path());
    for [own, pod, _] in FAMILIES {
        stage.outside(&format!("ip route add {pod} via {}77", own.strip_suffix('1').unwrap()));
        stage.outside(&format!("ping -c 1 -W 10 {}77", own.strip_suffix('1').unwrap()));
        stage.outside(&format!("ip address add {own} dev lo"));
    }
    let pose = || {
        stage.inside_outside(|| {
            for [own, pod, outside] in FAMILIES {
                udp(own, pod, 80, b"as the node");
                udp(outside, pod, 81, b"as itself");
            }
            udp("172.30.0.9", "10.244.3.4", 80, LAST);
        });
        router.seen()
    };
    let honest = FAMILIES.map(|[_, pod, outside]| seen(outside, pod, What::Udp(81)));
    assert_eq!(pose(), honest);
    stage.node("nft flush chain inet vrouter_host through_the_node");
    let both = FAMILIES
        .map(|[own, pod, outside]| [seen(own, pod, What::Udp(80)), seen(outside, pod, What::Udp(81))]);
    assert_eq!(pose(), both.concat());
}

#[test]
fn what_the_router_gives_to_the_node_does_not_come_back_as_the_nodes() {
    let Some(stage) = Stage::new("round") else { return };
    let router = stage.router();
    stage.follow(&mut stage.keeper(), &path());
    let speak = || {
        for [own, pod, outside] in FAMILIES.map(|family| family.map(ip)) {
            router.send(&packet(own, pod, 80, b"in the node's name"));
            router.send(&packet(outside, pod, 80, b"in another's"));
        }
        stage.inside(|| udp("0.0.0.0", "172.30.0.1", 65_000, LAST));
        router.seen()
    };
    assert_eq!(speak(), []);
    stage.node("nft flush chain inet vrouter_host through_the_node");
    assert_eq!(speak().len(), 4);
}

#[test]
fn pods_do_not_choose_a_packets_way_beyond_the_node() {
    let Some(stage) = Stage::new("way") else { return };
    stage.node("sysctl -qw net.ipv4.conf.all.accept_source_route=1 net.ipv4.conf.all.accept_redirects=1");
    stage.outside(
        "sysctl -qw net.ipv4.conf.all.accept_source_route=1 net.ipv4.conf.eth0.accept_source_route=1",
    );
    stage.outside("ip route add 10.244.0.0/16 via 172.30.0.1");
    let router = stage.router();
    stage.follow(&mut stage.keeper(), &path());
    let outside = stage.inside_outside(|| (listen("0.0.0.0:7000"), listen("0.0.0.0:7001")));
    let [own, pod, client] = FAMILIES[0].map(ip);
    let speak = || {
        router.send(&by_way_of(own, pod, client));
        router.send(&packet(own, client, 7001, LAST));
    };
    speak();
    assert_eq!(came(&outside.0, &outside.1), [] as [IpAddr; 0]);
    stage.node("sysctl -qw net.ipv4.conf.vhost0.accept_source_route=1");
    speak();
    assert_eq!(came(&outside.0, &outside.1), [pod]);
    for family in ["ipv4", "ipv6"] {
        assert_eq!(stage.sysctl(&format!("net/{family}/conf/vhost0/accept_redirects")), "0");
    }
}

/// A UDP packet that is to come to its destination, port 7000, by way of another address (RFC 791's loose source route).
fn by_way_of(way: IpAddr, from: IpAddr, to: IpAddr) -> Vec<u8> {
    let (IpAddr::V4(way), IpAddr::V4(from), IpAddr::V4(to)) = (way, from, to) else { panic!("IPv4 alone") };
    let [a, b, c, d] = to.octets();
    let mut header = Ipv4Header::new(0, 63, IpNumber::UDP, from.octets(), way.octets()).unwrap();
    header.options = Ipv4Options::from([131, 7, 4, a, b, c, d, 0]);
    let builder = PacketBuilder::ip(IpHeaders::Ipv4(header, Ipv4Extensions::default())).udp(7000, 7000);
    let mut packet = Vec::new();
    builder.write(&mut packet, b"").unwrap();
    // Its checksum would be that of a packet to the last address.
    packet[28 + 6..].fill(0);
    packet
}
