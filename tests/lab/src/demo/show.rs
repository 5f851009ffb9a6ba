//! The tables behind it, as the operator's tool prints them.

use std::process::Command;

use anyhow::{Context, Result, bail};

use super::outcome::heading;
use crate::name::LabName;
use crate::node;

const COMMANDS: [&str; 6] = ["status", "vif", "vxlan", "route", "fip", "drops"];

/// Prints what the first node holds.
pub fn tables(lab: &LabName) -> Result<()> {
    for command in COMMANDS {
        heading(&format!("lab vrctl n1 -- {command}"));
        let socket = node::socket(lab, "n1");
        let mut vrctl = Command::new(node::program("vrctl")?);
        let status = vrctl.arg("--socket").arg(socket).arg(command).status().context("vrctl")?;
        if !status.success() {
            bail!("vrctl {command}: {status}");
        }
    }
    Ok(())
}
