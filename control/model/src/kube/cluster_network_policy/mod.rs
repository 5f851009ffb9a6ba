//! ClusterNetworkPolicies (policy.networking.k8s.io/v1alpha2): the administrator's policies, before and after the namespaces' own.
//!
//! Everything that the API has is served but `domainNames`: no table knows what a name stands for. As the API asks, a rule
//! of which something cannot be read or served never lets anything pass: an Accept rule means nobody then, and a Deny or
//! Pass rule denies everything. A policy of which it is not known when it is asked, or for whom, keeps nothing but its Deny
//! rules, which are asked first, for all pods that it may mean.

mod read;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::custom::or_default;

pub use read::read_cluster_network_policy;

/// What a ClusterNetworkPolicy is to be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterNetworkPolicySpec {
    #[serde(deserialize_with = "or_default")]
    tier: String,
    priority: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    subject: SubjectSpec,
    #[serde(deserialize_with = "or_default")]
    ingress: Vec<RuleSpec>,
    #[serde(deserialize_with = "or_default")]
    egress: Vec<RuleSpec>,
}

/// What an object says beside the fields that are understood here: it may be less than the rest does.
type Unknown = BTreeMap<String, Value>;

/// A label selector.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SelectorSpec {
    match_labels: Option<BTreeMap<String, String>>,
    match_expressions: Option<Vec<LabelSelectorRequirement>>,
    #[serde(flatten)]
    unknown: Unknown,
}

/// Exactly one of these is there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SubjectSpec {
    namespaces: Option<SelectorSpec>,
    pods: Option<NamespacedPods>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NamespacedPods {
    namespace_selector: Option<SelectorSpec>,
    pod_selector: Option<SelectorSpec>,
}

/// A rule of either direction: `from` is for ingress, `to` for egress.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RuleSpec {
    #[serde(deserialize_with = "or_default")]
    name: String,
    #[serde(deserialize_with = "or_default")]
    action: String,
    #[serde(deserialize_with = "or_default")]
    from: Vec<PeerSpec>,
    #[serde(deserialize_with = "or_default")]
    to: Vec<PeerSpec>,
    #[serde(deserialize_with = "or_default")]
    protocols: Vec<ProtocolSpec>,
    /// Such as the `ports` of the API's first version.
    #[serde(flatten)]
    unknown: Unknown,
}

/// Exactly one of these is there, and the last three are for egress.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PeerSpec {
    namespaces: Option<SelectorSpec>,
    pods: Option<NamespacedPods>,
    nodes: Option<SelectorSpec>,
    networks: Option<Vec<String>>,
    domain_names: Option<Vec<String>>,
    #[serde(flatten)]
    unknown: Unknown,
}

/// Exactly one of these is there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ProtocolSpec {
    tcp: Option<PortsSpec>,
    udp: Option<PortsSpec>,
    sctp: Option<PortsSpec>,
    destination_named_port: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PortsSpec {
    destination_port: Option<PortSpec>,
}

/// Exactly one of these is there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PortSpec {
    number: Option<i64>,
    range: Option<PortRangeSpec>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PortRangeSpec {
    #[serde(deserialize_with = "or_default")]
    start: i64,
    #[serde(deserialize_with = "or_default")]
    end: i64,
}

impl SelectorSpec {
    /// What of it is understood.
    fn known(&self) -> LabelSelector {
        let Self { match_labels, match_expressions, .. } = self.clone();
        LabelSelector { match_labels, match_expressions }
    }
}
