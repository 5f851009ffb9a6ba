//! What the model keeps of a policy, whichever kind it is of.
//!
//! What of a policy cannot be read never lets anything pass. An element that allows means nobody then; where it is not known
//! which pods a policy selects, it selects all that it may mean, and allows nothing.

use std::fmt;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use vrouter_objects::{PolicyAction, PolicyDirection, Port, ServiceProtocol, Tier};

use super::selector::{PodSelection, Selector};

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyRecord {
    /// When it is asked.
    pub tier: Tier,
    /// The pods that it selects.
    pub subject: PodSelection,
    /// What may come to them; `None`: it does not say.
    pub ingress: Option<Vec<RuleRecord>>,
    /// What may leave them; `None`: it does not say.
    pub egress: Option<Vec<RuleRecord>>,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleRecord {
    /// Its name, or its place in the list.
    pub name: String,
    /// What becomes of what it matches.
    pub action: PolicyAction,
    /// Whom it is about.
    pub peers: Which<PeerRecord>,
    /// Which ports it is about.
    pub ports: Which<PortRecord>,
}

/// Which of many are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which<T> {
    /// All.
    Any,
    /// Those that one of these says; none where there is none.
    These(Vec<T>),
}

/// Some of those whom a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerRecord {
    /// Pods.
    Pods(PodSelection),
    /// Addresses.
    Block(Block),
    /// Nodes by their labels.
    Nodes(Selector),
}

/// A prefix without some parts of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Block {
    /// Who is meant.
    pub prefix: IpNet,
    /// Who of them is not.
    pub except: Vec<IpNet>,
}

/// Some of the ports that a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortRecord {
    /// From the first to the last.
    Range {
        /// The protocol.
        protocol: ServiceProtocol,
        /// The first port.
        first: u16,
        /// The last port.
        last: u16,
    },
    /// What the pod that is spoken to calls so.
    Named(PortName),
}

/// A port's name, which every pod may give to a port of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PortName {
    /// The protocol.
    #[serde(with = "crate::allocate::given::text")]
    pub protocol: ServiceProtocol,
    /// The name.
    pub name: String,
}

impl PolicyRecord {
    /// Its rules of a direction.
    pub fn rules(&self, direction: PolicyDirection) -> Option<&[RuleRecord]> {
        match direction {
            PolicyDirection::Ingress => self.ingress.as_deref(),
            PolicyDirection::Egress => self.egress.as_deref(),
        }
    }

    /// The names of ports that it looks up in the pods that it selects.
    pub fn own_ports(&self) -> impl Iterator<Item = &PortName> {
        let rules = self.ingress.iter().flatten();
        rules.flat_map(|rule| rule.ports.these()).filter_map(|port| match port {
            PortRecord::Named(name) => Some(name),
            PortRecord::Range { .. } => None,
        })
    }

    /// Whether it means nodes by their labels.
    pub fn means_nodes(&self) -> bool {
        let rules = self.ingress.iter().chain(&self.egress).flatten();
        rules.flat_map(|rule| rule.peers.these()).any(|peer| matches!(peer, PeerRecord::Nodes(_)))
    }
}

impl RuleRecord {
    /// A rule that drops everything.
    pub fn deny_all(name: String) -> Self {
        Self { name, action: PolicyAction::Deny, peers: Which::Any, ports: Which::Any }
    }
}

impl<T> Which<T> {
    /// Reads a list that means all where it is missing or empty. What of it cannot be read means none.
    pub fn read<'a, S: 'a>(
        list: Option<&'a Vec<S>>,
        field: &str,
        mut read: impl FnMut(&'a S, &str) -> Option<T>,
    ) -> Self {
        let list = list.filter(|list| !list.is_empty());
        list.map_or(Self::Any, |list| {
            let entries = list.iter().enumerate();
            Self::These(entries.filter_map(|(i, entry)| read(entry, &format!("{field}[{i}]"))).collect())
        })
    }

    /// Those that are named; none where all are meant.
    pub fn these(&self) -> &[T] {
        match self {
            Self::Any => &[],
            Self::These(list) => list,
        }
    }
}

impl Block {
    /// A block whose exceptions are parts of it.
    pub fn new(prefix: IpNet, mut except: Vec<IpNet>) -> Result<Self, String> {
        except.sort_unstable();
        except.dedup();
        let outside = except.iter().find(|part| !prefix.contains(*part) || **part == prefix);
        match outside {
            Some(part) => Err(format!("{part} is no part of {prefix}")),
            None => Ok(Self { prefix, except }),
        }
    }
}

impl PortRecord {
    /// All ports of a protocol.
    pub const fn all(protocol: ServiceProtocol) -> Self {
        Self::Range { protocol, first: 0, last: u16::MAX }
    }

    /// Ports from one to another, both included.
    pub fn range(protocol: ServiceProtocol, first: Port, last: Port) -> Result<Self, String> {
        if last < first {
            return Err(format!("{last} is below the port {first}"));
        }
        Ok(Self::Range { protocol, first: first.get(), last: last.get() })
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.prefix)?;
        for (i, part) in self.except.iter().enumerate() {
            write!(f, "{} {part}", if i == 0 { " except" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {}", self.protocol, self.name)
    }
}
