//! Latency, by sockperf: a message goes and comes back before the next one goes.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use vrouter_lab::netns::{self, Netns};

use super::GRACE;
use crate::cores;

/// Bytes in a message.
const MESSAGE: u32 = 64;

/// Half of a round trip, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latency {
    /// The median.
    pub p50: f64,
    /// All but one in a hundred are faster.
    pub p99: f64,
}

/// Sends messages to and fro for so many seconds.
pub fn ping_pong(from: &Netns, target: SocketAddr, seconds: u32) -> Result<Latency> {
    let taskset = from.measuring_command(seconds + GRACE, "taskset");
    let mut command = cores::pin(taskset, cores::client()?, "sockperf");
    command
        .args(["ping-pong", "--tcp", "--ip", &target.ip().to_string(), "--port", &target.port().to_string()])
        .args(["--time", &seconds.to_string(), "--msg-size", &MESSAGE.to_string()]);
    let output = command.output().context("sockperf")?;
    if netns::was_stopped(output.status) {
        bail!("sockperf to {target} did not end by itself");
    }
    // Its own exit code is no use: it is 0 also where it could not connect.
    let said = String::from_utf8_lossy(&output.stdout);
    match parse(&said) {
        Some(latency) => Ok(latency),
        None => bail!("sockperf to {target}: {}{}", said, String::from_utf8_lossy(&output.stderr)),
    }
}

fn parse(said: &str) -> Option<Latency> {
    let percentile = |name: &str| {
        let line = said.lines().find_map(|line| line.split_once(&format!("percentile {name} =")))?;
        line.1.trim().parse().ok()
    };
    Some(Latency { p50: percentile("50.000")?, p99: percentile("99.000")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
sockperf: [Valid Duration] RunTime=0.549 sec; SentMessages=2772; ReceivedMessages=2772
sockperf: \u{1b}[2;35m====> avg-latency=99.020 (std-dev=266.352)\u{1b}[0m
sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
sockperf: Summary: Latency is 99.020 usec
sockperf: \u{1b}[2;35mTotal 2772 observations\u{1b}[0m; each percentile contains 27.72 observations
sockperf: ---> <MAX> observation = 3187.858
sockperf: ---> percentile 99.999 = 3187.858
sockperf: ---> percentile 99.990 = 3187.858
sockperf: ---> percentile 99.900 = 2678.707
sockperf: ---> percentile 99.000 = 1587.051
sockperf: ---> percentile 90.000 =   77.854
sockperf: ---> percentile 75.000 =   67.805
sockperf: ---> percentile 50.000 =   54.820
sockperf: ---> percentile 25.000 =   26.348
";

    #[test]
    fn percentiles_are_read() {
        assert_eq!(parse(SAID), Some(Latency { p50: 54.82, p99: 1587.051 }));
    }

    #[test]
    fn no_connection_is_no_figure() {
        let said = "sockperf: \u{1b}[2;35m== version #3.7-no.git == \u{1b}[0m\n\
                    sockperf: ERROR: Can`t connect socket (errno=111 Connection refused)\n";
        assert_eq!(parse(said), None);
    }
}
