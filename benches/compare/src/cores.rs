//! The cores that client and server programs are kept on: different ones, of those that this program may use.

use std::ffi::OsStr;
use std::process::Command;

use anyhow::{Context, Result, bail};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

/// The core for clients.
pub fn client() -> Result<usize> {
    ends().map(|(first, _)| first)
}

/// The core for servers.
pub fn server() -> Result<usize> {
    ends().map(|(_, last)| last)
}

/// Has `taskset`, a command of it without arguments, run a program on one core only.
pub fn pin(mut taskset: Command, core: usize, program: impl AsRef<OsStr>) -> Command {
    taskset.arg("--cpu-list").arg(core.to_string()).arg(program);
    taskset
}

fn ends() -> Result<(usize, usize)> {
    let usable = sched_getaffinity(Pid::from_raw(0)).context("sched_getaffinity")?;
    let mut cores = (0..CpuSet::count()).filter(|core| usable.is_set(*core).unwrap_or(false));
    match (cores.next(), cores.next_back()) {
        (Some(first), Some(last)) => Ok((first, last)),
        _ => bail!("client and server need a core each, and there is only one"),
    }
}
