//! Who may send into the tunnels. A device does not say who sent a packet, and the router knows that by the inner
//! source MAC address: so what does not come from the address of the very node whose MAC address it bears is dropped
//! before it. And what comes out of a device is the router's alone: the kernel's own stack never sees it.
//!
//! It is a table of nftables of its own, as a table belongs to one network namespace. What it drops, it counts:
//! `nft list counters table inet vrouter_tunnels`.

use std::fmt::Write as _;
use std::net::IpAddr;

use vrouter_objects::MacAddress;

use super::{TunnelDeviceError, VXLAN_PORT};
use crate::nft;

const TABLE: &str = "inet vrouter_tunnels";

/// The inner source MAC address, counted in bits from the UDP header: behind that, the VXLAN header and the inner
/// destination. A packet that ends before it is let through, and dropped by the device, as it is no Ethernet frame.
const INNER_SOURCE: &str = "@th,176,48";

/// Lets in what these peers send to this tunnel end, and keeps what comes out of these devices from the kernel. All at once, and without
/// disturbing the counters.
pub(super) fn set<'a>(
    vtep: IpAddr,
    peers: impl Iterator<Item = (MacAddress, IpAddr)>,
    devices: impl Iterator<Item = &'a String>,
) -> Result<(), TunnelDeviceError> {
    Ok(nft::run(&script(vtep, peers, devices))?)
}

/// Removes the table, if it is there.
pub(super) fn remove() -> Result<(), TunnelDeviceError> {
    if is_there() { Ok(nft::run(&format!("delete table {TABLE}\n"))?) } else { Ok(()) }
}

/// Whether the table is there.
pub(super) fn is_there() -> bool {
    nft::has_table(TABLE)
}

fn script<'a>(
    vtep: IpAddr,
    peers: impl Iterator<Item = (MacAddress, IpAddr)>,
    devices: impl Iterator<Item = &'a String>,
) -> String {
    let family = if vtep.is_ipv4() { "ip" } else { "ip6" };
    let mut script = format!(
        "add table {TABLE}
add counter {TABLE} unknown_vtep
add set {TABLE} peers4 {{ typeof ip saddr . {INNER_SOURCE}; }}
add set {TABLE} peers6 {{ typeof ip6 saddr . {INNER_SOURCE}; }}
add set {TABLE} own_devices {{ type ifname; }}
add chain {TABLE} outer {{ type filter hook input priority filter; }}
add chain {TABLE} inner {{ type filter hook prerouting priority raw; }}
flush table {TABLE}
flush set {TABLE} peers4
flush set {TABLE} peers6
flush set {TABLE} own_devices
add rule {TABLE} outer udp dport {VXLAN_PORT} {family} daddr != {vtep} counter name unknown_vtep drop
add rule {TABLE} outer udp dport {VXLAN_PORT} ip saddr . {INNER_SOURCE} != @peers4 counter name unknown_vtep drop
add rule {TABLE} outer udp dport {VXLAN_PORT} ip6 saddr . {INNER_SOURCE} != @peers6 counter name unknown_vtep drop
add rule {TABLE} inner iifname @own_devices drop
"
    );
    let (v4, v6): (Vec<_>, Vec<_>) = peers.partition(|(_, address)| address.is_ipv4());
    let pairs = |peers: Vec<_>| peers.iter().map(pair).collect();
    let quoted = devices.map(|name| format!("\"{name}\"")).collect();
    for (set, elements) in [("peers4", pairs(v4)), ("peers6", pairs(v6)), ("own_devices", quoted)] {
        let elements: Vec<String> = elements;
        if !elements.is_empty() {
            // Writing to a string does not fail.
            let _ = writeln!(script, "add element {TABLE} {set} {{ {} }}", elements.join(", "));
        }
    }
    script
}

/// A peer as `nft` reads it: to it, bits of a packet are a number.
fn pair((mac, address): &(MacAddress, IpAddr)) -> String {
    let number = mac.0.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    format!("{address} . {number:#014x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vxlan_2_sources_are_the_nodes_and_nobody_else() {
        let peer = |router, address: &str| (MacAddress::local(0x56, router), address.parse().unwrap());
        let peers = [peer(2, "172.30.0.2"), peer(3, "172.30.0.3"), peer(2, "fd00::2")];
        let vtep = "172.30.0.1".parse().unwrap();
        let text = script(vtep, peers.into_iter(), ["vxlan-1".to_owned()].iter());
        for line in [
            "add element inet vrouter_tunnels peers4 \
             { 172.30.0.2 . 0x025600000002, 172.30.0.3 . 0x025600000003 }",
            "add element inet vrouter_tunnels peers6 { fd00::2 . 0x025600000002 }",
            "add element inet vrouter_tunnels own_devices { \"vxlan-1\" }",
            // What a pod sends to another address of ours bears its node's name, as a tunnel's packet does.
            "add rule inet vrouter_tunnels outer udp dport 4789 ip daddr != 172.30.0.1 counter name unknown_vtep drop",
        ] {
            assert!(text.lines().any(|own| own == line), "{text}");
        }
        let nobody = script(vtep, std::iter::empty(), std::iter::empty());
        assert!(!nobody.contains("add element"), "{nobody}");
        assert!(
            nobody.contains("ip saddr . @th,176,48 != @peers4 counter name unknown_vtep drop"),
            "{nobody}"
        );
    }
}
