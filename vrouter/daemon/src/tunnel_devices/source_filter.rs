//! Who may send into the tunnels. A device does not say who sent a packet: what comes from elsewhere than a node's address
//! is dropped before it. And what comes out of a device is the router's alone: the kernel's own stack never sees it.
//!
//! It is a table of nftables of its own, as a table belongs to one network namespace. What it drops, it counts:
//! `nft list counters table inet vrouter_tunnels`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::IpAddr;
use std::process::{Command, Stdio};

use super::{TunnelDeviceError, VXLAN_PORT};

const TABLE: &str = "inet vrouter_tunnels";

/// Lets in what comes from these addresses, and keeps what comes out of these devices from the kernel. All at once, and
/// without disturbing the counters.
pub(super) fn set<'a>(
    sources: impl Iterator<Item = IpAddr>,
    devices: impl Iterator<Item = &'a String>,
) -> Result<(), TunnelDeviceError> {
    run(&script(sources, devices))
}

/// Removes the table; that it is not there is no error.
pub(super) fn remove() -> Result<(), TunnelDeviceError> {
    run(&format!("add table {TABLE}\ndelete table {TABLE}\n"))
}

fn script<'a>(sources: impl Iterator<Item = IpAddr>, devices: impl Iterator<Item = &'a String>) -> String {
    let (v4, v6): (Vec<_>, Vec<_>) = sources.partition(IpAddr::is_ipv4);
    let mut script = format!(
        "add table {TABLE}
add counter {TABLE} unknown_vtep
add set {TABLE} vteps4 {{ type ipv4_addr; }}
add set {TABLE} vteps6 {{ type ipv6_addr; }}
add set {TABLE} ports {{ type ifname; }}
add chain {TABLE} outer {{ type filter hook input priority filter; }}
add chain {TABLE} inner {{ type filter hook prerouting priority raw; }}
flush table {TABLE}
flush set {TABLE} vteps4
flush set {TABLE} vteps6
flush set {TABLE} ports
add rule {TABLE} outer udp dport {VXLAN_PORT} ip saddr != @vteps4 counter name unknown_vtep drop
add rule {TABLE} outer udp dport {VXLAN_PORT} ip6 saddr != @vteps6 counter name unknown_vtep drop
add rule {TABLE} inner iifname @ports drop
"
    );
    let quoted = devices.map(|name| format!("\"{name}\"")).collect();
    let addresses = |addresses: Vec<IpAddr>| addresses.iter().map(IpAddr::to_string).collect();
    for (set, elements) in [("vteps4", addresses(v4)), ("vteps6", addresses(v6)), ("ports", quoted)] {
        let elements: Vec<String> = elements;
        if !elements.is_empty() {
            // Writing to a string does not fail.
            let _ = writeln!(script, "add element {TABLE} {set} {{ {} }}", elements.join(", "));
        }
    }
    script
}

/// Has `nft` carry out a script, as a whole or not at all.
fn run(script: &str) -> Result<(), TunnelDeviceError> {
    let failed = |error: std::io::Error| TunnelDeviceError::Filter(error.to_string());
    let mut nft = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    // Closed before it is waited for; if it ends without reading, its own words say why.
    if let Some(mut input) = nft.stdin.take() {
        let _ = input.write_all(script.as_bytes());
    }
    let output = nft.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    Err(TunnelDeviceError::Filter(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vxlan_2_sources_are_the_nodes_and_nobody_else() {
        let sources = ["172.30.0.2", "172.30.0.3", "fd00::2"].map(|source| source.parse().unwrap());
        let text = script(sources.into_iter(), ["vxlan-1".to_owned()].iter());
        for line in [
            "add element inet vrouter_tunnels vteps4 { 172.30.0.2, 172.30.0.3 }",
            "add element inet vrouter_tunnels vteps6 { fd00::2 }",
            "add element inet vrouter_tunnels ports { \"vxlan-1\" }",
        ] {
            assert!(text.lines().any(|own| own == line), "{text}");
        }
        let nobody = script(std::iter::empty(), std::iter::empty());
        assert!(!nobody.contains("add element"), "{nobody}");
        assert!(nobody.contains("ip saddr != @vteps4 counter name unknown_vtep drop"), "{nobody}");
    }
}
