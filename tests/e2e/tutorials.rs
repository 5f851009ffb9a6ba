//! The walk-throughs that people begin with, by their own names, addresses and ports.

use std::net::SocketAddr;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;
use vrouter_tests::lab::{Family, Lab, Place, Programs, Shape};
use vrouter_tests::manifest::idle_pod;
use vrouter_tests::report::Outcome;

use crate::example::Example;
use crate::group::{Group, cases};
use crate::load::{Protocol, ask_from, expect};

pub const GROUP: Group = Group {
    name: "tutorials",
    shape: Shape { nodes: 3, kernel_nodes: 0 },
    objects,
    cases: cases![
        number_crunch_on_32155_of_every_node,
        apple_service_5678_on_31050,
        redis_itself_on_30001,
        nginx_itself_on_cluster_ip_8080,
        a_service_changes_its_type,
        a_pod_leaves_by_its_label,
    ],
};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const CLIENT: &str = "client";

fn objects(_: &Programs) -> Vec<Value> {
    vec![idle_pod(CLIENT, "n3")]
}

/// Does something with an example that is applied for the time being.
fn with_example(lab: &Lab, file: &str, act: impl FnOnce() -> Result<()>) -> Result<()> {
    Example::read(file)?.while_applied(lab, act)
}

fn at(lab: &Lab, node: &str, family: Family, port: u16) -> Result<SocketAddr> {
    Ok(SocketAddr::new(lab.address(Place::Node(node), family)?, port))
}

/// As the tutorial does it.
fn curl(lab: &Lab, from: Place, url: &str) -> Result<Value> {
    let words = ["curl", "--silent", "--show-error", "--max-time", "5", "--globoff", url];
    lab.exec(from, &words)?.success()?.json()
}

fn is_seen(lab: &Lab, from: Place, family: Family, answer: &Value) -> Result<()> {
    let own = lab.address(from, family)?.to_string();
    ensure!(answer["client"] == own.as_str(), "seen otherwise than as {own}: {answer}");
    Ok(())
}

/// Does something at a port of every node, in both families.
fn every_node(lab: &Lab, port: u16, act: impl Fn(Family, SocketAddr) -> Result<()>) -> Result<()> {
    for node in NODES {
        for family in Family::BOTH {
            let target = at(lab, node, family, port)?;
            act(family, target).with_context(|| target.to_string())?;
        }
    }
    Ok(())
}

fn number_crunch_on_32155_of_every_node(lab: &Lab) -> Result<()> {
    with_example(lab, "number-crunch.yaml", || {
        every_node(lab, 32155, |family, target| {
            let answer = curl(lab, Place::Client, &format!("http://{target}/square-root/4"))?;
            ensure!(answer["InputNumber"] == 4 && answer["SquareRoot"] == 2, "{answer}");
            is_seen(lab, Place::Client, family, &answer)?;
            let tally = ask_from(lab, Place::Client, Protocol::Tcp, target, 40)?;
            ensure!(tally.members.len() == 2, "not both pods answer: {tally:?}");
            Ok(())
        })?;
        let pods = lab.status()?.pods;
        let idle =
            |node: &str| !pods.iter().any(|pod| pod.node == node && pod.name.starts_with("number-crunch"));
        ensure!(
            NODES.iter().filter(|node| idle(node)).count() == 1,
            "the pods are not on two of three nodes"
        );
        Ok(())
    })
}

fn apple_service_5678_on_31050(lab: &Lab) -> Result<()> {
    with_example(lab, "apple.yaml", || {
        every_node(lab, 31050, |family, target| {
            let answer = curl(lab, Place::Client, &format!("http://{target}/"))?;
            ensure!(answer["pod"] == "apple-app" && answer["port"] == 5678, "{answer}");
            is_seen(lab, Place::Client, family, &answer)
        })?;
        let inside = lab.service_address("apple-service", Family::V4, 5678)?;
        let answer = curl(lab, Place::Pod(CLIENT), &format!("http://{inside}/"))?;
        is_seen(lab, Place::Pod(CLIENT), Family::V4, &answer)
    })
}

fn redis_itself_on_30001(lab: &Lab) -> Result<()> {
    with_example(lab, "programs/redis.yaml", || {
        every_node(lab, 30001, |family, target| {
            let (host, port) = (target.ip().to_string(), target.port().to_string());
            let redis = |words: &[&str]| {
                let words = [&["redis-cli", "-h", &host, "-p", &port], words].concat();
                Ok::<_, anyhow::Error>(lab.exec(Place::Client, &words)?.success()?.stdout)
            };
            let answer = redis(&["ping"])?;
            ensure!(answer.trim() == "PONG", "{answer}");
            let own = SocketAddr::new(lab.address(Place::Client, family)?, 0).to_string();
            let own = own.strip_suffix('0').unwrap_or(&own);
            let clients = redis(&["client", "list"])?;
            ensure!(clients.contains(&format!(" addr={own}")), "seen otherwise than as {own}: {clients}");
            Ok(())
        })
    })
}

fn nginx_itself_on_cluster_ip_8080(lab: &Lab) -> Result<()> {
    with_example(lab, "programs/nginx.yaml", || {
        for family in Family::BOTH {
            let target = lab.service_address("nginx-service", family, 8080)?;
            for from in [Place::Pod(CLIENT), Place::Node("n3")] {
                let answer = curl(lab, from, &format!("http://{target}/"))?;
                is_seen(lab, from, family, &answer)?;
                let tally = ask_from(lab, from, Protocol::Tcp, target, 60)?;
                ensure!(tally.members.len() == 2, "not both pods answer: {tally:?}");
            }
        }
        Ok(())
    })
}

/// From NodePort to ClusterIP and back: its node port goes and comes, its address stays.
fn a_service_changes_its_type(lab: &Lab) -> Result<()> {
    let apple = Example::read("apple.yaml")?;
    let inside =
        apple.text.replace("type: NodePort", "type: ClusterIP").replace("      nodePort: 31050\n", "");
    with_example(lab, "apple.yaml", || {
        let before = lab.service_address("apple-service", Family::V4, 5678)?;
        let target = at(lab, "n2", Family::V4, 31050)?;
        ask_from(lab, Place::Client, Protocol::Tcp, target, 3)?;
        lab.try_apply(&lab.write("apple.yaml", &inside)?)?.success()?;
        expect(lab, Place::Client, Protocol::Tcp, target, Outcome::Refused)?;
        ask_from(lab, Place::Pod(CLIENT), Protocol::Tcp, before, 3)?;
        apple.apply(lab)?;
        ask_from(lab, Place::Client, Protocol::Tcp, target, 3)?;
        let after = lab.service_address("apple-service", Family::V4, 5678)?;
        ensure!(before == after, "its address was {before}, and is {after}");
        Ok(())
    })
}

fn a_pod_leaves_by_its_label(lab: &Lab) -> Result<()> {
    with_example(lab, "apple.yaml", || {
        let target = at(lab, "n1", Family::V4, 31050)?;
        ask_from(lab, Place::Client, Protocol::Tcp, target, 3)?;
        let Example { text, .. } = Example::read("apple.yaml")?;
        let pod = text.split("---").next().ok_or_else(|| anyhow!("no pod in apple.yaml"))?;
        let pear = pod.replace("    app: apple\n", "    app: pear\n");
        lab.try_apply(&lab.write("pear.yaml", &pear)?)?.success()?;
        expect(lab, Place::Client, Protocol::Tcp, target, Outcome::Refused)?;
        lab.try_apply(&lab.write("apple-again.yaml", pod)?)?.success()?;
        ask_from(lab, Place::Client, Protocol::Tcp, target, 3).map(drop)
    })
}
