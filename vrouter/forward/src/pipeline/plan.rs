//! What is to become of a new flow: its service and member, the way it goes, and in whose name.

use std::net::IpAddr;

use vrouter_objects::{DropReason, IpNet, NextHop, TrafficPolicy, VmiId, VrfId};

use super::classify::{Arrival, Arrived, Entrance};
use super::established::tcp_flags;
use super::link_local::{Reached, reach};
use super::locate::{Located, choose_part, locate, packed_next_hop, route_to};
use super::policy::{Connection, Pods};
use super::source::{AskedFor, Passage, Source, check_tunnel_port, hairpin, source};
use super::way_back::way_back;
use super::{Context, Worker};
use crate::address::Address;
use crate::flow::{FlowKey, Origin, PackedNextHop};
use crate::parse::Packet;
use crate::rewrite::Endpoint;
use crate::tables::{Client, FipEntry, Frontend, MemberEntry, Snapshot};

/// What a new flow does to its packets, and where they go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan<'a> {
    /// Whom its packets come from, as they leave.
    pub(super) source: Source<'a>,
    /// What becomes its destination.
    pub(super) target: Target<'a>,
    pub(super) egress_vrf: VrfId,
    pub(super) next_hop: PackedNextHop,
    /// Where answers go.
    pub(super) way_back: PackedNextHop,
}

/// What a flow's packets are to, as they leave.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target<'a> {
    /// Whom they are to as they come in.
    Addressee,
    /// This member of this service.
    Member(&'a FipEntry, &'a MemberEntry),
    /// The interface whose link-local address they are to, by its own address.
    Interface(&'a Address),
}

/// Why there is no plan for a packet.
#[derive(Debug, Clone, Copy)]
pub(super) enum Refused {
    /// The sender is told that nobody is there.
    Tell(DropReason),
    /// The sender is told that there is no way.
    NoRoute,
    /// The node steered it to us though it is not about the cluster: it goes back as it came.
    Returned,
    /// Nobody is told.
    Silent(DropReason),
}

impl<'a> Plan<'a> {
    /// From this node to an interface of its own, by its link-local address.
    #[cold]
    pub(super) fn to_interface(
        snapshot: &'a Snapshot,
        key: &FlowKey,
        vmi: VmiId,
        way_back: PackedNextHop,
    ) -> Result<Self, Refused> {
        let Reached { vrf, address, gateway } = reach(snapshot, key, vmi)?;
        Ok(Self {
            source: Source::Router(gateway),
            target: Target::Interface(address),
            egress_vrf: vrf,
            next_hop: PackedNextHop::Interface(vmi),
            way_back,
        })
    }

    /// To whom packets of this key are as they leave.
    #[inline]
    pub(super) fn destination(&self, key: &FlowKey) -> Endpoint {
        self.target.endpoint(key)
    }

    /// The connection as policy sees it.
    pub(super) fn connection(&self, key: &FlowKey) -> Connection {
        let destination = self.destination(key);
        Connection {
            key: *key,
            source: self.source.address(key.source),
            destination,
            egress_vrf: self.egress_vrf,
            way_there: self.next_hop,
            way_back: self.way_back,
        }
    }
}

impl Target<'_> {
    #[inline]
    fn endpoint(&self, key: &FlowKey) -> Endpoint {
        match self {
            Self::Addressee => Endpoint { address: key.destination, port: key.destination_port },
            Self::Member(_, member) => Endpoint { address: member.address, port: member.port },
            Self::Interface(address) => Endpoint { address: **address, port: key.destination_port },
        }
    }

    fn asked_for(&self) -> AskedFor {
        match self {
            Self::Member(..) => AskedFor::Service,
            Self::Addressee | Self::Interface(_) => AskedFor::Address,
        }
    }
}

impl Worker {
    /// Decides what becomes of the flow that a packet begins.
    #[inline]
    pub(super) fn plan<'a>(&self, context: Context<'a>, arrived: &Arrived) -> Result<Plan<'a>, Refused> {
        let Arrived { arrival, key, table_key, .. } = arrived;
        let snapshot = context.snapshot;
        let way_back = way_back(snapshot, arrival, key).ok_or(Refused::Silent(DropReason::SpoofedAddress))?;
        let (vrf, next_hop, target) = match locate(snapshot, key) {
            Located::Service(frontend) => {
                let member = self.choose_member(context, frontend, arrived)?;
                let (vrf, next_hop) = hop_to_member(snapshot, member)?;
                (vrf, next_hop, Target::Member(&frontend.fip, member))
            }
            Located::Hop { .. } if is_between_nodes(snapshot, arrival, key) => return Err(Refused::Returned),
            Located::Hop { vrf, next_hop } => (vrf, next_hop, Target::Addressee),
            Located::LinkLocal(vmi) => return Plan::to_interface(snapshot, key, vmi, way_back),
            Located::Reject => return Err(Refused::Tell(DropReason::NoService)),
            Located::Nowhere(DropReason::NoRoute) => return Err(Refused::NoRoute),
            Located::Nowhere(reason) => return Err(Refused::Silent(reason)),
        };
        let destination = target.endpoint(key);
        let next_hop = packed_next_hop(next_hop, |parts| choose_part(parts, table_key.hash));
        let next_hop = by_fabric(snapshot, key, (vrf, destination.address), next_hop);
        let asked_for = target.asked_for();
        let is_own_member = asked_for == AskedFor::Service && is_own_member(key, vrf, destination.address);
        let hairpin = if is_own_member { hairpin(snapshot, vrf, key.source) } else { None };
        let source = match hairpin {
            Some(source) => source,
            None => {
                let (entrance, destination) = (arrival.entrance, destination.address);
                source(
                    snapshot,
                    key,
                    Passage { entrance, asked_for, egress_vrf: vrf, destination, next_hop },
                )?
            }
        };
        check_tunnel_port(key.protocol, destination.port, &source)?;
        Ok(Plan { source, target, egress_vrf: vrf, next_hop, way_back })
    }

    /// The member that a new flow gets: the client's own, where the service keeps clients with theirs.
    #[inline]
    fn choose_member<'a>(
        &self,
        context: Context<'a>,
        frontend: &'a Frontend,
        Arrived { packet, key, table_key, .. }: &Arrived,
    ) -> Result<&'a MemberEntry, Refused> {
        // Before anything else: who is not admitted is told nothing.
        if !is_admitted(context.snapshot, frontend, key) {
            return Err(Refused::Silent(DropReason::SourceRange));
        }
        if is_under_way(packet) {
            return Err(Refused::Tell(DropReason::NoFlow));
        }
        let policy = frontend.policy_for(client(context.snapshot, key));
        let listener = frontend.listener();
        let member = match frontend.fip.affinity {
            None => listener.pool.choose(policy, table_key.hash),
            Some(timeout) => self.shared.affinities.member_of(
                (listener.id, key.vrf, key.source),
                (context.now, timeout),
                |kept| listener.pool.taking(policy, kept),
                || listener.pool.choose(policy, table_key.hash),
            ),
        };
        member.ok_or_else(|| Refused::without_members(policy, frontend))
    }
}

impl Refused {
    /// Why.
    pub(super) fn reason(self) -> DropReason {
        match self {
            Self::Tell(reason) | Self::Silent(reason) => reason,
            Self::NoRoute => DropReason::NoRoute,
            Self::Returned => DropReason::InterfaceDown,
        }
    }

    /// Silent where policy alone keeps the flow from its members, as kube-proxy is.
    #[cold]
    fn without_members(policy: TrafficPolicy, frontend: &Frontend) -> Self {
        if policy == TrafficPolicy::Local && frontend.listener().pool.has_usable() {
            Self::Silent(DropReason::NoMembers)
        } else {
            Self::Tell(DropReason::NoMembers)
        }
    }
}

/// Whether policy lets a connection begin with this packet.
#[cold]
#[inline(never)]
pub(super) fn admit(
    snapshot: &Snapshot,
    Arrived { packet, key, .. }: &Arrived,
    plan: &Plan<'_>,
) -> Result<(), Refused> {
    let connection = plan.connection(key);
    let pods = Pods::of(snapshot, &connection);
    if !pods.are_governed() {
        return Ok(());
    }
    let judgement = pods.judge(snapshot, &connection);
    judgement.refuse().map_err(Refused::Silent)?;
    if is_under_way(packet) && pods.have_a_say(snapshot, &connection) {
        return Err(Refused::Tell(DropReason::NoFlow));
    }
    judgement.count();
    Ok(())
}

/// Whether a packet belongs to a TCP connection that has begun.
#[inline]
fn is_under_way(packet: &Packet) -> bool {
    tcp_flags(packet).is_some_and(|flags| !flags.is_opening())
}

/// Whether a service lets a client in.
#[inline(always)]
pub(super) fn is_admitted(snapshot: &Snapshot, frontend: &Frontend, key: &FlowKey) -> bool {
    frontend.guard().is_none_or(|ranges| is_among(snapshot, ranges, key))
}

/// Whether a client is in one of these ranges by the address that it has outside: its node's, if the nodes do not know its network.
#[inline(never)]
fn is_among(snapshot: &Snapshot, ranges: &[IpNet], key: &FlowKey) -> bool {
    let is_known = key.origin != Origin::Cluster || snapshot.is_known_in_fabric(key.vrf);
    let nodes = || snapshot.host().and_then(|host| host.source(key.source.family())).copied();
    let name = if is_known { Some(key.source) } else { nodes() }.map(IpAddr::from);
    name.is_some_and(|name| ranges.iter().any(|range| range.contains(&name)))
}

/// Where the sender of a flow's packets is.
#[inline]
pub(super) fn client(snapshot: &Snapshot, key: &FlowKey) -> Client {
    match key.origin {
        Origin::Cluster => Client::Inside,
        Origin::Host if snapshot.is_own_address(key.source) => Client::Inside,
        Origin::Host | Origin::Router(_) => Client::Outside,
    }
}

/// Whether the node steered to us what it sends to itself or to another node, or got for itself.
#[inline]
fn is_between_nodes(snapshot: &Snapshot, arrival: &Arrival, key: &FlowKey) -> bool {
    arrival.entrance == Entrance::Host && snapshot.node_address(key.destination).is_some()
}

/// Whether a pod speaks to itself by way of a service. In another network, its address is another's.
#[inline]
pub(super) fn is_own_member(key: &FlowKey, vrf: VrfId, member: Address) -> bool {
    member == key.source && vrf == key.vrf
}

/// The way to a member. One that is nobody's address is as good as none.
#[inline]
pub(super) fn hop_to_member<'a>(
    snapshot: &'a Snapshot,
    member: &MemberEntry,
) -> Result<(VrfId, &'a NextHop), Refused> {
    match route_to(snapshot, member.vrf, member.address) {
        Located::Hop { vrf, next_hop } => Ok((vrf, next_hop)),
        Located::Service(_) | Located::LinkLocal(_) | Located::Reject => {
            Err(Refused::Tell(DropReason::NoMembers))
        }
        Located::Nowhere(reason) => Err(Refused::Silent(reason)),
    }
}

/// What comes from the node itself, or by it from outside, or goes in its name, reaches other nodes as the node does: not
/// through a tunnel.
#[inline]
pub(super) fn by_fabric(
    snapshot: &Snapshot,
    key: &FlowKey,
    (egress_vrf, destination): (VrfId, Address),
    next_hop: PackedNextHop,
) -> PackedNextHop {
    let PackedNextHop::Tunnel(_) = next_hop else { return next_hop };
    let is_by_node = key.origin == Origin::Host || !snapshot.is_known_in(key.vrf, egress_vrf);
    let is_to_node = || snapshot.fabric() == Some(egress_vrf) && snapshot.node_address(destination).is_some();
    if is_by_node && is_to_node() { PackedNextHop::Receive } else { next_hop }
}
