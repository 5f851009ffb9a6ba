//! What a Service says about who goes where.

use ipnet::IpNet;
use k8s_openapi::api::core::v1::ServiceSpec;
use vrouter_objects::{AffinityTimeout, TrafficPolicy};

use crate::kube::field;
use crate::problem::Findings;

/// Which members clients are led to, and for how long they stay with them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policies {
    /// For the cluster address.
    pub internal: TrafficPolicy,
    /// For what comes from outside to any other address.
    pub external: TrafficPolicy,
    /// For how long a client stays with its member.
    pub affinity: Option<AffinityTimeout>,
    /// Which hints derived endpoints get.
    pub distribution: Distribution,
}

/// `trafficDistribution`: which clients a derived endpoint is meant for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Distribution {
    /// All alike.
    #[default]
    Everywhere,
    /// Those of its zone.
    SameZone,
    /// Those of its node, or else of its zone.
    SameNode,
}

/// `loadBalancerSourceRanges`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SourceRanges {
    /// Nobody is shut out.
    #[default]
    Everybody,
    /// Only who is in one of these.
    These(Vec<IpNet>),
    /// It names some and none can be read.
    Unreadable,
}

impl Policies {
    pub(super) fn read(spec: &ServiceSpec, findings: &mut Findings) -> Self {
        let mut traffic = |field, text: &Option<String>| traffic_policy(field, text.as_deref(), findings);
        Self {
            internal: traffic("spec.internalTrafficPolicy", &spec.internal_traffic_policy),
            external: traffic("spec.externalTrafficPolicy", &spec.external_traffic_policy),
            affinity: affinity(spec, findings),
            distribution: distribution(spec, findings),
        }
    }
}

fn traffic_policy(field: &str, text: Option<&str>, findings: &mut Findings) -> TrafficPolicy {
    match text {
        None | Some("" | "Cluster") => TrafficPolicy::Cluster,
        Some("Local") => TrafficPolicy::Local,
        Some(other) => {
            findings.add(field, format!("\"{other}\" is neither Cluster nor Local; it is taken for Cluster"));
            TrafficPolicy::Cluster
        }
    }
}

fn affinity(spec: &ServiceSpec, findings: &mut Findings) -> Option<AffinityTimeout> {
    match spec.session_affinity.as_deref() {
        None | Some("" | "None") => None,
        Some("ClientIP") => Some(timeout(spec, findings)),
        Some(other) => {
            findings.add("spec.sessionAffinity", format!("\"{other}\" is neither None nor ClientIP"));
            None
        }
    }
}

/// Without a timeout that can be used, an affinity lasts as long as one that names none.
fn timeout(spec: &ServiceSpec, findings: &mut Findings) -> AffinityTimeout {
    let config = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
    let seconds = config.and_then(|config| config.timeout_seconds);
    let read = |seconds: i32| {
        let seconds = u32::try_from(seconds).map_err(|_| format!("{seconds} seconds are no time"))?;
        AffinityTimeout::new(seconds).map_err(|error| error.to_string())
    };
    let field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
    seconds.and_then(|seconds| findings.check(field, read(seconds))).unwrap_or_else(|| {
        AffinityTimeout::new(AffinityTimeout::DEFAULT_SECONDS).expect("three hours are less than a day")
    })
}

fn distribution(spec: &ServiceSpec, findings: &mut Findings) -> Distribution {
    match spec.traffic_distribution.as_deref() {
        None | Some("") => Distribution::Everywhere,
        Some("PreferSameZone" | "PreferClose") => Distribution::SameZone,
        Some("PreferSameNode") => Distribution::SameNode,
        Some(other) => {
            findings.add(
                "spec.trafficDistribution",
                format!("\"{other}\" is none of PreferSameZone, PreferSameNode, PreferClose"),
            );
            Distribution::Everywhere
        }
    }
}

impl SourceRanges {
    /// Reads the ranges; space around one is no part of it.
    pub(super) fn read(spec: &ServiceSpec, findings: &mut Findings) -> Self {
        let listed = spec.load_balancer_source_ranges.as_deref().unwrap_or_default();
        let mut ranges = Vec::new();
        for (i, text) in listed.iter().enumerate() {
            let field = format!("spec.loadBalancerSourceRanges[{i}]");
            ranges.extend(findings.check(field, field::prefix(text)));
        }
        ranges.sort();
        ranges.dedup();
        match (listed.is_empty(), ranges.is_empty()) {
            (true, _) => Self::Everybody,
            (false, false) => Self::These(ranges),
            (false, true) => {
                // Opened to everybody it would be the opposite of what was meant.
                findings.add(
                    "spec.loadBalancerSourceRanges",
                    "none of them can be read: the load balancer's addresses are not served",
                );
                Self::Unreadable
            }
        }
    }
}
