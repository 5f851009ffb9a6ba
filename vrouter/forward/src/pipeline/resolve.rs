//! The sixth stage, for the first packet of a flow only: service, member, route, and both directions
//! installed together.

use vrouter_objects::{DropReason, IpProtocol, NextHop, NoMembers, VrfId};

use super::classify::Arrived;
use super::established::tcp_flags;
use super::{Context, Outcome, Worker, answer};
use crate::address::Address;
use crate::flow::{
    Actions, ConnectionState, FlowIndex, FlowKey, NewConnection, NewFlow, NotInstalled, PackedNextHop, Seen,
};
use crate::frame::{Frame, Ingress};
use crate::observer::{Event, Observer};
use crate::rewrite::Endpoint;
use crate::tables::{FipEntry, MemberEntry, Snapshot};

/// How many VRFs a packet may be handed through.
const MAX_VRFS: usize = 4;
/// How many source ports are tried where two connections would look alike to the one they go to.
const PORT_TRIES: u64 = 32;

/// What is at an address.
pub(super) enum Located<'a> {
    /// A service.
    Service(&'a FipEntry),
    /// A next hop that packets leave by.
    Hop {
        /// The VRF whose route it is.
        vrf: VrfId,
        /// The next hop: an interface, a tunnel, several of them, or this node.
        next_hop: &'a NextHop,
    },
    /// Nobody, and the sender is to be told.
    Reject,
    /// Nobody.
    Nowhere(DropReason),
}

/// Looks an address up, from VRF to VRF.
pub(super) fn locate(snapshot: &Snapshot, vrf: VrfId, address: Address) -> Located<'_> {
    let mut id = vrf;
    for _ in 0..MAX_VRFS {
        let Some(vrf) = snapshot.vrf(id) else { return Located::Nowhere(DropReason::InvalidNextHop) };
        if let Some(fip) = vrf.floating_ip(address) {
            return Located::Service(fip);
        }
        match vrf.route(address) {
            None => return Located::Nowhere(DropReason::NoRoute),
            Some(NextHop::VrfTranslate(next)) => id = *next,
            Some(NextHop::Discard) => return Located::Nowhere(DropReason::DiscardRoute),
            Some(NextHop::Reject) => return Located::Reject,
            Some(next_hop) => return Located::Hop { vrf: id, next_hop },
        }
    }
    Located::Nowhere(DropReason::RouteLoop)
}

/// A next hop as a flow keeps it; `choose` decides between the parts of an ECMP one.
pub(super) fn packed_next_hop(
    next_hop: &NextHop,
    choose: impl FnOnce(&[NextHop]) -> PackedNextHop,
) -> PackedNextHop {
    match next_hop {
        NextHop::Interface(vmi) => PackedNextHop::Interface(*vmi),
        NextHop::Tunnel(router) => PackedNextHop::Tunnel(*router),
        NextHop::Receive => PackedNextHop::Receive,
        NextHop::Composite(parts) => choose(parts),
        NextHop::VrfTranslate(_) | NextHop::Reject | NextHop::Discard => PackedNextHop::Unreachable,
    }
}

/// One part of an ECMP next hop.
pub(super) fn choose_part(parts: &[NextHop], hash: u64) -> PackedNextHop {
    let part = &parts[(hash % parts.len().max(1) as u64) as usize];
    packed_next_hop(part, |_| PackedNextHop::Unreachable)
}

/// What a new flow does to its packets, and where they go.
struct Plan<'a> {
    /// The new source.
    source: Option<Endpoint>,
    /// The service it is to, and the member that becomes its destination.
    service: Option<(&'a FipEntry, &'a MemberEntry)>,
    egress_vrf: VrfId,
    next_hop: PackedNextHop,
    /// Where answers go.
    way_back: PackedNextHop,
}

impl Worker {
    /// Decides about the first packet of a flow, installs the flow and sends the packet on.
    pub(super) fn resolve<O: Observer>(
        &mut self,
        context: Context<'_>,
        frame: &mut Frame,
        arrived: &Arrived,
        spare: &mut Vec<Frame>,
        observer: &mut O,
    ) -> Outcome {
        let Arrived { packet, arrival, key, hash } = arrived;
        observer.observe(Event::Resolving(key));
        let Some(way_back) = way_back(context, frame.ingress, arrived) else {
            return Outcome::Drop(DropReason::SpoofedAddress);
        };
        let mid_stream = tcp_flags(packet).is_some_and(|flags| !flags.is_opening());
        let plan = match locate(context.snapshot, arrival.vrf, key.destination) {
            Located::Service(_) if mid_stream => {
                return answer::refuse(self, context, frame, packet, DropReason::NoFlow);
            }
            Located::Service(fip) => match self.plan_service(context, fip, arrived, way_back) {
                Ok(plan) => plan,
                Err(Refused::Tell(reason)) => return answer::refuse(self, context, frame, packet, reason),
                Err(Refused::Silent(reason)) => return Outcome::Drop(reason),
            },
            Located::Hop { vrf, next_hop } => plan_plain(vrf, next_hop, *hash, way_back),
            Located::Reject => return answer::refuse(self, context, frame, packet, DropReason::NoService),
            Located::Nowhere(reason @ DropReason::NoRoute) => {
                return answer::no_route(self, context, frame, packet, reason);
            }
            Located::Nowhere(reason) => return Outcome::Drop(reason),
        };
        match self.install(context, arrived, plan) {
            Ok(index) => self.send(context, frame, packet, self.shared.flows.slot(index), *hash, spare),
            Err(reason) => Outcome::Drop(reason),
        }
    }

    fn plan_service<'a>(
        &self,
        context: Context<'a>,
        fip: &'a FipEntry,
        Arrived { key, hash, .. }: &Arrived,
        way_back: PackedNextHop,
    ) -> Result<Plan<'a>, Refused> {
        let listener =
            fip.listener(key.protocol, key.destination_port).ok_or(Refused::Tell(DropReason::NoService))?;
        let Some(member) = listener.choose(*hash) else {
            return Err(match listener.no_members {
                NoMembers::Reject => Refused::Tell(DropReason::NoMembers),
                NoMembers::Drop => Refused::Silent(DropReason::NoMembers),
            });
        };
        let (vrf, next_hop) = match locate(context.snapshot, member.vrf, member.address) {
            Located::Hop { vrf, next_hop } => (vrf, next_hop),
            // A member that is nobody's address is as good as none.
            Located::Service(_) | Located::Reject => return Err(Refused::Tell(DropReason::NoMembers)),
            Located::Nowhere(reason) => return Err(Refused::Silent(reason)),
        };
        Ok(Plan {
            source: hairpin_source(context, vrf, key, member),
            service: Some((fip, member)),
            ..plan_plain(vrf, next_hop, *hash, way_back)
        })
    }

    /// Installs the flow and its way back, from another port if it must be.
    fn install(
        &mut self,
        context: Context<'_>,
        arrived: &Arrived,
        mut plan: Plan<'_>,
    ) -> Result<FlowIndex, DropReason> {
        for attempt in 0..PORT_TRIES {
            let connection = connection(context, arrived, &plan);
            match self.shared.flows.install(&mut self.flows, &connection, context.now) {
                Ok(index) => return Ok(index),
                Err(NotInstalled::Full) => return Err(DropReason::FlowTableFull),
                Err(NotInstalled::InterfaceLimit) => return Err(DropReason::VmiFlowLimit),
                Err(NotInstalled::UnrepliedLimit) => return Err(DropReason::UnrepliedLimit),
                Err(NotInstalled::ReverseTaken) if self.evict_closed(&connection.responder.key) => {}
                Err(NotInstalled::ReverseTaken) => {
                    let address = plan.source.map_or(arrived.key.source, |source| source.address);
                    plan.source = Some(Endpoint { address, port: self.other_port(arrived.hash, attempt) });
                }
            }
        }
        Err(DropReason::NatPortsExhausted)
    }

    /// A source port that depends on the flow and the attempt.
    fn other_port(&self, hash: u64, attempt: u64) -> u16 {
        let random = self.shared.flows.hasher().mix(hash, attempt);
        1024 + (random % (65_536 - 1024)) as u16
    }

    /// Makes room where the connection in the way has ended.
    fn evict_closed(&mut self, key: &FlowKey) -> bool {
        let flows = &self.shared.flows;
        let Some(index) = flows.find(key, flows.hash(key)) else { return true };
        let closed = flows.state(flows.slot(index)) == ConnectionState::Closed;
        if closed {
            self.forget(index);
        }
        closed
    }
}

/// Both directions of a connection by this plan.
#[inline(always)] // What it builds would be copied otherwise.
fn connection(context: Context<'_>, arrived: &Arrived, plan: &Plan<'_>) -> NewConnection {
    let Arrived { packet, arrival, key, hash } = arrived;
    let old_source = Endpoint { address: key.source, port: key.source_port };
    let old_destination = Endpoint { address: key.destination, port: key.destination_port };
    let new_source = plan.source.unwrap_or(old_source);
    let new_destination = plan
        .service
        .map_or(old_destination, |(_, member)| Endpoint { address: member.address, port: member.port });
    let (new_source, new_destination) = symmetric_ids(key.protocol, new_source, new_destination);
    let actions = match (plan.source.is_some(), plan.service.is_some()) {
        (false, false) => Actions::NONE,
        (false, true) => Actions::DESTINATION,
        (true, false) => Actions::SOURCE,
        (true, true) => Actions::BOTH,
    };
    let ahead = if actions.has(Actions::DESTINATION) { new_destination } else { new_source };
    let back_actions = actions.reversed();
    let back = if back_actions.has(Actions::DESTINATION) { old_source } else { old_destination };
    let initiator = NewFlow {
        key: *key,
        actions,
        translated: ahead.address,
        translated_port: ahead.port,
        egress_vrf: plan.egress_vrf,
        next_hop: plan.next_hop,
        service: plan.service.map(|(fip, member)| (fip.id, member.id)),
        seen: Seen::first(tcp_flags(packet)),
    };
    let responder = NewFlow {
        key: FlowKey {
            vrf: plan.egress_vrf,
            origin: key.origin,
            source: new_destination.address,
            destination: new_source.address,
            source_port: new_destination.port,
            destination_port: new_source.port,
            protocol: key.protocol,
        },
        actions: back_actions,
        translated: back.address,
        translated_port: back.port,
        egress_vrf: key.vrf,
        next_hop: plan.way_back,
        service: plan.service.map(|(fip, member)| (fip.id, member.id)),
        seen: Seen::default(),
    };
    // What comes from elsewhere counts against the interface it comes to, not against all others that it
    // could.
    let owner = arrival.vmi.or(match plan.next_hop {
        PackedNextHop::Interface(vmi) => Some(vmi),
        _ => None,
    });
    NewConnection { initiator, hash: *hash, responder, owner, epoch: context.snapshot.epoch().0 }
}

/// Why a service did not take a packet.
enum Refused {
    /// The sender is told.
    Tell(DropReason),
    /// Nobody is told.
    Silent(DropReason),
}

fn plan_plain(vrf: VrfId, next_hop: &NextHop, hash: u64, way_back: PackedNextHop) -> Plan<'static> {
    let next_hop = packed_next_hop(next_hop, |parts| choose_part(parts, hash));
    Plan { source: None, service: None, egress_vrf: vrf, next_hop, way_back }
}

/// A pod that reaches itself through a service must see another's address, or its answer would never come
/// back through the router: its gateway's.
fn hairpin_source(context: Context<'_>, vrf: VrfId, key: &FlowKey, member: &MemberEntry) -> Option<Endpoint> {
    if member.address != key.source {
        return None;
    }
    let address = context.snapshot.vrf(vrf)?.gateway_for(key.source)?;
    Some(Endpoint { address, port: key.source_port })
}

/// ICMP has one identifier where others have two ports.
fn symmetric_ids(protocol: IpProtocol, source: Endpoint, destination: Endpoint) -> (Endpoint, Endpoint) {
    match protocol {
        IpProtocol::ICMP | IpProtocol::ICMPV6 => (source, Endpoint { port: source.port, ..destination }),
        _ => (source, destination),
    }
}

/// Where a packet's sender is: at the interface it came from, which bears the address, or behind the node it
/// came from, if the address's route leads there. `None`: it is somebody else's.
fn way_back(context: Context<'_>, ingress: Ingress, arrived: &Arrived) -> Option<PackedNextHop> {
    if let Some(vmi) = arrived.arrival.vmi {
        return Some(PackedNextHop::Interface(vmi));
    }
    let Ingress::Tunnel { source, .. } = ingress else { return None };
    let router = context.snapshot.router_at(source.into())?;
    let Located::Hop { next_hop, .. } = locate(context.snapshot, arrived.key.vrf, arrived.key.source) else {
        return None;
    };
    let tunnel = NextHop::Tunnel(router);
    let leads_there = match next_hop {
        NextHop::Composite(parts) => parts.contains(&tunnel),
        next_hop => *next_hop == tunnel,
    };
    leads_there.then_some(PackedNextHop::Tunnel(router))
}
