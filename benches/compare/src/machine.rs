//! Where and how it was measured.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::measure;
use crate::plan::Skipped;
use crate::run::Failure;

/// The tools that figures depend on, and how each is asked for its version.
const TOOLS: [(&str, &str); 8] = [
    ("iperf3", "--version"),
    ("sockperf", "--version"),
    ("wrk", "--version"),
    ("nginx", "-v"),
    ("nft", "--version"),
    ("iptables", "--version"),
    ("ip", "-V"),
    ("ovs-vswitchd", "--version"),
];

/// The limit of connection tracking, which each namespace has for itself.
const TRACKED: &str = "/proc/sys/net/netfilter/nf_conntrack_max";

/// The first and the last port that a client's connections may have.
const PORTS: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// How long the machine is looked at before anything is measured.
const WATCHED: Duration = Duration::from_millis(500);

/// From here on figures tell more of what else runs than of the subjects.
const TOO_BUSY: f64 = 0.1;

/// What figures can be compared by.
#[derive(Debug, Default, Serialize)]
pub struct Machine {
    /// The kernel's release.
    pub kernel: String,
    /// Processors.
    pub cores: usize,
    /// Their model.
    pub cpu: String,
    /// Memory, in MiB.
    pub memory_mib: u64,
    /// How much of the processors others took when the run began, 1.0 for all of them.
    pub busy_at_start: f64,
    /// TCP's congestion control.
    pub congestion_control: String,
    /// The tools by name, and this program.
    pub versions: BTreeMap<&'static str, String>,
    /// How many connections the kernel keeps track of, where it does.
    pub connections_tracked: Option<u64>,
    /// How many ports a client's connections have: as many can be tracked to one service.
    pub client_ports: u64,
    /// How the vRouter's packets got into tunnels.
    pub vxlan: &'static str,
    /// Whether policies selected the measured pods.
    pub policy: &'static str,
    /// How often each figure was taken.
    pub rounds: usize,
    /// The length of each measurement.
    pub seconds: u32,
    /// What was asked for and cannot be measured here.
    pub skipped: Vec<Skipped>,
    /// What was tried and went wrong.
    pub failed: Vec<Failure>,
}

impl Machine {
    /// This machine.
    pub fn this() -> Result<Self> {
        let information = read("/proc/cpuinfo")?;
        let memory = read("/proc/meminfo")?;
        let kibibytes =
            field(&memory, "MemTotal").and_then(|it| it.trim_end_matches(" kB").parse::<u64>().ok());
        let mut versions: BTreeMap<_, _> =
            TOOLS.into_iter().filter_map(|(tool, option)| Some((tool, version(tool, option)?))).collect();
        versions.insert("vrouter", env!("CARGO_PKG_VERSION").to_owned());
        Ok(Self {
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            cores: available_parallelism().context("counting processors")?.get(),
            // Not every architecture names its model.
            cpu: field(&information, "model name").unwrap_or(std::env::consts::ARCH).to_owned(),
            memory_mib: kibibytes.context("/proc/meminfo: no MemTotal")? / 1024,
            busy_at_start: measure::busy_share(WATCHED)?,
            congestion_control: read("/proc/sys/net/ipv4/tcp_congestion_control")?.trim().to_owned(),
            connections_tracked: read(TRACKED).ok().and_then(|it| it.trim().parse().ok()),
            client_ports: ports(&read(PORTS)?).context(PORTS)?,
            versions,
            ..Self::default()
        })
    }

    /// On one line.
    pub fn summary(&self) -> String {
        format!(
            "Linux {}, {} x {}, {} MiB, TCP {}; {} x {} s for each figure",
            self.kernel,
            self.cores,
            self.cpu,
            self.memory_mib,
            self.congestion_control,
            self.rounds,
            self.seconds
        )
    }

    /// Whether the kernel's connection tracking can be a limit.
    pub fn tracking(&self) -> String {
        let ports = self.client_ports;
        match self.connections_tracked {
            None => "nftables: the limit of tracked connections is not known".to_owned(),
            Some(most) if most > ports => {
                format!(
                    "nftables, iptables: {most} connections can be tracked, a client's ports make {ports} at most"
                )
            }
            Some(most) => format!(
                "WARNING: {most} connections can be tracked, and a client's ports make {ports}: raise nf_conntrack_max"
            ),
        }
    }

    /// What is to be said where others take too much of it.
    pub fn warning(&self) -> Option<String> {
        let percent = 100.0 * self.busy_at_start;
        (self.busy_at_start >= TOO_BUSY).then(|| {
            format!("WARNING: others kept the machine {percent:.0} % busy; do not trust these figures")
        })
    }
}

fn ports(range: &str) -> Option<u64> {
    let mut ends = range.split_whitespace().map(str::parse::<u64>);
    let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
    Some(last.checked_sub(first)? + 1)
}

fn read(file: &str) -> Result<String> {
    fs::read_to_string(file).context(file.to_owned())
}

/// The first value of this name in one of those files of `/proc` that have `name : value` lines.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.split_once(':').filter(|(key, _)| key.trim() == name);
    text.lines().find_map(value).map(|(_, value)| value.trim())
}

/// What a tool says of itself; nothing where it is not installed.
pub fn version(tool: &str, option: &str) -> Option<String> {
    // Some print it to standard error, some fail after printing it.
    let output = Command::new(tool).arg(option).output().ok()?;
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    said.lines().map(str::trim).find(|line| line.contains(|c: char| c.is_ascii_digit())).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t\t: 1\nmodel name\t: AMD EPYC\nMemTotal:       24684096 kB\n";
        assert_eq!(field(text, "model name"), Some("AMD EPYC"));
        assert_eq!(field(text, "MemTotal"), Some("24684096 kB"));
        assert_eq!(field(text, "name"), None);
    }

    #[test]
    fn a_busy_machine_is_told() {
        let machine = |busy_at_start| Machine { busy_at_start, ..Machine::default() };
        assert_eq!(machine(0.02).warning(), None);
        assert!(machine(0.5).warning().unwrap().contains("50 % busy"));
    }

    #[test]
    fn a_low_limit_of_tracked_connections_is_told() {
        let machine = |most| Machine {
            connections_tracked: Some(most),
            client_ports: ports("32768\t60999\n").unwrap(),
            ..Machine::default()
        };
        assert!(machine(262_144).tracking().contains("28232 at most"));
        assert!(machine(20_000).tracking().starts_with("WARNING"));
        assert_eq!(ports("2 1"), None);
    }

    #[test]
    fn this_machine_is_known() {
        let machine = Machine::this().unwrap();
        assert!(machine.cores > 0 && machine.memory_mib > 0 && !machine.kernel.is_empty());
        assert!(machine.versions.contains_key("vrouter"));
        assert_eq!(version("vrouter-no-such-tool", "--version"), None);
    }
}
