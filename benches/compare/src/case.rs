//! What is measured through a subject, and in which units.

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

/// One kind of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub enum Case {
    /// One TCP stream.
    Tcp1,
    /// Eight TCP streams.
    Tcp8,
    /// UDP datagrams of 64 bytes, as many as go.
    Udp64,
    /// UDP datagrams of 1400 bytes, as many as go.
    Udp1400,
    /// 64 bytes to and fro on one TCP connection, one at a time.
    PingPong,
    /// HTTP requests, each on a connection of its own.
    Crr,
    /// HTTP requests on connections that are kept.
    KeepAlive,
    /// The processor time that one TCP stream costs the whole machine.
    Cpu,
}

impl Case {
    /// Whether what it shows may change with the number of services: it counts connections, or packets of one.
    pub fn tells_of_scale(self) -> bool {
        matches!(self, Self::Tcp1 | Self::Crr)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp1 => "tcp1",
            Self::Tcp8 => "tcp8",
            Self::Udp64 => "udp64",
            Self::Udp1400 => "udp1400",
            Self::PingPong => "pingpong",
            Self::Crr => "crr",
            Self::KeepAlive => "keepalive",
            Self::Cpu => "cpu",
        })
    }
}

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Payload that arrived.
    Gbps,
    /// Datagrams that arrived.
    Kpps,
    /// Half of a round trip, the median.
    P50Us,
    /// Half of a round trip, all but one in a hundred.
    P99Us,
    /// Requests that were answered.
    Rps,
    /// Processor time for a gigabyte that arrived.
    CpuSPerGb,
}

/// Which of two figures is the good one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// The higher one.
    Higher,
    /// The lower one.
    Lower,
}

impl Metric {
    /// Its unit.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Gbps => "Gbit/s",
            Self::Kpps => "kpps",
            Self::P50Us | Self::P99Us => "us",
            Self::Rps => "req/s",
            Self::CpuSPerGb => "s/GB",
        }
    }

    /// Which of two figures is the good one.
    pub fn better(self) -> Better {
        match self {
            Self::Gbps | Self::Kpps | Self::Rps => Better::Higher,
            Self::P50Us | Self::P99Us | Self::CpuSPerGb => Better::Lower,
        }
    }

    /// What tells it apart from the case's other metrics; nothing where there is one only.
    pub fn quantile(self) -> Option<&'static str> {
        match self {
            Self::P50Us => Some("p50"),
            Self::P99Us => Some("p99"),
            Self::Gbps | Self::Kpps | Self::Rps | Self::CpuSPerGb => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cases_and_metrics_have_one_name_everywhere() {
        for case in Case::value_variants() {
            let value = case.to_possible_value().unwrap();
            assert_eq!(value.get_name(), case.to_string());
            assert_eq!(serde_json::to_value(case).unwrap(), json!(case.to_string()));
        }
        let metrics =
            [Metric::Gbps, Metric::Kpps, Metric::P50Us, Metric::P99Us, Metric::Rps, Metric::CpuSPerGb];
        let wanted = json!(["gbps", "kpps", "p50_us", "p99_us", "rps", "cpu_s_per_gb"]);
        assert_eq!(serde_json::to_value(metrics).unwrap(), wanted);
    }
}
