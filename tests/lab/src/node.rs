//! The nodes' processes, and what the lab tells the cluster about each node.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::controller;
use crate::lab::Lab;
use crate::name::{LabName, MARKER};
use crate::object::ObjectKey;
use crate::process::{Process, log_tail, wait_until};
use crate::state::{DataPath, Node};

/// How long a process has to say that it serves.
pub const START: Duration = Duration::from_secs(20);

/// The path of one of the workspace's programs: all are built into one folder.
pub fn program(name: &str) -> Result<PathBuf> {
    let path = env::current_exe().context("where this program is")?.with_file_name(name);
    if !path.exists() {
        bail!("{} is not built", path.display());
    }
    Ok(path)
}

/// Starts a daemon and waits until it says that it is ready.
pub fn start_and_await(command: &Command, marker: (&str, &str), log: &Path, ready: &str) -> Result<Process> {
    // The log goes on from an earlier run; only what is new counts.
    let before = fs::metadata(log).map_or(0, |about| about.len()) as usize;
    let process = Process::spawn(command, marker, log)?;
    let said = || {
        let text = fs::read(log).unwrap_or_default();
        let new = String::from_utf8_lossy(text.get(before..).unwrap_or_default()).into_owned();
        new.lines().any(|line| line.trim() == ready)
    };
    wait_until(START, || said() || !process.runs());
    if !said() {
        let what = if process.runs() { "is not ready" } else { "ended" };
        let name = log.parent().unwrap_or(log).display();
        bail!("{name}: the process {what}; its log ends with:\n{}", log_tail(log));
    }
    Ok(process)
}

/// The folder with a node's files.
pub fn directory(name: &LabName, node: &str) -> PathBuf {
    name.directory().join("nodes").join(node)
}

/// The unix socket of a node's vRouter.
pub fn socket(name: &LabName, node: &str) -> PathBuf {
    directory(name, node).join("run/node.sock")
}

/// Starts a node's vRouter and waits until its local API serves.
pub fn start(lab: &Lab, node: &Node) -> Result<Process> {
    let directory = directory(&lab.name, &node.name);
    let mut command = node.netns.command(program("vrouter")?);
    command.args(["--node", &node.name, "--control", &controller::url(), "--insecure"]);
    let files: [(&str, OsString); 3] = [
        ("--run-dir", directory.join("run").into()),
        ("--state-dir", directory.join("state").into()),
        ("--flow-table", lab.name.flow_table(&node.name).into()),
    ];
    for (option, file) in files {
        command.arg(option).arg(file);
    }
    if let Some(workers) = lab.state.workers {
        command.args(["--workers", &workers.to_string()]);
    }
    if let Some(vxlan) = lab.state.vxlan {
        command.args(["--vxlan", vxlan.as_str()]);
    }
    let marker = lab.name.to_string();
    start_and_await(&command, (MARKER, &marker), &directory.join("log"), "vrouter ready")
}

/// The key of a node's object.
pub fn key(node: &str) -> ObjectKey {
    ObjectKey::new("Node", None, node)
}

/// The Node object: for a kernel node with the annotations that flannel would write.
pub fn manifest(node: &Node) -> Value {
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": node.labels},
        "spec": {},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": node.ipv4},
                {"type": "InternalIP", "address": node.ipv6},
                {"type": "Hostname", "address": node.name},
            ],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    if let DataPath::Kernel(blocks) = &node.data_path {
        object["metadata"]["annotations"] = json!({
            "flannel.alpha.coreos.com/backend-type": "vxlan",
            "flannel.alpha.coreos.com/backend-data": json!({"VNI": 1, "VtepMAC": blocks.mac}).to_string(),
            "flannel.alpha.coreos.com/public-ip": node.ipv4,
        });
        object["spec"] =
            json!({"podCIDR": blocks.ipv4, "podCIDRs": [blocks.ipv4.to_string(), blocks.ipv6.to_string()]});
    }
    object
}
