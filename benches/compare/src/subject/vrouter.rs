//! This project: a lab of one node or two, with its controller.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;

use anyhow::{Result, anyhow, bail};
use serde_json::{Value, json};
use vrouter_lab::cluster;
use vrouter_lab::controller;
use vrouter_lab::lab::{self, Lab};
use vrouter_lab::name::LabName;
use vrouter_lab::netns::Netns;
use vrouter_lab::node;
use vrouter_lab::object::{Name, ObjectKey};
use vrouter_lab::report::Report;
use vrouter_lab::shell;

use super::policy::{self, Policy};
use super::service::{self, MEMBERS, ServerPort};
use super::{Conditions, Place, Services, Site};

/// The label by which services find the servers, and the one by which one finds a single server.
const SERVER: &str = "server";
const NUMBER: &str = "number";

const CLIENT: &str = "client";

/// Sets it up; returns once every node has all services.
pub fn build(lab: &LabName, place: Place, conditions: Conditions) -> Result<Site> {
    let Conditions { services: others, vxlan, policy } = conditions;
    let (nodes, far) = match place {
        Place::Same => ("1", "n1"),
        Place::Cross => ("2", "n2"),
    };
    command(lab, &["up", "--nodes", nodes, "--vxlan", vxlan.as_str()])?;
    let manifests = lab.directory().join("measured.json");
    let policies = match policy {
        Policy::Off => Vec::new(),
        Policy::On => policy::manifests(CLIENT, SERVER),
    };
    fs::write(&manifests, list(pods(far).chain(measured()).chain(policies).collect()).to_string())?;
    command(lab, &[OsStr::new("apply"), OsStr::new("-f"), manifests.as_os_str()])?;
    load(lab, others)?;
    let servers = (0..MEMBERS).map(|number| netns(lab, &server_name(number)));
    Ok(Site::with_services(lab, netns(lab, CLIENT)?, servers.collect::<Result<_>>()?))
}

/// The lab's own command, whose words about each step are of no interest here.
fn command(lab: &LabName, arguments: &[impl AsRef<OsStr>]) -> Result<()> {
    let name = lab.to_string();
    let arguments =
        [OsStr::new("--name"), OsStr::new(&name)].into_iter().chain(arguments.iter().map(AsRef::as_ref));
    shell::run(&node::program("vrouter-lab")?.to_string_lossy(), arguments).map(drop)
}

fn netns(lab: &LabName, pod: &str) -> Result<Netns> {
    let name = Name::new("default", pod);
    let state = lab::load(lab)?;
    Ok(state.pod(&name).ok_or_else(|| anyhow!("no pod {name} in lab {lab}"))?.netns.clone())
}

/// Loads the other services in one go, and makes sure that every node has them all.
fn load(lab: &LabName, others: Services) -> Result<()> {
    let lab = Lab::open(lab.clone())?;
    let services = (0..others.0).map(|number| {
        let name = service::other_name(number);
        let port = json!({"name": "http", "port": 80, "targetPort": ServerPort::Http.number()});
        service(&name, service::other_address(number).to_string(), json!({"app": SERVER}), vec![port])
    });
    lab.write_object(&ObjectKey::new("List", None, "others"), &list(services.collect()))?;
    let mut report = Report::default();
    controller::settle(&lab, &BTreeSet::new(), &mut report);
    report.conclude()?;
    let wanted = others.0 + measured().count();
    for node in &lab.state.nodes {
        let has = cluster::floating_ips(&lab.name, &node.name)?;
        if has < wanted {
            bail!("node {} has {has} of {wanted} services", node.name);
        }
    }
    Ok(())
}

fn pods(far: &'static str) -> impl Iterator<Item = Value> {
    let servers = (0..MEMBERS).map(move |number| {
        let labels = json!({"app": SERVER, NUMBER: number.to_string()});
        pod(&server_name(number), labels, far)
    });
    servers.chain([pod(CLIENT, json!({"app": CLIENT}), "n1")])
}

fn server_name(number: u8) -> String {
    format!("{SERVER}-{number}")
}

/// A pod with nothing in it but what keeps it there: whoever measures starts the servers.
fn pod(name: &str, labels: Value, node: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "pause", "command": ["sleep", "infinity"]}],
        },
    })
}

fn measured() -> impl Iterator<Item = Value> {
    let all = json!({"app": SERVER});
    let services = [
        ("iperf", ServerPort::Iperf, json!({NUMBER: "0"}), ["TCP", "UDP"].as_slice()),
        ("pingpong", ServerPort::PingPong, all.clone(), &["TCP"]),
        ("http", ServerPort::Http, all, &["TCP"]),
    ];
    services.into_iter().map(|(name, port, selector, protocols)| {
        let frontend = port.frontend();
        let ports = protocols.iter().map(|protocol| {
            json!({
                "name": protocol.to_lowercase(),
                "port": frontend.port(),
                "targetPort": port.number(),
                "protocol": protocol,
            })
        });
        service(name, frontend.ip().to_string(), selector, ports.collect())
    })
}

fn service(name: &str, address: String, selector: Value, ports: Vec<Value>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"clusterIP": address, "selector": selector, "ports": ports},
    })
}

fn list(items: Vec<Value>) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}
