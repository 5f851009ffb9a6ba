//! `networking.k8s.io/v1` NetworkPolicy.

use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::selector::selects;
use super::{Direction, Party, Traffic, View, block};
use crate::world::Protocol;

/// What the NetworkPolicies say; `None`: none of them applies to the pod in this direction, which is therefore not isolated.
pub fn decision(view: &View) -> Option<bool> {
    let policies = view.world.policies.iter();
    let of_namespace = policies.filter(|(name, _)| name.namespace == view.pod.0.namespace);
    let isolating: Vec<&NetworkPolicySpec> = of_namespace
        .filter_map(|(_, policy)| spec(policy))
        .filter(|spec| selects_pod(spec, view) && affects(spec, view.direction))
        .collect();
    // "Network policies do not conflict; they are additive."
    (!isolating.is_empty()).then(|| isolating.iter().any(|spec| allows(spec, view)))
}

fn spec(policy: &NetworkPolicy) -> Option<&NetworkPolicySpec> {
    policy.spec.as_ref()
}

/// "An empty selector matches all pods in the policy's namespace. … If it is not specified, it defaults to an empty selector."
fn selects_pod(spec: &NetworkPolicySpec, view: &View) -> bool {
    spec.pod_selector.as_ref().is_none_or(|selector| selects(selector, &view.pod.1.labels))
}

/// "If no policyTypes are specified on a NetworkPolicy then by default Ingress will always be set and Egress will be set if
/// the NetworkPolicy has any egress rules."
fn affects(spec: &NetworkPolicySpec, direction: Direction) -> bool {
    let types = spec.policy_types.as_deref().unwrap_or_default();
    let has_type = |wanted: &str| types.iter().any(|it| it == wanted);
    match direction {
        Direction::Ingress => types.is_empty() || has_type("Ingress"),
        Direction::Egress if types.is_empty() => spec.egress.as_ref().is_some_and(|rules| !rules.is_empty()),
        Direction::Egress => has_type("Egress"),
    }
}

/// "Each rule allows traffic which matches both the from (to) and ports sections."
fn allows(spec: &NetworkPolicySpec, view: &View) -> bool {
    let matches = |peers: &Option<Vec<NetworkPolicyPeer>>, ports: &Option<Vec<NetworkPolicyPort>>| {
        peers_match(peers.as_deref().unwrap_or_default(), view)
            && ports_match(ports.as_deref().unwrap_or_default(), view)
    };
    match view.direction {
        Direction::Ingress => spec.ingress.iter().flatten().any(|rule| matches(&rule.from, &rule.ports)),
        Direction::Egress => spec.egress.iter().flatten().any(|rule| matches(&rule.to, &rule.ports)),
    }
}

/// "If this field is empty or missing, this rule matches all sources (destinations)."
fn peers_match(peers: &[NetworkPolicyPeer], view: &View) -> bool {
    peers.is_empty() || peers.iter().any(|peer| peer_matches(peer, view))
}

fn peer_matches(peer: &NetworkPolicyPeer, view: &View) -> bool {
    match (&peer.ip_block, &peer.namespace_selector, &peer.pod_selector) {
        (Some(block), None, None) => block::means(block, view.peer.address()),
        // "If this field is set then neither of the other fields can be."
        (Some(_), _, _) => false,
        // At least one of the three must be there.
        (None, None, None) => false,
        (None, namespaces, pods) => {
            let Party::Pod(name, pod, _) = view.peer else { return false };
            let in_namespace = match namespaces {
                Some(selector) => selects(selector, &view.world.namespace_labels(&name.namespace)),
                // "Otherwise it selects the pods matching podSelector in the policy's own namespace."
                None => name.namespace == view.pod.0.namespace,
            };
            let is_meant = |selector: &LabelSelector| selects(selector, &pod.labels);
            in_namespace && pods.as_ref().is_none_or(is_meant)
        }
    }
}

/// "If this field is empty or missing, this rule matches all ports", and what has none.
fn ports_match(ports: &[NetworkPolicyPort], view: &View) -> bool {
    ports.is_empty() || ports.iter().any(|port| port_matches(port, view))
}

fn port_matches(port: &NetworkPolicyPort, view: &View) -> bool {
    // "If not specified, this field defaults to TCP."
    let name = port.protocol.as_deref().unwrap_or("TCP");
    let Some(protocol) = Protocol::ALL.into_iter().find(|it| it.name() == name) else { return false };
    let Traffic::Ports(spoken, number) = view.traffic else { return false };
    let number = i32::from(number);
    protocol == spoken
        && match (&port.port, port.end_port) {
            // "If this field is not provided, this matches all port names and numbers."
            (None, None) => true,
            (Some(IntOrString::Int(first)), None) => *first == number,
            // "The endPort must be equal or greater than port."
            (Some(IntOrString::Int(first)), Some(last)) => (*first..=last).contains(&number),
            (Some(IntOrString::String(name)), None) => view.is_named_port(name, Some(protocol)),
            // "This field cannot be defined if the port field is not defined or if the port field is defined as a named
            // (string) port."
            (None | Some(IntOrString::String(_)), Some(_)) => false,
        }
}
