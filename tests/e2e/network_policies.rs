//! The policies of the examples, each with real connections: what its comments say must work and must not.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vrouter_tests::attempt::{Asked, Asker, Attempt, Manner, Verdict};
use vrouter_tests::lab::{Family, Lab, Place, Programs, Shape};

use crate::attempts::{carry_out, denied, probes};
use crate::example::{Example, names};
use crate::group::Group;

/// Cases that are called as the examples' files are.
macro_rules! recipes {
    ($($recipe:ident),* $(,)?) => { &[
        ("every_recipe_is_played", every_recipe_is_played),
        $((stringify!($recipe), |lab| play(lab, stringify!($recipe)))),*
    ] };
}

pub const GROUP: Group = Group {
    name: "network_policies",
    shape: Shape { nodes: 2, kernel_nodes: 0 },
    objects,
    cases: recipes![
        allow_all_egress,
        allow_all_ingress,
        allow_from_all_namespaces,
        allow_from_namespace,
        allow_from_namespace_by_name,
        allow_from_pods_in_namespace,
        allow_from_pods_or_namespace,
        allow_from_several_apps,
        allow_one_port,
        allow_only_external,
        answers_need_no_rule,
        both_ends,
        cluster_policy_egress,
        cluster_policy_tiers,
        deny_all,
        deny_all_egress,
        deny_all_ingress,
        deny_from_other_namespaces,
        deny_to_app,
        dns_only_egress,
        egress_to_network,
        end_port,
        everything_at_once,
        ip_block_except,
        limit_to_pods,
        match_expressions,
        named_port,
        named_port_egress,
        no_external_egress,
        policies_add_up,
        protocols,
        service_and_target_port,
        three_tiers,
    ],
};

const NODES: [&str; 2] = ["n1", "n2"];
const FOLDER: &str = "policies";
const POLICIES: [&str; 2] = ["NetworkPolicy", "ClusterNetworkPolicy"];

fn objects(_: &Programs) -> Vec<Value> {
    Vec::new()
}

/// No example is forgotten here.
fn every_recipe_is_played(_: &Lab) -> Result<()> {
    let played: Vec<_> = GROUP.cases.iter().skip(1).map(|(name, _)| name.replace('_', "-")).collect();
    ensure!(names(FOLDER)? == played, "the folder has {:?}", names(FOLDER)?);
    Ok(())
}

/// First without its policies, where everything works: so it is they that deny. Then with them: what they deny is silent and
/// counted, and the pods' own nodes reach them all the same.
fn play(lab: &Lab, recipe: &str) -> Result<()> {
    let example = Example::read(&format!("{FOLDER}/{}.yaml", recipe.replace('_', "-")))?;
    let attempts = example.attempts()?;
    lab.try_apply(&lab.write("without-policies.yaml", &example.without(&POLICIES))?)?.success()?;
    let works: Vec<_> = attempts.iter().map(|attempt| attempt.that(Verdict::Works)).collect();
    let before = carry_out(lab, &works).context("before there is a policy");
    example.while_applied(lab, || before.and_then(|()| obeyed(lab, &attempts)))
}

fn obeyed(lab: &Lab, attempts: &[Attempt]) -> Result<()> {
    let before = policy_drops(lab)?;
    carry_out(lab, &[attempts, &probes(attempts)].concat())?;
    let wanted = denied(attempts);
    let counted = policy_drops(lab)? - before;
    ensure!(counted >= wanted, "{counted} drops are counted, not {wanted}");
    let policies = NODES.map(|node| lab.policies(node)).into_iter().collect::<Result<Vec<_>>>()?;
    let counted: u64 = policies.iter().flatten().map(|policy| policy.dropped).sum();
    ensure!(counted >= wanted, "{wanted} packets were denied, and of policies is said: {policies:?}");
    foretold(lab, attempts)
}

/// `vrctl policy test` says beforehand what comes of it: one of the nodes concerned says no, or none does.
fn foretold(lab: &Lab, attempts: &[Attempt]) -> Result<()> {
    let internet = lab.address(Place::Internet, Family::V4)?.to_string();
    for attempt in attempts {
        let Asker::Pod(from) = &attempt.from else { continue };
        let to = match &attempt.to {
            Asked::Pod(pod) => pod.clone(),
            Asked::Service(service) => format!("service/{service}"),
            Asked::Internet => internet.clone(),
        };
        let port = match attempt.manner {
            Manner::Tcp(port) => format!("{port}/tcp"),
            Manner::Udp(port) => format!("{port}/udp"),
            Manner::Sctp(port) => format!("{port}/sctp"),
            Manner::Ping => "icmp".to_owned(),
        };
        // Beyond the cluster nobody but the sender's node has a say.
        let own = lab.pod(from)?.node;
        let asked = NODES.iter().filter(|node| attempt.to != Asked::Internet || **node == own);
        let ask = |node: &&str| lab.try_vrctl(node, &["policy", "test", from, &to, &port]);
        let answers = asked.map(ask).collect::<Result<Vec<_>>>()?;
        let is_denied = answers.iter().any(|answer| answer.code == Some(1));
        ensure!(is_denied == (attempt.verdict == Verdict::Denied), "{attempt}: {answers:?}");
    }
    Ok(())
}

fn policy_drops(lab: &Lab) -> Result<u64> {
    let of = |node| Ok(lab.drops(node)?).map(|drops| drops.of("policy-egress") + drops.of("policy-ingress"));
    NODES.into_iter().map(of).sum()
}
