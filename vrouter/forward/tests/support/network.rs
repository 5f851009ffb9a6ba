//! The small network the tests are about: addresses of [`Cluster`], and changes to it.

use std::net::IpAddr;

use vrouter_forward::Family;
use vrouter_forward::frame::{Frame, Ingress};
use vrouter_forward::sim::{Cluster, PacketBuilder, PodHandle};
use vrouter_forward::tables::Change;
use vrouter_objects::{DropReason, MacAddress, Object, ObjectKey, RouteKey, ServiceProtocol, Vni, VrfId};

pub const FAMILIES: [Family; 2] = [Family::V4, Family::V6];
pub const ALL_PROTOCOLS: [ServiceProtocol; 3] =
    [ServiceProtocol::Tcp, ServiceProtocol::Udp, ServiceProtocol::Sctp];

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

/// The address of a service.
pub fn vip(family: Family) -> IpAddr {
    of(family, "10.96.0.10", "fd00:10:96::10")
}

/// The gateway of every pod.
pub fn gateway(family: Family) -> IpAddr {
    of(family, "10.244.0.1", "fd00:10:244::1")
}

fn of(family: Family, v4: &str, v6: &str) -> IpAddr {
    let text = if family == Family::V4 { v4 } else { v6 };
    text.parse().expect("a literal address")
}

/// A pod's address of this family.
pub fn address(pod: &PodHandle, family: Family) -> IpAddr {
    if family == Family::V4 { pod.v4 } else { pod.v6 }
}

/// A node's underlay address.
pub fn vtep(node: usize) -> IpAddr {
    IpAddr::from([172, 30, 0, node as u8 + 1])
}

/// The MAC address of a node's tunnel end.
pub fn node_mac(node: usize) -> MacAddress {
    MacAddress::local(0x56, node as u32 + 1)
}

/// A frame of a service's protocol; `flags` are TCP's.
pub fn packet(from: IpAddr, to: IpAddr, protocol: ServiceProtocol, ports: (u16, u16), flags: u8) -> Vec<u8> {
    let builder = PacketBuilder::new(from, to);
    match protocol {
        ServiceProtocol::Tcp => builder.tcp(ports.0, ports.1, flags),
        ServiceProtocol::Udp => builder.udp(ports.0, ports.1).payload(b"datagram"),
        ServiceProtocol::Sctp => builder.sctp(ports.0, ports.1).payload(&[1, 0, 0, 4]),
    }
    .build()
}

/// A frame in the pod network as it comes out of a VXLAN packet from `source`.
pub fn from_tunnel(bytes: &[u8], source: IpAddr) -> Frame {
    let vni = Vni::new(1).expect("a small VNI");
    Frame::from_bytes(bytes, Ingress::Tunnel { source, vni })
}

/// Takes a pod's interface away.
pub fn detach(cluster: &mut Cluster, pod: &PodHandle) {
    cluster.nodes[pod.node].tables.detach(pod.vmi);
    cluster.nodes[pod.node].publish();
}

/// Takes the pods' way out of the cluster away.
pub fn remove_default_routes(cluster: &mut Cluster) {
    let vrf = VrfId::new(1).expect("not 0");
    for node in 0..cluster.nodes.len() {
        for prefix in ["0.0.0.0/0", "::/0"] {
            let prefix = prefix.parse().expect("a literal prefix");
            remove(cluster, node, ObjectKey::Route(RouteKey { vrf, prefix }));
        }
    }
}

/// Puts objects on one node.
pub fn publish(cluster: &mut Cluster, node: usize, objects: &[Object]) {
    assert_eq!(cluster.nodes[node].put(objects.iter().cloned()), []);
}

/// Takes an object off every node.
pub fn remove_object(cluster: &mut Cluster, object: &Object) {
    for node in 0..cluster.nodes.len() {
        remove(cluster, node, object.key());
    }
}

/// Takes an object off one node.
pub fn remove(cluster: &mut Cluster, node: usize, key: ObjectKey) {
    let node = &mut cluster.nodes[node];
    assert_eq!(node.tables.apply(vec![Change::Remove(key)]), []);
    node.publish();
}

/// How many packets a node dropped for this reason.
pub fn dropped(cluster: &Cluster, node: usize, reason: DropReason) -> u64 {
    cluster.nodes[node].shared.totals().dropped_for(reason)
}

/// Every reason for which a node dropped packets, with their number.
pub fn drops(cluster: &Cluster, node: usize) -> Vec<(DropReason, u64)> {
    let totals = cluster.nodes[node].shared.totals();
    let reasons = DropReason::ALL.iter().map(|reason| (*reason, totals.dropped_for(*reason)));
    reasons.filter(|(_, count)| *count > 0).collect()
}
