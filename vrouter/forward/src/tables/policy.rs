//! Network policies as the data path reads them.
//!
//! An interface has its policies with it, those of each direction in the order they are asked. They are shared by all
//! interfaces that they select, and refer to peer sets by id: what changes in a set changes nothing here.

use std::sync::Arc;

use vrouter_objects::{
    IpProtocol, NamedPort, Peer, PeerSetId, Peers, Policy, PolicyAction, PolicyDirection, PolicyRule, Port,
    PortMatch, Ports, ServiceProtocol, Tier,
};

use super::Epoch;
use super::hits::Hits;
use super::peers::{Membership, PeerTable};
use super::prefix::MaskedPrefix;
use super::ruling::{Request, Ruled, Ruling};
use crate::address::Address;

/// A policy.
#[derive(Debug)]
pub(crate) struct PolicyEntry {
    name: String,
    /// `None`: before all tiers, where nothing can let pass what it denies.
    tier: Option<Tier>,
    ingress: DirectionEntry,
    egress: DirectionEntry,
}

/// One direction of a policy.
#[derive(Debug)]
struct DirectionEntry {
    /// `None`: it does not govern the direction.
    rules: Option<Box<[RuleEntry]>>,
    /// Packets that were dropped since neither a rule of it nor another policy's let them pass.
    unmatched: Hits,
}

/// A rule.
#[derive(Debug)]
pub(crate) struct RuleEntry {
    rule: PolicyRule,
    /// The blocks among its peers, in their order.
    blocks: Box<[BlockEntry]>,
    pub(super) hits: Hits,
}

#[derive(Debug)]
struct BlockEntry {
    prefix: MaskedPrefix,
    except: Box<[MaskedPrefix]>,
}

/// What governs one interface.
#[derive(Debug)]
pub(crate) struct InterfacePolicy {
    /// When its policies last changed, the sets that they refer to aside.
    generation: Epoch,
    ingress: Chain,
    egress: Chain,
    sets: Box<[PeerSetId]>,
    ports: Box<[NamedPort]>,
}

/// The policies that govern one direction of an interface, in the order they are asked.
#[derive(Debug, Default)]
struct Chain(Box<[Arc<PolicyEntry>]>);

/// How often a policy decided something on this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyUse {
    /// To the pods.
    pub ingress: DirectionUse,
    /// From them.
    pub egress: DirectionUse,
}

/// How often one direction of a policy did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DirectionUse {
    /// For each rule, in order, the new flows that it let pass, or the packets that it dropped.
    pub rules: Vec<u64>,
    /// Packets dropped since no rule of it matched, nor any of another policy.
    pub unmatched: u64,
}

impl PolicyEntry {
    /// A policy in place of one of the same id, whose counts go on where its rules are the same.
    pub(super) fn new(policy: &Policy, before: Option<&Self>) -> Self {
        let direction = |direction: PolicyDirection| {
            let before = before.map(|before| before.direction(direction));
            DirectionEntry::new(policy.rules(direction), before)
        };
        Self {
            name: policy.name.clone(),
            tier: Some(policy.tier),
            ingress: direction(PolicyDirection::Ingress),
            egress: direction(PolicyDirection::Egress),
        }
    }

    /// One that lets nothing pass, whatever the others say.
    pub(super) fn closed(name: String) -> Self {
        let rules = || {
            let rule = PolicyRule {
                name: "all".to_owned(),
                action: PolicyAction::Deny,
                peers: Peers::Any,
                ports: Ports::Any,
            };
            DirectionEntry::new(Some(&[rule]), None)
        };
        Self { name, tier: None, ingress: rules(), egress: rules() }
    }

    /// What people call it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn used(&self) -> PolicyUse {
        PolicyUse { ingress: self.ingress.used(), egress: self.egress.used() }
    }

    /// Counts a packet that neither a rule of it nor another policy's let pass.
    pub(super) fn count_unmatched(&self, direction: PolicyDirection) {
        self.direction(direction).unmatched.count();
    }

    fn direction(&self, direction: PolicyDirection) -> &DirectionEntry {
        match direction {
            PolicyDirection::Ingress => &self.ingress,
            PolicyDirection::Egress => &self.egress,
        }
    }

    fn rules(&self, direction: PolicyDirection) -> &[RuleEntry] {
        self.direction(direction).rules.as_deref().unwrap_or_default()
    }
}

impl DirectionEntry {
    fn new(rules: Option<&[PolicyRule]>, before: Option<&Self>) -> Self {
        let known = before.and_then(|before| before.rules.as_deref()).unwrap_or_default();
        let hits = |number: usize, rule: &PolicyRule| {
            let same = known.get(number).filter(|known| known.rule == *rule);
            same.map(|known| known.hits.clone()).unwrap_or_default()
        };
        let entry = |(number, rule): (usize, &PolicyRule)| RuleEntry::new(rule, hits(number, rule));
        Self {
            rules: rules.map(|rules| rules.iter().enumerate().map(entry).collect()),
            unmatched: before.map(|before| before.unmatched.clone()).unwrap_or_default(),
        }
    }

    fn used(&self) -> DirectionUse {
        let rules = self.rules.as_deref().unwrap_or_default();
        DirectionUse {
            rules: rules.iter().map(|rule| rule.hits.get()).collect(),
            unmatched: self.unmatched.get(),
        }
    }
}

impl RuleEntry {
    fn new(rule: &PolicyRule, hits: Hits) -> Self {
        let blocks = rule.peers.named().iter().filter_map(|peer| match peer {
            Peer::Block { prefix, except } => Some(BlockEntry {
                prefix: MaskedPrefix::new(*prefix),
                except: except.iter().map(|prefix| MaskedPrefix::new(*prefix)).collect(),
            }),
            Peer::Set(_) => None,
        });
        Self { blocks: blocks.collect(), rule: rule.clone(), hits }
    }

    /// What people find it by.
    pub(crate) fn name(&self) -> &str {
        &self.rule.name
    }

    /// What becomes of what it matches.
    pub(crate) fn action(&self) -> PolicyAction {
        self.rule.action
    }

    fn sets(&self) -> impl Iterator<Item = PeerSetId> {
        self.rule.peers.named().iter().filter_map(|peer| match peer {
            Peer::Set(set) => Some(*set),
            Peer::Block { .. } => None,
        })
    }

    fn matches(&self, peers: &PeerTable, request: &Request, own: &[NamedPort]) -> bool {
        match &self.rule.peers {
            Peers::Any => self.has_port(request, own, Membership { port: None }),
            Peers::These(_) => {
                self.blocks.iter().any(|block| block.holds(request.address))
                    && self.has_port(request, own, Membership { port: None })
                    || self.is_in_set(peers, request, own)
            }
        }
    }

    fn is_in_set(&self, peers: &PeerTable, request: &Request, own: &[NamedPort]) -> bool {
        let Some(space) = request.space else { return false };
        self.sets()
            .filter_map(|set| match peers.membership(set, space, request.address) {
                None if self.rule.action == PolicyAction::Deny && !peers.is_held(set) => {
                    // Whoever it was to keep out, and at whatever port: that cannot be told from the others.
                    Some(Membership { port: Port::new(request.port.into()).ok() })
                }
                membership => membership,
            })
            .any(|membership| self.has_port(request, own, membership))
    }

    fn has_port(&self, request: &Request, own: &[NamedPort], peer: Membership) -> bool {
        let Ports::These(ports) = &self.rule.ports else { return true };
        ports.iter().any(|port| {
            let (protocol, is_it) = match port {
                PortMatch::Range { protocol, first, last } => {
                    (*protocol, (*first..=*last).contains(&request.port))
                }
                PortMatch::Own { protocol, name } => {
                    (*protocol, is_named(own, *protocol, name, request.port))
                }
                PortMatch::Peer { protocol } => {
                    (*protocol, peer.port.is_some_and(|port| port.get() == request.port))
                }
            };
            is_it && IpProtocol::from(protocol) == request.protocol
        })
    }
}

fn is_named(own: &[NamedPort], protocol: ServiceProtocol, name: &str, number: u16) -> bool {
    own.iter().any(|port| port.port.get() == number && port.protocol == protocol && port.name == name)
}

impl BlockEntry {
    fn holds(&self, address: Address) -> bool {
        // An IPv4 address lies in ::/0 as it is held.
        self.prefix.family() == address.family()
            && self.prefix.contains(address)
            && !self.except.iter().any(|except| except.contains(address))
    }
}

impl InterfacePolicy {
    /// What these policies make of an interface whose pod has these named ports; `None`: nothing.
    pub(super) fn new(
        mut policies: Vec<Arc<PolicyEntry>>,
        ports: &[NamedPort],
        generation: Epoch,
    ) -> Option<Self> {
        if policies.is_empty() {
            return None;
        }
        policies.sort_by(|one, other| (one.tier, &one.name).cmp(&(other.tier, &other.name)));
        let chain = |direction: PolicyDirection| {
            let governs = |policy: &&Arc<PolicyEntry>| policy.direction(direction).rules.is_some();
            Chain(policies.iter().filter(governs).cloned().collect())
        };
        let rules =
            policies.iter().flat_map(|policy| PolicyDirection::BOTH.map(|direction| policy.rules(direction)));
        let mut sets: Vec<PeerSetId> = rules.flatten().flat_map(RuleEntry::sets).collect();
        sets.sort_unstable();
        sets.dedup();
        Some(Self {
            generation,
            ingress: chain(PolicyDirection::Ingress),
            egress: chain(PolicyDirection::Egress),
            sets: sets.into(),
            ports: ports.into(),
        })
    }

    fn chain(&self, direction: PolicyDirection) -> &Chain {
        match direction {
            PolicyDirection::Ingress => &self.ingress,
            PolicyDirection::Egress => &self.egress,
        }
    }

    /// Whether it, or who is in the sets that it refers to, has changed since an epoch.
    pub(crate) fn has_changed(&self, peers: &PeerTable, since: Epoch) -> bool {
        self.generation > since || self.sets.iter().any(|set| peers.has_changed(*set, since))
    }

    /// Whether any policy, of whatever tier, governs a direction.
    pub(crate) fn governs(&self, direction: PolicyDirection) -> bool {
        !self.chain(direction).0.is_empty()
    }

    /// What it says of a request.
    pub(crate) fn rule<'a>(
        &'a self,
        direction: PolicyDirection,
        peers: &PeerTable,
        request: &Request,
    ) -> Ruled<'a> {
        let chain = &self.chain(direction).0;
        let (before, rest) =
            chain.split_at(chain.partition_point(|policy| policy.tier < Some(Tier::Namespace)));
        let (namespace, after) =
            rest.split_at(rest.partition_point(|policy| policy.tier == Some(Tier::Namespace)));
        let first = |policies: &'a [Arc<PolicyEntry>]| {
            policies.iter().find_map(|policy| {
                let rules = policy.rules(direction).iter();
                let rule = rules.into_iter().find(|rule| rule.matches(peers, request, &self.ports))?;
                Some((&**policy, rule))
            })
        };
        let passed_on = match first(before) {
            Some((_, rule)) if rule.action() == PolicyAction::Pass => Some(rule),
            Some((policy, rule)) => return Ruled { ruling: Ruling::Rule { policy, rule }, passed_on: None },
            None => None,
        };
        let (deciding, otherwise) = match namespace {
            [] => (after, Ruling::Open),
            _ => (namespace, Ruling::Isolated(self, direction)),
        };
        let ruling = first(deciding).map_or(otherwise, |(policy, rule)| Ruling::Rule { policy, rule });
        Ruled { ruling, passed_on }
    }

    /// The policies of the namespace that govern a direction.
    pub(crate) fn isolating(&self, direction: PolicyDirection) -> impl Iterator<Item = &PolicyEntry> {
        let chain = self.chain(direction).0.iter();
        chain.filter(|policy| policy.tier == Some(Tier::Namespace)).map(|policy| &**policy)
    }
}
