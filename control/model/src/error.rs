//! The one error type of this crate.

use ipnet::IpNet;
use thiserror::Error;

use crate::NamespacedName;

/// Why a model cannot be set up. Faults in Kubernetes objects are never errors but [`Problem`](crate::Problem)s.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ModelError {
    /// A network has at most one prefix per address family.
    #[error("{network}: {first} and {second} are of one address family; give at most one prefix per family")]
    TwoPrefixesOfOneFamily {
        /// The network.
        network: &'static str,
        /// The prefix given first.
        first: IpNet,
        /// The one that is too many.
        second: IpNet,
    },
    /// A network needs a prefix.
    #[error("{network}: no prefix is given")]
    NoPrefix {
        /// The network.
        network: &'static str,
    },
    /// Pod and service addresses must be told apart.
    #[error("pod prefix {pods} and service prefix {services} overlap")]
    NetworksOverlap {
        /// Of the pod network.
        pods: IpNet,
        /// Of the service network.
        services: IpNet,
    },
    /// Each network is marked by a VNI of its own.
    #[error("{} and {} share VNI {vni}", networks[0], networks[1])]
    SharedVni {
        /// The VNI.
        vni: u32,
        /// Those that share it.
        networks: [NamespacedName; 2],
    },
    /// An address of the load-balancer pool is a Service's and nothing else.
    #[error("load-balancer pool: {prefix} overlaps {other}")]
    PoolOverlap {
        /// The prefix of the pool.
        prefix: IpNet,
        /// Of a network, or of the pool itself.
        other: IpNet,
    },
    /// A link-local address is an interface's and nothing else.
    #[error("link-local network: {prefix} overlaps {other}")]
    LinkLocalOverlap {
        /// The prefix of the link-local network.
        prefix: IpNet,
        /// Of another network, or of the load-balancer pool.
        other: IpNet,
    },
    /// A link-local prefix holds some interfaces.
    #[error("link-local network: {prefix} has no room for interfaces: it must be at least a /{most}")]
    LinkLocalRoom {
        /// The prefix.
        prefix: IpNet,
        /// The longest length that leaves room for one.
        most: u8,
    },
    /// Nodes find their own interfaces by routes to their link-local addresses.
    #[error("link-local network: {prefix} is no prefix that nodes can have routes to")]
    LinkLocalUnrouted {
        /// The prefix.
        prefix: IpNet,
    },
    /// A node's block is a part of the pod prefix that holds some pods.
    #[error(
        "node block length /{length} does not fit pod prefix {prefix}: it must be from /{least} to /{most}"
    )]
    BlockLength {
        /// What was given.
        length: u8,
        /// The pod prefix.
        prefix: IpNet,
        /// The shortest length that leaves a block beside the gateway's.
        least: u8,
        /// The longest length that leaves room for pods.
        most: u8,
    },
    /// A saved state contradicts itself: using it could give an id or address out twice.
    #[error("saved state: {0}")]
    State(String),
}
