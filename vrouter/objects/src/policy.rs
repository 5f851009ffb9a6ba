//! Network policy: who may talk to whom.
//!
//! The controller compiles NetworkPolicy and ClusterNetworkPolicy to these. A pod's binding names the policies that select
//! it; rules name peers by sets that many rules share, and each address of a set is an object of its own, so that a pod that
//! comes, goes or is relabelled is one small change.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::{PeerSetId, PolicyId, Port, ServiceProtocol, VrfId};

/// One policy, as it is held by the nodes that have a pod which it selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The policy.
    pub id: PolicyId,
    /// What people call it, such as `NetworkPolicy shop/deny-all`.
    pub name: String,
    /// When it is asked.
    pub tier: Tier,
    /// What may come to the pods that it selects; `None`: it does not say.
    pub ingress: Option<Vec<PolicyRule>>,
    /// What may leave them; `None`: it does not say.
    pub egress: Option<Vec<PolicyRule>>,
}

/// When a policy is asked, first to last. Within a tier, the lower priority is asked first, and of two equals the one whose name
/// is first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// The cluster's administrator has the first word: the first rule that matches decides. The priority is 0 to 1000.
    Admin(u16),
    /// NetworkPolicies of the namespace: what one of them allows is allowed, and what none allows is denied where one of them
    /// governs the direction.
    Namespace,
    /// The administrator's last word, where no NetworkPolicy governs the direction. The priority is 0 to 1000.
    Baseline(u16),
}

/// Which way a rule looks, from the pod that its policy selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyDirection {
    /// To the pod.
    Ingress,
    /// From the pod.
    Egress,
}

/// One rule of one direction of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyRule {
    /// What people find it by: its own name, or its place, such as `egress[2]`. One rule of theirs may be several here,
    /// which bear the same name.
    pub name: String,
    /// What becomes of what matches. A policy of the namespace's tier only allows.
    pub action: PolicyAction,
    /// Whom it is about: who sends, for ingress; whom it is for, for egress.
    pub peers: Peers,
    /// Which ports, on the side of whoever is spoken to.
    pub ports: Ports,
}

/// What becomes of what a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyAction {
    /// It goes on.
    Allow,
    /// It is dropped.
    Deny,
    /// The next tier decides.
    Pass,
}

/// Whom a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peers {
    /// Everybody, within the cluster and beyond.
    Any,
    /// Those that one of these is; nobody where there is none.
    These(Vec<Peer>),
}

/// Some of those whom a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// Those whose address is in this set.
    Set(PeerSetId),
    /// Those whose address is in this prefix, and in none of these, whatever pod it may be.
    Block {
        /// Who is meant.
        prefix: IpNet,
        /// Who of them is not. Another block may mean them nevertheless.
        except: Vec<IpNet>,
    },
}

/// Which ports a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ports {
    /// All of all protocols, those without ports too.
    Any,
    /// Those that one of these is.
    These(Vec<PortMatch>),
}

/// Some ports of one protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortMatch {
    /// From the first to the last, both included.
    Range {
        /// The protocol.
        protocol: ServiceProtocol,
        /// The first port.
        first: u16,
        /// The last port.
        last: u16,
    },
    /// The port that the selected pod itself calls so, by its binding; none where it has none of that name. For ingress.
    Own {
        /// The protocol.
        protocol: ServiceProtocol,
        /// The name.
        name: String,
    },
    /// The port that the peer's address bears in the set that it is found in. For egress.
    Peer {
        /// The protocol.
        protocol: ServiceProtocol,
    },
}

/// A set of addresses that rules refer to. It is what people read; who is in it, its [`PeerAddress`]es say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerSet {
    /// The set.
    pub id: PeerSetId,
    /// Whom it means, as people read it, such as `pods app=web in namespace shop`.
    pub name: String,
}

/// One address of one peer set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerAddress {
    /// What names it.
    pub key: PeerAddressKey,
    /// The port that the set is about, where it is about a named one.
    pub port: Option<Port>,
}

/// What names an address of a peer set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerAddressKey {
    /// The set.
    pub set: PeerSetId,
    /// Whose address space it is an address of (`RoutingInstance::address_space`).
    pub space: VrfId,
    /// The address.
    pub address: IpAddr,
}

impl Peers {
    /// Those that are named one by one; none where everybody is meant.
    pub fn named(&self) -> &[Peer] {
        match self {
            Self::Any => &[],
            Self::These(peers) => peers,
        }
    }
}

impl PolicyDirection {
    /// Both, in the order a packet meets them.
    pub const BOTH: [Self; 2] = [Self::Egress, Self::Ingress];
}

impl Policy {
    /// Its rules of a direction; `None`: it does not govern it.
    pub fn rules(&self, direction: PolicyDirection) -> Option<&[PolicyRule]> {
        match direction {
            PolicyDirection::Ingress => self.ingress.as_deref(),
            PolicyDirection::Egress => self.egress.as_deref(),
        }
    }
}

impl std::fmt::Display for PolicyDirection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        })
    }
}

impl std::fmt::Display for PolicyAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Pass => "pass",
        })
    }
}

impl std::fmt::Display for PeerAddressKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of vrf {} in peer set {}", self.address, self.space, self.set)
    }
}
