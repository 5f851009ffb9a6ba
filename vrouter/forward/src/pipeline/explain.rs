//! What network policy says, for people to read: the answers are the data path's own, asked by other callers.

use std::net::IpAddr;

use vrouter_objects::{DropReason, IpProtocol, MemberId, NextHop, PolicyAction, VmiId, VrfId};

use super::Shared;
use super::classify::Entrance;
use super::locate::{Located, choose_part, locate, packed_next_hop, route_to};
use super::plan::{Plan, Refused, by_fabric, client, hop_to_member, is_admitted, is_own_member};
use super::policy::{Asked, Connection, Exemption, Judgement, judge};
use super::revalidate::living;
use super::source::{AskedFor, Passage, check_tunnel_port, source};
use crate::address::Address;
use crate::flow::{FlowKey, FlowRecord, Origin, PackedNextHop};
use crate::rewrite::Endpoint;
use crate::tables::{Frontend, MemberEntry, Ruling, Snapshot};

/// A connection that somebody might begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// The network that its first packet would be looked up in here.
    pub vrf: VrfId,
    /// Who would begin it.
    pub source: IpAddr,
    /// Whom it would be to: a pod, a service's address, or anybody.
    pub destination: IpAddr,
    /// The protocol.
    pub protocol: IpProtocol,
    /// The destination port; 0 where the protocol has none.
    pub port: u16,
}

/// Where a connection would lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lead {
    /// The member of a service, if that is what it is to.
    pub member: Option<MemberId>,
    /// Whom it would reach.
    pub destination: IpAddr,
    /// At this port.
    pub port: u16,
    /// The network that it would leave by.
    pub egress_vrf: VrfId,
    /// The way there.
    pub next_hop: NextHop,
    /// What policy says.
    pub opinions: Opinions,
}

/// What policy says of both ends of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opinions {
    /// As it leaves the pod that begins it.
    pub egress: Opinion,
    /// As it comes to the pod that it is to.
    pub ingress: Opinion,
}

/// What policy says of one end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opinion {
    /// No pod of this node is at that end: another node decides, or nobody.
    Elsewhere,
    /// Nobody asks, since the other end forbids it already.
    NotAsked,
    /// No policy governs it.
    Ungoverned,
    /// A pod speaks to itself, which is allowed always.
    Itself,
    /// A pod and its own node speak, which is allowed always.
    OwnNode,
    /// This rule of this policy allows it.
    Allowed {
        /// The policy's name.
        policy: String,
        /// The rule's.
        rule: String,
    },
    /// This rule of this policy denies it.
    Denied {
        /// The policy's name.
        policy: String,
        /// The rule's.
        rule: String,
    },
    /// These policies govern it, and none has a rule that allows it.
    Isolated {
        /// Their names.
        policies: Vec<String>,
    },
}

impl Opinion {
    /// Whether the connection may be, as far as this end has a say.
    pub const fn allows(&self) -> bool {
        !matches!(self, Self::Denied { .. } | Self::Isolated { .. })
    }
}

impl Opinions {
    /// Whether the connection may be, as far as this node has a say.
    pub const fn allow(&self) -> bool {
        self.egress.allows() && self.ingress.allows()
    }
}

impl Snapshot {
    /// Where a connection would lead, once for each member of a service that might get it, and what policy says of it
    /// here. An error says why it would lead nowhere.
    pub fn judge(&self, question: &Question) -> Result<Vec<Lead>, DropReason> {
        let (key, way_back) = asker(self, question);
        match locate(self, &key) {
            Located::Service(frontend) => self.judge_members(&key, way_back, frontend),
            Located::Hop { vrf, next_hop } => {
                let destination = Endpoint { address: key.destination, port: key.destination_port };
                let lead = lead(self, &key, way_back, (vrf, next_hop), destination, None)
                    .map_err(Refused::reason)?;
                Ok(vec![lead])
            }
            Located::LinkLocal(vmi) => {
                let plan = Plan::to_interface(self, &key, vmi, way_back).map_err(Refused::reason)?;
                Ok(vec![Lead::of(self, &plan.connection(&key), None)])
            }
            Located::Reject => Err(DropReason::NoService),
            Located::Nowhere(reason) => Err(reason),
        }
    }

    fn judge_members(
        &self,
        key: &FlowKey,
        way_back: PackedNextHop,
        frontend: &Frontend,
    ) -> Result<Vec<Lead>, DropReason> {
        if !is_admitted(self, frontend, key) {
            return Err(DropReason::SourceRange);
        }
        let members = frontend.listener().pool.active(frontend.policy_for(client(self, key)));
        if members.is_empty() {
            return Err(DropReason::NoMembers);
        }
        let to = |member: &MemberEntry| {
            let hop = hop_to_member(self, member)?;
            let destination = Endpoint { address: member.address, port: member.port };
            lead(self, key, way_back, hop, destination, Some(member.id))
        };
        // A member that cannot be reached keeps none of the others from being told.
        let (leads, refused): (Vec<_>, Vec<_>) = members.iter().map(to).partition(Result::is_ok);
        match refused.into_iter().find_map(Result::err) {
            Some(refused) if leads.is_empty() => Err(refused.reason()),
            _ => Ok(leads.into_iter().flatten().collect()),
        }
    }
}

impl Shared {
    /// What policy says of a flow's connection by these tables; `None`: the flow is gone.
    pub fn opinions(&self, snapshot: &Snapshot, flow: &FlowRecord) -> Option<Opinions> {
        let index = self.flows.find(&self.flows.table_key(&flow.key))?;
        let connection = living(&self.flows, snapshot, self.flows.slot(index))?;
        Some(Opinions::of(snapshot, &connection))
    }
}

/// Who asks, as the data path would see their first packet.
fn asker(snapshot: &Snapshot, question: &Question) -> (FlowKey, PackedNextHop) {
    let source = Address::from(question.source);
    let way_back = match route_to(snapshot, question.vrf, source) {
        Located::Hop { next_hop, .. } => packed_next_hop(next_hop, |parts| choose_part(parts, 0)),
        Located::Service(_) | Located::LinkLocal(_) | Located::Reject | Located::Nowhere(_) => {
            PackedNextHop::Unreachable
        }
    };
    let is_inside = snapshot.vrf(question.vrf).is_some_and(|vrf| vrf.is_inside(source));
    let (origin, way_back) = match way_back {
        PackedNextHop::Receive => (Origin::Host, PackedNextHop::Interface(VmiId::HOST)),
        PackedNextHop::Tunnel(router) if !is_inside => (Origin::Router(router), way_back),
        way_back => (Origin::Cluster, way_back),
    };
    let key = FlowKey {
        vrf: question.vrf,
        origin,
        source,
        destination: question.destination.into(),
        source_port: 0,
        destination_port: question.port,
        protocol: question.protocol,
    };
    (key, way_back)
}

fn lead(
    snapshot: &Snapshot,
    key: &FlowKey,
    way_back: PackedNextHop,
    (egress_vrf, next_hop): (VrfId, &NextHop),
    destination: Endpoint,
    member: Option<MemberId>,
) -> Result<Lead, Refused> {
    let next_hop = packed_next_hop(next_hop, |parts| choose_part(parts, 0));
    let way_there = by_fabric(snapshot, key, (egress_vrf, destination.address), next_hop);
    let entrance = match way_back {
        PackedNextHop::Interface(vmi) if vmi != VmiId::HOST => Entrance::Pod(vmi),
        PackedNextHop::Tunnel(router) => Entrance::Tunnel(router),
        _ => Entrance::Host,
    };
    let asked_for = if member.is_some() { AskedFor::Service } else { AskedFor::Address };
    let source = if is_own_member(key, egress_vrf, destination.address) {
        key.source
    } else {
        let (Endpoint { address: destination, port }, next_hop) = (destination, way_there);
        let passage = Passage { entrance, asked_for, egress_vrf, destination, next_hop };
        let source = source(snapshot, key, passage)?;
        check_tunnel_port(key.protocol, port, &source)?;
        source.address(key.source)
    };
    let connection = Connection { key: *key, source, destination, egress_vrf, way_there, way_back };
    Ok(Lead::of(snapshot, &connection, member))
}

impl Lead {
    fn of(snapshot: &Snapshot, connection: &Connection, member: Option<MemberId>) -> Self {
        Self {
            member,
            destination: connection.destination.address.into(),
            port: connection.destination.port,
            egress_vrf: connection.egress_vrf,
            next_hop: connection.way_there.into(),
            opinions: Opinions::of(snapshot, connection),
        }
    }
}

impl Opinions {
    fn of(snapshot: &Snapshot, connection: &Connection) -> Self {
        let Judgement { egress, ingress } = judge(snapshot, connection);
        Self { egress: egress.into(), ingress: ingress.into() }
    }
}

impl From<Asked<'_>> for Opinion {
    fn from(asked: Asked<'_>) -> Self {
        match asked {
            Asked::Elsewhere => Self::Elsewhere,
            Asked::NotAny => Self::NotAsked,
            Asked::Exempt(Exemption::Itself) => Self::Itself,
            Asked::Exempt(Exemption::OwnNode) => Self::OwnNode,
            Asked::Ungoverned => Self::Ungoverned,
            Asked::Ruled(ruled) => ruled.ruling.into(),
        }
    }
}

impl From<Ruling<'_>> for Opinion {
    fn from(ruling: Ruling<'_>) -> Self {
        match ruling {
            Ruling::Open => Self::Ungoverned,
            Ruling::Rule { policy, rule } => {
                let (policy, name) = (policy.name().to_owned(), rule.name().to_owned());
                match rule.action() {
                    PolicyAction::Deny => Self::Denied { policy, rule: name },
                    PolicyAction::Allow | PolicyAction::Pass => Self::Allowed { policy, rule: name },
                }
            }
            Ruling::Isolated(policy, direction) => {
                let policies = policy.isolating(direction).map(|policy| policy.name().to_owned());
                Self::Isolated { policies: policies.collect() }
            }
        }
    }
}
