//! What a ClusterIP does: spreads, keeps connections where they are, and tells ports and protocols apart.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::outcome::{Outcome, heading};
use super::show;
use crate::cluster;
use crate::commands::objects;
use crate::lab;
use crate::load::Tally;
use crate::name::LabName;
use crate::netns::Netns;
use crate::node;
use crate::object::Name;
use crate::process;

const CONNECTIONS: u32 = 2000;

/// The pod that asks.
pub fn client_pod() -> Name {
    Name::new("default", "client")
}

/// The namespace of a pod.
pub fn netns(lab: &LabName, pod: &Name) -> Result<Netns> {
    Ok(lab::load(lab)?.pod(pod).ok_or_else(|| anyhow!("no pod {pod}"))?.netns.clone())
}

/// A Service's first address.
pub fn address(lab: &LabName, service: &Name) -> Result<IpAddr> {
    let addresses = cluster::addresses(lab)?;
    addresses
        .get(service)
        .and_then(|all| all.first())
        .copied()
        .ok_or_else(|| anyhow!("Service {service}: no address"))
}

fn nginx() -> Name {
    Name::new("default", "nginx-service")
}

/// Many connections through one address: all answered, evenly, by pods of both nodes.
pub fn spread(lab: &LabName, outcome: &mut Outcome) -> Result<()> {
    heading("Requests through the ClusterIP nginx-service:8080 from a pod");
    let target = SocketAddr::new(address(lab, &nginx())?, 8080);
    println!("    $ lab exec default/client -- curl http://{target}");
    println!("    {}", curl(&netns(lab, &client_pod())?, &format!("http://{target}/"))?.trim());
    let tally = ask(lab, target, &["--fresh", "--clients", "32", "--requests", &CONNECTIONS.to_string()])?;
    outcome.check("every connection is answered", tally.failed == 0, failures(&tally));
    let shares: Vec<_> = tally.members.iter().map(|(pod, count)| (pod, share(*count, &tally))).collect();
    let even = shares.len() == 2 && shares.iter().all(|(_, share)| (45.0..=55.0).contains(share));
    let detail: Vec<_> = shares.iter().map(|(pod, share)| format!("{pod} {share:.1} %")).collect();
    outcome.check("two members share evenly", even, detail.join(", "));
    let state = lab::load(lab)?;
    let node = |pod: &String| Some(state.pod(&Name::new("default", pod))?.node.clone());
    let nodes: BTreeSet<_> = tally.members.keys().filter_map(node).collect();
    let detail = nodes.iter().cloned().collect::<Vec<_>>().join(", ");
    outcome.check("members on both nodes answer", nodes.len() == 2, detail);
    Ok(())
}

/// One address, several ports: the same number for TCP and UDP, and each leads where it should.
pub fn ports(lab: &LabName, outcome: &mut Outcome) -> Result<()> {
    heading("Several ports, TCP and UDP");
    let dns = address(lab, &Name::new("names", "dns"))?;
    let redis = address(lab, &Name::new("default", "redis"))?;
    let cases: [(&str, IpAddr, u16, &[&str]); 4] = [
        ("dns answers on 53/UDP", dns, 53, &["--udp", "--clients", "20", "--requests", "200"]),
        ("dns answers on 53/TCP", dns, 53, &["--fresh", "--requests", "200"]),
        ("dns answers on 9153/TCP", dns, 9153, &["--fresh", "--requests", "200"]),
        ("redis answers on 6379/TCP", redis, 6379, &["--fresh", "--requests", "200"]),
    ];
    for (name, address, port, options) in cases {
        let tally = ask(lab, SocketAddr::new(address, port), options)?;
        outcome.check(name, tally.failed == 0 && tally.members.len() == 2, failures(&tally));
    }
    Ok(())
}

/// From 2 to 4 to 3 members while requests run, on kept connections and on fresh ones.
pub fn scaling(lab: &LabName, outcome: &mut Outcome) -> Result<()> {
    heading("Scaling nginx-deployment from 2 to 4 to 3 with requests running");
    let target = SocketAddr::new(address(lab, &nginx())?, 8080);
    let kept = start_asking(lab, target, &["--clients", "16", "--pause", "2"])?;
    let fresh = start_asking(lab, target, &["--clients", "4", "--pause", "2", "--fresh"])?;
    let deployment = Name::new("default", "nginx-deployment");
    let settle = Duration::from_secs(1);
    thread::sleep(settle);
    for replicas in [4, 3] {
        objects::scale(lab.clone(), &deployment, replicas)?;
        thread::sleep(settle);
    }
    show::flows(lab)?;
    let (kept, fresh) = (stop_asking(kept)?, stop_asking(fresh)?);
    outcome.check(
        "no request on a kept connection fails",
        kept.failed == 0 && kept.requests > 0,
        failures(&kept),
    );
    outcome.check("no fresh connection fails", fresh.failed == 0 && fresh.requests > 0, failures(&fresh));
    let moved = format!("{} of {} answers came from another pod", kept.moved, kept.requests);
    outcome.check("no established connection moves", kept.moved == 0, moved);
    let served: Vec<_> = fresh.members.iter().map(|(pod, count)| format!("{pod} {count}")).collect();
    outcome.check("all four members serve", served.len() == 4, served.join(", "));
    objects::scale(lab.clone(), &deployment, 2)
}

/// What `curl` prints.
pub fn curl(from: &Netns, url: &str) -> Result<String> {
    let words = ["--silent", "--show-error", "--globoff", "--max-time", "5", url];
    let output = from.command("curl").args(words).output().context("curl")?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}

fn load_command(from: &Netns, target: SocketAddr, options: &[&str]) -> Result<Command> {
    let mut command = from.command(node::program("vrouter-pod")?);
    command.arg("load").arg(target.to_string()).args(options).stdout(Stdio::piped());
    Ok(command)
}

fn ask(lab: &LabName, target: SocketAddr, options: &[&str]) -> Result<Tally> {
    ask_from(&netns(lab, &client_pod())?, target, options)
}

/// Asks a service from somewhere.
pub fn ask_from(from: &Netns, target: SocketAddr, options: &[&str]) -> Result<Tally> {
    tally(load_command(from, target, options)?.spawn().context("vrouter-pod load")?)
}

fn start_asking(lab: &LabName, target: SocketAddr, options: &[&str]) -> Result<Child> {
    load_command(&netns(lab, &client_pod())?, target, options)?.spawn().context("vrouter-pod load")
}

fn stop_asking(child: Child) -> Result<Tally> {
    process::send(Pid::from_raw(child.id().try_into()?), Signal::SIGTERM)?;
    tally(child)
}

fn tally(child: Child) -> Result<Tally> {
    let output = child.wait_with_output()?;
    serde_json::from_slice(&output.stdout).context("vrouter-pod load printed no tally")
}

/// How many requests failed, for people.
pub fn failures(tally: &Tally) -> String {
    let first = tally.errors.first().map(|error| format!(", first: {error}")).unwrap_or_default();
    format!("{} of {} failed, {} members{first}", tally.failed, tally.requests, tally.members.len())
}

fn share(count: u64, tally: &Tally) -> f64 {
    100.0 * count as f64 / tally.requests as f64
}
