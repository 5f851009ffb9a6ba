//! Network policies and the sets of peers that they refer to.

use vrouter_objects::{
    IpNet, Peer, PeerAddress, PeerAddressKey, PeerSet, PeerSetId, Peers, Policy, PolicyAction, PolicyId,
    PolicyRule, Port, PortMatch, Ports, Tier, VrfId,
};

use super::address::{name, prefix, unicast};
use super::error::{ConvertError, Problem, Within, each};
use super::protocol::service_protocol;
use crate::v1;

/// The highest priority number that the API knows.
const MAX_PRIORITY: u16 = 1000;

impl From<&Policy> for v1::Policy {
    fn from(policy: &Policy) -> Self {
        let (tier, priority) = match policy.tier {
            Tier::Admin(priority) => (v1::PolicyTier::Admin, priority),
            Tier::Namespace => (v1::PolicyTier::Namespace, 0),
            Tier::Baseline(priority) => (v1::PolicyTier::Baseline, priority),
        };
        let rules =
            |rules: &Vec<PolicyRule>| v1::PolicyRules { rules: rules.iter().map(Into::into).collect() };
        Self {
            id: policy.id.get(),
            name: policy.name.clone(),
            tier: tier.into(),
            priority: priority.into(),
            ingress: policy.ingress.as_ref().map(rules),
            egress: policy.egress.as_ref().map(rules),
        }
    }
}

impl TryFrom<v1::Policy> for Policy {
    type Error = ConvertError;

    fn try_from(message: v1::Policy) -> Result<Self, ConvertError> {
        let tier = tier(message.tier, message.priority)?;
        Ok(Self {
            id: PolicyId::new(message.id).within("id")?,
            name: name(message.name).within("name")?,
            tier,
            ingress: rules(message.ingress, tier).within("ingress")?,
            egress: rules(message.egress, tier).within("egress")?,
        })
    }
}

fn tier(number: i32, priority: u32) -> Result<Tier, ConvertError> {
    let checked = u16::try_from(priority).ok().filter(|priority| *priority <= MAX_PRIORITY);
    let checked = checked.ok_or(Problem::Priority(priority)).within("priority")?;
    match v1::PolicyTier::try_from(number) {
        Ok(v1::PolicyTier::Admin) => Ok(Tier::Admin(checked)),
        Ok(v1::PolicyTier::Baseline) => Ok(Tier::Baseline(checked)),
        Ok(v1::PolicyTier::Namespace) if checked == 0 => Ok(Tier::Namespace),
        Ok(v1::PolicyTier::Namespace) => Err(Problem::Priority(priority)).within("priority"),
        Ok(v1::PolicyTier::Unspecified) | Err(_) => Err(Problem::UnknownValue(number)).within("tier"),
    }
}

fn rules(message: Option<v1::PolicyRules>, tier: Tier) -> Result<Option<Vec<PolicyRule>>, ConvertError> {
    let Some(message) = message else { return Ok(None) };
    let rule = |message: &v1::PolicyRule| {
        let rule = PolicyRule::try_from(message)?;
        if tier == Tier::Namespace && rule.action != PolicyAction::Allow {
            return Err(Problem::TierAction).within("action");
        }
        Ok(rule)
    };
    each("rules", &message.rules, rule).map(Some)
}

impl From<&PolicyRule> for v1::PolicyRule {
    fn from(rule: &PolicyRule) -> Self {
        let action = match rule.action {
            PolicyAction::Allow => v1::PolicyAction::Allow,
            PolicyAction::Deny => v1::PolicyAction::Deny,
            PolicyAction::Pass => v1::PolicyAction::Pass,
        };
        let peers = match &rule.peers {
            Peers::Any => None,
            Peers::These(peers) => Some(v1::Peers { peers: peers.iter().map(Into::into).collect() }),
        };
        let ports = match &rule.ports {
            Ports::Any => None,
            Ports::These(ports) => Some(v1::Ports { ports: ports.iter().map(Into::into).collect() }),
        };
        Self { name: rule.name.clone(), action: action.into(), peers, ports }
    }
}

impl TryFrom<&v1::PolicyRule> for PolicyRule {
    type Error = ConvertError;

    fn try_from(message: &v1::PolicyRule) -> Result<Self, ConvertError> {
        let peers = match &message.peers {
            None => Peers::Any,
            Some(peers) => {
                Peers::These(each("peers", &peers.peers, |peer| Peer::try_from(peer)).within("peers")?)
            }
        };
        let ports = match &message.ports {
            None => Ports::Any,
            Some(ports) => {
                Ports::These(each("ports", &ports.ports, |port| PortMatch::try_from(port)).within("ports")?)
            }
        };
        Ok(Self {
            name: name(message.name.clone()).within("name")?,
            action: action(message.action).within("action")?,
            peers,
            ports,
        })
    }
}

fn action(number: i32) -> Result<PolicyAction, Problem> {
    match v1::PolicyAction::try_from(number) {
        Ok(v1::PolicyAction::Allow) => Ok(PolicyAction::Allow),
        Ok(v1::PolicyAction::Deny) => Ok(PolicyAction::Deny),
        Ok(v1::PolicyAction::Pass) => Ok(PolicyAction::Pass),
        Ok(v1::PolicyAction::Unspecified) | Err(_) => Err(Problem::UnknownValue(number)),
    }
}

impl From<&Peer> for v1::Peer {
    fn from(peer: &Peer) -> Self {
        let kind = match peer {
            Peer::Set(set) => v1::peer::Kind::Set(set.get()),
            Peer::Block { prefix, except } => v1::peer::Kind::Block(v1::Block {
                prefix: Some((*prefix).into()),
                except: except.iter().map(|prefix| (*prefix).into()).collect(),
            }),
        };
        Self { kind: Some(kind) }
    }
}

impl TryFrom<&v1::Peer> for Peer {
    type Error = ConvertError;

    fn try_from(message: &v1::Peer) -> Result<Self, ConvertError> {
        Ok(match message.kind.as_ref().ok_or(Problem::Missing)? {
            v1::peer::Kind::Set(set) => Self::Set(PeerSetId::new(*set).within("set")?),
            v1::peer::Kind::Block(block) => Self::Block {
                prefix: prefix(block.prefix.as_ref()).within("prefix").within("block")?,
                except: each("except", &block.except, |prefix| IpNet::try_from(prefix)).within("block")?,
            },
        })
    }
}

impl From<&PortMatch> for v1::PortMatch {
    fn from(port: &PortMatch) -> Self {
        let (protocol, kind) = match port {
            PortMatch::Range { protocol, first, last } => {
                let range = v1::PortRange { first: (*first).into(), last: (*last).into() };
                (protocol, v1::port_match::Kind::Range(range))
            }
            PortMatch::Own { protocol, name } => (protocol, v1::port_match::Kind::Own(name.clone())),
            PortMatch::Peer { protocol } => (protocol, v1::port_match::Kind::Peer(v1::Empty {})),
        };
        Self { protocol: v1::ServiceProtocol::from(*protocol).into(), kind: Some(kind) }
    }
}

impl TryFrom<&v1::PortMatch> for PortMatch {
    type Error = ConvertError;

    fn try_from(message: &v1::PortMatch) -> Result<Self, ConvertError> {
        let protocol = service_protocol(message.protocol).within("protocol")?;
        Ok(match message.kind.as_ref().ok_or(Problem::Missing)? {
            v1::port_match::Kind::Range(range) => {
                let (first, last) = port_range(range).within("range")?;
                Self::Range { protocol, first, last }
            }
            v1::port_match::Kind::Own(text) => {
                Self::Own { protocol, name: name(text.clone()).within("own")? }
            }
            v1::port_match::Kind::Peer(v1::Empty {}) => Self::Peer { protocol },
        })
    }
}

fn port_range(&v1::PortRange { first, last }: &v1::PortRange) -> Result<(u16, u16), Problem> {
    match (u16::try_from(first), u16::try_from(last)) {
        (Ok(first), Ok(last)) if first <= last => Ok((first, last)),
        _ => Err(Problem::PortRange { first, last }),
    }
}

impl From<&PeerSet> for v1::PeerSet {
    fn from(set: &PeerSet) -> Self {
        Self { id: set.id.get(), name: set.name.clone() }
    }
}

impl TryFrom<v1::PeerSet> for PeerSet {
    type Error = ConvertError;

    fn try_from(message: v1::PeerSet) -> Result<Self, ConvertError> {
        Ok(Self { id: PeerSetId::new(message.id).within("id")?, name: name(message.name).within("name")? })
    }
}

impl From<&PeerAddress> for v1::PeerAddress {
    fn from(address: &PeerAddress) -> Self {
        Self { key: Some((&address.key).into()), port: address.port.map_or(0, |port| port.get().into()) }
    }
}

impl TryFrom<v1::PeerAddress> for PeerAddress {
    type Error = ConvertError;

    fn try_from(message: v1::PeerAddress) -> Result<Self, ConvertError> {
        Ok(Self {
            key: message.key.within("key")?.try_into().within("key")?,
            port: match message.port {
                0 => None,
                number => Some(Port::new(number.into()).within("port")?),
            },
        })
    }
}

impl From<&PeerAddressKey> for v1::PeerAddressKey {
    fn from(key: &PeerAddressKey) -> Self {
        Self { set: key.set.get(), space: key.space.get(), address: Some(key.address.into()) }
    }
}

impl TryFrom<v1::PeerAddressKey> for PeerAddressKey {
    type Error = ConvertError;

    fn try_from(message: v1::PeerAddressKey) -> Result<Self, ConvertError> {
        Ok(Self {
            set: PeerSetId::new(message.set).within("set")?,
            space: VrfId::new(message.space).within("space")?,
            address: unicast(message.address.as_ref()).within("address")?,
        })
    }
}
