//! NetworkPolicies: who may talk to a namespace's pods, and whom they may talk to.

use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use vrouter_objects::{PolicyAction, Port, Tier};

use super::field;
use super::policy::{Block, PeerRecord, PolicyRecord, PortName, PortRecord, RuleRecord, Which};
use super::selector::{NamespaceSelection, PodSelection, Selector, TooWide};
use crate::problem::Findings;

/// Reads a NetworkPolicy of a namespace.
pub fn read_network_policy(namespace: &str, policy: &NetworkPolicy, findings: &mut Findings) -> PolicyRecord {
    let empty = NetworkPolicySpec::default();
    let spec = policy.spec.as_ref().unwrap_or(&empty);
    let governed = Governed::read(spec, findings);
    let mut reader = Reader { namespace, findings };
    let ingress = governed.ingress.then(|| reader.ingress(spec));
    let egress = governed.egress.then(|| reader.egress(spec));
    let subject = match reader.selector(spec.pod_selector.as_ref(), "spec.podSelector") {
        Ok(pods) => return reader.policy(pods, ingress, egress),
        Err(TooWide(pods)) => pods,
    };
    // It isolates all pods that it may mean. What it allows is for those alone that it does mean.
    reader.policy(subject, ingress.map(|_| Vec::new()), egress.map(|_| Vec::new()))
}

/// The directions that a policy governs.
struct Governed {
    ingress: bool,
    egress: bool,
}

impl Governed {
    fn read(spec: &NetworkPolicySpec, findings: &mut Findings) -> Self {
        let types = spec.policy_types.as_deref().unwrap_or_default();
        if types.is_empty() {
            // As the API server fills it in: an empty list of egress rules is as none.
            return Self { ingress: true, egress: spec.egress.as_ref().is_some_and(|list| !list.is_empty()) };
        }
        let mut governed = Self { ingress: false, egress: false };
        for (i, kind) in types.iter().enumerate() {
            match kind.as_str() {
                "Ingress" => governed.ingress = true,
                "Egress" => governed.egress = true,
                other => {
                    let message = format!("\"{other}\" is none of Ingress, Egress, so both are governed");
                    findings.add(format!("spec.policyTypes[{i}]"), message);
                    return Self { ingress: true, egress: true };
                }
            }
        }
        governed
    }
}

struct Reader<'a, 'f> {
    namespace: &'a str,
    findings: &'f mut Findings,
}

impl Reader<'_, '_> {
    fn policy(
        &self,
        pods: Selector,
        ingress: Option<Vec<RuleRecord>>,
        egress: Option<Vec<RuleRecord>>,
    ) -> PolicyRecord {
        PolicyRecord { tier: Tier::Namespace, subject: self.own(pods), ingress, egress }
    }

    fn own(&self, pods: Selector) -> PodSelection {
        PodSelection { namespaces: NamespaceSelection::Named(self.namespace.to_owned()), pods }
    }

    /// A selector that is not there means everything.
    fn selector(&mut self, selector: Option<&LabelSelector>, field: &str) -> Result<Selector, TooWide> {
        let read = |selector| Selector::read(selector, field, self.findings);
        selector.map_or_else(|| Ok(Selector::default()), read)
    }

    fn ingress(&mut self, spec: &NetworkPolicySpec) -> Vec<RuleRecord> {
        let rules = spec.ingress.iter().flatten().enumerate();
        rules.map(|(i, rule)| self.rule(format!("ingress[{i}]"), "from", &rule.from, &rule.ports)).collect()
    }

    fn egress(&mut self, spec: &NetworkPolicySpec) -> Vec<RuleRecord> {
        let rules = spec.egress.iter().flatten().enumerate();
        rules.map(|(i, rule)| self.rule(format!("egress[{i}]"), "to", &rule.to, &rule.ports)).collect()
    }

    fn rule(
        &mut self,
        name: String,
        side: &str,
        peers: &Option<Vec<NetworkPolicyPeer>>,
        ports: &Option<Vec<NetworkPolicyPort>>,
    ) -> RuleRecord {
        let peers =
            Which::read(peers.as_ref(), &format!("spec.{name}.{side}"), |peer, field| self.peer(peer, field));
        let ports = Which::read(ports.as_ref(), &format!("spec.{name}.ports"), |entry, field| {
            port(entry, field, self.findings)
        });
        RuleRecord { name, action: PolicyAction::Allow, peers, ports }
    }

    fn peer(&mut self, peer: &NetworkPolicyPeer, field: &str) -> Option<PeerRecord> {
        match (&peer.ip_block, &peer.namespace_selector, &peer.pod_selector) {
            (Some(entry), None, None) => {
                block(entry, &format!("{field}.ipBlock"), self.findings).map(PeerRecord::Block)
            }
            (Some(_), ..) => {
                self.findings.add(format!("{field}.ipBlock"), "stands alone, never beside a selector");
                None
            }
            (None, None, None) => {
                self.findings.add(field, "says neither podSelector, namespaceSelector nor ipBlock");
                None
            }
            (None, namespaces, pods) => {
                let namespaces = namespaces.as_ref().map(|selector| {
                    Selector::read(selector, &format!("{field}.namespaceSelector"), self.findings)
                });
                let pods = self.selector(pods.as_ref(), &format!("{field}.podSelector"));
                let (namespaces, pods) = (namespaces.transpose().ok()?, pods.ok()?);
                Some(PeerRecord::Pods(match namespaces {
                    None => self.own(pods),
                    Some(selector) => {
                        PodSelection { namespaces: NamespaceSelection::labelled(selector), pods }
                    }
                }))
            }
        }
    }
}

fn block(entry: &IPBlock, field: &str, findings: &mut Findings) -> Option<Block> {
    let prefix = findings.check(format!("{field}.cidr"), field::prefix(&entry.cidr));
    let parts = entry.except.iter().flatten().enumerate();
    let except: Vec<_> =
        parts.map(|(i, part)| findings.check(format!("{field}.except[{i}]"), field::prefix(part))).collect();
    // An exception that cannot be read may be anything, so nobody is in the block.
    let except: Option<Vec<_>> = except.into_iter().collect();
    findings.check(format!("{field}.except"), Block::new(prefix?, except?))
}

fn port(entry: &NetworkPolicyPort, field: &str, findings: &mut Findings) -> Option<PortRecord> {
    let protocol = findings.check(format!("{field}.protocol"), field::protocol(entry.protocol.as_deref()));
    let end_field = format!("{field}.endPort");
    match (&entry.port, entry.end_port) {
        (None, None) => protocol.map(PortRecord::all),
        (None, Some(_)) => {
            findings.add(end_field, "needs a port that it is the end of");
            None
        }
        (Some(IntOrString::Int(first)), last) => {
            let first = findings.check(format!("{field}.port"), Port::new((*first).into()));
            let last = match last {
                Some(last) => findings.check(&end_field, Port::new(last.into())),
                None => first,
            };
            findings.check(end_field, PortRecord::range(protocol?, first?, last?))
        }
        (Some(IntOrString::String(name)), None) => {
            let name = findings.check(format!("{field}.port"), field::port_name(name));
            Some(PortRecord::Named(PortName { protocol: protocol?, name: name? }))
        }
        (Some(IntOrString::String(name)), Some(_)) => {
            findings.add(end_field, format!("\"{name}\" is a name, and no range begins with a name"));
            None
        }
    }
}
