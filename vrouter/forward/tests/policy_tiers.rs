//! The order in which policies are asked: the administrator's first, the namespace's, the administrator's last.

mod support;

use support::{Conversation, MEMBER_PORT, address, hold, one_port, policy, rule, select, voices};
use vrouter_forward::Family;
use vrouter_forward::sim::Cluster;
use vrouter_objects::PolicyAction::{Allow, Deny, Pass};
use vrouter_objects::{
    Peers, Policy, PolicyAction, PolicyDirection, PolicyRule, Ports, ServiceProtocol, Tier,
};

use support::Voice;

const NAMESPACE: Tier = Tier::Namespace;

/// Policies by their tier and the actions of their rules, each of which matches everything; and whether that lets a
/// connection begin.
type Case<'a> = (&'a [(Tier, &'a [PolicyAction])], bool);

const CASES: &[Case<'_>] = &[
    (&[], true),
    // The namespace's own word.
    (&[(NAMESPACE, &[])], false),
    (&[(NAMESPACE, &[Allow])], true),
    (&[(NAMESPACE, &[]), (NAMESPACE, &[Allow])], true),
    (&[(NAMESPACE, &[]), (NAMESPACE, &[])], false),
    // The last word, where the namespace has none.
    (&[(Tier::Baseline(0), &[Deny])], false),
    (&[(Tier::Baseline(0), &[Allow])], true),
    (&[(Tier::Baseline(0), &[])], true),
    (&[(Tier::Baseline(0), &[Deny]), (NAMESPACE, &[Allow])], true),
    (&[(Tier::Baseline(0), &[Allow]), (NAMESPACE, &[])], false),
    (&[(Tier::Baseline(1), &[Allow]), (Tier::Baseline(2), &[Deny])], true),
    (&[(Tier::Baseline(1), &[Deny]), (Tier::Baseline(2), &[Allow])], false),
    // The first word.
    (&[(Tier::Admin(0), &[Deny])], false),
    (&[(Tier::Admin(0), &[])], true),
    (&[(Tier::Admin(0), &[Deny]), (NAMESPACE, &[Allow])], false),
    (&[(Tier::Admin(0), &[Allow]), (NAMESPACE, &[])], true),
    (&[(Tier::Admin(0), &[Allow]), (Tier::Baseline(0), &[Deny])], true),
    (&[(Tier::Admin(0), &[]), (NAMESPACE, &[])], false),
    (&[(Tier::Admin(0), &[]), (NAMESPACE, &[Allow])], true),
    // Of two, the one with the lower number; of one's rules, the first.
    (&[(Tier::Admin(1), &[Allow]), (Tier::Admin(2), &[Deny])], true),
    (&[(Tier::Admin(1), &[Deny]), (Tier::Admin(2), &[Allow])], false),
    (&[(Tier::Admin(1), &[]), (Tier::Admin(2), &[Deny])], false),
    (&[(Tier::Admin(1), &[Allow, Deny])], true),
    (&[(Tier::Admin(1), &[Deny, Allow])], false),
    // Passing on is passing on to the namespace, and past those that come after in the same tier.
    (&[(Tier::Admin(1), &[Pass]), (Tier::Admin(2), &[Deny])], true),
    (&[(Tier::Admin(1), &[Pass, Deny])], true),
    (&[(Tier::Admin(1), &[Pass]), (NAMESPACE, &[])], false),
    (&[(Tier::Admin(1), &[Pass]), (NAMESPACE, &[Allow])], true),
    (&[(Tier::Admin(1), &[Pass]), (Tier::Baseline(0), &[Deny])], false),
    (&[(Tier::Admin(1), &[Pass]), (Tier::Baseline(0), &[Allow])], true),
    (&[(Tier::Admin(1), &[Pass]), (Tier::Admin(2), &[Allow]), (NAMESPACE, &[])], false),
];

fn of_direction(number: u32, tier: Tier, direction: PolicyDirection, rules: Vec<PolicyRule>) -> Policy {
    let policy = policy(number, tier);
    match direction {
        PolicyDirection::Ingress => Policy { ingress: Some(rules), ..policy },
        PolicyDirection::Egress => Policy { egress: Some(rules), ..policy },
    }
}

/// Whether a pod's connection to another begins under these policies of the one whose direction it is.
fn begins(
    (family, voice): (Family, Voice),
    direction: PolicyDirection,
    policies: impl IntoIterator<Item = Policy>,
    select_in_order: bool,
) -> bool {
    let mut cluster = Cluster::with_slots(2, 64);
    let (client, server) = (cluster.pod(0), cluster.pod(1));
    let governed = if direction == PolicyDirection::Egress { &client } else { &server };
    let mut numbers = Vec::new();
    for policy in policies {
        numbers.push(policy.id.get());
        hold(&mut cluster, policy);
    }
    if !select_in_order {
        numbers.reverse();
    }
    select(&mut cluster, governed, &numbers);
    Conversation::of(&client, voice, address(&server, family), MEMBER_PORT).is_open(&mut cluster)
}

#[test]
fn each_tier_has_its_say_in_turn() {
    for ((policies, is_open), direction) in
        CASES.iter().flat_map(|case| PolicyDirection::BOTH.map(|direction| (case, direction)))
    {
        for (case, in_order) in voices().flat_map(|case| [(case, true), (case, false)]) {
            let rules = |actions: &[PolicyAction]| {
                actions.iter().map(|action| rule(*action, Peers::Any, Ports::Any)).collect()
            };
            let built = (1..).zip(*policies);
            let built =
                built.map(|(number, (tier, actions))| of_direction(number, *tier, direction, rules(actions)));
            let label = format!("{policies:?} for {direction}, {case:?}");
            assert_eq!(begins(case, direction, built, in_order), *is_open, "{label}");
        }
    }
}

#[test]
fn of_two_with_one_priority_the_first_by_name_decides() {
    let tcp = (Family::V4, Voice::Service(ServiceProtocol::Tcp));
    for (first, second) in [(Allow, Deny), (Deny, Allow)] {
        for (direction, in_order) in
            PolicyDirection::BOTH.into_iter().flat_map(|of| [(of, true), (of, false)])
        {
            // The ids say nothing.
            let named = |number, name: &str, action| Policy {
                name: name.to_owned(),
                ..of_direction(number, Tier::Admin(5), direction, vec![rule(action, Peers::Any, Ports::Any)])
            };
            let policies =
                [named(2, "ClusterNetworkPolicy a", first), named(1, "ClusterNetworkPolicy b", second)];
            assert_eq!(
                begins(tcp, direction, policies, in_order),
                first == Allow,
                "{first} first, {direction}"
            );
        }
    }
}

/// A rule about another port does not match, so the next one is asked.
#[test]
fn the_first_rule_that_matches_decides() {
    let protocol = ServiceProtocol::Tcp;
    let tcp = (Family::V6, Voice::Service(protocol));
    for direction in PolicyDirection::BOTH {
        for (first, second, is_open) in [(Deny, Allow, true), (Allow, Deny, false)] {
            let rules = vec![
                rule(first, Peers::Any, one_port(protocol, MEMBER_PORT + 1)),
                rule(second, Peers::Any, one_port(protocol, MEMBER_PORT)),
            ];
            let policies = [of_direction(1, Tier::Admin(1), direction, rules)];
            assert_eq!(
                begins(tcp, direction, policies, true),
                is_open,
                "{first}, then {second}, {direction}"
            );
        }
    }
}

/// What governs one direction says nothing of the other.
#[test]
fn a_policy_governs_the_directions_that_it_speaks_of() {
    for case in voices() {
        for (direction, other) in [
            (PolicyDirection::Ingress, PolicyDirection::Egress),
            (PolicyDirection::Egress, PolicyDirection::Ingress),
        ] {
            let closed = of_direction(1, NAMESPACE, other, Vec::new());
            assert!(begins(case, direction, [closed.clone()], true), "{case:?} {direction}");
            // Where the namespace does not govern it, the last word counts.
            let last =
                of_direction(2, Tier::Baseline(0), direction, vec![rule(Deny, Peers::Any, Ports::Any)]);
            assert!(!begins(case, direction, [closed, last], true), "{case:?} {direction}");
        }
    }
}
