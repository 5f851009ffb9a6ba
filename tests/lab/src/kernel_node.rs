//! Nodes that Linux itself forwards on: veth pairs to the pods, routes, and a `vxlan` device to the other nodes.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Result, bail};
use ipnet::IpNet;

use crate::cni;
use crate::netns::{self, Netns};
use crate::shell::run;
use crate::state::{KernelBlocks, Node, Pod};
use crate::underlay::OVERLAY_MTU;

const DEVICE: &str = "vxlan1";
const VNI: u32 = 1;
const VXLAN_PORT: u16 = 4789;

/// The pods' gateways: link-local, the same behind every veth pair.
const GATEWAYS: (&str, &str) = ("169.254.1.1", "fe80::1");

/// Another node, as a tunnel's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its underlay address.
    pub address: IpAddr,
    /// The MAC its tunnel end expects.
    pub mac: String,
    /// Its pods' addresses.
    pub blocks: Vec<IpNet>,
}

/// Makes a kernel node of a namespace on the underlay.
pub fn build(node: &Node, blocks: &KernelBlocks) -> Result<()> {
    node.netns.sysctl(&["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"])?;
    let (mac, local) = (&blocks.mac, node.ipv4);
    node.netns.ip_batch(&format!(
        "link add {DEVICE} address {mac} mtu {OVERLAY_MTU} type vxlan id {VNI} local {local} dstport {VXLAN_PORT} nolearning\n\
         link set {DEVICE} up\n\
         addr add {}/32 dev {DEVICE}\n\
         addr add {}/128 dev {DEVICE} nodad\n",
        blocks.ipv4.network(),
        blocks.ipv6.network(),
    ))
}

/// Routes a peer's blocks through the tunnel. The block's own first address stands for the peer, as with flannel.
pub fn connect(node: &Node, peer: &Peer) -> Result<()> {
    for block in &peer.blocks {
        let gateway = block.network();
        node.netns.ip_batch(&format!(
            "neigh replace {gateway} lladdr {} dev {DEVICE} nud permanent\n\
             route replace {block} via {gateway} dev {DEVICE} onlink\n",
            peer.mac
        ))?;
    }
    let entry = [
        "-n",
        node.netns.name(),
        "fdb",
        "replace",
        &peer.mac,
        "dev",
        DEVICE,
        "dst",
        &peer.address.to_string(),
    ];
    run("bridge", entry).map(drop)
}

/// Attaches a pod by a veth pair and returns its addresses, IPv4 first.
pub fn attach(
    node: &Node,
    blocks: &KernelBlocks,
    pod: &Pod,
    taken: &BTreeSet<IpAddr>,
) -> Result<Vec<IpAddr>> {
    let addresses = free_addresses(blocks, taken)?;
    join_pod((&node.netns, &device(pod)), &pod.netns, &addresses)?;
    Ok(addresses)
}

/// Joins a pod's namespace to a node by a veth pair whose end on the node is called so.
pub fn join_pod((node, device): (&Netns, &str), pod: &Netns, addresses: &[IpAddr]) -> Result<()> {
    let inside = cni::INTERFACE;
    netns::join((node, device), (pod, inside), OVERLAY_MTU)?;
    let (ipv4, ipv6) = GATEWAYS;
    node.ip_batch(&format!(
        "addr add {ipv4}/32 dev {device}\n\
         addr add {ipv6}/64 dev {device} nodad\n"
    ))?;
    for address in addresses {
        let host = IpNet::from(*address);
        let (gateway, quickly) = if address.is_ipv4() { (ipv4, "") } else { (ipv6, "nodad") };
        node.ip(&format!("route add {host} dev {device}"))?;
        pod.ip_batch(&format!(
            "addr add {host} dev {inside} {quickly}\n\
             route add default via {gateway} dev {inside} onlink\n"
        ))?;
    }
    Ok(())
}

/// The node's end of a pod's veth pair; unique on the node, and short enough for the kernel.
fn device(pod: &Pod) -> String {
    format!("veth{}", &pod.container_id[..8])
}

/// The lowest free place of both blocks: the same last number in both families.
pub fn free_addresses(blocks: &KernelBlocks, taken: &BTreeSet<IpAddr>) -> Result<Vec<IpAddr>> {
    // The first address stands for the node, the second is left to a gateway.
    let place = |number: u8| -> [IpAddr; 2] {
        let ipv4 = u32::from(blocks.ipv4.network()) + u32::from(number);
        let ipv6 = u128::from(blocks.ipv6.network()) + u128::from(number);
        [Ipv4Addr::from(ipv4).into(), Ipv6Addr::from(ipv6).into()]
    };
    match (2..=254).map(place).find(|pair| pair.iter().all(|address| !taken.contains(address))) {
        Some(pair) => Ok(pair.into()),
        None => bail!("no address left in {}", blocks.ipv4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_given_from_the_lowest_free_place() {
        let blocks = KernelBlocks {
            ipv4: "10.244.252.0/24".parse().unwrap(),
            ipv6: "fd00:10:244:fc::/64".parse().unwrap(),
            mac: "02:6b:00:00:00:03".into(),
        };
        let taken = BTreeSet::from(["10.244.252.2".parse().unwrap(), "fd00:10:244:fc::3".parse().unwrap()]);
        let wanted: [IpAddr; 2] = ["10.244.252.4".parse().unwrap(), "fd00:10:244:fc::4".parse().unwrap()];
        assert_eq!(free_addresses(&blocks, &taken).unwrap(), wanted);
    }
}
