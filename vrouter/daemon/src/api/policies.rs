//! Network policies with what they did here, as the local API shows them.

use std::collections::BTreeMap;

use vrouter_forward::policy::{DirectionUse, PolicyUse};
use vrouter_objects::{Object, PodBinding, Policy, PolicyId};
use vrouter_proto::v1;

use super::tables::pieces;
use crate::agent::{Agent, State};

/// Every policy, in the order they are asked, and with the last piece those that are missing.
pub(super) fn policies(agent: &Agent) -> Vec<v1::PolicyTable> {
    let state = agent.state();
    let mut selected = selected(&state);
    let mut policies: Vec<_> = held(&state).collect();
    policies.sort_by(|one, other| (one.tier, &one.name, one.id).cmp(&(other.tier, &other.name, other.id)));
    let rows = policies.into_iter().map(|policy| {
        let pods = selected.remove(&policy.id).unwrap_or_default();
        let used = state.tables.policy_use(policy.id).unwrap_or_default();
        row(policy, &pods, used)
    });
    let pieces = pieces(rows.collect());
    let mut tables: Vec<_> =
        pieces.into_iter().map(|policies| v1::PolicyTable { policies, missing: Vec::new() }).collect();
    if let Some(last) = tables.last_mut() {
        last.missing = selected.into_iter().map(missing).collect();
    }
    tables
}

/// The policies that are held.
pub(super) fn held(state: &State) -> impl Iterator<Item = &Policy> {
    state.tables.objects().filter_map(|object| match object {
        Object::Policy(policy) => Some(policy),
        _ => None,
    })
}

/// The pods of this node that each policy selects.
fn selected(state: &State) -> BTreeMap<PolicyId, Vec<&PodBinding>> {
    let mut selected: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for object in state.tables.objects() {
        let Object::PodBinding(binding) = object else { continue };
        for policy in &binding.policies {
            selected.entry(*policy).or_default().push(binding);
        }
    }
    selected
}

fn row(policy: &Policy, pods: &[&PodBinding], used: PolicyUse) -> v1::HeldPolicy {
    v1::HeldPolicy {
        policy: Some(policy.into()),
        pods: pods.iter().map(|binding| pod(binding)).collect(),
        egress: Some(direction(used.egress)),
        ingress: Some(direction(used.ingress)),
    }
}

fn missing((policy, pods): (PolicyId, Vec<&PodBinding>)) -> v1::MissingPolicy {
    v1::MissingPolicy { policy: policy.get(), pods: pods.into_iter().map(pod).collect() }
}

fn pod(binding: &PodBinding) -> v1::SelectedPod {
    v1::SelectedPod {
        pod: Some((&binding.pod).into()),
        ports: binding.ports.iter().map(Into::into).collect(),
    }
}

fn direction(used: DirectionUse) -> v1::DirectionUse {
    v1::DirectionUse { rules: used.rules, unmatched: used.unmatched }
}

#[cfg(test)]
mod tests {
    use vrouter_objects::{Peers, PolicyAction, PolicyRule, Ports, Tier};

    use super::*;
    use crate::testing::{TestNode, basics, pod, vrf};

    fn policy(id: u32, name: &str, tier: Tier) -> Policy {
        let rule = PolicyRule {
            name: "ingress[0]".to_owned(),
            action: PolicyAction::Allow,
            peers: Peers::Any,
            ports: Ports::Any,
        };
        Policy {
            id: PolicyId::new(id).unwrap(),
            name: name.to_owned(),
            tier,
            ingress: Some(vec![rule]),
            egress: None,
        }
    }

    fn binding(name: &str, policies: &[u32]) -> Object {
        let policies = policies.iter().map(|id| PolicyId::new(*id).unwrap()).collect();
        Object::PodBinding(PodBinding { policies, ..PodBinding::new(pod(name), name, vrf()) })
    }

    #[test]
    fn policies_come_in_the_order_they_are_asked_and_what_is_missing_is_told() {
        let node = TestNode::new();
        let mut objects = basics();
        let policies = [
            policy(1, "NetworkPolicy shop/b", Tier::Namespace),
            policy(2, "ClusterNetworkPolicy last", Tier::Baseline(0)),
            policy(3, "NetworkPolicy shop/a", Tier::Namespace),
            policy(4, "ClusterNetworkPolicy second", Tier::Admin(9)),
            policy(5, "ClusterNetworkPolicy first", Tier::Admin(3)),
        ];
        objects.extend(policies.iter().cloned().map(Object::Policy));
        objects.extend([binding("web", &[1, 4, 9]), binding("db", &[1])]);
        node.apply(1, &objects).unwrap();

        let tables = policies_of(&node);
        let pods = |pods: &[v1::SelectedPod]| -> Vec<String> {
            pods.iter().map(|selected| selected.pod.clone().unwrap().name).collect()
        };
        let told: Vec<_> = tables
            .iter()
            .flat_map(|table| &table.policies)
            .map(|held| (held.policy.clone().unwrap().id, pods(&held.pods)))
            .collect();
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            told,
            [
                (5, named(&[])),
                (4, named(&["web"])),
                (3, named(&[])),
                (1, named(&["db", "web"])),
                (2, named(&[]))
            ]
        );
        let first = tables[0].policies[0].ingress.clone().unwrap();
        assert_eq!(first, v1::DirectionUse { rules: vec![0], unmatched: 0 });
        let missing: Vec<_> = tables.iter().flat_map(|table| &table.missing).collect();
        assert_eq!(missing.len(), 1);
        assert_eq!((missing[0].policy, pods(&missing[0].pods)), (9, named(&["web"])));
    }

    fn policies_of(node: &TestNode) -> Vec<v1::PolicyTable> {
        super::policies(&node.agent)
    }
}
