//! `policy.networking.k8s.io/v1alpha2` ClusterNetworkPolicy, its fields and what they mean.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::{Deserialize, Serialize};

use super::block::Range;
use super::selector::selects;
use super::{Direction, Party, Traffic, View};
use crate::world::{Labels, Name, Pod, Protocol, World};

/// The spec of a ClusterNetworkPolicy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusterPolicySpec {
    /// When it is asked.
    pub tier: Tier,
    /// "Policies with lower priority values have higher precedence."
    pub priority: i32,
    /// Which pods it applies to.
    pub subject: Subject,
    /// What may come to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ingress: Vec<Rule>,
    /// What may leave them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<Rule>,
}

/// When a policy is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tier {
    /// Before the namespaces' own.
    Admin,
    /// After them.
    Baseline,
}

/// "Exactly one field must be set."
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// All pods of these namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<LabelSelector>,
    /// These pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<NamespacedPods>,
}

/// Some pods of some namespaces.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespacedPods {
    /// Which namespaces.
    #[serde(default)]
    pub namespace_selector: LabelSelector,
    /// Which pods.
    #[serde(default)]
    pub pod_selector: LabelSelector,
}

/// A rule of either direction: one of `from` and `to` is empty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// What people call it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What becomes of what matches.
    pub action: Action,
    /// Who sends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<Peer>,
    /// Whom it is for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<Peer>,
    /// "If unspecified, protocol-specific attributes will not be used to match traffic."
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<ProtocolMatch>,
}

/// What becomes of what a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// It may be, whatever later policies say.
    Accept,
    /// It may not be.
    Deny,
    /// The next tier decides.
    Pass,
}

/// "Exactly one of the fields must be set for a given peer."
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Peer {
    /// All pods of these namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<LabelSelector>,
    /// These pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<NamespacedPods>,
    /// These nodes, for egress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<LabelSelector>,
    /// These addresses, for egress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networks: Option<Vec<String>>,
    /// What has these names, for egress; nobody here looks names up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain_names: Option<Vec<String>>,
}

/// "Exactly one field must be set."
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProtocolMatch {
    /// TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<ProtocolPorts>,
    /// UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<ProtocolPorts>,
    /// SCTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sctp: Option<ProtocolPorts>,
    /// The port that a pod calls so, whatever its protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_named_port: Option<String>,
}

/// Ports of a protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProtocolPorts {
    /// Which.
    pub destination_port: DestinationPort,
}

/// "You must specify either Port or Range."
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DestinationPort {
    /// One port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u16>,
    /// All from one to another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<PortRange>,
}

/// An inclusive range of ports.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PortRange {
    /// The first.
    pub start: u16,
    /// The last.
    pub end: u16,
}

/// What this tier says; `None`: nothing, or that the next one is to decide.
pub fn decision(view: &View, tier: Tier) -> Option<bool> {
    let policies = view.world.cluster_policies.iter();
    let mut policies: Vec<(&String, &ClusterPolicySpec)> = policies
        .filter(|(_, policy)| policy.tier == tier && policy.subject.includes(view.world, view.pod))
        .collect();
    // Among equals the API leaves it open; here it is the name.
    policies.sort_by_key(|(name, policy)| (policy.priority, *name));
    let rules = policies.into_iter().flat_map(|(_, policy)| match view.direction {
        Direction::Ingress => &policy.ingress,
        Direction::Egress => &policy.egress,
    });
    // "A rule that appears at the top of the rules would take the highest precedence."
    match rules.into_iter().find_map(|rule| rule.decides(view))? {
        Action::Accept => Some(true),
        Action::Deny => Some(false),
        Action::Pass => None,
    }
}

impl Subject {
    fn includes(&self, world: &World, pod: (&Name, &Pod)) -> bool {
        match self {
            Self { namespaces: Some(selector), .. } => {
                selects(selector, &world.namespace_labels(&pod.0.namespace))
            }
            Self { pods: Some(pods), .. } => pods.include(world, pod),
            Self { namespaces: None, pods: None } => false,
        }
    }
}

impl NamespacedPods {
    fn include(&self, world: &World, (name, pod): (&Name, &Pod)) -> bool {
        selects(&self.namespace_selector, &world.namespace_labels(&name.namespace))
            && selects(&self.pod_selector, &pod.labels)
    }
}

impl Rule {
    /// What it does with a connection, if it matches.
    fn decides(&self, view: &View) -> Option<Action> {
        let peers = match view.direction {
            Direction::Ingress => &self.from,
            Direction::Egress => &self.to,
        };
        // "For Accept rules, fail closed means: treat the rule as matching no traffic. For Deny and Pass rules, fail closed
        // means: treat the rule as a Deny all rule."
        if !peers.iter().all(|peer| peer.is_understood(view.direction)) {
            return (self.action != Action::Accept).then_some(Action::Deny);
        }
        let has_peer = peers.iter().any(|peer| peer.means(view));
        let has_port =
            self.protocols.is_empty() || self.protocols.iter().any(|protocol| protocol.matches(view));
        (has_peer && has_port).then_some(self.action)
    }
}

impl Peer {
    fn is_understood(&self, direction: Direction) -> bool {
        let of_both = self.namespaces.is_some() || self.pods.is_some();
        let of_egress = self.nodes.is_some() || self.networks.is_some();
        of_both || (of_egress && direction == Direction::Egress)
    }

    fn means(&self, view: &View) -> bool {
        match (self, view.peer) {
            (Self { namespaces: Some(selector), .. }, Party::Pod(name, ..)) => {
                selects(selector, &view.world.namespace_labels(&name.namespace))
            }
            (Self { pods: Some(pods), .. }, Party::Pod(name, pod, _)) => {
                pods.include(view.world, (name, pod))
            }
            (Self { nodes: Some(selector), .. }, Party::Node(number, _)) => {
                let labels = |number| view.world.nodes.get(number).map(|node| &node.labels);
                labels(&number).is_some_and(|labels: &Labels| selects(selector, labels))
            }
            (Self { networks: Some(networks), .. }, peer) => {
                let ranges = networks.iter().filter_map(|text| Range::read(text));
                ranges.into_iter().any(|range| range.contains(peer.address()))
            }
            _ => false,
        }
    }
}

impl ProtocolMatch {
    fn matches(&self, view: &View) -> bool {
        if let Some(name) = &self.destination_named_port {
            return view.is_named_port(name, None);
        }
        let Traffic::Ports(protocol, number) = view.traffic else { return false };
        let ports = match protocol {
            Protocol::Tcp => &self.tcp,
            Protocol::Udp => &self.udp,
            Protocol::Sctp => &self.sctp,
        };
        ports.as_ref().is_some_and(|ports| match ports.destination_port {
            DestinationPort { number: Some(only), .. } => only == number,
            DestinationPort { range: Some(range), .. } => (range.start..=range.end).contains(&number),
            DestinationPort { number: None, range: None } => false,
        })
    }
}
