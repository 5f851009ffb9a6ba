//! The demonstration: the examples on two nodes, looked at, scaled under load, and measured beside the kernel's own path.

mod baseline;
mod isolation;
mod outcome;
mod outside;
mod service;
mod show;
mod throughput;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::cli::{Demo, Up};
use crate::commands::{lifecycle, objects};
use crate::lab;
use crate::name::LabName;
use crate::status::Status;

use outcome::Outcome;

/// Runs all of it. Fails where a check did.
pub fn run(name: LabName, options: &Demo) -> Result<()> {
    let mut outcome = Outcome::default();
    let played = play(&name, options, &mut outcome);
    if let Some(file) = &options.json {
        fs::write(file, serde_json::to_vec_pretty(&outcome)?).with_context(|| file.display().to_string())?;
    }
    if !options.keep {
        lifecycle::down(&name)?;
    }
    played?;
    outcome::heading("Results");
    println!("{}", outcome.tables());
    match outcome.failed() {
        0 => Ok(()),
        failed => bail!("{failed} of the checks failed"),
    }
}

fn play(name: &LabName, options: &Demo, outcome: &mut Outcome) -> Result<()> {
    outcome::heading("A lab of two nodes, with the examples");
    bring_up(name, &options.examples)?;
    println!("\n{}", status(name)?.tables());
    service::spread(name, outcome)?;
    service::ports(name, outcome)?;
    outside::reach(name, outcome)?;
    service::scaling(name, outcome)?;
    isolation::tenants(name, &options.examples, outcome)?;
    isolation::policy(name, &options.examples, outcome)?;
    throughput::compare(name, options.seconds, outcome)?;
    show::tables(name)
}

fn bring_up(name: &LabName, examples: &Path) -> Result<()> {
    lifecycle::up(
        name.clone(),
        &Up { nodes: 2, kernel_nodes: 0, workers: None, vxlan: None, manifests: None },
    )?;
    objects::apply(name.clone(), &[examples.to_owned()])
}

fn status(name: &LabName) -> Result<Status> {
    Status::of(name, &lab::load(name)?)
}
