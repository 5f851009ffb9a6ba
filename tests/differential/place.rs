//! The stage that both worlds play on: three nodes, the pods of the first one, and who is outside.

use std::net::IpAddr;

use ipnet::IpNet;
use vrouter_tests::lab::Family;

/// The node that both sides play.
pub const OWN: Machine = Machine { number: 1, zone: "a" };
/// The others. Nobody plays them: what is sent to them has arrived.
pub const OTHERS: [Machine; 2] = [Machine { number: 2, zone: "b" }, Machine { number: 3, zone: "a" }];
/// Pods on the own node that may be endpoints, numbered from 1. Number 0 is the caller, who never is one.
pub const PODS: u8 = 6;
/// How many addresses the caller has of each family. Affinity knows clients by address, so one with many learns as much of
/// a service as many clients do.
pub const CALLER_ADDRESSES: u16 = 128;
/// Ports of the node that what it sends in its own name comes from.
pub const SOURCE_PORTS: std::ops::RangeInclusive<u16> = 61_000..=65_535;

const CALLER: u16 = 100;

/// All pods' addresses.
pub fn pod_prefix(family: Family) -> &'static str {
    by_family(family, "10.244.0.0/16", "fd00:10:244::/48")
}

/// All services' cluster addresses.
pub fn service_prefix(family: Family) -> &'static str {
    by_family(family, "10.96.0.0/12", "fd00:10:96::/108")
}

/// The address that pods know their gateway by.
pub fn pod_gateway(family: Family) -> IpAddr {
    address(family, [10, 244, 0, 1], [0xfd00, 0x10, 0x244, 0, 0, 0, 0, 1])
}

/// The cluster address of a service.
pub fn cluster_ip(family: Family, service: u16) -> IpAddr {
    let host = 0x10 + service;
    address(family, [10, 96, (host >> 8) as u8, host as u8], [0xfd00, 0x10, 0x96, 0, 0, 0, 0, host])
}

/// An address that services may have by `externalIPs`.
pub fn external_ip(family: Family, number: u16) -> IpAddr {
    address(family, [203, 0, 113, number as u8], [0x2001, 0xdb8, 0xee, 0, 0, 0, 0, number])
}

/// An address that a load balancer may give.
pub fn load_balancer_ip(family: Family, number: u16) -> IpAddr {
    address(family, [192, 0, 2, number as u8], [0x2001, 0xdb8, 0x1b, 0, 0, 0, 0, number])
}

/// A host that is neither a node nor a pod and serves something.
pub fn outsider(family: Family, number: u16) -> IpAddr {
    address(family, [198, 51, 100, number as u8], [0x2001, 0xdb8, 0x51, 0, 0, 0, 0, number])
}

fn address(family: Family, v4: [u8; 4], v6: [u16; 8]) -> IpAddr {
    by_family(family, IpAddr::from(v4), IpAddr::from(v6))
}

/// What is different in the two families.
pub fn by_family<T>(family: Family, v4: T, v6: T) -> T {
    match family {
        Family::V4 => v4,
        Family::V6 => v6,
    }
}

/// An address's family.
pub fn family_of(address: IpAddr) -> Family {
    if address.is_ipv4() { Family::V4 } else { Family::V6 }
}

/// A node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Its number.
    pub number: u8,
    /// Its zone.
    pub zone: &'static str,
}

impl Machine {
    /// The Node object's name.
    pub fn name(self) -> String {
        format!("n{}", self.number)
    }

    /// Its two addresses.
    pub fn addresses(self, family: Family) -> [IpAddr; 2] {
        let node = self.number;
        [0, 1].map(|net| {
            address(family, [172, 30, net, node], [0xfd00, 0x30, 0, 0, 0, 0, u16::from(net), u16::from(node)])
        })
    }

    /// The first of them.
    pub fn address(self, family: Family) -> IpAddr {
        self.addresses(family)[0]
    }

    /// The address of a pod on it.
    pub fn pod(self, family: Family, number: u8) -> IpAddr {
        self.host(family, 0x10 + u16::from(number))
    }

    /// Its block of pod addresses.
    pub fn block(self, family: Family) -> String {
        let length = by_family(family, 24, 64);
        format!("{}/{length}", self.host(family, 0))
    }

    fn host(self, family: Family, host: u16) -> IpAddr {
        let node = self.number;
        let v6 = [0xfd00, 0x10, 0x244, u16::from(node), 0, 0, 0, host];
        address(family, [10, 244, node, host as u8], v6)
    }
}

/// At which addresses of the nodes node ports are served: what kube-proxy is told by `--nodeport-addresses`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodePortAddresses {
    /// At all.
    All,
    /// At each node's first one of a family.
    First,
}

impl NodePortAddresses {
    /// As prefixes; none: everywhere.
    pub fn prefixes(self) -> Vec<IpNet> {
        let first =
            ["172.30.0.0/24", "fd00:30::/112"].map(|prefix| prefix.parse().expect("a literal prefix"));
        match self {
            Self::All => Vec::new(),
            Self::First => first.to_vec(),
        }
    }

    /// Whether they are served at a node's address.
    pub fn include(self, address: IpAddr) -> bool {
        self == Self::All || self.prefixes().iter().any(|prefix| prefix.contains(&address))
    }
}

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    /// A pod of the own node that is no endpoint.
    Caller,
    /// A pod of the own node that may be an endpoint.
    Pod(u8),
    /// A process on the own node.
    Node,
    /// Somebody outside.
    Guest,
    /// Somebody outside, in another network: source ranges tell them apart.
    Stranger,
}

impl Client {
    /// One of its addresses. A pod that may be an endpoint and the node always speak from the same one.
    pub fn address(self, family: Family, which: u16) -> IpAddr {
        match self {
            Self::Caller => OWN.host(family, CALLER + which % CALLER_ADDRESSES),
            Self::Pod(number) => OWN.pod(family, number),
            Self::Node => OWN.address(family),
            Self::Guest => outside_client(family, 18, which),
            Self::Stranger => outside_client(family, 19, which),
        }
    }

    /// Whether it has many addresses.
    pub fn is_many(self) -> bool {
        !matches!(self, Self::Pod(_) | Self::Node)
    }

    /// Whether it is a pod, and the number of its interface.
    pub fn pod(self) -> Option<u8> {
        match self {
            Self::Caller => Some(0),
            Self::Pod(number) => Some(number),
            Self::Node | Self::Guest | Self::Stranger => None,
        }
    }

    /// Whether it is not of the cluster.
    pub fn is_outside(self) -> bool {
        matches!(self, Self::Guest | Self::Stranger)
    }
}

/// The network of an outside client: source ranges name it.
pub fn outside_prefix(family: Family, client: Client) -> &'static str {
    match client {
        Client::Stranger => by_family(family, "198.19.0.0/16", "2001:db8:19::/48"),
        _ => by_family(family, "198.18.0.0/16", "2001:db8:18::/48"),
    }
}

fn outside_client(family: Family, net: u8, which: u16) -> IpAddr {
    let host = which + 1;
    let v6 = [0x2001, 0xdb8, u16::from(net / 10 * 16 + net % 10), 0, 0, 0, 0, host];
    address(family, [198, net, (host >> 8) as u8, host as u8], v6)
}

/// Where a packet arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// At a pod of the own node: its interface's number.
    Pod(u8),
    /// At a process of the own node.
    Host,
    /// At another node, for a pod there or for itself.
    Node(u8),
    /// Beyond the nodes.
    Outside,
}
