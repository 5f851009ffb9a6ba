//! Removing everything of a lab, whatever state it is in: the state file is not asked, only what is there.

use std::fs;
use std::io::ErrorKind;

use anyhow::{Context, Result};
use nix::unistd::Pid;

use crate::name::LabName;
use crate::netns::Netns;
use crate::process;

/// Ends the lab's processes and removes its namespaces and files.
pub fn remove(name: &LabName) -> Result<()> {
    let namespaces: Vec<_> =
        Netns::all()?.into_iter().filter(|netns| name.owns_netns(netns.name())).collect();
    process::kill_all(&processes(name, &namespaces)?)?;
    for netns in &namespaces {
        netns.delete()?;
    }
    remove_shared_memory(name)?;
    match fs::remove_dir_all(name.directory()) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| name.directory().display().to_string())
        }
        _ => Ok(()),
    }
}

/// Every process that is in one of the lab's namespaces or was started by the lab, save the caller and its callers.
fn processes(name: &LabName, namespaces: &[Netns]) -> Result<Vec<Pid>> {
    let marker = name.marker();
    let mut found: Vec<_> = process::all()?.into_iter().filter(|&pid| process::bears(pid, &marker)).collect();
    for netns in namespaces {
        found.extend(netns.processes()?);
    }
    found.sort_unstable();
    found.dedup();
    let own = process::own_line();
    found.retain(|pid| !own.contains(pid));
    Ok(found)
}

fn remove_shared_memory(name: &LabName) -> Result<()> {
    let directory = "/dev/shm";
    for entry in fs::read_dir(directory).context(directory)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|file| name.owns_shared_memory(file)) {
            fs::remove_file(entry.path()).with_context(|| entry.path().display().to_string())?;
        }
    }
    Ok(())
}
