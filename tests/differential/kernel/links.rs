//! The node's links, and the addresses on them.

use std::fmt::Write as _;
use std::net::IpAddr;

use vrouter_tests::frame::Mac;
use vrouter_tests::lab::Family;

use crate::place::{CALLER_ADDRESSES, Client, Machine, OTHERS, OWN, PODS, by_family};

/// The MAC address of the way out of the cluster.
pub const GATEWAY_MAC: Mac = [2, 0, 0, 0, 3, 0xfe];

/// A link of the node: a pair of veth devices of one name, one here and one where everything is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// To a pod, or to the caller.
    Pod(u8),
    /// To the other nodes and beyond.
    Uplink,
    /// To where copies of what the node itself receives go: no packet socket sees those after translation.
    Observer,
}

impl Link {
    /// All.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..=PODS).map(Self::Pod).chain([Self::Uplink, Self::Observer])
    }

    /// The name of its devices.
    pub fn name(self) -> String {
        match self {
            Self::Pod(number) => format!("pod{number}"),
            Self::Uplink => "uplink".to_owned(),
            Self::Observer => "observer".to_owned(),
        }
    }

    /// The MAC address of the node's end.
    pub fn near_mac(self) -> Mac {
        [2, 0, 0, 0, 1, self.number()]
    }

    /// The MAC address of the other end.
    pub fn far_mac(self) -> Mac {
        [2, 0, 0, 0, 2, self.number()]
    }

    fn number(self) -> u8 {
        match self {
            Self::Pod(number) => number,
            Self::Uplink => 0xf0,
            Self::Observer => 0xf1,
        }
    }
}

/// The MAC address of another node.
pub fn node_mac(machine: Machine) -> Mac {
    [2, 0, 0, 0, 3, machine.number]
}

/// Where copies of what the node receives are sent to.
pub fn observer(family: Family) -> &'static str {
    by_family(family, "169.254.77.2", "fd00:77::2")
}

fn gateway(family: Family) -> IpAddr {
    let gateway = by_family(family, "172.30.0.254", "fd00:30::fe");
    gateway.parse().expect("a literal address")
}

/// Lines for `ip -batch` that make all links, whose far ends go into this namespace.
pub fn making(far: &str) -> String {
    let mut lines = "link set lo up\n".to_owned();
    for link in Link::all() {
        let (name, near, far_mac) = (link.name(), text(link.near_mac()), text(link.far_mac()));
        let _ = writeln!(
            lines,
            "link add {name} address {near} type veth peer name {name} address {far_mac} netns {far}"
        );
        let _ = writeln!(lines, "link set {name} up");
    }
    lines
}

/// Lines that bring the far ends up, where nobody answers.
pub fn far_ends() -> String {
    Link::all().map(|link| format!("link set {} up arp off\n", link.name())).collect()
}

/// Lines that give the node its addresses, routes and neighbours in a family.
pub fn addressing(family: Family) -> String {
    let mut plan = Plan { lines: String::new() };
    let uplink = Link::Uplink.name();
    let (length, whole, at_once) = by_family(family, (24, 32, ""), (112, 128, " nodad"));
    let [first, second] = OWN.addresses(family);
    plan.line(&format!("addr add {first}/{length} dev {uplink}{at_once}"));
    // One that is not preferred is no source of what the node sends by itself.
    plan.line(&format!("addr add {second}/{whole} dev {uplink} preferred_lft 0{at_once}"));
    plan.neighbour(gateway(family), Link::Uplink, GATEWAY_MAC);
    plan.line(&format!("route add default via {} dev {uplink}", gateway(family)));
    for machine in OTHERS {
        let [first, second] = machine.addresses(family);
        plan.neighbour(first, Link::Uplink, node_mac(machine));
        plan.line(&format!("route add {second} via {first} dev {uplink}"));
        plan.line(&format!("route add {} via {first} dev {uplink}", machine.block(family)));
    }
    for number in 1..=PODS {
        plan.host(OWN.pod(family, number), Link::Pod(number));
    }
    for which in 0..CALLER_ADDRESSES {
        plan.host(Client::Caller.address(family, which), Link::Pod(0));
    }
    plan.host(observer(family).parse().expect("a literal address"), Link::Observer);
    plan.lines
}

#[derive(Debug)]
struct Plan {
    lines: String,
}

impl Plan {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.lines, "{line}");
    }

    fn neighbour(&mut self, address: IpAddr, link: Link, mac: Mac) {
        self.line(&format!("neigh add {address} lladdr {} dev {} nud permanent", text(mac), link.name()));
    }

    fn host(&mut self, address: IpAddr, link: Link) {
        self.line(&format!("route add {address} dev {}", link.name()));
        self.neighbour(address, link, link.far_mac());
    }
}

fn text(mac: Mac) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
