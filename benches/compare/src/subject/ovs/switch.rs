//! An Open vSwitch of our own in a node's namespace: its database, its daemon, its sockets in a folder of the lab's.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use vrouter_lab::name::{LabName, MARKER};
use vrouter_lab::netns::Netns;
use vrouter_lab::process::{Process, log_tail, wait_until};
use vrouter_lab::shell::run_with_input;

use super::Offload;

/// Where the Debian package and most others keep it.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// The program that switches.
pub const DAEMON: &str = "ovs-vswitchd";

const START: Duration = Duration::from_secs(20);

/// A running one.
#[derive(Debug)]
pub struct Switch {
    lab: LabName,
    netns: Netns,
    directory: PathBuf,
}

impl Switch {
    /// Starts one in this namespace; the lab's own end takes it away.
    pub fn start(lab: &LabName, netns: &Netns, offload: Offload) -> Result<Self> {
        let directory = lab.directory().join(format!("ovs-{}", netns.name()));
        fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        let switch = Self { lab: lab.clone(), netns: netns.clone(), directory };
        let (database, socket) = (switch.file("conf.db"), switch.file("db.sock"));
        switch.run("ovsdb-tool", [OsStr::new("create"), database.as_os_str(), OsStr::new(SCHEMA)])?;
        switch.spawn(
            "ovsdb-server",
            &[database.to_string_lossy().into(), format!("--remote=p{}", switch.database())],
        )?;
        if !wait_until(START, || socket.exists()) {
            bail!(
                "ovsdb-server is not ready; its log ends with:\n{}",
                log_tail(&switch.file("ovsdb-server.log"))
            );
        }
        switch.configure(&["--no-wait", "init"])?;
        let offloads = format!("other_config:userspace-tso-enable={}", offload == Offload::Segmentation);
        switch.configure(&["--no-wait", "set", "Open_vSwitch", ".", &offloads])?;
        switch.spawn(DAEMON, &[switch.database()])?;
        Ok(switch)
    }

    /// One `ovs-vsctl` command, done when the daemon has done it.
    pub fn configure(&self, arguments: &[impl AsRef<OsStr>]) -> Result<()> {
        let database = format!("--db={}", self.database());
        let timeout = format!("--timeout={}", START.as_secs());
        let own = [OsStr::new(&database), OsStr::new(&timeout)];
        self.run("ovs-vsctl", own.into_iter().chain(arguments.iter().map(AsRef::as_ref)))
            .with_context(|| log_tail(&self.file("ovs-vswitchd.log")))
    }

    /// Tells a bridge groups and flows, in `ovs-ofctl`'s notation.
    pub fn program(&self, bridge: &str, groups: &str, flows: &str) -> Result<()> {
        for (command, text) in [("add-groups", groups), ("add-flows", flows)] {
            let mut ofctl = self.command("ovs-ofctl");
            run_with_input(ofctl.args(["--protocols=OpenFlow15", command, bridge, "-"]), text.as_bytes())?;
        }
        Ok(())
    }

    fn run<S: AsRef<OsStr>>(&self, program: &str, arguments: impl IntoIterator<Item = S>) -> Result<()> {
        run_with_input(self.command(program).args(arguments), b"").map(drop)
    }

    fn spawn(&self, program: &str, arguments: &[String]) -> Result<()> {
        let mut command = self.command(program);
        command.args(arguments);
        let log = self.file(&format!("{program}.log"));
        Process::spawn(&command, (MARKER, &self.lab.to_string()), &log).map(drop)
    }

    /// All of its programs look for sockets, and leave theirs, in its own folder.
    fn command(&self, program: &str) -> Command {
        let mut command = self.netns.command(program);
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, &self.directory);
        }
        command
    }

    fn database(&self) -> String {
        format!("unix:{}", self.file("db.sock").display())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}
