//! Requests a second, by wrk.

use std::net::SocketAddr;

use anyhow::{Context, Result, anyhow, bail};
use vrouter_lab::netns::{self, Netns};

use super::GRACE;

/// Open at a time.
const CONNECTIONS: u32 = 32;

/// What becomes of a connection once a request on it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// It is closed, and the next request opens another.
    Fresh,
    /// The next request uses it too.
    Kept,
}

/// Asks for so many seconds. A request that is not answered as it should be fails the whole: a server or a path that refuses
/// can look fast, and one that stalls merely slow.
pub fn request_rate(from: &Netns, target: SocketAddr, connections: Connections, seconds: u32) -> Result<f64> {
    let mut command = from.measuring_command(seconds + GRACE, "wrk");
    command.args(["--threads", "1", "--connections", &CONNECTIONS.to_string()]);
    command.args(["--duration", &seconds.to_string()]);
    if connections == Connections::Fresh {
        command.args(["--header", "Connection: close"]);
    }
    let output = command.arg(format!("http://{target}/")).output().context("wrk")?;
    if netns::was_stopped(output.status) {
        bail!("wrk to {target} did not end by itself");
    }
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("wrk to {target}: {said}{}", String::from_utf8_lossy(&output.stderr));
    }
    parse(&said).with_context(|| format!("wrk to {target}"))
}

fn parse(said: &str) -> Result<f64> {
    let faults: Vec<_> = said.lines().map(str::trim).filter(|line| tells_of_fault(line)).collect();
    if !faults.is_empty() {
        bail!("{}", faults.join(", "));
    }
    let rate = said.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:"));
    let rate = rate.and_then(|rate| rate.trim().parse::<f64>().ok());
    rate.filter(|rate| *rate > 0.0).ok_or_else(|| anyhow!("it had no answer: {said}"))
}

/// wrk prints these lines only where there was one.
fn tells_of_fault(line: &str) -> bool {
    line.starts_with("Socket errors:") || line.starts_with("Non-2xx or 3xx responses:")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
Running 1s test @ http://10.9.0.2:8080/
  1 threads and 32 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.48ms  643.62us   7.53ms   80.94%
    Req/Sec    13.25k   393.73    13.86k    60.00%
  13211 requests in 1.00s, 1.83MB read
Requests/sec:  13158.55
Transfer/sec:      1.82MB
";

    const BAD: &str = "\
Running 1s test @ http://10.9.0.2:8080/
  1 threads and 32 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.66ms    0.85ms   9.16ms   90.30%
    Req/Sec     2.38k   656.64     2.94k    88.89%
  2227 requests in 1.00s, 389.29KB read
  Socket errors: connect 0, read 13124, write 0, timeout 0
  Non-2xx or 3xx responses: 2227
Requests/sec:   2220.33
Transfer/sec:    388.12KB
";

    #[test]
    fn the_rate_is_read() {
        assert_eq!(parse(GOOD).unwrap(), 13158.55);
    }

    #[test]
    fn a_rate_with_faults_is_none() {
        let said = parse(BAD).unwrap_err().to_string();
        assert!(said.contains("read 13124") && said.contains("responses: 2227"), "{said}");
        let silent = GOOD.replace("13158.55", "0.00");
        assert!(parse(&silent).is_err());
        assert!(parse("").is_err());
    }
}
