//! What each policy and rule has decided, as it is counted.

mod support;

use support::{
    ACK, Conversation, FAMILIES, MEMBER_PORT, SYN, Voice, address, allow, drop_policy, egress, hold, in_set,
    ingress, one_port, peer_set, policy_id, protocols, rule, select, voices,
};
use vrouter_forward::sim::Cluster;
use vrouter_objects::{Peers, Policy, PolicyAction, PolicyDirection, Ports, ServiceProtocol, Tier};

/// What one direction of a policy has decided on a node: by its rules, and for want of one.
fn counts(cluster: &Cluster, node: usize, policy: u32, direction: PolicyDirection) -> (Vec<u64>, u64) {
    let uses = cluster.nodes[node].tables.policy_use(policy_id(policy)).expect("a policy that is held");
    let of = match direction {
        PolicyDirection::Ingress => uses.ingress,
        PolicyDirection::Egress => uses.egress,
    };
    (of.rules, of.unmatched)
}

const IN: PolicyDirection = PolicyDirection::Ingress;
const OUT: PolicyDirection = PolicyDirection::Egress;

/// Flows are counted once, whatever passes by them; what is dropped is counted each time, where the pod is.
#[test]
fn a_rule_counts_the_flows_that_it_lets_pass_and_isolation_the_packets_that_it_drops() {
    for ((family, protocol), far) in protocols().flat_map(|case| [(case, 0), (case, 1)]) {
        let mut cluster = Cluster::new(2);
        let (client, stranger, server) = (cluster.pod(0), cluster.pod(0), cluster.pod(far));
        cluster.put(&peer_set(1, &[&client]));
        let rules =
            [allow(Peers::Any, one_port(protocol, 81)), allow(in_set(1), one_port(protocol, MEMBER_PORT))];
        hold(&mut cluster, ingress(1, &rules));
        hold(&mut cluster, ingress(2, &[]));
        select(&mut cluster, &server, &[1, 2]);
        let label = format!("{family:?} {protocol} to node {far}");
        let voice = Voice::Service(protocol);
        let to = address(&server, family);
        for from_port in [4000, 4001, 4002] {
            let asked = Conversation::of(&client, voice, to, MEMBER_PORT).by(from_port);
            let there = asked.must_open(&mut cluster);
            (0..5).for_each(|_| asked.must_go_on(&mut cluster, &there));
        }
        assert_eq!(counts(&cluster, far, 1, IN), (vec![0, 3], 0), "{label}");
        assert_eq!(counts(&cluster, far, 2, IN), (vec![], 0), "{label}");
        let refused = Conversation::of(&stranger, voice, to, MEMBER_PORT);
        (0..4).for_each(|_| assert_eq!(refused.say(&mut cluster, SYN), [], "{label}"));
        // Both govern it, and neither lets it pass.
        assert_eq!(counts(&cluster, far, 1, IN), (vec![0, 3], 4), "{label}");
        assert_eq!(counts(&cluster, far, 2, IN), (vec![], 4), "{label}");
        Conversation::of(&stranger, voice, to, 81).must_open(&mut cluster);
        assert_eq!(counts(&cluster, far, 1, IN), (vec![1, 3], 4), "{label}");
        assert_eq!(counts(&cluster, far, 1, OUT), (vec![], 0), "{label}");
        if far == 1 {
            assert_eq!(counts(&cluster, 0, 1, IN), (vec![0, 0], 0), "{label}: only where the pod is");
        }
    }
}

#[test]
fn what_a_rule_denies_is_counted_by_packets() {
    for (family, voice) in voices() {
        let mut cluster = Cluster::new(2);
        let (client, server) = (cluster.pod(0), cluster.pod(1));
        let asked = Conversation::of(&client, voice, address(&server, family), MEMBER_PORT);
        let there = asked.must_open(&mut cluster);
        let rules = vec![rule(PolicyAction::Deny, Peers::Any, Ports::Any)];
        hold(&mut cluster, Policy { egress: Some(rules), ..support::policy(1, Tier::Admin(1)) });
        select(&mut cluster, &client, &[1]);
        let label = format!("{family:?} {voice:?}");
        // What stood, and what would begin.
        for count in 1..=3 {
            assert_eq!(asked.heard(&mut cluster, ACK), None, "{label}");
            assert_eq!(counts(&cluster, 0, 1, OUT), (vec![count], 0), "{label}");
        }
        let new = asked.clone().by(4001);
        assert_eq!(new.heard(&mut cluster, SYN), None, "{label}");
        assert_eq!(counts(&cluster, 0, 1, OUT), (vec![4], 0), "{label}");
        assert!(!asked.is_answered(&mut cluster, &there, ACK), "{label}");
    }
}

/// On one node, both ends have their say about each packet until a flow begins.
#[test]
fn what_the_other_end_refuses_was_not_let_pass() {
    for (family, voice) in voices() {
        let mut cluster = Cluster::new(1);
        let (client, server) = (cluster.pod(0), cluster.pod(0));
        hold(&mut cluster, egress(1, &[allow(Peers::Any, Ports::Any)]));
        hold(&mut cluster, ingress(2, &[]));
        select(&mut cluster, &client, &[1]);
        select(&mut cluster, &server, &[2]);
        let asked = Conversation::of(&client, voice, address(&server, family), MEMBER_PORT);
        (0..3).for_each(|_| assert_eq!(asked.heard(&mut cluster, SYN), None, "{asked:?}"));
        assert_eq!(counts(&cluster, 0, 1, OUT), (vec![0], 0), "{asked:?}");
        assert_eq!(counts(&cluster, 0, 2, IN), (vec![], 3), "{asked:?}");
    }
}

/// It is reset, though it might begin.
#[test]
fn a_connection_that_nobody_knows_was_not_let_pass() {
    for (family, far) in FAMILIES.into_iter().flat_map(|family| [(family, 0), (family, 1)]) {
        let mut cluster = Cluster::new(2);
        let (client, server) = (cluster.pod(0), cluster.pod(far));
        hold(&mut cluster, ingress(1, &[allow(Peers::Any, Ports::Any)]));
        select(&mut cluster, &server, &[1]);
        let tcp = Voice::Service(ServiceProtocol::Tcp);
        let asked = Conversation::of(&client, tcp, address(&server, family), MEMBER_PORT);
        (0..3).for_each(|_| assert_eq!(asked.heard(&mut cluster, ACK), None, "{asked:?}"));
        assert_eq!(counts(&cluster, far, 1, IN), (vec![0], 0), "{asked:?}");
        asked.by(4001).must_open(&mut cluster);
        assert_eq!(counts(&cluster, far, 1, IN), (vec![1], 0));
    }
}

/// What an administrator leaves to others is counted where it is left, if they let it pass, and where it is decided.
#[test]
fn a_rule_that_passes_on_counts_what_is_let_pass_after_it() {
    let administrators = [Tier::Admin(1), Tier::Baseline(1)].into_iter().zip(1..);
    for ((family, voice), (tier, number)) in
        voices().flat_map(|case| administrators.clone().map(move |of| (case, of)))
    {
        let mut cluster = Cluster::new(1);
        let (client, server) = (cluster.pod(0), cluster.pod(0));
        let pass = vec![rule(PolicyAction::Pass, Peers::Any, Ports::Any)];
        hold(&mut cluster, Policy { egress: Some(pass), ..support::policy(number, tier) });
        hold(&mut cluster, egress(3, &[]));
        let asked = Conversation::of(&client, voice, address(&server, family), MEMBER_PORT);
        let label = format!("{family:?} {voice:?} {tier:?}");
        select(&mut cluster, &client, &[number]);
        asked.must_open(&mut cluster);
        assert_eq!(counts(&cluster, 0, number, OUT), (vec![1], 0), "{label}");
        select(&mut cluster, &client, &[number, 3]);
        assert_eq!(asked.by(4001).heard(&mut cluster, SYN), None, "{label}");
        assert_eq!(counts(&cluster, 0, number, OUT), (vec![1], 0), "{label}");
        assert_eq!(counts(&cluster, 0, 3, OUT), (vec![], 1), "{label}");
    }
}

/// Changes of other things lose no count; a rule that is another one begins anew.
#[test]
fn counts_last_as_long_as_their_rules() {
    let mut cluster = Cluster::new(1);
    let (client, server) = (cluster.pod(0), cluster.pod(0));
    let tcp = ServiceProtocol::Tcp;
    let (first, second) = (allow(Peers::Any, one_port(tcp, 80)), allow(Peers::Any, one_port(tcp, 81)));
    hold(&mut cluster, egress(1, &[first.clone(), second]));
    select(&mut cluster, &client, &[1]);
    let ask = |cluster: &mut Cluster, port, from_port| {
        Conversation::of(&client, Voice::Service(tcp), server.v4, port).by(from_port).is_open(cluster)
    };
    assert!(ask(&mut cluster, 80, 4000) && ask(&mut cluster, 81, 4001) && !ask(&mut cluster, 82, 4002));
    assert_eq!(counts(&cluster, 0, 1, OUT), (vec![1, 1], 1));
    select(&mut cluster, &client, &[]);
    select(&mut cluster, &client, &[1]);
    assert_eq!(counts(&cluster, 0, 1, OUT), (vec![1, 1], 1), "whom it selects is not what it says");
    hold(&mut cluster, egress(1, &[first, allow(Peers::Any, one_port(tcp, 82))]));
    assert_eq!(counts(&cluster, 0, 1, OUT), (vec![1, 0], 1));
    assert!(ask(&mut cluster, 82, 4003));
    assert_eq!(counts(&cluster, 0, 1, OUT), (vec![1, 1], 1));
    drop_policy(&mut cluster, 1);
    assert_eq!(cluster.nodes[0].tables.policy_use(policy_id(1)), None);
}
