//! Placeholder.
use anyhow::Result;
use crate::cli::Demo;
use crate::name::LabName;
/// x
pub fn run(_name: LabName, _options: &Demo) -> Result<()> { Ok(()) }
