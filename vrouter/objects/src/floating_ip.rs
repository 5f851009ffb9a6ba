//! Floating IPs: a service's virtual addresses with port mappings onto the interfaces of a pool.

use std::net::IpAddr;
use std::num::NonZeroU32;

use ipnet::IpNet;

use crate::{FloatingIpId, ListenerId, MemberId, ObjectError, Port, RouterId, ServiceProtocol, VmiId, VrfId};

/// A service's virtual addresses of one family, with everything a node needs to translate to its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FloatingIp {
    /// The floating IP.
    pub id: FloatingIpId,
    /// The Service, `namespace/name`.
    pub name: String,
    /// The (service) network its cluster address is in. Other networks reach it by a vrf-translate route.
    pub vrf: VrfId,
    /// The cluster address.
    pub address: IpAddr,
    /// The (fabric) network its external addresses and node ports are in.
    pub external_vrf: VrfId,
    /// The addresses that it has besides, of the same family. Several services may share one, with different ports.
    pub external: Vec<ExternalAddress>,
    /// Which members the cluster address leads to.
    pub internal_policy: TrafficPolicy,
    /// Which members external addresses and node ports lead to, for who comes from outside the cluster.
    pub external_policy: TrafficPolicy,
    /// For how long a client stays with its member; `None`: each flow is on its own.
    pub affinity: Option<AffinityTimeout>,
    /// Who may reach it by its load balancer's addresses (`loadBalancerSourceRanges`); empty: everybody.
    pub source_ranges: Vec<IpNet>,
    /// Where each node says over HTTP whether it has members of its own (`healthCheckNodePort`).
    pub health_check_port: Option<Port>,
    /// Its port mappings, each with its pool. Protocol and port together are unique.
    pub listeners: Vec<Listener>,
}

impl FloatingIp {
    /// One that has a cluster address and nothing else, not even listeners.
    pub fn new(id: FloatingIpId, name: &str, vrf: VrfId, address: IpAddr, external_vrf: VrfId) -> Self {
        Self {
            id,
            name: name.to_owned(),
            vrf,
            address,
            external_vrf,
            external: Vec::new(),
            internal_policy: TrafficPolicy::Cluster,
            external_policy: TrafficPolicy::Cluster,
            affinity: None,
            source_ranges: Vec::new(),
            health_check_port: None,
            listeners: Vec::new(),
        }
    }
}

/// An address by which a service is reached from outside the cluster, and from within as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExternalAddress {
    /// The address. It may be a node's own: then the service's ports alone are the service's.
    pub address: IpAddr,
    /// Where the service has it from.
    pub kind: ExternalKind,
}

/// Where a service has an external address from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExternalKind {
    /// `spec.externalIPs`.
    ExternalIp,
    /// `status.loadBalancer.ingress`.
    LoadBalancer,
}

/// Which members a frontend leads to (`internalTrafficPolicy`, `externalTrafficPolicy`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum TrafficPolicy {
    /// All of the cluster.
    #[default]
    Cluster,
    /// Those of the node that translates, and no others.
    Local,
}

/// For how long a client stays with the member of its last new flow, in seconds: 1 to 86,400
/// (`sessionAffinityConfig.clientIP.timeoutSeconds`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AffinityTimeout(NonZeroU32);

impl AffinityTimeout {
    /// What a Service has that names none: three hours.
    pub const DEFAULT_SECONDS: u32 = 10_800;
    const MAX_SECONDS: u32 = 86_400;

    /// So many seconds.
    pub fn new(seconds: u32) -> Result<Self, ObjectError> {
        NonZeroU32::new(seconds)
            .filter(|seconds| seconds.get() <= Self::MAX_SECONDS)
            .map(Self)
            .ok_or(ObjectError::AffinityRange(seconds))
    }

    /// The number of seconds.
    pub const fn seconds(self) -> u32 {
        self.0.get()
    }
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
    /// The port at every node's addresses that leads to the same pool.
    pub node_port: Option<Port>,
    /// Who answers, in ascending order of id. An address and port occurs once.
    pub members: Vec<Member>,
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
    /// The node it is on, where the cluster knows one. A node takes those for local that are on itself.
    pub router: Option<RouterId>,
    /// What it may be given.
    pub state: MemberState,
    /// For whom it is meant.
    pub hints: TopologyHints,
}

impl Member {
    /// One that is ready, of which no more is known than its address, which is its name.
    pub fn new(id: MemberId, vrf: VrfId, address: IpAddr, port: Port) -> Self {
        Self {
            id,
            name: address.to_string(),
            vrf,
            address,
            port,
            vmi: None,
            router: None,
            state: MemberState::Ready,
            hints: TopologyHints::default(),
        }
    }
}

/// What a member may be given. Who takes new flows depends on the others of the same scope, all of the cluster or
/// all of one node: the ready ones, or where there are none the serving ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberState {
    /// Takes new flows.
    Ready,
    /// Terminating and still serving: takes new flows where nobody is ready.
    Serving,
    /// Keeps the flows it has and takes no new ones.
    Leaving,
}

/// For whom a member is meant (EndpointSlice `hints`). They count where every ready member of the pool has some, and one
/// of those is for the node in question.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopologyHints {
    /// Zones; empty: none was named.
    pub zones: Vec<String>,
    /// Nodes; empty: none was named.
    pub routers: Vec<RouterId>,
}
