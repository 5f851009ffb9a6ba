//! Network policies as a node holds them.

#[cfg(test)]
pub(crate) mod testing;

use std::collections::HashMap;

use vrouter_objects::{
    NamedPort, PeerSet, PeerSetId, PodName, Policy, PolicyAction, PolicyDirection, PolicyId,
};
use vrouter_proto::convert::ConvertError;
use vrouter_proto::v1;

use crate::client::Client;
use crate::error::CliError;
use crate::near::near_names;

/// What a node holds of network policy.
#[derive(Debug, Default)]
pub(crate) struct PolicyView {
    /// In the order they are asked.
    pub(crate) policies: Vec<HeldPolicy>,
    /// Those that select pods of the node without being held.
    pub(crate) missing: Vec<MissingPolicy>,
    /// The sets that rules refer to.
    pub(crate) sets: PeerSets,
}

/// A policy with what it did on the node.
#[derive(Debug)]
pub(crate) struct HeldPolicy {
    pub(crate) policy: Policy,
    /// The pods of the node that it selects.
    pub(crate) pods: Vec<SelectedPod>,
    egress: v1::DirectionUse,
    ingress: v1::DirectionUse,
}

/// A policy that selects pods of the node, which does not hold it.
#[derive(Debug)]
pub(crate) struct MissingPolicy {
    pub(crate) id: PolicyId,
    pub(crate) pods: Vec<SelectedPod>,
}

/// A pod that a policy selects.
#[derive(Debug)]
pub(crate) struct SelectedPod {
    pub(crate) pod: PodName,
    /// Its named ports, as far as policies speak of them.
    pub(crate) ports: Vec<NamedPort>,
}

/// Peer sets in brief.
#[derive(Debug, Default)]
pub(crate) struct PeerSets(HashMap<PeerSetId, (String, u32)>);

impl PolicyView {
    /// Asks for it.
    pub(crate) async fn ask(client: &mut Client) -> Result<Self, CliError> {
        let table = client.policies().await?;
        let sets = PeerSets::ask(client).await?;
        Ok(Self::read(table, sets)?)
    }

    /// Of what a node answers.
    pub(crate) fn read(table: v1::PolicyTable, sets: PeerSets) -> Result<Self, ConvertError> {
        let policies = table.policies.into_iter().map(HeldPolicy::try_from).collect::<Result<_, _>>()?;
        let missing = table.missing.into_iter().map(MissingPolicy::try_from).collect::<Result<_, _>>()?;
        Ok(Self { policies, missing, sets })
    }

    /// The same with only the policy of this name, with its kind or without.
    pub(crate) fn only(mut self, name: &str) -> Result<Self, CliError> {
        let (of_name, others): (Vec<_>, Vec<_>) =
            self.policies.into_iter().partition(|held| is_called(&held.policy.name, name));
        if of_name.is_empty() {
            let names = others.iter().map(|held| without_kind(&held.policy.name));
            let near = near_names(without_kind(name), names);
            return Err(CliError::UnknownPolicy { name: name.to_owned(), near });
        }
        self.policies = of_name;
        self.missing.clear();
        Ok(self)
    }
}

impl HeldPolicy {
    /// What a direction did: as many rules as it has.
    pub(crate) fn used(&self, direction: PolicyDirection) -> &v1::DirectionUse {
        match direction {
            PolicyDirection::Egress => &self.egress,
            PolicyDirection::Ingress => &self.ingress,
        }
    }

    /// New flows that its rules let go on.
    pub(crate) fn flows(&self) -> u64 {
        self.counts().filter(|(action, _)| *action != PolicyAction::Deny).map(|(_, count)| count).sum()
    }

    /// Packets that were dropped by a rule of it, or since no rule let them pass.
    pub(crate) fn dropped(&self) -> u64 {
        let denied =
            self.counts().filter(|(action, _)| *action == PolicyAction::Deny).map(|(_, count)| count);
        denied.chain([self.egress.unmatched, self.ingress.unmatched]).sum()
    }

    /// How often each rule decided, with what it does.
    fn counts(&self) -> impl Iterator<Item = (PolicyAction, u64)> {
        PolicyDirection::BOTH.into_iter().flat_map(|direction| {
            let rules = self.policy.rules(direction).unwrap_or_default();
            rules.iter().map(|rule| rule.action).zip(self.used(direction).rules.iter().copied())
        })
    }
}

impl PeerSets {
    /// Asks for them.
    pub(crate) async fn ask(client: &mut Client) -> Result<Self, CliError> {
        Ok(Self::of(client.peer_sets().await?))
    }

    /// Of what a node answers.
    pub(crate) fn of(sets: Vec<v1::HeldPeerSet>) -> Self {
        let named = sets.into_iter().filter_map(|held| {
            let set = PeerSet::try_from(held.set?).ok()?;
            Some((set.id, (set.name, held.addresses)))
        });
        Self(named.collect())
    }

    /// What a set is called, and how many addresses are in it; `None`: the node does not hold it.
    pub(crate) fn get(&self, set: PeerSetId) -> Option<(&str, u32)> {
        self.0.get(&set).map(|(name, addresses)| (name.as_str(), *addresses))
    }
}

impl TryFrom<v1::HeldPolicy> for HeldPolicy {
    type Error = ConvertError;

    fn try_from(message: v1::HeldPolicy) -> Result<Self, ConvertError> {
        Ok(Self {
            policy: message.policy.unwrap_or_default().try_into()?,
            pods: pods(message.pods)?,
            egress: message.egress.unwrap_or_default(),
            ingress: message.ingress.unwrap_or_default(),
        })
    }
}

impl TryFrom<v1::MissingPolicy> for MissingPolicy {
    type Error = ConvertError;

    fn try_from(message: v1::MissingPolicy) -> Result<Self, ConvertError> {
        Ok(Self { id: PolicyId::new(message.policy)?, pods: pods(message.pods)? })
    }
}

fn pods(messages: Vec<v1::SelectedPod>) -> Result<Vec<SelectedPod>, ConvertError> {
    let pod = |message: v1::SelectedPod| {
        Ok(SelectedPod {
            pod: message.pod.unwrap_or_default().try_into()?,
            ports: message.ports.iter().map(NamedPort::try_from).collect::<Result<_, _>>()?,
        })
    };
    messages.into_iter().map(pod).collect()
}

fn is_called(policy: &str, wanted: &str) -> bool {
    policy == wanted || without_kind(policy) == wanted
}

/// What a policy is called within its kind: `shop/front` of `NetworkPolicy shop/front`.
fn without_kind(name: &str) -> &str {
    name.split_once(' ').map_or(name, |(_, own)| own)
}
