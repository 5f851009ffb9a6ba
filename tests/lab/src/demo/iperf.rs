//! Measuring with iperf3.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use super::outcome::Case;
use crate::netns::Netns;

/// The port an iperf3 server listens on unless told otherwise.
pub const PORT: u16 = 5201;

const TRIES: usize = 5;

/// What arrives at the other side: Gbit/s for TCP, thousands of datagrams a second for UDP.
pub fn measure(from: &Netns, target: SocketAddr, case: Case, seconds: u32) -> Result<f64> {
    let mut said = String::new();
    for _ in 0..TRIES {
        let report = run(from, target, case, seconds)?;
        match report.get("error").and_then(Value::as_str) {
            None => {
                return figure(&report, case)
                    .ok_or_else(|| anyhow!("iperf3 to {target}: no figure in its report"));
            }
            // A server takes one client at a time, and needs a moment between two.
            Some(error) => said = error.to_owned(),
        }
        thread::sleep(Duration::from_millis(300));
    }
    bail!("iperf3 to {target}: {said}")
}

fn run(from: &Netns, target: SocketAddr, case: Case, seconds: u32) -> Result<Value> {
    let mut command = from.command("iperf3");
    command.args(["--client", &target.ip().to_string(), "--port", &target.port().to_string()]).args([
        "--time",
        &seconds.to_string(),
        "--json",
        "--connect-timeout",
        "3000",
    ]);
    if case == Case::Udp {
        command.args(["--udp", "--bitrate", "0", "--length", "64"]);
    }
    let output = command.output().context("iperf3")?;
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("iperf3 to {target}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn figure(report: &Value, case: Case) -> Option<f64> {
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_f64);
    match case {
        Case::Tcp => Some(number("/end/sum_received/bits_per_second")? / 1e9),
        Case::Udp => {
            let arrived = number("/end/sum/packets")? - number("/end/sum/lost_packets")?;
            Some(arrived / number("/end/sum/seconds")? / 1e3)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reports_are_read() {
        let tcp = json!({"end": {"sum_received": {"bits_per_second": 2.5e9}}});
        assert_eq!(figure(&tcp, Case::Tcp), Some(2.5));
        let udp = json!({"end": {"sum": {"packets": 500_000, "lost_packets": 100_000, "seconds": 2.0}}});
        assert_eq!(figure(&udp, Case::Udp), Some(200.0));
        assert_eq!(figure(&json!({"end": {}}), Case::Udp), None);
    }
}
