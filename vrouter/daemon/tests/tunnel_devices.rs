//! The kernel's vxlan devices, brought to what is wanted inside a network namespace of the test's own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, UdpSocket};
use std::path::Path;
use std::process::Command;

use vrouter_daemon::plane::{Tunnels, Vtep};
use vrouter_daemon::tunnel_devices::{Followed, TunnelDeviceError, are_there, follow, remove_all};
use vrouter_io::{VXLAN_PORT, within};
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

    fn follow(&self, tunnels: &Tunnels) -> Result<Followed, TunnelDeviceError> {
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
    let Followed { devices, problems } = namespace.follow(&first).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    let names: Vec<_> = devices.values().map(|device| (device.vni.get(), device.name.as_str())).collect();
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
    let Followed { devices, problems } =
        namespace.follow(&tunnels("172.30.0.1", &[1, 3], &[(3, "172.30.0.3")])).unwrap();
    let expected = "device vxlan-1 is there already and is none of ours; it must be removed or renamed";
    assert_eq!(problems.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    let served: Vec<_> = devices.values().map(|device| device.name.as_str()).collect();
    assert_eq!(served, ["vxlan-3"], "the others are not held up");
    assert_eq!(namespace.database("vxlan-3"), ["02:56:00:00:00:03 dst 172.30.0.3".to_owned()].into());
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
    for peer in ["172.30.0.2 . 0x25600000002", "172.30.0.3 . 0x25600000003"] {
        assert!(set("peers4").contains(peer), "{}", set("peers4"));
    }
    namespace.follow(&tunnels("172.30.0.1", &[1], &[(3, "172.30.0.3")])).unwrap();
    assert!(set("peers4").contains("{ 172.30.0.3 . 0x25600000003 }"), "{}", set("peers4"));
    assert!(set("own_devices").contains("{ \"vxlan-1\" }"), "{}", set("own_devices"));
    let rules = namespace.output("nft list table inet vrouter_tunnels");
    assert_eq!(rules.matches("!= @peers").count(), 2, "rules pile up: {rules}");
}

#[test]
fn vxlan_2_a_node_is_heard_only_as_itself() {
    let Some(namespace) = Namespace::new("speaker") else { return };
    namespace.output("ip link set lo up");
    namespace.output("ip addr add 172.30.0.2/32 dev lo");
    namespace.output("ip -6 addr add fd00::2/128 dev lo nodad");
    let dropped = || {
        let counters = namespace.output("nft list counters table inet vrouter_tunnels");
        let packets = counters.split_once("packets ").and_then(|(_, rest)| rest.split(' ').next());
        packets.unwrap_or_default().parse::<u32>().unwrap()
    };
    let mut expected = 0;
    for (own, other) in [("172.30.0.2", "172.30.0.3"), ("fd00::2", "fd00::3")] {
        namespace.follow(&tunnels(own, &[1], &[(2, own), (3, other)])).unwrap();
        for (router, is_itself) in [(2, true), (3, false), (4, false)] {
            namespace.inside(|| speak(own, MacAddress::local(0x56, router)));
            expected += u32::from(!is_itself);
            assert_eq!(dropped(), expected, "{own} as router {router}");
        }
    }
}

/// Sends a packet of VNI 1, whose inner source this is, from this address to itself.
fn speak(address: &str, source: MacAddress) {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    let header = [0x08, 0, 0, 0, 0, 0, 1, 0];
    let packet = [&header[..], &[2, 0x56, 0, 0, 0, 1], &source.0, &[0x08, 0], &[0x45; 40]].concat();
    socket.send_to(&packet, (address, VXLAN_PORT)).unwrap();
}

#[test]
fn a_device_that_is_not_as_we_make_them_is_made_anew() {
    let Some(namespace) = Namespace::new("unsound") else { return };
    let wanted = tunnels("172.30.0.1", &[1], &[]);
    for unsound in ["learning df set", "nolearning", "nolearning df inherit"] {
        namespace.output(&format!(
            "ip link add vxlan-1 address 02:57:00:00:00:01 type vxlan id 1 local 172.30.0.1 dstport 4789 {unsound}"
        ));
        let index = namespace.index("vxlan-1");
        assert_ne!(index, "");
        namespace.follow(&wanted).unwrap();
        assert_ne!(namespace.index("vxlan-1"), index, "{unsound}");
        namespace.inside(remove_all).unwrap();
    }
}

#[test]
fn a_device_that_was_left_half_made_is_completed() {
    let Some(namespace) = Namespace::new("half") else { return };
    let wanted = tunnels("172.30.0.1", &[1], &[]);
    namespace.follow(&wanted).unwrap();
    let index = namespace.index("vxlan-1");
    namespace.output("ip link set vxlan-1 down mtu 1400");
    namespace.output("sysctl -w net.ipv6.conf.vxlan-1.disable_ipv6=0");
    namespace.follow(&wanted).unwrap();
    assert_eq!(namespace.index("vxlan-1"), index);
    assert_eq!(namespace.output("cat /proc/sys/net/ipv6/conf/vxlan-1/disable_ipv6").trim(), "1");
    let about = namespace.output("ip link show vxlan-1");
    assert!(about.contains(",UP") && about.contains("mtu 1450"), "{about}");
}

#[test]
fn what_somebody_removed_or_set_down_is_missed() {
    let Some(namespace) = Namespace::new("missed") else { return };
    let wanted = tunnels("172.30.0.1", &[1, 2], &[]);
    for harm in ["ip link set vxlan-2 down", "ip link del vxlan-1", "nft flush ruleset"] {
        let devices = namespace.follow(&wanted).unwrap().devices;
        assert!(namespace.inside(|| are_there(&devices)).unwrap());
        namespace.output(harm);
        assert!(!namespace.inside(|| are_there(&devices)).unwrap(), "{harm}");
    }
}

#[test]
fn the_filter_goes_also_where_no_device_is_left() {
    let Some(namespace) = Namespace::new("leftover") else { return };
    namespace.follow(&tunnels("172.30.0.1", &[], &[])).unwrap();
    assert_ne!(namespace.output("nft list tables"), "");
    namespace.inside(remove_all).unwrap();
    assert_eq!(namespace.output("nft list tables"), "");
}
