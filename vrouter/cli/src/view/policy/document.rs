//! What there is to say of a policy on this node.

use ipnet::IpNet;
use serde::Serialize;
use vrouter_objects::{
    Peer, Peers, PolicyAction, PolicyDirection, PolicyRule, PortMatch, Ports, ServiceProtocol,
};

use crate::policy::{HeldPolicy, PeerSets, SelectedPod};
use crate::words;

/// A policy, with what it did here.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) tier: &'static str,
    /// Of the administrator's tiers.
    pub(super) priority: Option<u16>,
    pub(super) pods: Vec<Pod>,
    /// None: it does not govern it.
    pub(super) egress: Option<Direction>,
    pub(super) ingress: Option<Direction>,
}

/// A pod of this node that it selects.
#[derive(Debug, Serialize)]
pub(super) struct Pod {
    pub(super) name: String,
    pub(super) ports: Vec<NamedPort>,
}

/// A port that a pod has given a name.
#[derive(Debug, Serialize)]
pub(super) struct NamedPort {
    pub(super) name: String,
    pub(super) protocol: String,
    pub(super) port: u16,
}

/// One direction that it governs.
#[derive(Debug, Serialize)]
pub(super) struct Direction {
    pub(super) rules: Vec<Rule>,
    /// Packets that were dropped since no rule of any policy let them pass.
    pub(super) unmatched: u64,
}

/// A rule.
#[derive(Debug, Serialize)]
pub(super) struct Rule {
    pub(super) name: String,
    pub(super) action: String,
    /// None: everybody. Empty: nobody.
    pub(super) peers: Option<Vec<PeerOf>>,
    /// None: all. Empty: none.
    pub(super) ports: Option<Vec<PortOf>>,
    pub(super) used: Used,
}

/// How often it decided.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Used {
    /// New flows that it let go on.
    Flows(u64),
    /// Packets that it denied.
    Packets(u64),
}

/// Whom a rule is about.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PeerOf {
    /// A set of addresses.
    Set {
        id: u32,
        /// None: this node does not hold it, and nobody is in it.
        name: Option<String>,
        addresses: u32,
    },
    /// A prefix.
    Block { prefix: IpNet, except: Vec<IpNet> },
}

/// Which ports a rule is about.
#[derive(Debug, Serialize)]
pub(super) struct PortOf {
    pub(super) protocol: String,
    #[serde(flatten)]
    pub(super) which: Which,
}

/// Which ports of a protocol.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Which {
    /// From the first to the last.
    Range { first: u16, last: u16 },
    /// What the selected pod calls so.
    Own(String),
    /// What the peer's address bears in its set.
    Peer,
}

impl Document {
    pub(super) fn of(held: &HeldPolicy, sets: &PeerSets) -> Self {
        let policy = &held.policy;
        let direction = |direction| {
            let used = held.used(direction);
            let rules = policy.rules(direction)?.iter().enumerate();
            let count = |number| used.rules.get(number).copied().unwrap_or_default();
            Some(Direction {
                rules: rules.map(|(number, rule)| Rule::of(rule, count(number), sets)).collect(),
                unmatched: used.unmatched,
            })
        };
        Self {
            id: policy.id.get(),
            name: policy.name.clone(),
            tier: words::tier(policy.tier),
            priority: words::priority(policy.tier),
            pods: held.pods.iter().map(Pod::of).collect(),
            egress: direction(PolicyDirection::Egress),
            ingress: direction(PolicyDirection::Ingress),
        }
    }
}

impl Pod {
    fn of(selected: &SelectedPod) -> Self {
        let port = |port: &vrouter_objects::NamedPort| NamedPort {
            name: port.name.clone(),
            protocol: port.protocol.to_string(),
            port: port.port.get(),
        };
        Self { name: selected.pod.to_string(), ports: selected.ports.iter().map(port).collect() }
    }
}

impl Rule {
    fn of(rule: &PolicyRule, count: u64, sets: &PeerSets) -> Self {
        Self {
            name: rule.name.clone(),
            action: rule.action.to_string(),
            peers: match &rule.peers {
                Peers::Any => None,
                Peers::These(peers) => Some(peers.iter().map(|peer| PeerOf::of(peer, sets)).collect()),
            },
            ports: match &rule.ports {
                Ports::Any => None,
                Ports::These(ports) => Some(ports.iter().map(PortOf::of).collect()),
            },
            used: Used::of(rule, count),
        }
    }
}

impl Used {
    fn of(rule: &PolicyRule, count: u64) -> Self {
        match rule.action {
            PolicyAction::Deny => Self::Packets(count),
            PolicyAction::Allow | PolicyAction::Pass => Self::Flows(count),
        }
    }
}

impl PeerOf {
    fn of(peer: &Peer, sets: &PeerSets) -> Self {
        match peer {
            Peer::Set(id) => {
                let (name, addresses) = sets.get(*id).unzip();
                Self::Set { id: id.get(), name: name.map(str::to_owned), addresses: addresses.unwrap_or(0) }
            }
            Peer::Block { prefix, except } => Self::Block { prefix: *prefix, except: except.clone() },
        }
    }
}

impl PortOf {
    fn of(port: &PortMatch) -> Self {
        let of = |protocol: &ServiceProtocol, which| Self { protocol: protocol.to_string(), which };
        match port {
            PortMatch::Range { protocol, first, last } => {
                of(protocol, Which::Range { first: *first, last: *last })
            }
            PortMatch::Own { protocol, name } => of(protocol, Which::Own(name.clone())),
            PortMatch::Peer { protocol } => of(protocol, Which::Peer),
        }
    }
}
