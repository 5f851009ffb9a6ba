//! Measuring with iperf3.

use std::net::SocketAddr;
use std::ops::Range;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::netns::{self, Netns};
use crate::shell::run_with_input;

/// The port an iperf3 server listens on unless told otherwise.
pub const PORT: u16 = 5201;

const TRIES: usize = 5;

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(300);

/// What connecting and exchanging results may take, in seconds.
const GRACE: u32 = 15;

/// The datagram by which a client makes itself known.
const GREETING: u64 = 1;

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

/// Where it is sent.
#[derive(Debug, Clone)]
pub struct Target {
    /// The namespace that the server runs in.
    pub netns: Netns,
    /// What leads to it.
    pub address: SocketAddr,
}

/// What the server took.
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

/// Sends for so many seconds from one namespace to a server, and tells what the server took.
pub fn measure(from: &Netns, target: &Target, traffic: Traffic, seconds: u32) -> Result<Received> {
    measure_beside(from, target, traffic, seconds, || Ok(())).map(|(received, _)| received)
}

/// The same, and reads a gauge right before and right after: not before a try that failed.
pub fn measure_beside<T>(
    from: &Netns,
    target: &Target,
    traffic: Traffic,
    seconds: u32,
    gauge: impl Fn() -> Result<T>,
) -> Result<(Received, Range<T>)> {
    let address = target.address;
    let mut said = String::new();
    for _ in 0..TRIES {
        let datagrams = datagrams_taken(target)?;
        let start = gauge()?;
        let report = run(from, address, traffic, seconds)?;
        let end = gauge()?;
        match report.get("error").and_then(Value::as_str) {
            None => {
                let datagrams = datagrams_taken(target)?.saturating_sub(datagrams + GREETING);
                let received = received(&report, traffic, datagrams);
                let received =
                    received.with_context(|| format!("iperf3 to {address}: no figure in its report"))?;
                return Ok((received, start..end));
            }
            // A server takes one client at a time, and needs a moment between two.
            Some(error) => said = error.to_owned(),
        }
        thread::sleep(PAUSE);
    }
    bail!("iperf3 to {address}: {said}")
}

fn run(from: &Netns, target: SocketAddr, traffic: Traffic, seconds: u32) -> Result<Value> {
    let mut command = from.measuring_command(seconds + GRACE, "iperf3");
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
    if netns::was_stopped(output.status) {
        bail!("iperf3 to {target} did not end by itself");
    }
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("iperf3 to {target}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn received(report: &Value, traffic: Traffic, datagrams: u64) -> Option<Received> {
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_f64);
    match traffic {
        Traffic::Tcp { .. } => Some(Received {
            bytes: number("/end/sum_received/bytes")?,
            datagrams: 0.0,
            seconds: number("/end/sum_received/seconds")?,
        }),
        Traffic::Udp { payload } => {
            let (datagrams, seconds) = (datagrams as f64, number("/end/sum/seconds")?);
            Some(Received { bytes: datagrams * f64::from(payload), datagrams, seconds })
        }
    }
}

/// How many datagrams the sockets in the server's namespace have handed over so far. The kernel counts one when a process
/// reads it, where iperf3 takes for received whatever was sent after the last one that it saw.
fn datagrams_taken(target: &Target) -> Result<u64> {
    let (file, count): (_, fn(&str) -> Option<u64>) = match target.address {
        SocketAddr::V4(_) => ("/proc/net/snmp", datagrams_ipv4),
        SocketAddr::V6(_) => ("/proc/net/snmp6", datagrams_ipv6),
    };
    let text = run_with_input(target.netns.command("cat").arg(file), b"")?;
    count(&text).with_context(|| format!("{}: {file}: no count of UDP datagrams", target.netns.name()))
}

/// From one line of names and one of values.
fn datagrams_ipv4(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp:")).map(str::split_whitespace);
    let (names, values) = (lines.next()?, lines.next()?);
    names.zip(values).find(|(name, _)| *name == "InDatagrams")?.1.parse().ok()
}

/// From a line of its own.
fn datagrams_ipv6(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("Udp6InDatagrams"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_is_read() {
        let streams = Traffic::Tcp { streams: 1 };
        let tcp = json!({"end": {
            "sum_sent": {"start": 0, "end": 1.000064, "seconds": 1.000064, "bytes": 1_756_758_016_u64},
            "sum_received": {"start": 0, "end": 1.00058, "seconds": 1.00058, "bytes": 1_752_825_856_u64,
                "bits_per_second": 14_014_478_450.498_71},
        }});
        let figure = received(&tcp, streams, 7).unwrap();
        assert!((figure.gigabits_per_second() - 14.01).abs() < 0.01, "{figure:?}");
        assert_eq!(figure.datagrams, 0.0);
        assert_eq!(received(&json!({"end": {}}), streams, 7), None);
    }

    #[test]
    fn datagrams_are_those_that_the_server_took() {
        let datagrams = Traffic::Udp { payload: 64 };
        let udp = json!({"end": {
            "sum": {"start": 0, "end": 2.0, "seconds": 2.0, "bytes": 17_061_760,
                "lost_packets": 4486, "packets": 266_590},
        }});
        let figure = received(&udp, datagrams, 100_000).unwrap();
        assert_eq!(figure, Received { bytes: 6_400_000.0, datagrams: 100_000.0, seconds: 2.0 });
        assert_eq!(figure.kilopackets_per_second(), 50.0);
        assert_eq!(received(&json!({"end": {}}), datagrams, 100_000), None);
    }

    #[test]
    fn datagrams_are_counted_by_the_kernel() {
        let text = "Tcp: InSegs OutSegs\nTcp: 1 2\n\
                    Udp: NoPorts InDatagrams InErrors\nUdp: 3 350 5\nUdpLite: InDatagrams\nUdpLite: 7\n";
        assert_eq!(datagrams_ipv4(text), Some(350));
        assert_eq!(datagrams_ipv4("Udp: InDatagrams\n"), None);
        let text = "Ip6InReceives \t1\nUdp6InDatagrams                 \t42\nUdpLite6InDatagrams\t3\n";
        assert_eq!(datagrams_ipv6(text), Some(42));
        assert_eq!(datagrams_ipv6(""), None);
    }
}
