//! The third stage: whose packet it is, and whether it may be.

use vrouter_objects::{DropReason, MacAddress, RouterId, VmiId, VmiKind, VrfId};

use super::Context;
use crate::address::Address;
use crate::flow::{FlowKey, FlowTable, Origin, TableKey};
use crate::frame::{Frame, Ingress, PortId};
use crate::parse::{Packet, Parsed, parse};
use crate::tables::PortEntry;

/// Where a packet came from, as the tables know it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) vrf: VrfId,
    pub(super) origin: Origin,
    pub(super) entrance: Entrance,
}

/// How a packet came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entrance {
    /// By a pod's interface.
    Pod(VmiId),
    /// By `vhost0`: from the node's own stack, or through it.
    Host,
    /// Out of a tunnel, from this node.
    Tunnel(RouterId),
}

/// An IP packet whose sender is established, with what its flow is called.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived {
    pub(super) packet: Packet,
    pub(super) arrival: Arrival,
    pub(super) key: FlowKey,
    pub(super) table_key: TableKey,
}

/// A frame after its headers were read and its sender established.
#[derive(Debug, Clone, Copy)]
pub(super) enum Staged {
    /// It ends here.
    Drop(DropReason),
    /// ARP from a local port, its body at this offset.
    Arp(u16),
    /// An IP packet.
    Ip(Packet, Arrival),
}

/// Parses and classifies a frame.
pub(super) fn stage(context: Context<'_>, frame: &Frame) -> Staged {
    let staged = match frame.ingress {
        Ingress::Port(port) => from_port(context, frame, port),
        Ingress::Tunnel { .. } => from_tunnel(context, frame),
    };
    match staged {
        Ok((Parsed::Arp { offset }, _)) => Staged::Arp(offset),
        Ok((Parsed::Ip(packet), arrival)) => Staged::Ip(packet, arrival),
        Err(reason) => Staged::Drop(reason),
    }
}

impl Arrived {
    /// The packet, with what its flow is called.
    pub(super) fn new(packet: Packet, arrival: Arrival, flows: &FlowTable) -> Self {
        let key = flow_key(&packet, &arrival, packet.ports());
        Self { packet, arrival, key, table_key: flows.table_key(&key) }
    }
}

/// What a packet's flow is called.
pub(super) fn flow_key(packet: &Packet, arrival: &Arrival, ports: (u16, u16)) -> FlowKey {
    FlowKey {
        vrf: arrival.vrf,
        origin: arrival.origin,
        source: packet.source,
        destination: packet.destination,
        source_port: ports.0,
        destination_port: ports.1,
        protocol: packet.protocol,
    }
}

fn from_port(context: Context<'_>, frame: &Frame, port: PortId) -> Result<(Parsed, Arrival), DropReason> {
    let entry = context.snapshot.port(port).ok_or(DropReason::UnknownPort)?;
    let parsed = parse(frame.bytes())?;
    check_frame_addresses(frame.bytes(), entry)?;
    if let Parsed::Ip(packet) = &parsed {
        check_source(packet, entry)?;
    }
    Ok((parsed, Arrival::at_port(entry)))
}

/// The source MAC must be the interface's; the destination its gateway's, or a group's.
fn check_frame_addresses(bytes: &[u8], entry: &PortEntry) -> Result<(), DropReason> {
    let (destination, source) = (mac_at(bytes, 0), mac_at(bytes, 6));
    if source != entry.mac {
        Err(DropReason::SpoofedMac)
    } else if destination != MacAddress::GATEWAY && !destination.is_multicast() {
        Err(DropReason::NotForUs)
    } else {
        Ok(())
    }
}

/// The source IP must be one of the interface's. A host that does not have its address yet may ask whether
/// anybody else has (RFC 4862 section 5.4), and speak on its link from a link-local one.
fn check_source(packet: &Packet, entry: &PortEntry) -> Result<(), DropReason> {
    let on_link = packet.destination.is_multicast() && is_unspecified_or_link_local(packet);
    if entry.kind == VmiKind::Host {
        // Whose it may be is looked at when a flow begins. A node reaches services at its own addresses from these.
        let fit = packet.source.is_unicast() || on_link;
        return if fit { Ok(()) } else { Err(DropReason::InvalidAddress) };
    }
    if is_land(packet) {
        return Err(DropReason::InvalidAddress);
    }
    let own = entry.addresses.contains(&packet.source);
    if own || on_link { Ok(()) } else { Err(DropReason::SpoofedAddress) }
}

/// Whether it claims to come from where it is going.
fn is_land(packet: &Packet) -> bool {
    packet.source == packet.destination
}

fn is_unspecified_or_link_local(packet: &Packet) -> bool {
    match std::net::IpAddr::from(packet.source) {
        std::net::IpAddr::V4(address) => address.is_unspecified(),
        std::net::IpAddr::V6(address) => address.is_unspecified() || address.is_unicast_link_local(),
    }
}

fn from_tunnel(context: Context<'_>, frame: &Frame) -> Result<(Parsed, Arrival), DropReason> {
    let Ingress::Tunnel { source, vni } = frame.ingress else { return Err(DropReason::UnknownPort) };
    let snapshot = context.snapshot;
    let router = snapshot.router_at(source.into()).ok_or(DropReason::UnknownVtep)?;
    let vrf = snapshot.vrf_of_vni(vni).ok_or(DropReason::UnknownVni)?;
    let parsed = parse(frame.bytes())?;
    let own = snapshot.own().ok_or(DropReason::UnknownRouterMac)?;
    if router == own.id {
        return Err(DropReason::UnknownVtep);
    }
    if mac_at(frame.bytes(), 0) != own.mac {
        return Err(DropReason::UnknownRouterMac);
    }
    match parsed {
        // Tunnels are routed: nobody asks for addresses through them, or is without one.
        Parsed::Arp { .. } => Err(DropReason::InvalidArp),
        Parsed::Ip(packet) if !packet.source.is_unicast() || is_land(&packet) => {
            Err(DropReason::InvalidAddress)
        }
        Parsed::Ip(packet) => {
            let entrance = Entrance::Tunnel(router);
            let origin = tunnel_origin(context, vrf, router, packet.source);
            Ok((parsed, Arrival { vrf, origin, entrance }))
        }
    }
}

impl Arrival {
    /// At a port of this node.
    pub(super) fn at_port(entry: &PortEntry) -> Self {
        let (origin, entrance) = match entry.kind {
            VmiKind::Pod => (Origin::Cluster, Entrance::Pod(entry.vmi)),
            VmiKind::Host => (Origin::Host, Entrance::Host),
        };
        Self { vrf: entry.vrf, origin, entrance }
    }

    /// Where packets that come in here from this source came into the cluster.
    pub(super) fn origin_of(&self, context: Context<'_>, source: Address) -> Origin {
        match self.entrance {
            Entrance::Pod(_) | Entrance::Host => self.origin,
            Entrance::Tunnel(router) => tunnel_origin(context, self.vrf, router, source),
        }
    }
}

/// Where a packet that came from another node came into the cluster: there, unless its source is the network's own.
pub(super) fn tunnel_origin(context: Context<'_>, vrf: VrfId, router: RouterId, source: Address) -> Origin {
    let is_inside = context.snapshot.vrf(vrf).is_some_and(|vrf| vrf.is_inside(source));
    if is_inside { Origin::Cluster } else { Origin::Router(router) }
}

/// The MAC address at this offset of a frame that is long enough.
pub(super) fn mac_at(bytes: &[u8], at: usize) -> MacAddress {
    let mut octets = [0; 6];
    octets.copy_from_slice(&bytes[at..at + 6]);
    MacAddress(octets)
}
