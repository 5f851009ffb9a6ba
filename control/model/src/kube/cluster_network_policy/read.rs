//! Reading a ClusterNetworkPolicy: what cannot be read or served lets nothing pass.

use vrouter_objects::{PolicyAction, PolicyDirection, Port, ServiceProtocol, Tier};

use super::{
    ClusterNetworkPolicySpec, NamespacedPods, PeerSpec, PortSpec, PortsSpec, ProtocolSpec, RuleSpec,
    SelectorSpec, SubjectSpec, Unknown,
};
use crate::kube::field;
use crate::kube::policy::{Block, PeerRecord, PolicyRecord, PortName, PortRecord, RuleRecord, Which};
use crate::kube::selector::{NamespaceSelection, PodSelection, Selector, TooWide};
use crate::problem::Findings;

/// The highest number that a priority can be: the last to be asked.
const LAST_PRIORITY: u16 = 1000;

/// All protocols that have named ports.
const PROTOCOLS: [ServiceProtocol; 3] = [ServiceProtocol::Tcp, ServiceProtocol::Udp, ServiceProtocol::Sctp];

/// Reads a ClusterNetworkPolicy.
pub fn read_cluster_network_policy(spec: &ClusterNetworkPolicySpec, findings: &mut Findings) -> PolicyRecord {
    let mut reader = Reader { findings };
    let tier = reader.tier(spec);
    let SubjectSpec { namespaces, pods } = &spec.subject;
    let subject = reader.selection(namespaces.as_ref(), pods.as_ref(), "spec.subject");
    let ingress = reader.rules(&spec.ingress, PolicyDirection::Ingress);
    let egress = reader.rules(&spec.egress, PolicyDirection::Egress);
    match (tier, subject) {
        (Some(tier), Ok(subject)) => policy(tier, subject, ingress, egress),
        (_, Ok(widest) | Err(widest)) => reader.closed(widest, ingress, egress),
    }
}

/// A policy without rules for a direction does not govern it.
fn policy(
    tier: Tier,
    subject: PodSelection,
    ingress: Vec<RuleRecord>,
    egress: Vec<RuleRecord>,
) -> PolicyRecord {
    let said = |rules: Vec<RuleRecord>| (!rules.is_empty()).then_some(rules);
    PolicyRecord { tier, subject, ingress: said(ingress), egress: said(egress) }
}

type ReadSelector = Result<Selector, TooWide>;

struct Reader<'f> {
    findings: &'f mut Findings,
}

impl Reader<'_> {
    /// What is left of a policy of which it is not known when it is asked, or for whom.
    fn closed(
        &mut self,
        widest: PodSelection,
        mut ingress: Vec<RuleRecord>,
        mut egress: Vec<RuleRecord>,
    ) -> PolicyRecord {
        for rules in [&mut ingress, &mut egress] {
            rules.retain(|rule| rule.action == PolicyAction::Deny);
        }
        self.findings
            .add("spec", "only its Deny rules are kept, and asked first, as not all of it can be read");
        policy(Tier::Admin(0), widest, ingress, egress)
    }

    fn tier(&mut self, spec: &ClusterNetworkPolicySpec) -> Option<Tier> {
        let number = spec.priority.and_then(|number| u16::try_from(number).ok());
        let priority = number.filter(|number| *number <= LAST_PRIORITY);
        if priority.is_none() {
            self.findings.add("spec.priority", format!("must be a number from 0 to {LAST_PRIORITY}"));
        }
        match spec.tier.as_str() {
            "Admin" => priority.map(Tier::Admin),
            "Baseline" => priority.map(Tier::Baseline),
            other => {
                self.findings.add("spec.tier", format!("\"{other}\" is none of Admin, Baseline"));
                None
            }
        }
    }

    /// The pods of whole namespaces, or some of them; or else all that may be meant, where not all of it can be read.
    fn selection(
        &mut self,
        namespaces: Option<&SelectorSpec>,
        pods: Option<&NamespacedPods>,
        field: &str,
    ) -> Result<PodSelection, PodSelection> {
        let (namespaces, pods) = match (namespaces, pods) {
            (Some(namespaces), None) => {
                (self.selector(namespaces, &format!("{field}.namespaces")), Ok(Selector::default()))
            }
            (None, Some(pods)) => self.namespaced(pods, &format!("{field}.pods")),
            _ => {
                self.findings.add(field, "must say either namespaces or pods");
                (Ok(Selector::default()), Err(TooWide(Selector::default())))
            }
        };
        let is_whole = namespaces.is_ok() && pods.is_ok();
        let widest = |read: Result<Selector, TooWide>| read.unwrap_or_else(|TooWide(selector)| selector);
        let namespaces = NamespaceSelection::labelled(widest(namespaces));
        let selection = PodSelection { namespaces, pods: widest(pods) };
        if is_whole { Ok(selection) } else { Err(selection) }
    }

    fn namespaced(&mut self, pods: &NamespacedPods, field: &str) -> (ReadSelector, ReadSelector) {
        let NamespacedPods { namespace_selector, pod_selector } = pods;
        let namespaces = self.needed(namespace_selector.as_ref(), &format!("{field}.namespaceSelector"));
        (namespaces, self.needed(pod_selector.as_ref(), &format!("{field}.podSelector")))
    }

    /// A selector that must be there. It is not known whom the author of one that is not meant.
    fn needed(&mut self, selector: Option<&SelectorSpec>, field: &str) -> ReadSelector {
        let Some(selector) = selector else {
            self.findings.add(field, "is missing");
            return Err(TooWide(Selector::default()));
        };
        self.selector(selector, field)
    }

    fn selector(&mut self, selector: &SelectorSpec, field: &str) -> ReadSelector {
        let read = Selector::read(&selector.known(), field, self.findings);
        if self.all_known(&selector.unknown, field) { read } else { read.and_then(|read| Err(TooWide(read))) }
    }

    fn rules(&mut self, rules: &[RuleSpec], direction: PolicyDirection) -> Vec<RuleRecord> {
        let places = rules.iter().enumerate().map(|(i, rule)| (format!("{direction}[{i}]"), rule));
        places.map(|(place, rule)| self.rule(rule, direction, place)).collect()
    }

    fn rule(&mut self, rule: &RuleSpec, direction: PolicyDirection, place: String) -> RuleRecord {
        let field = format!("spec.{place}");
        let name = if rule.name.is_empty() { place } else { rule.name.clone() };
        let action = self.findings.check(format!("{field}.action"), action(&rule.action));
        let peers = match direction {
            PolicyDirection::Ingress => self.peers(&rule.from, direction, &format!("{field}.from")),
            PolicyDirection::Egress => self.peers(&rule.to, direction, &format!("{field}.to")),
        };
        let ports = self.ports(&rule.protocols, &format!("{field}.protocols"));
        let is_known = self.all_known(&rule.unknown, &field);
        match (action, peers.zip(ports)) {
            (Some(action), Some((peers, ports))) if is_known && self.fit(&peers, &ports, &field) => {
                RuleRecord { name, action, peers: Which::These(peers), ports }
            }
            (Some(PolicyAction::Allow), _) => {
                let (peers, ports) = (Which::These(Vec::new()), Which::These(Vec::new()));
                RuleRecord { name, action: PolicyAction::Allow, peers, ports }
            }
            (Some(PolicyAction::Deny | PolicyAction::Pass) | None, _) => RuleRecord::deny_all(name),
        }
    }

    /// Whether nothing was said that is not understood.
    fn all_known(&mut self, unknown: &Unknown, field: &str) -> bool {
        for unknown in unknown.keys() {
            self.findings.add(format!("{field}.{unknown}"), "is unknown");
        }
        unknown.is_empty()
    }

    /// Only pods have named ports.
    fn fit(&mut self, peers: &[PeerRecord], ports: &Which<PortRecord>, field: &str) -> bool {
        let by_name = ports.these().iter().any(|port| matches!(port, PortRecord::Named(_)));
        let fit = !by_name || peers.iter().all(|peer| matches!(peer, PeerRecord::Pods(_)));
        if !fit {
            let message = "destinationNamedPort is for pods: nodes and networks have no named ports";
            self.findings.add(format!("{field}.protocols"), message);
        }
        fit
    }

    /// `None`: not all of them can be read or served.
    fn peers(
        &mut self,
        peers: &[PeerSpec],
        direction: PolicyDirection,
        field: &str,
    ) -> Option<Vec<PeerRecord>> {
        if peers.is_empty() {
            self.findings.add(field, "needs at least one peer");
            return None;
        }
        let read =
            peers.iter().enumerate().map(|(i, peer)| self.peer(peer, direction, &format!("{field}[{i}]")));
        // All are read, so that all that is wrong is found.
        let read: Vec<Option<Vec<PeerRecord>>> = read.collect();
        read.into_iter().collect::<Option<Vec<_>>>().map(|read| read.concat())
    }

    fn peer(&mut self, peer: &PeerSpec, direction: PolicyDirection, field: &str) -> Option<Vec<PeerRecord>> {
        let PeerSpec { namespaces, pods, nodes, networks, domain_names, unknown } = peer;
        if !self.all_known(unknown, field) {
            return None;
        }
        let for_egress = nodes.is_some() || networks.is_some() || domain_names.is_some();
        if for_egress && direction == PolicyDirection::Ingress {
            self.findings.add(field, "nodes, networks and domainNames are for egress alone");
            return None;
        }
        match (namespaces, pods, nodes, networks, domain_names) {
            (Some(_), None, None, None, None) | (None, Some(_), None, None, None) => {
                let selection = self.selection(namespaces.as_ref(), pods.as_ref(), field);
                selection.ok().map(|selection| vec![PeerRecord::Pods(selection)])
            }
            (None, None, Some(selector), None, None) => {
                let nodes = self.selector(selector, &format!("{field}.nodes")).ok()?;
                Some(vec![PeerRecord::Nodes(nodes)])
            }
            (None, None, None, Some(list), None) => self.networks(list, &format!("{field}.networks")),
            (None, None, None, None, Some(_)) => {
                self.findings
                    .add(format!("{field}.domainNames"), "cannot be served: addresses are all that is known");
                None
            }
            _ => {
                self.findings.add(field, "must say one of namespaces, pods, nodes, networks");
                None
            }
        }
    }

    fn networks(&mut self, list: &[String], field: &str) -> Option<Vec<PeerRecord>> {
        if list.is_empty() {
            self.findings.add(field, "needs at least one prefix");
            return None;
        }
        let prefixes = list.iter().enumerate();
        let read: Vec<_> = prefixes
            .map(|(i, text)| self.findings.check(format!("{field}[{i}]"), field::prefix(text)))
            .collect();
        let block = |prefix| PeerRecord::Block(Block { prefix, except: Vec::new() });
        read.into_iter().map(|prefix| prefix.map(block)).collect()
    }

    /// `None`: not all of them can be read.
    fn ports(&mut self, protocols: &[ProtocolSpec], field: &str) -> Option<Which<PortRecord>> {
        if protocols.is_empty() {
            return Some(Which::Any);
        }
        let read =
            protocols.iter().enumerate().map(|(i, entry)| self.protocol(entry, &format!("{field}[{i}]")));
        let read: Vec<Option<Vec<PortRecord>>> = read.collect();
        read.into_iter().collect::<Option<Vec<_>>>().map(|read| Which::These(read.concat()))
    }

    fn protocol(&mut self, entry: &ProtocolSpec, field: &str) -> Option<Vec<PortRecord>> {
        let ProtocolSpec { tcp, udp, sctp, destination_named_port } = entry;
        let (protocol, ports, name) = match (tcp, udp, sctp, destination_named_port) {
            (None, None, None, Some(name)) => {
                let name =
                    self.findings.check(format!("{field}.destinationNamedPort"), field::port_name(name))?;
                let named = |protocol| PortRecord::Named(PortName { protocol, name: name.clone() });
                return Some(PROTOCOLS.map(named).to_vec());
            }
            (Some(ports), None, None, None) => (ServiceProtocol::Tcp, ports, "tcp"),
            (None, Some(ports), None, None) => (ServiceProtocol::Udp, ports, "udp"),
            (None, None, Some(ports), None) => (ServiceProtocol::Sctp, ports, "sctp"),
            _ => {
                self.findings.add(field, "must say one of tcp, udp, sctp, destinationNamedPort");
                return None;
            }
        };
        self.port(protocol, ports, &format!("{field}.{name}.destinationPort")).map(|port| vec![port])
    }

    fn port(&mut self, protocol: ServiceProtocol, ports: &PortsSpec, field: &str) -> Option<PortRecord> {
        let mut port = |field: String, number| self.findings.check(field, Port::new(number));
        let (first, last) = match &ports.destination_port {
            Some(PortSpec { number: Some(number), range: None }) => {
                let port = port(format!("{field}.number"), *number);
                (port, port)
            }
            Some(PortSpec { number: None, range: Some(range) }) => (
                port(format!("{field}.range.start"), range.start),
                port(format!("{field}.range.end"), range.end),
            ),
            _ => {
                self.findings.add(field, "must say either number or range");
                return None;
            }
        };
        self.findings.check(format!("{field}.range.end"), PortRecord::range(protocol, first?, last?))
    }
}

fn action(text: &str) -> Result<PolicyAction, String> {
    match text {
        "Accept" => Ok(PolicyAction::Allow),
        "Deny" => Ok(PolicyAction::Deny),
        "Pass" => Ok(PolicyAction::Pass),
        other => Err(format!("\"{other}\" is none of Accept, Deny, Pass")),
    }
}
