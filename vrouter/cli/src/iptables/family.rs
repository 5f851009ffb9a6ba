//! The two families, each with a tool of its own.

use std::net::IpAddr;

use clap::ValueEnum;
use ipnet::IpNet;

use crate::service::OwnNode;

/// An IP family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Family {
    /// IPv4.
    #[value(name = "4")]
    Ipv4,
    /// IPv6.
    #[value(name = "6")]
    Ipv6,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Ipv4, Self::Ipv6];

    /// The family of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::Ipv4 } else { Self::Ipv6 }
    }

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        }
    }

    /// The tool that loads its rules.
    pub fn tool(self) -> &'static str {
        match self {
            Self::Ipv4 => "iptables-restore",
            Self::Ipv6 => "ip6tables-restore",
        }
    }

    /// Where no node port is served.
    pub(super) fn loopback(self) -> &'static str {
        match self {
            Self::Ipv4 => "127.0.0.0/8",
            Self::Ipv6 => "::1/128",
        }
    }

    /// How `REJECT` is printed where nothing was said of the answer.
    pub(super) fn reject(self) -> &'static str {
        match self {
            Self::Ipv4 => "REJECT --reject-with icmp-port-unreachable",
            Self::Ipv6 => "REJECT --reject-with icmp6-port-unreachable",
        }
    }

    /// All bits of an address, as `recent` prints them.
    pub(super) fn mask(self) -> &'static str {
        match self {
            Self::Ipv4 => "255.255.255.255",
            Self::Ipv6 => "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        }
    }

    /// Where the pods of this family have their addresses from (`--cluster-cidr`).
    pub(super) fn pod_prefix(self, node: &OwnNode) -> Option<IpNet> {
        node.pod_prefixes.iter().copied().find(|prefix| Self::of(prefix.addr()) == self)
    }
}
