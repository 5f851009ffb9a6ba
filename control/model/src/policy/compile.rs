//! From what a policy says to what nodes hold of it.

use std::collections::BTreeSet;

use vrouter_objects::{
    Peer, PeerSetId, Peers, Policy, PolicyDirection, PolicyId, PolicyRule, PortMatch, Ports, ServiceProtocol,
};

use super::{Meaning, PeerSets, Whom};
use crate::family::host_prefix;
use crate::index::Index;
use crate::kube::{PeerRecord, PolicyRecord, PortName, PortRecord, RuleRecord, Selector, Which};

/// Compiles one policy.
pub struct Compiler<'a> {
    index: &'a Index,
    sets: &'a mut PeerSets,
    used: BTreeSet<PeerSetId>,
}

/// Ids are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoIds;

impl<'a> Compiler<'a> {
    /// A compiler that makes the sets that are missing.
    pub fn new(index: &'a Index, sets: &'a mut PeerSets) -> Self {
        Self { index, sets, used: BTreeSet::new() }
    }

    /// The policy, and the sets that it refers to.
    pub fn compile(
        mut self,
        id: PolicyId,
        name: String,
        record: &PolicyRecord,
    ) -> Result<(Policy, BTreeSet<PeerSetId>), NoIds> {
        let ingress = self.direction(record, PolicyDirection::Ingress)?;
        let egress = self.direction(record, PolicyDirection::Egress)?;
        Ok((Policy { id, name, tier: record.tier, ingress, egress }, self.used))
    }

    fn direction(
        &mut self,
        record: &PolicyRecord,
        direction: PolicyDirection,
    ) -> Result<Option<Vec<PolicyRule>>, NoIds> {
        let Some(rules) = record.rules(direction) else { return Ok(None) };
        let mut compiled = Vec::with_capacity(rules.len());
        for rule in rules {
            match direction {
                PolicyDirection::Ingress => compiled.push(self.ingress(rule)?),
                PolicyDirection::Egress => compiled.extend(self.egress(rule)?),
            }
        }
        Ok(Some(compiled))
    }

    /// A named port is the selected pod's own.
    fn ingress(&mut self, rule: &RuleRecord) -> Result<PolicyRule, NoIds> {
        let ports = match &rule.ports {
            Which::Any => Ports::Any,
            Which::These(ports) => Ports::These(ports.iter().map(own_port).collect()),
        };
        Ok(policy_rule(rule, self.peers(&rule.peers)?, ports))
    }

    /// A named port is the peer's: a rule for each name, about those peers that have it.
    fn egress(&mut self, rule: &RuleRecord) -> Result<Vec<PolicyRule>, NoIds> {
        let names = rule.ports.these().iter().filter_map(|port| match port {
            PortRecord::Named(name) => Some(name),
            PortRecord::Range { .. } => None,
        });
        let ports = match &rule.ports {
            Which::Any => Ports::Any,
            Which::These(ports) => Ports::These(ports.iter().filter_map(range).collect()),
        };
        let mut rules = Vec::new();
        let names: BTreeSet<&PortName> = names.collect();
        if names.is_empty() || !matches!(&ports, Ports::These(ranges) if ranges.is_empty()) {
            rules.push(policy_rule(rule, self.peers(&rule.peers)?, ports));
        }
        for name in names {
            let ports = Ports::These(vec![PortMatch::Peer { protocol: name.protocol }]);
            rules.push(policy_rule(rule, self.peers_with_port(&rule.peers, name)?, ports));
        }
        Ok(rules)
    }

    fn peers(&mut self, peers: &Which<PeerRecord>) -> Result<Peers, NoIds> {
        let Which::These(peers) = peers else { return Ok(Peers::Any) };
        let mut compiled = Vec::with_capacity(peers.len());
        for peer in peers {
            match peer {
                PeerRecord::Pods(selection) => {
                    compiled.push(self.set(Whom::Pods(selection.clone()), None)?);
                }
                PeerRecord::Block(block) => {
                    compiled.push(Peer::Block { prefix: block.prefix, except: block.except.clone() });
                }
                PeerRecord::Nodes(selector) => compiled.extend(self.nodes(selector)),
            }
        }
        Ok(Peers::These(compiled))
    }

    fn peers_with_port(&mut self, peers: &Which<PeerRecord>, name: &PortName) -> Result<Peers, NoIds> {
        let whom = match peers {
            Which::Any => vec![Whom::everybody()],
            Which::These(peers) => peers.iter().filter_map(whom_with_ports).collect(),
        };
        let sets = whom.into_iter().map(|whom| self.set(whom, Some(name.clone())));
        Ok(Peers::These(sets.collect::<Result<_, _>>()?))
    }

    fn set(&mut self, whom: Whom, port: Option<PortName>) -> Result<Peer, NoIds> {
        let set = self.sets.give(Meaning { whom, port }).ok_or(NoIds)?;
        self.used.insert(set);
        Ok(Peer::Set(set))
    }

    /// Nodes are few, and what may be at a node's address is that node.
    fn nodes(&self, selector: &Selector) -> Vec<Peer> {
        let selected = self.index.nodes_selected(selector);
        let addresses = selected.flat_map(|node| self.index.own_addresses(node));
        addresses.map(|address| Peer::Block { prefix: host_prefix(address), except: Vec::new() }).collect()
    }
}

fn policy_rule(rule: &RuleRecord, peers: Peers, ports: Ports) -> PolicyRule {
    PolicyRule { name: rule.name.clone(), action: rule.action, peers, ports }
}

fn own_port(port: &PortRecord) -> PortMatch {
    match port {
        PortRecord::Range { protocol, first, last } => port_range(*protocol, *first, *last),
        PortRecord::Named(PortName { protocol, name }) => {
            PortMatch::Own { protocol: *protocol, name: name.clone() }
        }
    }
}

fn range(port: &PortRecord) -> Option<PortMatch> {
    match port {
        PortRecord::Range { protocol, first, last } => Some(port_range(*protocol, *first, *last)),
        PortRecord::Named(_) => None,
    }
}

fn port_range(protocol: ServiceProtocol, first: u16, last: u16) -> PortMatch {
    PortMatch::Range { protocol, first, last }
}

/// Who of a rule's peers may have named ports: nodes have none.
fn whom_with_ports(peer: &PeerRecord) -> Option<Whom> {
    match peer {
        PeerRecord::Pods(selection) => Some(Whom::Pods(selection.clone())),
        PeerRecord::Block(block) => Some(Whom::Block(block.clone())),
        PeerRecord::Nodes(_) => None,
    }
}
