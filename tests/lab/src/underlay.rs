//! The network the nodes stand on: a bridge in a namespace of its own, and one veth pair from it to each member.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use anyhow::{Result, bail};
use ipnet::{Ipv4Net, Ipv6Net};

use crate::name::{LabName, Part};
use crate::netns::{self, Netns};
use crate::state::{DataPath, KernelBlocks, Node};

/// The underlay's MTU.
pub const MTU: u16 = 1500;

/// What a VXLAN packet over IPv4 adds to the one it carries.
pub const OVERLAY_MTU: u16 = MTU - 50;

/// The underlay's interface in each namespace on it.
pub const DEVICE: &str = "eth0";

/// What joins the members, in the underlay's namespace.
pub const BRIDGE: &str = "bridge";

const CONTROL: u8 = 250;
const MOST_NODES: usize = 200;

/// The nodes of a lab with so many of each kind.
pub fn nodes(name: &LabName, vrouters: usize, kernels: usize) -> Result<Vec<Node>> {
    if vrouters + kernels > MOST_NODES {
        bail!("{} nodes: a lab has room for {MOST_NODES}", vrouters + kernels);
    }
    let names = (1..=vrouters).map(|number| format!("n{number}"));
    let all = names.chain((1..=kernels).map(|number| format!("k{number}")));
    Ok(all.zip(1..).map(|(node, place)| self::node(name, node, place, vrouters)).collect())
}

fn node(lab: &LabName, name: String, place: u8, vrouters: usize) -> Node {
    let data_path = if usize::from(place) <= vrouters {
        DataPath::VRouter(None)
    } else {
        DataPath::Kernel(kernel_blocks(place))
    };
    let labels = [("kubernetes.io/hostname", name.as_str()), ("kubernetes.io/os", "linux")];
    Node {
        netns: lab.netns(&Part::Node(name.clone())),
        ipv4: ipv4(place),
        ipv6: ipv6(place),
        labels: BTreeMap::from(labels.map(|(label, value)| (label.to_owned(), value.to_owned()))),
        data_path,
        name,
    }
}

/// Blocks from the far end of the pod network, where the controller's own choice comes last.
fn kernel_blocks(place: u8) -> KernelBlocks {
    let third = 255 - place;
    let ipv4 = Ipv4Net::new_assert(Ipv4Addr::new(10, 244, third, 0), 24);
    let ipv6 = Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, 0x10, 0x244, u16::from(third), 0, 0, 0, 0), 64);
    KernelBlocks { ipv4, ipv6, mac: format!("02:6b:00:00:00:{place:02x}") }
}

/// Where the controller listens.
pub fn control_address() -> Ipv4Addr {
    ipv4(CONTROL)
}

/// The IPv4 address of a place on the underlay.
pub fn ipv4(place: u8) -> Ipv4Addr {
    Ipv4Addr::new(172, 30, 0, place)
}

/// Its IPv6 address.
pub fn ipv6(place: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0x30, 0, 0, 0, 0, 0, place.into())
}

/// Makes the namespaces of the underlay, of the nodes and of their controller, and joins them.
pub fn build(name: &LabName, nodes: &[Node]) -> Result<()> {
    let underlay = name.netns(&Part::Underlay);
    join(&underlay, nodes)?;
    add(&underlay, &name.netns(&Part::Control), &Part::Control.to_string(), ipv4(CONTROL), ipv6(CONTROL))
}

/// Makes an underlay that these nodes alone are on, with their namespaces.
pub fn join(underlay: &Netns, nodes: &[Node]) -> Result<()> {
    underlay.create()?;
    underlay.ip(&format!(
        "link add {BRIDGE} mtu {MTU} type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
    ))?;
    underlay.ip(&format!("link set {BRIDGE} up"))?;
    for node in nodes {
        add(underlay, &node.netns, &node.name, node.ipv4, node.ipv6)?;
    }
    Ok(())
}

/// Makes a member's namespace and joins it to the underlay by a port of this name.
pub fn add(underlay: &Netns, member: &Netns, port: &str, ipv4: Ipv4Addr, ipv6: Ipv6Addr) -> Result<()> {
    member.create()?;
    netns::join((underlay, port), (member, DEVICE), MTU)?;
    underlay.ip(&format!("link set {port} master {BRIDGE}"))?;
    member.ip_batch(&format!(
        "addr add {ipv4}/24 dev {DEVICE}\n\
         addr add {ipv6}/64 dev {DEVICE} nodad\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_nodes_follow_ours_and_overlap_nothing() {
        let name: LabName = "a".parse().unwrap();
        let nodes = nodes(&name, 2, 2).unwrap();
        let names: Vec<_> =
            nodes.iter().map(|node| (node.name.as_str(), node.address().to_string())).collect();
        let wanted = [("n1", 1), ("n2", 2), ("k1", 3), ("k2", 4)];
        assert_eq!(names, wanted.map(|(name, place)| (name, format!("172.30.0.{place}"))));
        let blocks: Vec<_> = nodes
            .iter()
            .filter_map(|node| match &node.data_path {
                DataPath::Kernel(blocks) => Some(blocks.ipv4.to_string()),
                DataPath::VRouter(_) => None,
            })
            .collect();
        assert_eq!(blocks, ["10.244.252.0/24", "10.244.251.0/24"]);
        assert!(super::nodes(&name, 150, 51).is_err());
    }
}
