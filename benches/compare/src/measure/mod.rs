//! Measuring one case at one site.

mod processor;
mod sockperf;
mod wrk;

use anyhow::{Context, Result};
use vrouter_lab::iperf::{self, Received, Traffic};

use crate::case::{Case, Metric};
use crate::subject::Site;

pub use processor::busy_share;
pub use sockperf::pinned;

const ONE_STREAM: Traffic = Traffic::Tcp { streams: 1 };

/// One figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// What it counts.
    pub metric: Metric,
    /// How much.
    pub value: f64,
}

/// Measures a case for so many seconds.
pub fn measure(case: Case, site: &Site, seconds: u32) -> Result<Vec<Figure>> {
    let figures = match case {
        Case::Tcp1 => throughput(site, ONE_STREAM, seconds),
        Case::Tcp8 => throughput(site, Traffic::Tcp { streams: 8 }, seconds),
        Case::Udp64 => packet_rate(site, 64, seconds),
        Case::Udp1400 => packet_rate(site, 1400, seconds),
        Case::PingPong => latency(site, seconds),
        Case::Crr => requests(site, wrk::Connections::Fresh, seconds),
        Case::KeepAlive => requests(site, wrk::Connections::Kept, seconds),
        Case::Cpu => processor_time(site, seconds),
    };
    figures.with_context(|| case.to_string())
}

fn send(site: &Site, traffic: Traffic, seconds: u32) -> Result<Received> {
    iperf::measure(&site.client, site.iperf, traffic, seconds)
}

fn throughput(site: &Site, traffic: Traffic, seconds: u32) -> Result<Vec<Figure>> {
    let value = send(site, traffic, seconds)?.gigabits_per_second();
    Ok(vec![Figure { metric: Metric::Gbps, value }])
}

fn packet_rate(site: &Site, payload: u16, seconds: u32) -> Result<Vec<Figure>> {
    let value = send(site, Traffic::Udp { payload }, seconds)?.kilopackets_per_second();
    Ok(vec![Figure { metric: Metric::Kpps, value }])
}

fn latency(site: &Site, seconds: u32) -> Result<Vec<Figure>> {
    let latency = sockperf::ping_pong(&site.client, site.pingpong, seconds)?;
    Ok(vec![
        Figure { metric: Metric::P50Us, value: latency.p50 },
        Figure { metric: Metric::P99Us, value: latency.p99 },
    ])
}

fn requests(site: &Site, connections: wrk::Connections, seconds: u32) -> Result<Vec<Figure>> {
    let value = wrk::request_rate(&site.client, site.http, connections, seconds)?;
    Ok(vec![Figure { metric: Metric::Rps, value }])
}

fn processor_time(site: &Site, seconds: u32) -> Result<Vec<Figure>> {
    let before = processor::busy()?;
    let received = send(site, ONE_STREAM, seconds)?;
    let spent = processor::busy()?.saturating_sub(before);
    let value = spent.as_secs_f64() / (received.bytes / 1e9);
    Ok(vec![Figure { metric: Metric::CpuSPerGb, value }])
}
