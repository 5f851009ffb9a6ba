//! Tenants: networks of their own, isolated namespaces, and the ways between them; the examples with real connections.

mod traffic;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use vrouter_tests::attempt::{Asked, Asker, Attempt, Manner, Verdict};
use vrouter_tests::lab::{Family, Lab, Place, Programs, Shape};
use vrouter_tests::report::{Steady, Tally};
use vrouter_tests::status::Pod;

use crate::attempts::{carry_out, probes};
use crate::away::Away;
use crate::example::{Example, names};
use crate::group::{Group, cases};
use crate::load::{Loads, Requests};

pub const GROUP: Group = Group {
    name: "tenants",
    shape: Shape { nodes: 2, kernel_nodes: 0 },
    objects,
    cases: cases![
        every_example_is_played,
        overlapping,
        isolated,
        mesh,
        hub_and_spoke,
        by_annotation,
        side_by_side,
        no_packet_is_seen_by_the_other_tenant,
        connections_that_look_alike_stay_apart,
        a_policy_means_its_own_tenants_addresses,
        a_router_comes_and_goes,
        tenants_stay_apart_over_restarts,
    ],
};

const FOLDER: &str = "tenants";
const OVERLAPPING: &str = "overlapping";
const TENANTS: [&str; 2] = ["red", "blue"];
/// A member of each tenant's services.
const ROLES: [&str; 4] = ["client", "web-1", "web-2", "iperf3"];
const DNS: u16 = 53;

fn objects(_: &Programs) -> Vec<Value> {
    Vec::new()
}

fn example(name: &str) -> Result<Example> {
    Example::read(&format!("{FOLDER}/{name}.yaml"))
}

/// A tenant's pod of a role.
fn pod(tenant: &str, role: &str) -> String {
    format!("{tenant}/{tenant}-{role}")
}

/// No example is forgotten here.
fn every_example_is_played(_: &Lab) -> Result<()> {
    let played: Vec<_> = GROUP.cases.iter().map(|(name, _)| name.replace('_', "-")).collect();
    let forgotten: Vec<_> = names(FOLDER)?.into_iter().filter(|name| !played.contains(name)).collect();
    ensure!(forgotten.is_empty(), "{forgotten:?}");
    Ok(())
}

fn play(lab: &Lab, name: &str) -> Result<()> {
    let example = example(name)?;
    example.while_applied(lab, || carry_out(lab, &example.attempts()?))
}

fn overlapping(lab: &Lab) -> Result<()> {
    let example = example(OVERLAPPING)?;
    example.while_applied(lab, || {
        are_alike(lab)?;
        carry_out(lab, &example.attempts()?)
    })
}

/// Pods and services of both tenants have the same addresses, and on the same nodes.
fn are_alike(lab: &Lab) -> Result<()> {
    let [red, blue] = TENANTS;
    for role in ROLES {
        let place = |tenant| lab.pod(&pod(tenant, role)).map(|Pod { ips, node, .. }| (ips, node));
        let (one, other) = (place(red)?, place(blue)?);
        ensure!(one == other, "{role}: {one:?} and {other:?}");
        ensure!(one.0.len() == 2, "{role}: {one:?}");
    }
    for service in ["web", "iperf3"] {
        let addresses = |tenant| lab.service(&format!("{tenant}/{service}")).map(|it| it.cluster_ips);
        let (one, other) = (addresses(red)?, addresses(blue)?);
        ensure!(one == other && one.len() == 2, "{service}: {one:?} and {other:?}");
    }
    Ok(())
}

/// Nodes reach the pods of these, so that probes work.
fn isolated(lab: &Lab) -> Result<()> {
    let example = example("isolated")?;
    example.while_applied(lab, || {
        let attempts = example.attempts()?;
        carry_out(lab, &[attempts.as_slice(), &probes(&attempts)].concat())
    })
}

fn mesh(lab: &Lab) -> Result<()> {
    play(lab, "mesh")
}

fn hub_and_spoke(lab: &Lab) -> Result<()> {
    play(lab, "hub-and-spoke")
}

fn by_annotation(lab: &Lab) -> Result<()> {
    play(lab, "by-annotation")
}

fn side_by_side(lab: &Lab) -> Result<()> {
    play(lab, "side-by-side")
}

fn no_packet_is_seen_by_the_other_tenant(lab: &Lab) -> Result<()> {
    let example = example(OVERLAPPING)?;
    example.while_applied(lab, || traffic::is_kept_apart(lab))
}

/// From the same address and port to the same address and port, in both networks at once.
fn connections_that_look_alike_stay_apart(lab: &Lab) -> Result<()> {
    let example = example(OVERLAPPING)?;
    example.while_applied(lab, || {
        for family in Family::BOTH {
            let target = lab.service_address("red/web", family, DNS)?;
            let mut steady = Loads::of(lab);
            let clients = TENANTS.map(|tenant| pod(tenant, "client"));
            for client in &clients {
                steady = steady.add(
                    Place::Pod(client),
                    target,
                    &["steady", "--source-port", "45000", "--pause", "2"],
                )?;
            }
            let http = SocketAddr::new(target.ip(), 80).to_string();
            for (tenant, client) in TENANTS.iter().zip(&clients).cycle().take(20) {
                let words = ["requests", &http, "--source-port", "45001", "--count", "1"];
                let tally: Tally = lab.probe(Place::Pod(client), &words)?;
                ensure!(tally.failed == 0, "{client}: {tally:?}");
                are_of(tenant, tally.members.keys())?;
            }
            for ((what, report), tenant) in steady.finish::<Steady>()?.iter().zip(TENANTS) {
                ensure!(report.sent == report.answered && report.sent > 20, "{what}: {report:?}");
                are_of(tenant, report.members.keys()).with_context(|| what.clone())?;
            }
        }
        Ok(())
    })
}

/// Those who answered are this tenant's.
fn are_of<'a>(tenant: &str, members: impl Iterator<Item = &'a String>) -> Result<()> {
    let strangers: BTreeSet<_> = members.filter(|pod| !pod.starts_with(&format!("{tenant}-"))).collect();
    ensure!(strangers.is_empty(), "{strangers:?} answered for {tenant}");
    Ok(())
}

/// What one tenant's policy says of an address is nothing to the other tenant, who has the same address.
fn a_policy_means_its_own_tenants_addresses(lab: &Lab) -> Result<()> {
    let example = example(OVERLAPPING)?;
    let policy = |tenant: &str, from: Value| {
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "web", "namespace": tenant},
            "spec": {"podSelector": {"matchLabels": {"app": "web"}}, "ingress": [{"from": [from]}]},
        })
    };
    let ask = |tenant: &str, role: &str, verdict| Attempt {
        from: Asker::Pod(pod(tenant, role)),
        to: Asked::Pod(pod(tenant, "web-1")),
        manner: Manner::Tcp(80),
        verdict,
    };
    example.while_applied(lab, || {
        lab.apply(&[
            policy("red", json!({"podSelector": {"matchLabels": {"app": "client"}}})),
            policy("blue", json!({"podSelector": {"matchLabels": {"app": "iperf3"}}})),
        ])?;
        let outcome = carry_out(
            lab,
            &[
                ask("red", "client", Verdict::Works),
                ask("red", "iperf3", Verdict::Denied),
                ask("blue", "client", Verdict::Denied),
                ask("blue", "iperf3", Verdict::Works),
            ],
        );
        for tenant in TENANTS {
            lab.delete("NetworkPolicy", &format!("{tenant}/web"))?;
        }
        outcome
    })
}

/// A leak is opened and closed while both networks are in use.
fn a_router_comes_and_goes(lab: &Lab) -> Result<()> {
    let example = example("mesh")?;
    let attempts = example.attempts()?;
    let apart: Vec<_> = attempts
        .iter()
        .map(|attempt| if is_across(attempt) { attempt.that(Verdict::Fails) } else { attempt.clone() })
        .collect();
    lab.try_apply(&lab.write("apart.yaml", &example.without(&["VirtualNetworkRouter"]))?)?.success()?;
    let outcome = carry_out(lab, &apart).context("before there is a router");
    example.while_applied(lab, || {
        outcome?;
        carry_out(lab, &attempts).context("with a router")?;
        let web = lab.service_address("trade/sales-web", Family::V4, 80)?;
        let within = Requests::from(lab, Place::Pod("trade/sales-client"), web)?;
        let stock = SocketAddr::new(lab.pod_address("trade/stock-web", Family::V6)?, DNS);
        let across = ["steady", "--pause", "2", "--patience", "100"];
        let across = Loads::of(lab).add(Place::Pod("trade/sales-client"), stock, &across)?;
        lab.delete("VirtualNetworkRouter", "trade/sales-and-stock")?;
        carry_out(lab, &apart).context("without a router again")?;
        example.apply(lab)?;
        carry_out(lab, &attempts).context("with a router again")?;
        within.finish_unharmed()?;
        for (what, report) in across.finish::<Steady>()? {
            ensure!(report.answered > 20 && report.unanswered_in_a_row > 5, "{what}: {report:?}");
        }
        Ok(())
    })
}

/// Whether it goes from one network of the example to another.
fn is_across(attempt: &Attempt) -> bool {
    let network =
        |name: &str| name.rsplit('/').next().and_then(|name| name.split('-').next()).map(str::to_owned);
    match (&attempt.from, &attempt.to) {
        (Asker::Pod(from), Asked::Pod(to) | Asked::Service(to)) => network(from) != network(to),
        _ => false,
    }
}

/// Whatever is away for a while: who is in which network, and with which address, stays.
fn tenants_stay_apart_over_restarts(lab: &Lab) -> Result<()> {
    let example = example(OVERLAPPING)?;
    example.while_applied(lab, || {
        for what in ["n1", "controller", "n2"] {
            Away::begin(lab, what, Lab::kill)?.back()?;
            are_alike(lab)?;
            carry_out(lab, &example.attempts()?).with_context(|| format!("after {what} was away"))?;
        }
        Ok(())
    })
}

/// How long a probe's report may take.
const REPORT: Duration = Duration::from_secs(30);
