//! Measuring one case at one site.

mod processor;
mod sockperf;
mod wrk;

use anyhow::{Context, Result, bail};
use vrouter_lab::iperf::{self, Received, Traffic};

use crate::case::{Case, Metric};
use crate::subject::Site;

pub use processor::{busy_share, wait_until_idle};

/// What a tool may take beyond the seconds that it measures for, before it is ended.
const GRACE: u32 = 15;

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
    figures.and_then(credible).with_context(|| case.to_string())
}

/// Refuses figures that only a measurement which did not work can have.
fn credible(figures: Vec<Figure>) -> Result<Vec<Figure>> {
    match figures.iter().find(|figure| !(figure.value.is_finite() && figure.value > 0.0)) {
        Some(figure) => bail!("{} {} cannot be", figure.value, figure.metric.unit()),
        None => Ok(figures),
    }
}

fn send(site: &Site, traffic: Traffic, seconds: u32) -> Result<Received> {
    iperf::measure(&site.client, &site.iperf, traffic, seconds)
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
    let (received, busy) =
        iperf::measure_beside(&site.client, &site.iperf, ONE_STREAM, seconds, processor::busy)?;
    let spent = busy.end.saturating_sub(busy.start);
    let value = spent.as_secs_f64() / (received.bytes / 1e9);
    Ok(vec![Figure { metric: Metric::CpuSPerGb, value }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_cannot_be_are_refused() {
        let figures = |value| vec![Figure { metric: Metric::Gbps, value }];
        assert_eq!(credible(figures(0.1)).unwrap(), figures(0.1));
        for value in [0.0, -1.0, f64::INFINITY, f64::NAN] {
            let said = credible(figures(value)).unwrap_err().to_string();
            assert!(said.contains("Gbit/s"), "{said}");
        }
    }
}
