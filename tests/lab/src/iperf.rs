//! Measuring with iperf3.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use crate::netns::Netns;

/// The port an iperf3 server listens on unless told otherwise.
pub const PORT: u16 = 5201;

const TRIES: usize = 5;

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// So many TCP streams at once.
    Tcp {
        /// How many.
        streams: u8,
    },
    /// Datagrams, as many as go.
    Udp {
        /// The bytes in each.
        payload: u16,
    },
}

/// What arrived at the other side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Received {
    /// Payload.
    pub bytes: f64,
    /// Datagrams; none of TCP.
    pub datagrams: f64,
    /// In this time.
    pub seconds: f64,
}

impl Received {
    /// Gbit/s.
    pub fn gigabits_per_second(&self) -> f64 {
        self.bytes * 8.0 / 1e9 / self.seconds
    }

    /// Thousands of datagrams a second.
    pub fn kilopackets_per_second(&self) -> f64 {
        self.datagrams / 1e3 / self.seconds
    }
}

/// Sends for so many seconds from one namespace to a server, and tells what arrived there.
pub fn measure(from: &Netns, target: SocketAddr, traffic: Traffic, seconds: u32) -> Result<Received> {
    let mut said = String::new();
    for _ in 0..TRIES {
        let report = run(from, target, traffic, seconds)?;
        match report.get("error").and_then(Value::as_str) {
            None => {
                return received(&report, traffic)
                    .ok_or_else(|| anyhow!("iperf3 to {target}: no figure in its report"));
            }
            // A server takes one client at a time, and needs a moment between two.
            Some(error) => said = error.to_owned(),
        }
        thread::sleep(Duration::from_millis(300));
    }
    bail!("iperf3 to {target}: {said}")
}

fn run(from: &Netns, target: SocketAddr, traffic: Traffic, seconds: u32) -> Result<Value> {
    let mut command = from.command("iperf3");
    command.args(["--client", &target.ip().to_string(), "--port", &target.port().to_string()]).args([
        "--time",
        &seconds.to_string(),
        "--json",
        "--connect-timeout",
        "3000",
    ]);
    match traffic {
        Traffic::Tcp { streams } => command.args(["--parallel", &streams.to_string()]),
        Traffic::Udp { payload } => {
            command.args(["--udp", "--bitrate", "0", "--length", &payload.to_string()])
        }
    };
    let output = command.output().context("iperf3")?;
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("iperf3 to {target}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn received(report: &Value, traffic: Traffic) -> Option<Received> {
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_f64);
    match traffic {
        Traffic::Tcp { .. } => Some(Received {
            bytes: number("/end/sum_received/bytes")?,
            datagrams: 0.0,
            seconds: number("/end/sum_received/seconds")?,
        }),
        Traffic::Udp { payload } => {
            let datagrams = number("/end/sum/packets")? - number("/end/sum/lost_packets")?;
            let seconds = number("/end/sum/seconds")?;
            Some(Received { bytes: datagrams * f64::from(payload), datagrams, seconds })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reports_are_read() {
        let streams = Traffic::Tcp { streams: 1 };
        let tcp = json!({"end": {
            "sum_sent": {"start": 0, "end": 1.000064, "seconds": 1.000064, "bytes": 1_756_758_016_u64},
            "sum_received": {"start": 0, "end": 1.00058, "seconds": 1.00058, "bytes": 1_752_825_856_u64,
                "bits_per_second": 14_014_478_450.498_71},
        }});
        let figure = received(&tcp, streams).unwrap();
        assert!((figure.gigabits_per_second() - 14.01).abs() < 0.01, "{figure:?}");
        let datagrams = Traffic::Udp { payload: 64 };
        let udp = json!({"end": {
            "sum": {"start": 0, "end": 1.000134, "seconds": 1.000134, "bytes": 17_061_760,
                "lost_packets": 4486, "packets": 266_590},
        }});
        let figure = received(&udp, datagrams).unwrap();
        assert!((figure.kilopackets_per_second() - 262.07).abs() < 0.01, "{figure:?}");
        assert_eq!(figure.bytes, 262_104.0 * 64.0);
        assert_eq!(received(&json!({"end": {}}), streams), None);
        assert_eq!(received(&json!({"end": {}}), datagrams), None);
    }
}
