//! What is to become of a new flow: its service and member, the way it goes, and in whose name.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use vrouter_objects::{
    DropReason, IpNet, IpProtocol, NextHop, RouterId, RouterKind, TrafficPolicy, VXLAN_PORT, VmiId, VrfId,
};

use super::classify::{Arrival, Arrived, Entrance};
use super::established::tcp_flags;
use super::link_local::{Reached, reach};
use super::locate::{Located, choose_part, locate, packed_next_hop, route_to};
use super::policy::{Connection, Pods};
use super::{Context, Worker};
use crate::address::{Address, Family};
use crate::flow::{FlowKey, Origin, PackedNextHop};
use crate::parse::Packet;
use crate::rewrite::Endpoint;
use crate::tables::{Client, FipEntry, Frontend, MemberEntry, Snapshot};

/// The ports that a client's packets may come from if its own is taken.
const CLIENT_PORTS: RangeInclusive<u16> = 1024..=u16::MAX;

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

/// Whom a flow's packets come from, as they leave.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'a> {
    /// Who sent them; by another port only if theirs is taken.
    Sender,
    /// This address of the router's, with the sender's port if it is free.
    Router(&'a Address),
    /// The node, by one of these ports. None of them is given again to one peer while the connection may stand there.
    Node(&'a Address, &'a RangeInclusive<u16>),
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

    fn is_service(&self) -> bool {
        matches!(self, Self::Member(..))
    }
}

impl Source<'_> {
    /// The new source of a packet from this one; `None`: as it is.
    pub(super) fn first(&self, sender: Endpoint, random: u64) -> Option<Endpoint> {
        match self {
            Self::Sender => None,
            Self::Router(address) => Some(Endpoint { address: **address, port: sender.port }),
            Self::Node(..) => Some(self.other(sender, random)),
        }
    }

    /// The address that packets from this sender leave with.
    #[inline]
    pub(super) fn address(&self, sender: Address) -> Address {
        match self {
            Self::Sender => sender,
            Self::Router(address) | Self::Node(address, _) => **address,
        }
    }

    /// Another one, where that is taken.
    pub(super) fn other(&self, sender: Endpoint, random: u64) -> Endpoint {
        let (address, ports) = match self {
            Self::Sender => (sender.address, &CLIENT_PORTS),
            Self::Router(address) => (**address, &CLIENT_PORTS),
            Self::Node(address, ports) => (**address, *ports),
        };
        let count = u64::from(ports.end().saturating_sub(*ports.start())) + 1;
        Endpoint { address, port: ports.start() + (random % count) as u16 }
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
        let is_own_member = target.is_service() && is_own_member(key, vrf, destination.address);
        let hairpin = if is_own_member { hairpin(snapshot, vrf, key.source) } else { None };
        let source = match hairpin {
            Some(source) => source,
            None => source(
                snapshot,
                arrival.entrance,
                key,
                (vrf, destination.address),
                next_hop,
                target.is_service(),
            )?,
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

/// Nothing that a node says in its own name may pass for a tunnel's packet: others believe what it says there.
pub(super) fn check_tunnel_port(protocol: IpProtocol, port: u16, source: &Source<'_>) -> Result<(), Refused> {
    let is_to_tunnel = protocol == IpProtocol::UDP && port == VXLAN_PORT;
    if is_to_tunnel && matches!(source, Source::Node(..)) {
        return Err(Refused::Silent(DropReason::TunnelPort));
    }
    Ok(())
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

/// A pod that reaches itself through a service must see another's address, or its answer would never come
/// back through the router: its gateway's. `None`: the nodes' network has none.
#[cold]
fn hairpin(snapshot: &Snapshot, vrf: VrfId, pod: Address) -> Option<Source<'_>> {
    snapshot.vrf(vrf)?.gateway_for(pod).map(Source::Router)
}

/// In whose name a flow's packets go to this destination.
#[inline(always)]
pub(super) fn source<'a>(
    snapshot: &'a Snapshot,
    entrance: Entrance,
    key: &FlowKey,
    (egress_vrf, destination): (VrfId, Address),
    next_hop: PackedNextHop,
    is_to_service: bool,
) -> Result<Source<'a>, Refused> {
    // Within one network, everybody goes by their own name.
    if key.vrf == egress_vrf && entrance != Entrance::Host && next_hop != PackedNextHop::Receive {
        return Ok(Source::Sender);
    }
    source_across(snapshot, entrance, key, (egress_vrf, destination), next_hop, is_to_service)
}

/// The same, from one network to another, or by the node.
#[inline(never)]
fn source_across<'a>(
    snapshot: &'a Snapshot,
    entrance: Entrance,
    key: &FlowKey,
    (egress_vrf, destination): (VrfId, Address),
    next_hop: PackedNextHop,
    is_to_service: bool,
) -> Result<Source<'a>, Refused> {
    match (next_hop, entrance) {
        (PackedNextHop::Receive, entrance) => {
            to_host(snapshot, key.vrf, entrance, destination, is_to_service)
        }
        (_, Entrance::Pod(_)) if !snapshot.is_known_in(key.vrf, egress_vrf) => {
            if !is_to_service && snapshot.fabric() != Some(egress_vrf) {
                // Strangers meet at services and in the fabric alone.
                return Err(Refused::NoRoute);
            }
            as_stranger(snapshot, next_hop, destination.family())
        }
        (PackedNextHop::Tunnel(_), Entrance::Host) if is_to_service => {
            from_beyond(snapshot, key, egress_vrf, next_hop, destination.family())
        }
        _ => Ok(Source::Sender),
    }
}

/// In whose name packets that came in by the node go to a service's member on another one.
fn from_beyond<'a>(
    snapshot: &'a Snapshot,
    key: &FlowKey,
    egress_vrf: VrfId,
    next_hop: PackedNextHop,
    family: Family,
) -> Result<Source<'a>, Refused> {
    if has_double(snapshot, egress_vrf, key.source) {
        return as_stranger(snapshot, next_hop, family);
    }
    Ok(kernels_source(snapshot, next_hop, family).unwrap_or(Source::Sender))
}

/// Whether an address from beyond the nodes is, or may become, a pod's in a network: one of its own, or of one that it is
/// leaked with.
fn has_double(snapshot: &Snapshot, vrf: VrfId, address: Address) -> bool {
    let is_inside = snapshot.vrf(vrf).is_some_and(|vrf| vrf.is_inside(address));
    is_inside
        || match route_to(snapshot, vrf, address) {
            Located::Hop { vrf, .. } => snapshot.fabric() != Some(vrf),
            Located::Reject | Located::LinkLocal(_) | Located::Service(_) => true,
            Located::Nowhere(_) => false,
        }
}

/// In whose name packets go into a network where their sender's address is not known, or is another's.
#[cold]
fn as_stranger(snapshot: &Snapshot, next_hop: PackedNextHop, family: Family) -> Result<Source<'_>, Refused> {
    kernels_source(snapshot, next_hop, family).map_or_else(|| in_the_nodes_name(snapshot, family), Ok)
}

/// Whom packets to a kernel's node must come from, if they come from outside: it would not send answers to strangers back to us.
fn kernels_source(snapshot: &Snapshot, next_hop: PackedNextHop, family: Family) -> Option<Source<'_>> {
    let PackedNextHop::Tunnel(router) = next_hop else { return None };
    let is_kernels = snapshot.router(router).is_some_and(|router| router.kind == RouterKind::Kernel);
    snapshot.block_source(family).filter(|_| is_kernels).map(Source::Router)
}

/// In whose name packets go to the node's own stack, and beyond it.
fn to_host(
    snapshot: &Snapshot,
    vrf: VrfId,
    entrance: Entrance,
    destination: Address,
    is_to_service: bool,
) -> Result<Source<'_>, Refused> {
    // Whoever has it on one link is not who has it on another (RFC 4291 section 2.5.6). IPv4's are no different, but
    // clouds tell nodes and pods about themselves at one.
    if destination.family() == Family::V6 && destination.is_link_local() {
        return Err(Refused::NoRoute);
    }
    let is_hidden = match entrance {
        Entrance::Pod(_) => !snapshot.knows_pods(destination) || !snapshot.is_known_in_fabric(vrf),
        // Whoever answers must not answer past us.
        Entrance::Host if is_to_service => true,
        // A service that is gone must not leak.
        Entrance::Host => return Err(Refused::Tell(DropReason::NoService)),
        // Services are translated where packets come into the cluster.
        Entrance::Tunnel(_) if !is_to_service && snapshot.is_own_address(destination) => false,
        // Answers that nobody here waits for any more.
        Entrance::Tunnel(_) => return Err(Refused::Silent(DropReason::NoFlow)),
    };
    if is_hidden { in_the_nodes_name(snapshot, destination.family()) } else { Ok(Source::Sender) }
}

fn in_the_nodes_name(snapshot: &Snapshot, family: Family) -> Result<Source<'_>, Refused> {
    let host = snapshot.host().ok_or(Refused::Silent(DropReason::InterfaceDown))?;
    let address = host.source(family).ok_or(Refused::NoRoute)?;
    Ok(Source::Node(address, &host.source_ports))
}

/// Where a packet's sender is: at the interface it came from, which bears the address; beyond the node, where nobody
/// of the cluster is; or behind the node it came from, if the address's route leads there or out of the cluster.
/// `None`: it is somebody else's.
#[inline]
fn way_back(snapshot: &Snapshot, arrival: &Arrival, key: &FlowKey) -> Option<PackedNextHop> {
    match arrival.entrance {
        Entrance::Pod(vmi) => Some(PackedNextHop::Interface(vmi)),
        Entrance::Host => way_back_to_host(snapshot, key),
        Entrance::Tunnel(router) => way_back_to(snapshot, router, key),
    }
}

fn way_back_to_host(snapshot: &Snapshot, key: &FlowKey) -> Option<PackedNextHop> {
    let Located::Hop { next_hop, .. } = route_to(snapshot, key.vrf, key.source) else { return None };
    let is_outside = *next_hop == NextHop::Receive || snapshot.node_address(key.source).is_some();
    is_outside.then_some(PackedNextHop::Interface(VmiId::HOST))
}

fn way_back_to(snapshot: &Snapshot, router: RouterId, key: &FlowKey) -> Option<PackedNextHop> {
    let Located::Hop { next_hop, .. } = route_to(snapshot, key.vrf, key.source) else { return None };
    let tunnel = NextHop::Tunnel(router);
    let leads_there = match next_hop {
        NextHop::Composite(parts) => parts.contains(&tunnel),
        // What this node itself sent to another's node port comes back from there to a member here, not to the node.
        NextHop::Receive => !snapshot.is_own_address(key.source) || !snapshot.is_own_address(key.destination),
        next_hop => *next_hop == tunnel || snapshot.node_address(key.source).is_some(),
    };
    leads_there.then_some(PackedNextHop::Tunnel(router))
}

/// The way to who came into the cluster here; `None`: their address's route says it.
pub(super) fn way_to(origin: Origin) -> Option<PackedNextHop> {
    match origin {
        Origin::Cluster => None,
        Origin::Host => Some(PackedNextHop::Interface(VmiId::HOST)),
        Origin::Router(router) => Some(PackedNextHop::Tunnel(router)),
    }
}
