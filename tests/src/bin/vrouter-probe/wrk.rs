//! A load that wrk makes, with what it counts as failed.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::{Args, ValueEnum};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use vrouter_tests::report::Wrk;

use crate::until_told::UntilTold;

const GLANCE: Duration = Duration::from_millis(20);

/// How wrk rests between requests, and what it prints at last.
const SCRIPT: &str = r#"
function delay() return PAUSE end
function done(summary, latency, requests)
   local e = summary.errors
   io.write(string.format('{"requests":%d,"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d}\n',
      summary.requests, e.connect, e.read, e.write, e.status, e.timeout))
end
"#;

/// Whom to load, and how.
#[derive(Debug, Args)]
pub struct Options {
    target: SocketAddr,
    #[arg(long, value_enum)]
    manner: Manner,
    /// How many connections at a time.
    #[arg(long, default_value_t = 8)]
    connections: u32,
    /// Milliseconds between two requests of one connection.
    #[arg(long, default_value_t = 5)]
    pause: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Manner {
    /// Connections are kept.
    KeepAlive,
    /// Each request has a connection of its own.
    Connect,
}

/// Loads until told to stop.
pub fn run(options: &Options) -> Result<Wrk> {
    let scratch = tempfile::tempdir()?;
    let script = scratch.path().join("load.lua");
    fs::write(&script, SCRIPT.replace("PAUSE", &options.pause.to_string()))?;
    let mut command = Command::new("wrk");
    command.args(["--threads", "1", "--timeout", "10s", "--duration", "3600s"]);
    command.args(["--connections", &options.connections.to_string()]);
    if options.manner == Manner::Connect {
        command.args(["--header", "Connection: close"]);
    }
    command.arg("--script").arg(&script).arg(format!("http://{}/", options.target));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("wrk")?;
    let told = UntilTold::begin()?;
    while !told.is_over() && child.try_wait()?.is_none() {
        thread::sleep(GLANCE);
    }
    // It sums up what there was until then.
    kill(Pid::from_raw(child.id().try_into()?), Signal::SIGINT)?;
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let summary = text.lines().find(|line| line.starts_with('{'));
    serde_json::from_str(summary.ok_or_else(|| anyhow!("wrk printed {text:?}"))?).context("wrk")
}
