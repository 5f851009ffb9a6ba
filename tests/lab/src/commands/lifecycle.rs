//! Bringing a lab up and down, and its daemons.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use nix::sys::signal::Signal;

use super::objects;
use crate::cli::Up;
use crate::cluster;
use crate::controller;
use crate::kernel_node;
use crate::lab::{Lab, Lock};
use crate::leftovers;
use crate::manifest;
use crate::name::LabName;
use crate::node;
use crate::outside;
use crate::process::Process;
use crate::report::{Report, done};
use crate::state::{DataPath, Node};
use crate::underlay;

/// An orderly stop drains and writes things down.
const ORDERLY: Duration = Duration::from_secs(20);

/// Brings a lab up afresh.
pub fn up(name: LabName, options: &Up) -> Result<()> {
    // What cannot be read should not cost a running lab.
    let documents = options.manifests.as_deref().map(manifest::read).transpose()?;
    let lock = Lock::take(&name)?;
    leftovers::remove(&name)?;
    let mut lab = Lab::create(name, lock)?;
    if let Err(error) = build(&mut lab, options) {
        lab.remove()?;
        return Err(error);
    }
    done(&format!("lab {}", lab.name), "is up");
    match documents {
        Some(documents) => objects::apply_documents(&mut lab, documents),
        None => Ok(()),
    }
}

fn build(lab: &mut Lab, options: &Up) -> Result<()> {
    lab.state.workers = options.workers;
    lab.state.vxlan = options.vxlan;
    lab.state.nodes = underlay::nodes(&lab.name, options.nodes, options.kernel_nodes)?;
    underlay::build(&lab.name, &lab.state.nodes)?;
    outside::build(&lab.name, &lab.state.nodes)?;
    outside::serve(&lab.name)?;
    for node in &lab.state.nodes {
        lab.write_object(&node::key(&node.name), &node::manifest(node))?;
    }
    lab.state.controller = Some(controller::start(&lab.name)?);
    lab.save()?;
    for index in 0..lab.state.nodes.len() {
        let node = lab.state.nodes[index].clone();
        match &node.data_path {
            DataPath::VRouter(_) => start_node(lab, index)?,
            DataPath::Kernel(blocks) => kernel_node::build(&node, blocks)?,
        }
        lab.save()?;
    }
    let mut report = Report::default();
    controller::settle(lab, &BTreeSet::new(), &mut report);
    report.conclude()?;
    connect_kernel_nodes(lab)
}

fn connect_kernel_nodes(lab: &Lab) -> Result<()> {
    for node in lab.state.nodes.iter().filter(|node| matches!(node.data_path, DataPath::Kernel(_))) {
        for other in lab.state.nodes.iter().filter(|other| other.name != node.name) {
            kernel_node::connect(node, &cluster::peer(&lab.name, other)?)?;
        }
    }
    Ok(())
}

fn start_node(lab: &mut Lab, index: usize) -> Result<()> {
    let process = node::start(lab, &lab.state.nodes[index])?;
    lab.state.nodes[index].data_path = DataPath::VRouter(Some(process));
    Ok(())
}

/// Removes a lab, whatever state it is in; fine where there is none.
pub fn down(name: &LabName) -> Result<()> {
    let lock = Lock::take(name)?;
    leftovers::remove(name)?;
    lock.remove(name)
}

/// A daemon of a lab.
enum Daemon {
    Controller,
    /// The node's place in the list.
    VRouter(usize),
}

impl Daemon {
    fn find(lab: &Lab, what: &str) -> Result<Self> {
        if what == "controller" {
            return Ok(Self::Controller);
        }
        match lab.state.nodes.iter().position(|node| node.name == what) {
            None => bail!("{what:?} is neither a node of this lab nor \"controller\""),
            Some(index) => match lab.state.nodes[index].data_path {
                DataPath::VRouter(_) => Ok(Self::VRouter(index)),
                DataPath::Kernel(_) => bail!("{what} is a kernel node: no process forwards there"),
            },
        }
    }

    fn process<'a>(&self, lab: &'a mut Lab) -> &'a mut Option<Process> {
        match self {
            Self::Controller => &mut lab.state.controller,
            Self::VRouter(index) => match &mut lab.state.nodes[*index].data_path {
                DataPath::VRouter(process) => process,
                DataPath::Kernel(_) => unreachable!("find() takes only nodes with a vRouter"),
            },
        }
    }
}

/// Stops a daemon in an orderly way.
pub fn stop(name: LabName, what: &str) -> Result<()> {
    end(name, what, Signal::SIGTERM)
}

/// Kills a daemon at once.
pub fn kill(name: LabName, what: &str) -> Result<()> {
    end(name, what, Signal::SIGKILL)
}

fn end(name: LabName, what: &str, signal: Signal) -> Result<()> {
    let mut lab = Lab::open(name)?;
    let daemon = Daemon::find(&lab, what)?;
    if let Some(process) = *daemon.process(&mut lab) {
        process.signal(signal)?;
        if !process.wait(ORDERLY) {
            bail!("{what} still runs {ORDERLY:?} after {signal}");
        }
        *daemon.process(&mut lab) = None;
        lab.save()?;
    }
    done(&what, "has ended");
    Ok(())
}

/// Starts a daemon again and waits until every node has acknowledged.
pub fn start(name: LabName, what: &str) -> Result<()> {
    let mut lab = Lab::open(name)?;
    let daemon = Daemon::find(&lab, what)?;
    if daemon.process(&mut lab).is_some_and(Process::runs) {
        done(&what, "runs already");
        return Ok(());
    }
    let process = match daemon {
        Daemon::Controller => controller::start(&lab.name)?,
        Daemon::VRouter(index) => node::start(&lab, &lab.state.nodes[index])?,
    };
    *daemon.process(&mut lab) = Some(process);
    lab.save()?;
    done(&what, "runs");
    let mut report = Report::default();
    if lab.state.controller.is_some() {
        controller::settle(&lab, &BTreeSet::new(), &mut report);
    }
    report.conclude()
}

/// The node with this name.
pub fn node_named<'a>(nodes: &'a [Node], name: &str) -> Result<&'a Node> {
    nodes.iter().find(|node| node.name == name).ok_or_else(|| anyhow!("no node {name:?} in this lab"))
}
