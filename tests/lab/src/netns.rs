//! Network namespaces, by name, as `ip netns` keeps them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::process;
use crate::shell::{run, run_with_input, words};

const DIRECTORY: &str = "/run/netns";

/// A network namespace's name; the namespace need not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Netns(String);

impl Netns {
    /// The namespace with this name.
    pub fn named(name: String) -> Self {
        Self(name)
    }

    /// All that exist on this machine.
    pub fn all() -> Result<Vec<Self>> {
        let entries = match fs::read_dir(DIRECTORY) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).context(DIRECTORY),
        };
        entries.map(|entry| Ok(Self(entry?.file_name().to_string_lossy().into_owned()))).collect()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// The file that stands for it.
    pub fn path(&self) -> PathBuf {
        Path::new(DIRECTORY).join(&self.0)
    }

    /// Makes it, with its loopback interface up.
    pub fn create(&self) -> Result<()> {
        run("ip", ["netns", "add", &self.0])?;
        self.ip("link set lo up")
    }

    /// Takes the name away. The namespace goes with its last process.
    pub fn delete(&self) -> Result<()> {
        run("ip", ["netns", "delete", &self.0]).map(drop)
    }

    /// Whether it exists.
    pub fn exists(&self) -> bool {
        self.path().exists()
    }

    /// One `ip` command in it, its words separated by spaces.
    pub fn ip(&self, line: &str) -> Result<()> {
        run("ip", ["-n", &self.0].into_iter().chain(words(line))).map(drop)
    }

    /// Many `ip` commands in it, one a line, in one go.
    pub fn ip_batch(&self, lines: &str) -> Result<()> {
        let mut command = Command::new("ip");
        command.args(["-n", &self.0, "-batch", "-"]);
        run_with_input(&mut command, lines.as_bytes()).map(drop)
    }

    /// Sets kernel parameters of it, each as `net.….=value`.
    pub fn sysctl(&self, settings: &[&str]) -> Result<()> {
        run("ip", ["netns", "exec", &self.0, "sysctl", "-qw"].iter().chain(settings)).map(drop)
    }

    /// A command that will run in it.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0]).arg(program);
        command
    }

    /// One that measures in it: in a session of its own, like all that it measures, see [`process::in_own_session`]. It is
    /// ended after so many seconds, see [`was_stopped`].
    pub fn measuring_command(&self, seconds: u32, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = process::in_own_session("ip");
        command
            .args(["netns", "exec", &self.0, "timeout", "--kill-after=5", &seconds.to_string()])
            .arg(program);
        command
    }

    /// The processes in it.
    pub fn processes(&self) -> Result<Vec<Pid>> {
        let Ok(own) = fs::metadata(self.path()) else { return Ok(Vec::new()) };
        let inside = |pid: &Pid| {
            fs::metadata(format!("/proc/{pid}/ns/net"))
                .is_ok_and(|theirs| (theirs.dev(), theirs.ino()) == (own.dev(), own.ino()))
        };
        Ok(process::all()?.into_iter().filter(inside).collect())
    }
}

/// Whether a measuring command had to be ended: `timeout`'s own code, or that of a process which heeds no gentle signal.
pub fn was_stopped(status: ExitStatus) -> bool {
    matches!(status.code(), Some(124 | 137) | None)
}

/// Joins two namespaces by a veth pair. Neither end ever stands in the caller's own namespace.
pub fn join(one: (&Netns, &str), other: (&Netns, &str), mtu: u16) -> Result<()> {
    let ((one, device), (other, peer)) = (one, other);
    one.ip(&format!("link add {device} mtu {mtu} type veth peer name {peer} mtu {mtu} netns {}", other.0))?;
    one.ip(&format!("link set {device} up"))?;
    other.ip(&format!("link set {peer} up"))
}
