//! Running something in a part of the lab. The command takes this process's place, so that its exit code and its
//! terminal are the caller's.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, anyhow};

use super::lifecycle::node_named;
use crate::controller;
use crate::lab;
use crate::name::LabName;
use crate::netns::Netns;
use crate::node;
use crate::object::Name;
use crate::outside::Outsider;

/// In a pod.
pub fn pod(lab: &LabName, pod: &Name, command: &[String]) -> Result<()> {
    let state = lab::load(lab)?;
    let pod = state.pod(pod).ok_or_else(|| anyhow!("no pod {pod} in lab {lab}"))?;
    in_namespace(&pod.netns, command)
}

/// On a node.
pub fn node(lab: &LabName, node: &str, command: &[String]) -> Result<()> {
    in_namespace(&node_named(&lab::load(lab)?.nodes, node)?.netns, command)
}

/// Outside the cluster.
pub fn outside(lab: &LabName, who: Outsider, command: &[String]) -> Result<()> {
    lab::load(lab)?;
    in_namespace(&lab.netns(&who.part()), command)
}

/// The operator's tool, pointed at a node's vRouter or at the controller.
pub fn vrctl(lab: &LabName, what: &str, arguments: &[String]) -> Result<()> {
    let state = lab::load(lab)?;
    let socket = match what {
        "controller" => controller::socket(lab),
        name => node::socket(lab, &node_named(&state.nodes, name)?.name),
    };
    let mut command = Command::new(node::program("vrctl")?);
    become_it(command.arg("--socket").arg(socket).args(arguments))
}

fn in_namespace(netns: &Netns, command: &[String]) -> Result<()> {
    become_it(netns.command(&command[0]).args(&command[1..]))
}

fn become_it(command: &mut Command) -> Result<()> {
    let error = command.exec();
    Err(error).with_context(|| format!("cannot run {}", command.get_program().to_string_lossy()))
}
