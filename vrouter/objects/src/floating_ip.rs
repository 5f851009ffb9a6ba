//! Floating IPs: a virtual address with port mappings onto the interfaces of a pool.

use std::net::IpAddr;

use crate::{FloatingIpId, ListenerId, MemberId, Port, ServiceProtocol, VmiId, VrfId};

/// A service's virtual address, with everything a node needs to translate to its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FloatingIp {
    /// The floating IP.
    pub id: FloatingIpId,
    /// The Service, `namespace/name`.
    pub name: String,
    /// The (service) network it is an address of. Other networks reach it by a vrf-translate route.
    pub vrf: VrfId,
    /// The virtual address.
    pub address: IpAddr,
    /// Its port mappings, each with its pool. Protocol and port together are unique.
    pub listeners: Vec<Listener>,
}

/// One port mapping of a floating IP: a LoadBalancer's Listener with its Pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// The listener.
    pub id: ListenerId,
    /// The Service port's name, empty where it has none.
    pub name: String,
    /// TCP, UDP or SCTP. The same port number may be mapped once per protocol.
    pub protocol: ServiceProtocol,
    /// The Service's port.
    pub port: Port,
    /// What happens to a new flow when no member can take it.
    pub no_members: NoMembers,
    /// Who answers, in ascending order of id. An address and port occurs once.
    pub members: Vec<Member>,
}

/// What a new flow meets when no member is usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoMembers {
    /// TCP reset, or ICMP port unreachable.
    Reject,
    /// Silence, as kube-proxy does where a traffic policy left no member over.
    Drop,
}

/// A service endpoint at one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The member.
    pub id: MemberId,
    /// The endpoint's name for people: the pod's `namespace/name`, or the bare address.
    pub name: String,
    /// The network its address is in.
    pub vrf: VrfId,
    /// The endpoint's address, of the same family as the floating IP's.
    pub address: IpAddr,
    /// The endpoint's own port, resolved per pod where it is a named one.
    pub port: Port,
    /// Its interface, where the cluster knows one.
    pub vmi: Option<VmiId>,
    /// Whether it takes new flows.
    pub state: MemberState,
}

/// What a member may be given (EndpointSlice conditions, already weighed by the controller).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemberState {
    /// Takes new flows.
    Active,
    /// Keeps the flows it has and takes no new ones.
    Draining,
}
