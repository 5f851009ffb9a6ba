//! What a node holds, as plain domain types.
//!
//! Contrail's words for Kubernetes' things (`ARCHITECTURE.md` has the table): routing instances, virtual machine
//! interfaces, routes with their next hops, floating IPs with their port mappings. There is no behaviour here
//! beyond construction and display, and one rule that the router and its tools must read alike ([`Vantage`]), and no I/O:
//! the forwarding core, the controller's model and both edges of the wire share these types and nothing else.

mod drop_reason;
mod error;
mod floating_ip;
mod ids;
mod mac;
mod node;
mod object;
mod pod;
mod policy;
mod protocol;
mod route;
mod routing_instance;
mod vantage;
mod vmi;

pub use drop_reason::{DropGroup, DropReason};
pub use error::ObjectError;
pub use floating_ip::{
    AffinityTimeout, ExternalAddress, ExternalKind, FloatingIp, Listener, Member, MemberState, TopologyHints,
    TrafficPolicy,
};
pub use ids::{
    FloatingIpId, LeaseId, ListenerId, MemberId, PeerSetId, PolicyId, Port, RouterId, Version, VmiId, Vni,
    VrfId,
};
pub use ipnet::{IpNet, Ipv4Net, Ipv6Net};
pub use mac::MacAddress;
pub use node::{AddressLease, RouterKind, VXLAN_PORT, VirtualRouter};
pub use object::{Object, ObjectKey, ObjectKind};
pub use pod::{NamedPort, PodBinding, PodName};
pub use policy::{
    Peer, PeerAddress, PeerAddressKey, PeerSet, Peers, Policy, PolicyAction, PolicyDirection, PolicyRule,
    PortMatch, Ports, Tier,
};
pub use protocol::{IpProtocol, ServiceProtocol};
pub use route::{NextHop, Route, RouteKey};
pub use routing_instance::{NetworkKind, RoutingInstance, Subnet};
pub use vantage::Vantage;
pub use vmi::{LinkLocal, Vmi, VmiKind};
