//! What is beyond the cluster: clients on the nodes' own network, a router, and a host behind it that stands for the
//! internet. The underlay's namespace is the router. It and the clients reach load balancers by way of every node alike,
//! as routers do that learned the addresses from all nodes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Result, bail};

use crate::name::{LabName, MARKER, Part};
use crate::netns::{self, Netns};
use crate::node;
use crate::ports::{self, Transport};
use crate::process::{Process, wait_until};
use crate::state::{DataPath, Node};
use crate::underlay::{self, BRIDGE, DEVICE, MTU};

/// Where the controller takes load balancers' addresses from.
pub const LOAD_BALANCERS: [&str; 2] = ["172.30.255.0/24", "fd00:30:255::/112"];

/// What else is routed to the nodes: addresses for a Service's `externalIPs`.
pub const EXTERNAL: [&str; 2] = ["172.30.254.0/24", "fd00:30:254::/112"];

const CLIENT: u8 = 251;
const SECOND_CLIENT: u8 = 252;
const CLIENTS: [(Part, u8); 2] = [(Part::Client, CLIENT), (Part::SecondClient, SECOND_CLIENT)];
const ROUTER: u8 = 254;

/// The router's interface towards the internet.
const UPLINK: &str = "internet";
/// Networks that are set aside for documentation.
const UPLINK_ADDRESSES: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(203, 0, 113, 1), Ipv6Addr::new(0x2001, 0xdb8, 0x113, 0, 0, 0, 0, 1));
const INTERNET: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(203, 0, 113, 10), Ipv6Addr::new(0x2001, 0xdb8, 0x113, 0, 0, 0, 0, 0x10));
/// What the internet's server answers on.
const SERVED: [(Transport, u16); 2] = [(Transport::Tcp, 80), (Transport::Udp, 53)];

/// Somebody who is not of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outsider {
    /// A client on the nodes' network.
    Client,
    /// Another one.
    SecondClient,
    /// A host beyond the router.
    Internet,
}

impl Outsider {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Client, Self::SecondClient, Self::Internet];

    /// The part that its namespace plays.
    pub const fn part(self) -> Part {
        match self {
            Self::Client => Part::Client,
            Self::SecondClient => Part::SecondClient,
            Self::Internet => Part::Internet,
        }
    }

    /// Its addresses, IPv4 first.
    pub fn addresses(self) -> [IpAddr; 2] {
        let (ipv4, ipv6) = match self {
            Self::Client => on_underlay(CLIENT),
            Self::SecondClient => on_underlay(SECOND_CLIENT),
            Self::Internet => INTERNET,
        };
        [ipv4.into(), ipv6.into()]
    }
}

fn on_underlay(place: u8) -> (Ipv4Addr, Ipv6Addr) {
    (underlay::ipv4(place), underlay::ipv6(place))
}

/// Makes all of it around an underlay that is there.
pub fn build(lab: &LabName, nodes: &[Node]) -> Result<()> {
    let router = lab.netns(&Part::Underlay);
    let internet = lab.netns(&Part::Internet);
    for (part, place) in CLIENTS {
        let (ipv4, ipv6) = on_underlay(place);
        underlay::add(&router, &lab.netns(&part), &part.to_string(), ipv4, ipv6)?;
    }
    build_router(&router, &internet)?;
    let (ipv4, ipv6) = on_underlay(ROUTER);
    for node in nodes {
        default_routes(&node.netns, ipv4, ipv6)?;
    }
    for (part, place) in CLIENTS {
        let client = lab.netns(&part);
        default_routes(&client, ipv4, ipv6)?;
        // By ports too, so that one client's connections go by way of every node.
        client.sysctl(&["net.ipv4.fib_multipath_hash_policy=1", "net.ipv6.fib_multipath_hash_policy=1"])?;
        keep_ways(&client);
        with_link_local_at_once(&client, place)?;
        route_to_nodes(&client, DEVICE, nodes)?;
    }
    by_addresses_alone(&router);
    keep_ways(&internet);
    route_to_nodes(&router, BRIDGE, nodes)
}

/// A connection keeps its way, which a sender of IPv6 otherwise changes when it must send again.
fn keep_ways(netns: &Netns) {
    // Before Linux 5.17 it cannot be told.
    let _ = netns.sysctl(&["net.core.txrehash=0"]);
}

/// Linux chooses an IPv6 connection's way before it knows its source port, and anew with it whenever an address comes. The
/// link-local one of its own making comes a second or two after its interface, so this one takes its place. To do without
/// would not do: it asks from there whether its next hops are still alive, and takes those for dead that it cannot ask.
fn with_link_local_at_once(netns: &Netns, place: u8) -> Result<()> {
    netns.ip_batch(&format!(
        "link set {DEVICE} addrgenmode none\n\
         addr flush dev {DEVICE} scope link\n\
         addr add fe80::{place:x}/64 dev {DEVICE} nodad\n"
    ))
}

/// What the router has to say of a packet then takes the way that the packet's own sender does, in whose packets it sees
/// other flow labels than in the answers to them.
fn by_addresses_alone(router: &Netns) {
    // Before Linux 5.14 there is no such choice: IPv6 goes by flow labels too.
    let custom = ["net.ipv6.fib_multipath_hash_fields=3", "net.ipv6.fib_multipath_hash_policy=3"];
    let _ = router.sysctl(&custom);
}

fn build_router(router: &Netns, internet: &Netns) -> Result<()> {
    internet.create()?;
    netns::join((router, UPLINK), (internet, DEVICE), MTU)?;
    let (ipv4, ipv6) = on_underlay(ROUTER);
    let (uplink_ipv4, uplink_ipv6) = UPLINK_ADDRESSES;
    router.ip_batch(&format!(
        "addr add {ipv4}/24 dev {BRIDGE}\n\
         addr add {ipv6}/64 dev {BRIDGE} nodad\n\
         addr add {uplink_ipv4}/24 dev {UPLINK}\n\
         addr add {uplink_ipv6}/64 dev {UPLINK} nodad\n"
    ))?;
    router.sysctl(&["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"])?;
    let (ipv4, ipv6) = INTERNET;
    internet.ip_batch(&format!(
        "addr add {ipv4}/24 dev {DEVICE}\n\
         addr add {ipv6}/64 dev {DEVICE} nodad\n"
    ))?;
    default_routes(internet, uplink_ipv4, uplink_ipv6)
}

fn default_routes(netns: &Netns, ipv4: Ipv4Addr, ipv6: Ipv6Addr) -> Result<()> {
    netns.ip_batch(&format!(
        "route add default via {ipv4} dev {DEVICE}\n\
         route add default via {ipv6} dev {DEVICE}\n"
    ))
}

/// What services have outside leads to every node with a vRouter, each as good as another.
fn route_to_nodes(netns: &Netns, device: &str, nodes: &[Node]) -> Result<()> {
    let ours = || nodes.iter().filter(|node| matches!(node.data_path, DataPath::VRouter(_)));
    if ours().next().is_none() {
        return Ok(());
    }
    let hop = |address: IpAddr| format!(" nexthop via {address} dev {device}");
    let [ipv4, ipv6]: [String; 2] = [
        ours().map(|node| hop(node.ipv4.into())).collect(),
        ours().map(|node| hop(node.ipv6.into())).collect(),
    ];
    let routes = [LOAD_BALANCERS, EXTERNAL]
        .map(|[prefix, prefix6]| format!("route add {prefix}{ipv4}\nroute add {prefix6}{ipv6}\n"));
    netns.ip_batch(&routes.concat())
}

/// Starts a server on the internet that tells its clients what it sees of them, like those of the pods.
pub fn serve(lab: &LabName) -> Result<()> {
    let mut command = lab.netns(&Part::Internet).command(node::program("vrouter-pod")?);
    command.args(["serve", "--namespace", "outside", "--pod", "internet", "--node", "internet"]);
    for (transport, port) in SERVED {
        command.args([transport.option(), &port.to_string()]);
    }
    let log = lab.directory().join("internet.log");
    let process = Process::spawn(&command, (MARKER, &lab.to_string()), &log)?;
    let open = |(transport, port): &(Transport, u16)| ports::open(process.pid(), *transport).contains(port);
    if !wait_until(node::START, || SERVED.iter().all(open)) {
        bail!("the internet's server does not listen; see {}", log.display());
    }
    Ok(())
}
