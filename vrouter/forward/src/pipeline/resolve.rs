//! The sixth stage, for the first packet of a flow only: service, member, route, and both directions
//! installed together.

use vrouter_objects::{DropReason, IpProtocol};

use super::classify::{Arrived, Entrance, tunnel_origin};
use super::established::tcp_flags;
use super::plan::{Plan, Refused, Target, admit};
use super::source::Source;
use super::{Context, Outcome, Worker, answer, local};
use crate::address::Address;
use crate::flow::{
    Actions, ConnectionState, FlowIndex, FlowKey, FlowTable, NewConnection, NewFlow, NotInstalled, Origin,
    PackedNextHop, Seen, TableKey, Translated,
};
use crate::frame::Frame;
use crate::observer::{Event, Observer};
use crate::rewrite::Endpoint;

/// How many source ports are tried where two connections would look alike to the one they go to.
const PORT_TRIES: u64 = 128;

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
        let Arrived { packet, arrival, key, table_key } = arrived;
        // What is to the gateway and of no flow is for us. Answers to what came in the gateway's name are of one.
        if local::is_to_gateway(context, frame, packet, arrival) {
            return local::serve(self, context, frame, packet);
        }
        observer.observe(Event::Resolving(key));
        let admitted = |plan: &Plan<'_>| {
            if context.snapshot.has_governed() { admit(context.snapshot, arrived, plan) } else { Ok(()) }
        };
        let plan = match self.plan(context, arrived).and_then(|plan| admitted(&plan).map(|()| plan)) {
            Ok(plan) => plan,
            Err(Refused::Tell(reason)) => return answer::refuse(self, context, frame, packet, reason),
            Err(Refused::NoRoute) => {
                return answer::no_route(self, context, frame, packet, DropReason::NoRoute);
            }
            Err(Refused::Returned) => {
                return answer::hand_back(context, frame, packet, DropReason::InterfaceDown);
            }
            Err(Refused::Silent(reason)) => return Outcome::Drop(reason),
        };
        match self.install(context, arrived, &plan) {
            Ok(index) => {
                if let Target::Member(_, member) = plan.target {
                    member.hit();
                }
                self.send(context, frame, packet, self.shared.flows.slot(index), table_key.hash, spare)
            }
            Err(reason) => Outcome::Drop(reason),
        }
    }

    /// Installs the flow and its way back, from another port if it must be.
    #[inline(always)] // What it returns would be copied otherwise.
    fn install(
        &mut self,
        context: Context<'_>,
        arrived: &Arrived,
        plan: &Plan<'_>,
    ) -> Result<FlowIndex, DropReason> {
        let source = plan.source.first(sender(&arrived.key), self.random_port(arrived.table_key.hash, 0));
        let connection = connection(context, &self.shared.flows, arrived, plan, source);
        match self.shared.flows.install(&mut self.flows, &connection, context.now) {
            Ok(index) => Ok(index),
            Err(NotInstalled::ReverseTaken) => self.install_otherwise(context, arrived, plan, connection),
            Err(reason) => Err(drop_reason(reason)),
        }
    }

    /// [`Worker::install`], where another connection is in the way of this one's answers.
    #[cold]
    fn install_otherwise(
        &mut self,
        context: Context<'_>,
        arrived: &Arrived,
        plan: &Plan<'_>,
        mut connection: NewConnection,
    ) -> Result<FlowIndex, DropReason> {
        // A port of the router's own stays with its peer for as long as the peer may remember the connection (RFC 6056).
        // Whoever uses a port of theirs again knows that they may.
        let may_evict = matches!(plan.source, Source::Sender);
        for attempt in 1..=PORT_TRIES {
            if !(may_evict && self.evict_closed(&connection.responder.key)) {
                let random = self.random_port(arrived.table_key.hash, attempt);
                let source = Some(plan.source.other(sender(&arrived.key), random));
                connection = self::connection(context, &self.shared.flows, arrived, plan, source);
            }
            match self.shared.flows.install(&mut self.flows, &connection, context.now) {
                Ok(index) => return Ok(index),
                Err(NotInstalled::ReverseTaken) => {}
                Err(reason) => return Err(drop_reason(reason)),
            }
        }
        Err(DropReason::NatPortsExhausted)
    }

    /// A number that depends on the flow and the attempt.
    fn random_port(&self, hash: u64, attempt: u64) -> u64 {
        self.shared.flows.hasher().mix(hash, attempt)
    }

    /// Makes room where the connection in the way has ended.
    fn evict_closed(&mut self, key: &TableKey) -> bool {
        let flows = &self.shared.flows;
        let Some(index) = flows.find(key) else { return true };
        let closed = flows.state(flows.slot(index)) == ConnectionState::Closed;
        if closed {
            self.forget(index);
        }
        closed
    }
}

/// Both directions of a connection by this plan.
#[inline(always)]
fn connection(
    context: Context<'_>,
    flows: &FlowTable,
    arrived: &Arrived,
    plan: &Plan<'_>,
    source: Option<Endpoint>,
) -> NewConnection {
    let Arrived { packet, arrival, key, table_key } = arrived;
    let old_source = sender(key);
    let old_destination = Endpoint { address: key.destination, port: key.destination_port };
    let new_source = source.unwrap_or(old_source);
    let new_destination = plan.destination(key);
    let (new_source, new_destination) = symmetric_ids(key.protocol, new_source, new_destination);
    let is_to_other = !matches!(plan.target, Target::Addressee);
    let actions = match (source.is_some(), is_to_other) {
        (false, false) => Actions::NONE,
        (false, true) => Actions::DESTINATION,
        (true, false) => Actions::SOURCE,
        (true, true) => Actions::BOTH,
    };
    let reverse_key = FlowKey {
        vrf: plan.egress_vrf,
        origin: answers_origin(context, plan, new_destination.address),
        source: new_destination.address,
        destination: new_source.address,
        source_port: new_destination.port,
        destination_port: new_source.port,
        protocol: key.protocol,
    };
    let service = match plan.target {
        Target::Member(fip, member) => Some((fip.id, member.id)),
        Target::Addressee | Target::Interface(_) => None,
    };
    let (from, to) = match actions.has(Actions::DESTINATION) {
        true => (old_destination, new_destination),
        false => (old_source, new_source),
    };
    let translated = Translated::new(actions, (from.address, from.port), (to.address, to.port));
    let given_back = if actions.has(Actions::SOURCE) { old_source } else { old_destination };
    let initiator = NewFlow {
        key: *table_key,
        translated,
        egress_vrf: plan.egress_vrf,
        next_hop: plan.next_hop,
        service,
        seen: Seen::first(tcp_flags(packet)),
    };
    let responder = NewFlow {
        key: flows.table_key(&reverse_key),
        translated: translated.reversed((given_back.address, given_back.port)),
        egress_vrf: key.vrf,
        next_hop: plan.way_back,
        service,
        seen: Seen::default(),
    };
    // What comes from elsewhere counts against the interface it comes to, not against all others that it
    // could.
    let owner = match (arrival.entrance, plan.next_hop) {
        (Entrance::Pod(vmi), _) | (_, PackedNextHop::Interface(vmi)) => Some(vmi),
        _ => None,
    };
    NewConnection { initiator, responder, owner, epoch: context.snapshot.epoch().0 }
}

/// Why a packet whose connection is not in the table is dropped.
fn drop_reason(reason: NotInstalled) -> DropReason {
    match reason {
        NotInstalled::ReverseTaken => DropReason::NatPortsExhausted,
        NotInstalled::Full => DropReason::FlowTableFull,
        NotInstalled::InterfaceLimit => DropReason::VmiFlowLimit,
        NotInstalled::UnrepliedLimit => DropReason::UnrepliedLimit,
    }
}

/// Whom a flow's packets come from.
fn sender(key: &FlowKey) -> Endpoint {
    Endpoint { address: key.source, port: key.source_port }
}

/// Where the answers of whoever has this address come in: not where the packets that they answer did, of which they
/// bear no sign.
fn answers_origin(context: Context<'_>, plan: &Plan<'_>, from: Address) -> Origin {
    match plan.next_hop {
        PackedNextHop::Receive => Origin::Host,
        PackedNextHop::Tunnel(router) => tunnel_origin(context, plan.egress_vrf, router, from),
        PackedNextHop::Interface(_) | PackedNextHop::Unreachable => Origin::Cluster,
    }
}

/// ICMP has one identifier where others have two ports.
fn symmetric_ids(protocol: IpProtocol, source: Endpoint, destination: Endpoint) -> (Endpoint, Endpoint) {
    match protocol {
        IpProtocol::ICMP | IpProtocol::ICMPV6 => (source, Endpoint { port: source.port, ..destination }),
        _ => (source, destination),
    }
}
