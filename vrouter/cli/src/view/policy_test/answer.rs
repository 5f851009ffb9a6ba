//! What is answered.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;
use vrouter_objects::{DropReason, FloatingIp, Member, NextHop, RouterId, VmiId};
use vrouter_proto::v1;

use super::places::{End, Places, next_hop};
use crate::arguments::PolicyTest;
use crate::error::CliError;
use crate::outcome::Outcome;
use crate::view::opinion::{Opinion, Opinions, Verdict};

/// The whole answer.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    pub(super) from: Sender,
    pub(super) to: String,
    pub(super) port: String,
    /// Denied where any of the connections is; else untold where any is.
    pub(super) verdict: Verdict,
    pub(super) connections: Vec<Connection>,
}

/// Who would begin it.
#[derive(Debug, Serialize)]
pub(super) struct Sender {
    pub(super) name: String,
    pub(super) network: String,
    /// Where the pod runs, as far as that is known.
    pub(super) node: Option<String>,
}

/// One connection that it might be: by address family, and by a service's member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Connection {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    #[serde(flatten)]
    pub(super) course: Course,
    pub(super) verdict: Verdict,
}

/// Where it would lead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "leads", rename_all = "snake_case")]
pub(super) enum Course {
    /// To nobody, or not to whom it was to.
    Astray {
        /// Why.
        why: Astray,
    },
    /// To somebody.
    To {
        /// The service and member, if it is to one.
        member: Option<MemberOf>,
        /// The next hop.
        by: String,
        /// What is said of it as it leaves.
        egress: Side,
        /// What is said of it as it arrives.
        ingress: Side,
    },
}

/// Why a connection does not lead to whom it was to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Astray {
    /// Its packets are dropped, for this reason.
    Dropped(String),
    /// The address is another's, in this network.
    Network(String),
    /// The address is this service's; none: no service's.
    Service(Option<String>),
}

/// A service's member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct MemberOf {
    pub(super) service: String,
    pub(super) name: String,
    pub(super) at: SocketAddr,
}

/// What is said at one end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "decided", rename_all = "snake_case")]
pub(super) enum Side {
    /// It is decided on this node.
    Here {
        /// So.
        policy: Opinion,
    },
    /// It is decided on another node.
    Elsewhere {
        /// That one.
        node: String,
    },
    /// No pod is at that end: no policy selects who is.
    NoPod,
    /// The other end denies it already.
    NotAsked,
    /// It cannot be told who is at that end.
    Unknown,
}

impl Answer {
    pub(super) fn of(from: &End, test: &PolicyTest, connections: Vec<Connection>) -> Self {
        let verdict = worst(connections.iter().map(|connection| connection.verdict));
        let sender =
            Sender { name: from.name.clone(), network: from.network.name.clone(), node: from.node.clone() };
        Self { from: sender, to: test.to.to_string(), port: test.port.to_string(), verdict, connections }
    }

    /// How the tool ends.
    pub(super) fn outcome(&self) -> Outcome {
        match self.verdict {
            Verdict::Allow => Outcome::Shown,
            Verdict::Deny => Outcome::Denied,
            Verdict::Untold => Outcome::Untold,
        }
    }

    /// The other nodes that decide as well.
    pub(super) fn deciding_elsewhere(&self) -> Vec<&str> {
        let mut nodes: Vec<_> = self.connections.iter().flat_map(Connection::deciding_elsewhere).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

impl Connection {
    /// One that leads nowhere, or elsewhere than asked for.
    pub(super) fn astray(source: IpAddr, destination: IpAddr, why: Astray) -> Self {
        Self { source, destination, course: Course::Astray { why }, verdict: Verdict::Deny }
    }

    /// Those that a trace says it might be.
    pub(super) fn all(
        (from, destination): (&End, IpAddr),
        source: IpAddr,
        reply: &v1::TraceReply,
        places: &Places,
    ) -> Result<Vec<Self>, CliError> {
        if let Some(node) = Self::undecided_at(from, reply, places) {
            return Ok(vec![Self::left_to(node, source, destination)]);
        }
        if !reply.nowhere.is_empty() {
            return Ok(vec![Self::astray(source, destination, Astray::Dropped(reply.nowhere.clone()))]);
        }
        let connection = |lead: &v1::Lead| {
            let member = places.member(lead.member).map(|(service, member)| MemberOf::new(service, member));
            Self::led((from, destination), source, lead, (reply, member), places)
        };
        reply.leads.iter().map(connection).collect()
    }

    /// The sender's node, where it alone says what becomes of what goes out of the cluster: here, that would come out of a tunnel
    /// as the answer to nothing.
    fn undecided_at<'a>(from: &'a End, reply: &v1::TraceReply, places: &Places) -> Option<&'a str> {
        let node = from.node.as_deref().filter(|node| *node != places.node)?;
        (reply.nowhere == DropReason::NoFlow.name()).then_some(node)
    }

    /// One that another node decides about, and nobody else.
    fn left_to(node: &str, source: IpAddr, destination: IpAddr) -> Self {
        let node = node.to_owned();
        let by = format!("as {node} does");
        let egress = Side::Elsewhere { node };
        let course = Course::To { member: None, by, egress, ingress: Side::NoPod };
        Self { source, destination, course, verdict: Verdict::Untold }
    }

    /// Those to a member that another node chose, by a trace to the member itself.
    pub(super) fn to_member(
        (from, destination): (&End, IpAddr),
        source: IpAddr,
        (service, member): (&FloatingIp, &Member),
        reply: &v1::TraceReply,
        places: &Places,
    ) -> Result<Vec<Self>, CliError> {
        let mut connections = Self::all((from, destination), source, reply, places)?;
        for connection in &mut connections {
            if let Course::To { member: to, .. } = &mut connection.course {
                *to = Some(MemberOf::new(service, member));
            }
        }
        Ok(connections)
    }

    fn led(
        (from, destination): (&End, IpAddr),
        source: IpAddr,
        lead: &v1::Lead,
        (reply, member): (&v1::TraceReply, Option<MemberOf>),
        places: &Places,
    ) -> Result<Self, CliError> {
        let opinions = lead.opinions.as_ref().map(Opinions::read);
        let reached = lead.destination.as_ref().map_or(Ok(destination), IpAddr::try_from)?;
        let (egress, ingress) = match opinions {
            Some(Opinions { egress, ingress }) => (
                Side::of(egress, reply.way_back.as_ref(), source, places).at_least(from, places),
                Side::of(ingress, lead.next_hop.as_ref(), reached, places),
            ),
            None => (Side::Unknown, Side::Unknown),
        };
        let verdict = worst([egress.verdict(), ingress.verdict()].into_iter());
        let by = places.names.next_hop(lead.next_hop.as_ref());
        Ok(Self { source, destination, course: Course::To { member, by, egress, ingress }, verdict })
    }

    fn deciding_elsewhere(&self) -> impl Iterator<Item = &str> {
        let sides = match &self.course {
            Course::To { egress, ingress, .. } => vec![egress, ingress],
            Course::Astray { .. } => vec![],
        };
        sides.into_iter().filter_map(|side| match side {
            Side::Elsewhere { node } => Some(node.as_str()),
            _ => None,
        })
    }
}

impl MemberOf {
    fn new(service: &FloatingIp, member: &Member) -> Self {
        let at = SocketAddr::new(member.address, member.port.get());
        Self { service: service.name.clone(), name: member.name.clone(), at }
    }
}

impl Side {
    /// Who decides about an end, by the way to it.
    fn of(opinion: Opinion, way: Option<&v1::NextHop>, address: IpAddr, places: &Places) -> Self {
        match opinion {
            Opinion::NotAsked => Self::NotAsked,
            Opinion::Elsewhere => match next_hop(way) {
                Some(NextHop::Tunnel(router)) if !places.is_node(address) => {
                    Self::Elsewhere { node: node(router, places) }
                }
                Some(NextHop::Tunnel(_) | NextHop::Receive | NextHop::Interface(VmiId::HOST)) => Self::NoPod,
                _ => Self::Unknown,
            },
            Opinion::Unknown => Self::Unknown,
            policy => Self::Here { policy },
        }
    }

    /// The same, unless it is known better where a pod runs than by the way to it.
    fn at_least(self, from: &End, places: &Places) -> Self {
        match (&self, &from.node) {
            (Self::Unknown | Self::NoPod, Some(node)) if *node != places.node => {
                Self::Elsewhere { node: node.clone() }
            }
            _ => self,
        }
    }

    pub(super) fn verdict(&self) -> Verdict {
        match self {
            Self::Here { policy } => policy.verdict(),
            Self::NoPod => Verdict::Allow,
            Self::Elsewhere { .. } | Self::NotAsked | Self::Unknown => Verdict::Untold,
        }
    }
}

fn node(router: RouterId, places: &Places) -> String {
    places.names.router(Some(router))
}

/// What several verdicts come to.
fn worst(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    verdicts.fold(Verdict::Allow, |worst, verdict| match (worst, verdict) {
        (Verdict::Deny, _) | (_, Verdict::Deny) => Verdict::Deny,
        (Verdict::Untold, _) | (_, Verdict::Untold) => Verdict::Untold,
        (Verdict::Allow, Verdict::Allow) => Verdict::Allow,
    })
}

impl fmt::Display for Astray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dropped(reason) => match DropReason::ALL.iter().find(|known| known.name() == reason) {
                Some(known) => write!(f, "nowhere: {}", known.help()),
                None => write!(f, "nowhere: {reason}"),
            },
            Self::Network(network) => write!(f, "another, who has that address in {network}"),
            Self::Service(Some(service)) => write!(f, "service {service}, which has that address there"),
            Self::Service(None) => f.write_str("no service: none has that address there"),
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here { policy } => policy.fmt(f),
            Self::Elsewhere { node } => write!(f, "decided on {node}"),
            Self::NoPod => f.write_str("no pod"),
            Self::NotAsked => f.write_str("-"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}
