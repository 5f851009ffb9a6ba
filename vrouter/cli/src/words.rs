//! The words that properties of services and policies are printed as.

use vrouter_objects::{
    AffinityTimeout, ExternalAddress, ExternalKind, FloatingIp, MemberState, Tier, TrafficPolicy,
};

/// A policy, as Kubernetes writes it.
pub fn policy(policy: TrafficPolicy) -> &'static str {
    match policy {
        TrafficPolicy::Cluster => "Cluster",
        TrafficPolicy::Local => "Local",
    }
}

/// Both policies of a service: internal, external.
pub fn policies(service: &FloatingIp) -> String {
    format!("{}/{}", policy(service.internal_policy), policy(service.external_policy))
}

/// What a member may be given.
pub fn member_state(state: MemberState) -> &'static str {
    match state {
        MemberState::Ready => "ready",
        MemberState::Serving => "serving",
        MemberState::Leaving => "leaving",
    }
}

/// Where an external address is from.
pub fn external_kind(kind: ExternalKind) -> &'static str {
    match kind {
        ExternalKind::ExternalIp => "external IP",
        ExternalKind::LoadBalancer => "load balancer",
    }
}

/// External addresses in one line; `-` for none.
pub fn addresses(external: &[ExternalAddress]) -> String {
    let addresses = external.iter().map(|external| external.address.to_string());
    or_dash(addresses.collect::<Vec<_>>().join(" "))
}

/// For how long a client stays with its member; `-` where it does not.
pub fn affinity(affinity: Option<AffinityTimeout>) -> String {
    or_dash(affinity.map(|timeout| format!("{} s", timeout.seconds())).unwrap_or_default())
}

/// The text, or what stands for none.
pub fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}

/// A policy's tier.
pub fn tier(tier: Tier) -> &'static str {
    match tier {
        Tier::Admin(_) => "admin",
        Tier::Namespace => "namespace",
        Tier::Baseline(_) => "baseline",
    }
}

/// The priority in its tier, where there is one.
pub fn priority(tier: Tier) -> Option<u16> {
    match tier {
        Tier::Admin(priority) | Tier::Baseline(priority) => Some(priority),
        Tier::Namespace => None,
    }
}

/// So many of something.
pub fn counted(count: u64, what: &str) -> String {
    match (count, what.ends_with('s')) {
        (1, _) => format!("1 {what}"),
        (count, false) => format!("{count} {what}s"),
        (count, true) => format!("{count} {what}es"),
    }
}
