//! The tables behind it, as the operator's tool prints them.

use std::process::Command;

use anyhow::{Context, Result, bail};

use super::outcome::heading;
use crate::name::LabName;
use crate::node;
use crate::shell::words;

const COMMANDS: [&str; 9] = [
    "status",
    "vif",
    "route",
    "nh",
    "vxlan",
    "fip",
    "flow --port 8080 --limit 8",
    "drops",
    "get fip default/nginx-service-clusterip-v4 -o yaml",
];

/// Prints what the first node holds.
pub fn tables(lab: &LabName) -> Result<()> {
    for command in COMMANDS {
        heading(&format!("lab vrctl n1 -- {command}"));
        let mut vrctl = Command::new(node::program("vrctl")?);
        vrctl.arg("--socket").arg(node::socket(lab, "n1")).args(words(command));
        let status = vrctl.status().context("vrctl")?;
        if !status.success() {
            bail!("vrctl {command}: {status}");
        }
    }
    Ok(())
}
