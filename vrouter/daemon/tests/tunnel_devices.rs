//! The kernel's vxlan devices, brought to what is wanted inside a network namespace of the test's own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use vrouter_daemon::plane::{Tunnels, Vtep};
use vrouter_daemon::tunnel_devices::{TunnelDeviceError, follow, remove_all};
use vrouter_io::{TunnelDevice, within};
use vrouter_objects::{MacAddress, Vni};

/// A network namespace that goes with the test.
struct Namespace(String);

impl Namespace {
    /// `None`, and the test is skipped, where we may not make one.
    fn new(role: &str) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: network namespaces need root");
            return None;
        }
        let name = format!("vrd-{}-{role}", std::process::id());
        assert!(Command::new("ip").args(["netns", "add", &name]).status().unwrap().success());
        Some(Self(name))
    }

    /// What a command prints inside; empty where it fails.
    fn output(&self, command: &str) -> String {
        let words = ["netns", "exec", &self.0].into_iter().chain(command.split_whitespace());
        let output = Command::new("ip").args(words).output().unwrap();
        if output.status.success() { String::from_utf8(output.stdout).unwrap() } else { String::new() }
    }

    fn follow(&self, tunnels: &Tunnels) -> Result<Vec<TunnelDevice>, TunnelDeviceError> {
        self.inside(|| follow(tunnels))
    }

    fn inside<T: Send>(&self, task: impl FnOnce() -> T + Send) -> T {
        within(Some(&Path::new("/run/netns").join(&self.0)), || Ok(task())).unwrap()
    }

    /// The peers in the database of a device, as `MAC dst ADDRESS`.
    fn database(&self, device: &str) -> BTreeSet<String> {
        let entries = self.output(&format!("bridge fdb show dev {device}"));
        entries.lines().map(|line| line.split(" self").next().unwrap_or(line).trim().to_owned()).collect()
    }

    fn index(&self, device: &str) -> String {
        self.output(&format!("cat /sys/class/net/{device}/ifindex"))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

fn tunnels(vtep: &str, networks: &[u32], peers: &[(u32, &str)]) -> Tunnels {
    let peer = |(router, address): &(u32, &str)| {
        (MacAddress::local(0x56, *router), address.parse::<IpAddr>().unwrap())
    };
    Tunnels {
        vtep: Vtep { address: vtep.parse().unwrap(), pod_mtu: 1450 },
        networks: networks.iter().map(|vni| Vni::new(*vni).unwrap()).collect(),
        peers: peers.iter().map(peer).collect::<BTreeMap<_, _>>(),
    }
}

#[test]
fn devices_and_their_databases_follow_the_tables() {
    let Some(namespace) = Namespace::new("follow") else { return };
    let first = tunnels("172.30.0.1", &[1, 2], &[(2, "172.30.0.2"), (3, "172.30.0.3")]);
    let devices = namespace.follow(&first).unwrap();
    let names: Vec<_> = devices.iter().map(|device| (device.vni.get(), device.name.as_str())).collect();
    assert_eq!(names, [(1, "vxlan-1"), (2, "vxlan-2")]);
    let about = namespace.output("ip -d link show vxlan-1");
    for setting in
        ["id 1 ", "local 172.30.0.1", "dstport 4789", "nolearning", "df set", "mtu 1450", "NOARP", ",UP"]
    {
        assert!(about.contains(setting), "{setting}: {about}");
    }
    assert_eq!(namespace.output("cat /proc/sys/net/ipv6/conf/vxlan-1/disable_ipv6").trim(), "1");
    let both = ["02:56:00:00:00:02 dst 172.30.0.2", "02:56:00:00:00:03 dst 172.30.0.3"];
    for device in ["vxlan-1", "vxlan-2"] {
        assert_eq!(namespace.database(device), both.map(str::to_owned).into());
    }

    // A network goes; a node moves, another goes and one comes; what stays is left alone.
    let index = namespace.index("vxlan-1");
    let second = tunnels("172.30.0.1", &[1], &[(2, "172.30.0.22"), (4, "172.30.0.4")]);
    namespace.follow(&second).unwrap();
    assert_eq!(namespace.output("ip link show vxlan-2"), "");
    assert_eq!(namespace.index("vxlan-1"), index);
    let now = ["02:56:00:00:00:02 dst 172.30.0.22", "02:56:00:00:00:04 dst 172.30.0.4"];
    assert_eq!(namespace.database("vxlan-1"), now.map(str::to_owned).into());

    // The node's own address moves.
    namespace.follow(&tunnels("fd00::1", &[1], &[(2, "fd00::2")])).unwrap();
    assert!(namespace.output("ip -d link show vxlan-1").contains("local fd00::1"));
    assert_eq!(namespace.database("vxlan-1"), ["02:56:00:00:00:02 dst fd00::2".to_owned()].into());

    namespace.inside(remove_all).unwrap();
    assert_eq!(namespace.output("ip link show vxlan-1"), "");
    assert_eq!(namespace.output("nft list tables"), "");
    namespace.inside(remove_all).unwrap();
}

#[test]
fn a_device_of_somebody_elses_is_left_alone_and_named() {
    let Some(namespace) = Namespace::new("foreign") else { return };
    namespace.output("ip link add vxlan-1 type vxlan id 77 dstport 4790");
    namespace.output("ip link add vxlan-2 type veth peer name other");
    let error = namespace.follow(&tunnels("172.30.0.1", &[1], &[])).unwrap_err();
    let expected = "device vxlan-1 is there already and is none of ours; it must be removed or renamed";
    assert_eq!(error.to_string(), expected);
    namespace.follow(&tunnels("172.30.0.1", &[3], &[])).unwrap();
    namespace.inside(remove_all).unwrap();
    assert_ne!(namespace.output("ip link show vxlan-1"), "");
    assert_ne!(namespace.output("ip link show vxlan-2"), "");
    assert_eq!(namespace.output("ip link show vxlan-3"), "");
}

#[test]
fn vxlan_2_the_filter_follows_the_nodes() {
    let Some(namespace) = Namespace::new("filter") else { return };
    let set = |name: &str| namespace.output(&format!("nft list set inet vrouter_tunnels {name}"));
    namespace.follow(&tunnels("172.30.0.1", &[1], &[(2, "172.30.0.2"), (3, "172.30.0.3")])).unwrap();
    assert!(set("vteps4").contains("{ 172.30.0.2, 172.30.0.3 }"), "{}", set("vteps4"));
    namespace.follow(&tunnels("172.30.0.1", &[1], &[(3, "172.30.0.3")])).unwrap();
    assert!(set("vteps4").contains("{ 172.30.0.3 }"), "{}", set("vteps4"));
    assert!(set("ports").contains("{ \"vxlan-1\" }"), "{}", set("ports"));
    let rules = namespace.output("nft list table inet vrouter_tunnels");
    assert_eq!(rules.matches("saddr !=").count(), 2, "rules pile up: {rules}");
}
