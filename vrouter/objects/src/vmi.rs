//! Virtual machine interfaces.

use std::net::IpAddr;

use crate::{MacAddress, VmiId, VrfId};

/// A port into a virtual network. A node holds those that are attached to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vmi {
    /// The interface.
    pub id: VmiId,
    /// What people call it: `namespace/pod`, or `vhost0`.
    pub name: String,
    /// The UID of its pod: another of this name that comes later is another one. Empty where nobody said it.
    pub uid: String,
    /// What it is attached to.
    pub kind: VmiKind,
    /// The network it is a port into.
    pub vrf: VrfId,
    /// The only source address its frames may bear.
    pub mac: MacAddress,
    /// Its instance IPs, the only source addresses its packets may bear.
    pub addresses: Vec<IpAddr>,
    /// Its addresses for this node alone; `None`: it has none.
    pub link_local: Option<LinkLocal>,
    /// The largest IP packet it takes, in bytes.
    pub mtu: u16,
}

/// Addresses by which a node reaches one of its own interfaces, whatever network that is in: its own addresses there may
/// be somebody else's in the nodes' network. They mean nothing to other nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkLocal {
    /// The network that they are addresses of.
    pub vrf: VrfId,
    /// At most one of each family that the interface has an address of.
    pub addresses: Vec<IpAddr>,
}

/// What stands behind an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VmiKind {
    /// A pod.
    Pod,
    /// The node's own network stack.
    Host,
}
