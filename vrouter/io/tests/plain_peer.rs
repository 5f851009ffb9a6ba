//! A peer without any offload behind a pod's interface, such as a virtual machine's: `tun-tap`, which knows neither
//! virtio-net headers nor several queues, reads what reaches it. Every packet must be complete by then.

mod support;

use std::net::UdpSocket;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use nix::sys::socket::{setsockopt, sockopt};
use support::{Namespace, Node, TunnelKind, are_we_root};
use tun_tap::{Iface, Mode};

const PEER: &str = "10.244.1.11";
const PORT: u16 = 7000;

/// The plain peer's side: a TAP of its own, bridged to the pod's interface.
struct PlainPeer {
    frames: Receiver<Vec<u8>>,
}

impl PlainPeer {
    /// Takes the place of the pod in this namespace.
    fn behind(namespace: &Namespace) -> Self {
        let iface = namespace.inside(|| Iface::without_packet_info("peer0", Mode::Tap).unwrap());
        namespace.ip("addr flush dev eth0");
        // The pod's address now belongs to the peer; the bridge must not keep what is sent to it.
        namespace.ip("link set eth0 address 02:00:00:00:00:99");
        namespace.ip("link add br0 type bridge");
        for port in ["eth0", "peer0"] {
            namespace.ip(&format!("link set {port} master br0"));
            namespace.ip(&format!("link set {port} up"));
        }
        namespace.ip("link set br0 up");
        let (sender, frames) = channel();
        // It ends with the interface, which ends with its namespace.
        std::thread::spawn(move || {
            let mut buffer = [0; 2048];
            while let Ok(len) = iface.recv(&mut buffer) {
                if sender.send(buffer[..len].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { frames }
    }

    /// The payloads of the datagrams to the peer's port, until there are `count` of them.
    fn datagrams(&self, count: usize) -> Vec<Vec<u8>> {
        let mut payloads = Vec::new();
        while payloads.len() < count {
            let frame = self.frames.recv_timeout(Duration::from_secs(10));
            let frame = frame.unwrap_or_else(|_| panic!("{} of {count} datagrams came", payloads.len()));
            payloads.extend(payload(&frame));
        }
        payloads
    }
}

/// The payload of a datagram to the peer's port, whose checksum must be complete.
fn payload(frame: &[u8]) -> Option<Vec<u8>> {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Udp(udp))) = (&packet.net, &packet.transport) else {
        return None;
    };
    if udp.destination_port() != PORT {
        return None;
    }
    let expected = udp.to_header().calc_checksum_ipv4(&ip.header().to_header(), udp.payload()).unwrap();
    assert_eq!(udp.checksum(), expected, "left unfinished");
    Some(udp.payload().to_vec())
}

#[test]
fn offl_12_a_peer_without_offload_gets_complete_packets() {
    if !are_we_root() {
        return;
    }
    let namespace = Namespace::new("node1");
    namespace.ip("addr add 172.30.0.1/24 dev lo");
    let mut node = Node::new(namespace, 1, &["172.30.0.1"], TunnelKind::Sockets);
    node.start();
    let sender = node.add_pod(&["10.244.1.10"]);
    let machine = node.add_pod(&[PEER]);
    let peer = PlainPeer::behind(&machine);
    let socket = sender.inside(|| UdpSocket::bind("10.244.1.10:0").unwrap());
    socket.connect((PEER, PORT)).unwrap();

    socket.send(&[7; 1000]).unwrap();
    assert_eq!(peer.datagrams(1), [vec![7; 1000]]);

    // One super-frame of five: it crosses the router whole, and is cut for who cannot take it.
    setsockopt(&socket, sockopt::UdpGsoSegment, &1000).unwrap();
    let five: Vec<u8> = (0..5000).map(|at| (at / 1000) as u8).collect();
    socket.send(&five).unwrap();
    let expected: Vec<_> = five.chunks(1000).map(<[u8]>::to_vec).collect();
    assert_eq!(peer.datagrams(5), expected);
    let totals = node.totals();
    assert_eq!((totals.super_frames_sent, totals.segments_cut), (1, 0), "{totals:?}");
}
