//! Bulk data moves, and moves in large pieces. How fast is measured elsewhere.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};
use serde_json::Value;
use vrouter_tests::command::eventually;
use vrouter_tests::lab::{Family, Lab, Place, Programs, Shape};
use vrouter_tests::manifest::{Endpoints, ServicePort, idle_pod, iperf_pod, service};
use vrouter_tests::status::Packets;

use crate::group::{Group, cases};

pub const GROUP: Group = Group {
    name: "speed",
    shape: Shape { nodes: 2, kernel_nodes: 0 },
    objects,
    cases: cases![super_frames_stay_whole_on_a_node, tcp_across_nodes, udp_on_a_node_and_across],
};

const IPERF: u16 = 5201;

fn objects(_: &Programs) -> Vec<Value> {
    let ports = ["TCP", "UDP"].map(|protocol| ServicePort { protocol, port: IPERF, target: IPERF });
    vec![
        idle_pod("client", "n1"),
        iperf_pod("near", "n1"),
        iperf_pod("far", "n2"),
        service("near", Endpoints::OfApp("near"), &ports),
        service("far", Endpoints::OfApp("far"), &ports),
    ]
}

/// Runs iperf3 through a Service and returns its report.
fn iperf(lab: &Lab, target: SocketAddr, more: &[&str]) -> Result<Value> {
    let (address, port) = (target.ip().to_string(), target.port().to_string());
    let words = ["iperf3", "-J", "-c", &address, "-p", &port, "-t", "2", "--connect-timeout", "3000"];
    // The server takes a moment between two clients.
    eventually(Duration::from_secs(10), || {
        let report: Value = lab.exec(Place::Pod("client"), &[&words, more].concat())?.json()?;
        match report.get("error") {
            None => Ok(report),
            Some(error) => bail!("iperf3 to {target}: {error}"),
        }
    })
}

fn received(report: &Value) -> Result<u64> {
    let bytes = report.pointer("/end/sum_received/bytes").and_then(Value::as_u64);
    bytes.ok_or_else(|| anyhow!("no sum in {report}"))
}

fn super_frames_stay_whole_on_a_node(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        let packets = || -> Result<Packets> { Ok(lab.node_status("n1")?.packets) };
        let before = packets()?;
        let bytes = received(&iperf(lab, lab.service_address("near", family, IPERF)?, &[])?)?;
        let after = packets()?;
        ensure!(bytes > 10 << 20, "{family:?}: only {bytes} bytes");
        let whole = after.super_frames_sent - before.super_frames_sent;
        ensure!(after.segments_cut == before.segments_cut, "{family:?}: super-frames were cut");
        // A super-frame holds 64 KB at most, so at least half of the bytes came in such.
        ensure!(whole > bytes / (64 << 10) / 2, "{family:?}: {whole} super-frames for {bytes} bytes");
    }
    Ok(())
}

fn tcp_across_nodes(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        let target = lab.service_address("far", family, IPERF)?;
        for more in [&[][..], &["-R"]] {
            let bytes = received(&iperf(lab, target, more)?)?;
            ensure!(bytes > 10 << 20, "{target} {more:?}: only {bytes} bytes");
        }
    }
    Ok(())
}

fn udp_on_a_node_and_across(lab: &Lab) -> Result<()> {
    for service in ["near", "far"] {
        let target = lab.service_address(service, Family::V4, IPERF)?;
        let report = iperf(lab, target, &["-u", "-b", "5M", "-l", "1000"])?;
        let number = |field: &str| report.pointer(&format!("/end/sum/{field}")).and_then(Value::as_u64);
        let (Some(sent), Some(lost)) = (number("packets"), number("lost_packets")) else {
            bail!("no sum in {report}");
        };
        // The machine may be busy, so that a socket buffer overflows now and then.
        ensure!(sent > 1000 && lost * 20 < sent, "{service}: {lost} of {sent} lost");
    }
    Ok(())
}
