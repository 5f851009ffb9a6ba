//! The data path with real kernels at both ends: TAPs in pods' namespaces, a veth underlay, TCP and UDP sockets.

mod support;

#[path = "support/traffic.rs"]
mod traffic;

use std::net::UdpSocket;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use support::{Namespace, Node, TunnelKind, are_we_root, link, until, vtep_mac};
use traffic::{Connection, datagrams, stream};

const MIB: usize = 1 << 20;

const UNDERLAY4: [&str; 2] = ["172.30.0.1", "172.30.0.2"];
const UNDERLAY6: [&str; 2] = ["fd00:172:30::1", "fd00:172:30::2"];

/// One node, started.
fn one_node() -> Node {
    let namespace = Namespace::new("node1");
    namespace.ip("addr add 172.30.0.1/24 dev lo");
    let mut node = Node::new(namespace, 1, &UNDERLAY4[..1], TunnelKind::Sockets);
    node.start();
    node
}

/// Two nodes with an underlay between them, each with its kind of tunnels, started.
fn two_nodes(vteps: &[&str; 2], kinds: [TunnelKind; 2]) -> [Node; 2] {
    let namespaces = [Namespace::new("node1"), Namespace::new("node2")];
    let len = if vteps[0].contains(':') { 64 } else { 24 };
    let [one, other] = vteps.map(|vtep| format!("{vtep}/{len}"));
    link(&namespaces[0], &one, &namespaces[1], &other);
    let [one, other] = namespaces;
    let mut nodes = [Node::new(one, 1, vteps, kinds[0]), Node::new(other, 2, vteps, kinds[1])];
    nodes.iter_mut().for_each(Node::start);
    nodes
}

#[test]
fn two_pods_on_one_node() {
    if !are_we_root() {
        return;
    }
    let mut node = one_node();
    let one = node.add_pod(&["10.244.1.10", "fd00:10:244:1::10"]);
    let other = node.add_pod(&["10.244.1.11", "fd00:10:244:1::11"]);
    for address in ["10.244.1.11", "fd00:10:244:1::11"] {
        assert!(one.succeeds(&format!("ping -c 2 -i 0.2 -W 2 {address}")), "{}", node.drops());
        assert!(one.succeeds(&format!("ping -c 2 -i 0.2 -W 2 -s 3000 {address}")), "{}", node.drops());
        stream(&one, &other, address, 32 * MIB);
        stream(
            &other,
            &one,
            if address.contains(':') { "fd00:10:244:1::10" } else { "10.244.1.10" },
            4 * MIB,
        );
        for len in [1, 100, 1_300, 5_000] {
            datagrams(&one, &other, address, len);
        }
    }
    let totals = node.totals();
    assert!(totals.super_frames_sent > 100, "{totals:?}");
    assert!(totals.frames_merged > 0, "{totals:?}");
    assert_eq!((totals.segments_cut, node.dropped()), (0, 0), "{totals:?}\n{}", node.drops());
}

#[test]
fn two_nodes_over_an_ipv4_underlay() {
    if are_we_root() {
        TunnelKind::ALL.iter().for_each(|kind| exchange(&UNDERLAY4, [*kind; 2]));
    }
}

#[test]
fn two_nodes_over_an_ipv6_underlay() {
    if are_we_root() {
        TunnelKind::ALL.iter().for_each(|kind| exchange(&UNDERLAY6, [*kind; 2]));
    }
}

#[test]
fn nodes_of_both_kinds_understand_each_other() {
    if are_we_root() {
        exchange(&UNDERLAY4, TunnelKind::ALL);
    }
}

fn exchange(vteps: &[&str; 2], kinds: [TunnelKind; 2]) {
    let [mut here, mut there] = two_nodes(vteps, kinds);
    let one = here.add_pod(&["10.244.1.10", "fd00:10:244:1::10"]);
    let other = there.add_pod(&["10.244.2.10", "fd00:10:244:2::10"]);
    for (to_there, to_here) in [("10.244.2.10", "10.244.1.10"), ("fd00:10:244:2::10", "fd00:10:244:1::10")] {
        assert!(
            one.succeeds(&format!("ping -c 2 -i 0.2 -W 2 {to_there}")),
            "{}\n{}",
            here.drops(),
            there.drops()
        );
        assert!(one.succeeds(&format!("ping -c 2 -i 0.2 -W 2 -s 3000 {to_there}")));
        stream(&one, &other, to_there, 32 * MIB);
        stream(&other, &one, to_here, 4 * MIB);
        for len in [1, 100, 1_300, 5_000] {
            datagrams(&one, &other, to_there, len);
        }
    }
    for (node, kind) in [&here, &there].into_iter().zip(kinds) {
        let totals = node.totals();
        match kind {
            TunnelKind::Sockets => {
                assert!(totals.segments_cut > 1_000, "{totals:?}");
                // What a device sends comes whole.
                assert!(totals.frames_merged > 1_000 || kinds != [kind; 2], "{totals:?}");
            }
            TunnelKind::Devices => assert_eq!(totals.segments_cut, 0, "{totals:?}"),
        }
        assert!(totals.super_frames_sent > 100, "{totals:?}");
        assert_eq!(node.dropped(), 0, "{totals:?}\n{}", node.drops());
    }
}

/// The largest super-frame that a pod sends is one that no outer packet can hold.
#[test]
fn a_super_frame_that_no_tunnel_can_hold_is_cut() {
    if !are_we_root() {
        return;
    }
    const SIZE: usize = 1_400;
    const BYTES: usize = 65_490;
    let [mut here, mut there] = two_nodes(&UNDERLAY4, [TunnelKind::Devices; 2]);
    let sender = here.add_pod(&["10.244.1.10"]);
    let receiver = there.add_pod(&["10.244.2.10"]);
    let target = receiver.inside(|| UdpSocket::bind("10.244.2.10:0").unwrap());
    target.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let source = sender.inside(|| UdpSocket::bind("10.244.1.10:0").unwrap());
    setsockopt(&source, sockopt::UdpGsoSegment, &(SIZE as i32)).unwrap();
    let bytes: Vec<u8> = (0..BYTES).map(|at| (at / SIZE) as u8).collect();
    source.send_to(&bytes, target.local_addr().unwrap()).unwrap();
    let mut buffer = [0; 2 * SIZE];
    for expected in bytes.chunks(SIZE) {
        let len = target.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..len], *expected);
    }
    assert_eq!(here.totals().segments_cut as usize, BYTES.div_ceil(SIZE));
    assert_eq!((here.dropped(), there.dropped()), (0, 0), "{}{}", here.drops(), there.drops());
}

#[test]
fn a_vrouter_and_a_kernel_vxlan_device_understand_each_other() {
    if are_we_root() {
        TunnelKind::ALL.into_iter().for_each(exchange_with_kernel);
    }
}

fn exchange_with_kernel(kind: TunnelKind) {
    let namespaces = [Namespace::new("node1"), Namespace::new("kernel")];
    link(&namespaces[0], "172.30.0.1/24", &namespaces[1], "172.30.0.2/24");
    let [namespace, kernel] = namespaces;
    kernel.ip("link add vx1 type vxlan id 1 local 172.30.0.2 dstport 4789 nolearning");
    kernel.ip(&format!("link set vx1 address {} mtu 1430 up", vtep_mac(2)));
    kernel.ip("addr add 10.244.2.10/32 dev vx1");
    kernel.ip("route add 10.244.1.0/24 via 10.244.1.0 dev vx1 onlink src 10.244.2.10");
    kernel.ip(&format!("neigh replace 10.244.1.0 lladdr {} dev vx1 nud permanent", vtep_mac(1)));
    assert!(kernel.succeeds(&format!("bridge fdb append {} dev vx1 dst 172.30.0.1", vtep_mac(1))));
    let mut node = Node::new(namespace, 1, &UNDERLAY4, kind);
    node.start();
    let pod = node.add_pod(&["10.244.1.10"]);
    assert!(pod.succeeds("ping -c 2 -i 0.2 -W 2 10.244.2.10"), "{}", node.drops());
    stream(&pod, &kernel, "10.244.2.10", 16 * MIB);
    stream(&kernel, &pod, "10.244.1.10", 16 * MIB);
    for len in [1, 100, 1_300, 5_000] {
        datagrams(&pod, &kernel, "10.244.2.10", len);
        datagrams(&kernel, &pod, "10.244.1.10", len);
    }
    let totals = node.totals();
    assert!(kind == TunnelKind::Devices || totals.frames_merged > 1_000, "{totals:?}");
    assert_eq!(node.dropped(), 0, "{totals:?}\n{}", node.drops());
}

#[test]
fn a_connection_goes_on_when_the_router_is_started_anew() {
    if !are_we_root() {
        return;
    }
    let mut node = one_node();
    let one = node.add_pod(&["10.244.1.10"]);
    let other = node.add_pod(&["10.244.1.11"]);
    let mut connection = Connection::open(&one, &other, "10.244.1.11");
    connection.send(MIB);
    node.stop();
    node.start();
    connection.send(MIB);
    connection.close();
}

#[test]
fn an_unplugged_interface_is_reported_and_disturbs_nobody() {
    if !are_we_root() {
        return;
    }
    let mut node = one_node();
    let one = node.add_pod(&["10.244.1.10"]);
    let other = node.add_pod(&["10.244.1.11"]);
    let third = node.add_pod(&["10.244.1.12"]);
    stream(&one, &other, "10.244.1.11", MIB);
    other.ip("link del eth0");
    until("the port is reported", || node.data_path().unplugged_ports().iter().any(|port| port.0 == 2));
    assert!(!one.succeeds("ping -c 1 -W 1 10.244.1.11"));
    stream(&one, &third, "10.244.1.12", MIB);
    assert!(node.dropped() > 0);
}
