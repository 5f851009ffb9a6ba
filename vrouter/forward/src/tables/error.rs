//! Why an object is not held.

use std::net::IpAddr;

use thiserror::Error;
use vrouter_objects::{
    IpNet, IpProtocol, ListenerId, MemberId, ObjectKey, Port, ServiceProtocol, VmiId, Vni, VrfId,
};

/// Why the tables do not hold an object.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TableError {
    /// It refers to a network that is not there.
    #[error("vrf {0} is not known here")]
    UnknownVrf(VrfId),
    /// No interface is in the network of link-local addresses: these are names for interfaces of others.
    #[error(
        "vrf {0} has link-local addresses, which stand for interfaces of other networks: none can be in it"
    )]
    LinkLocalVrf(VrfId),
    /// Two networks cannot be told apart on the wire.
    #[error("VNI {vni} belongs to vrf {holder} already")]
    VniTaken {
        /// The VNI.
        vni: Vni,
        /// Whose it is.
        holder: VrfId,
    },
    /// Two objects claim one address.
    #[error("address {address} belongs to {holder} already")]
    Taken {
        /// The address.
        address: IpAddr,
        /// Whose it is.
        holder: ObjectKey,
    },
    /// Two interfaces claim one address.
    #[error("address {address} belongs to interface {holder} already")]
    AddressTaken {
        /// The address.
        address: IpAddr,
        /// Whose it is.
        holder: VmiId,
    },
    /// Two floating IPs claim one protocol and port of an address.
    #[error("{protocol} port {port} of {address} belongs to {holder} already")]
    FrontendTaken {
        /// The protocol.
        protocol: IpProtocol,
        /// The port.
        port: u16,
        /// The address.
        address: IpAddr,
        /// Whose it is.
        holder: ObjectKey,
    },
    /// Two floating IPs claim one node port.
    #[error("{protocol} node port {port} belongs to {holder} already")]
    NodePortTaken {
        /// The protocol.
        protocol: IpProtocol,
        /// The port.
        port: u16,
        /// Whose it is.
        holder: ObjectKey,
    },
    /// One protocol and port twice in one floating IP.
    #[error("{protocol} port {port} is mapped twice")]
    PortMappedTwice {
        /// The protocol.
        protocol: ServiceProtocol,
        /// The port.
        port: Port,
    },
    /// A member's address is of the other family.
    #[error("listener {listener}: member {member} at {address} is not of the floating IP's address family")]
    MemberFamily {
        /// The listener.
        listener: ListenerId,
        /// The member.
        member: MemberId,
        /// Its address.
        address: IpAddr,
    },
    /// Members are found by id, in ascending order.
    #[error("listener {0}: its members are not in ascending order of id")]
    MembersUnordered(ListenerId),
    /// ECMP within ECMP, or ECMP over nothing.
    #[error("an ECMP next hop must have parts that are interfaces or tunnels")]
    CompositeParts,
    /// A subnet whose gateway lies outside it.
    #[error("gateway {gateway} lies outside its subnet {subnet}")]
    GatewayOutside {
        /// The gateway.
        gateway: IpAddr,
        /// The subnet.
        subnet: IpNet,
    },
    /// More ports than a node can have.
    #[error("port number {0} is out of range")]
    PortRange(u16),
    /// The port belongs to another interface.
    #[error("port {0} belongs to another interface")]
    PortTaken(u16),
}
