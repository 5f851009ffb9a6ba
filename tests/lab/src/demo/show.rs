//! The tables behind it, as the operator's tool prints them.

use std::process::Command;

use anyhow::{Context, Result, bail};

use super::outcome::heading;
use crate::name::LabName;
use crate::node;
use crate::shell::words;

const TABLES: [&str; 8] = [
    "status",
    "vif",
    "route",
    "nh",
    "vxlan",
    "fip",
    "drops",
    "get fip default/nginx-service-clusterip-v4 -o yaml",
];

/// Prints what the first node holds.
pub fn tables(lab: &LabName) -> Result<()> {
    TABLES.iter().try_for_each(|arguments| vrctl(lab, arguments))
}

/// Prints some of the connections through the web service, as the first node has them.
pub fn flows(lab: &LabName) -> Result<()> {
    vrctl(lab, "flow --port 8080 --limit 6")
}

/// Prints what the first node says.
pub fn vrctl(lab: &LabName, arguments: &str) -> Result<()> {
    heading(&format!("lab vrctl n1 -- {arguments}"));
    let mut command = Command::new(node::program("vrctl")?);
    command.arg("--socket").arg(node::socket(lab, "n1")).args(words(arguments));
    let status = command.status().context("vrctl")?;
    if !status.success() {
        bail!("vrctl {arguments}: {status}");
    }
    Ok(())
}
