//! iperf3 through a ClusterIP, ours and the kernel's taking turns.

use std::net::SocketAddr;

use anyhow::{Context, Result, anyhow};
use vrouter_proto::v1::node_client::NodeClient;
use vrouter_proto::v1::{NodeStatusRequest, PacketCounters};

use super::baseline::Baseline;
use super::outcome::{Case, Figure, Outcome, Place, Subject, heading};
use super::service::{address, client_pod, netns};
use crate::iperf::{self, Received, Target};
use crate::lab;
use crate::line::Line;
use crate::name::LabName;
use crate::netns::Netns;
use crate::node;
use crate::object::Name;
use crate::statistics::Summary;

const ROUNDS: usize = 3;
const CASES: [Case; 2] = [Case::Tcp, Case::Udp];
const PLACES: [Place; 2] = [Place::SameNode, Place::AcrossNodes];

/// Of the kernel's TCP throughput, at least so much.
const LEAST: [(Place, f64, &str); 2] = [
    (Place::SameNode, 0.7, "TCP on one node reaches 0.7 of the kernel's"),
    (Place::AcrossNodes, 0.5, "TCP across nodes reaches 0.5 of the kernel's"),
];

/// Something to send through.
struct Path {
    place: Place,
    subject: Subject,
    from: Netns,
    to: Target,
}

/// Measures all cases in rounds, each in turn, and notes the medians.
pub fn compare(lab: &LabName, seconds: u32, outcome: &mut Outcome) -> Result<()> {
    heading("iperf3 through a ClusterIP, beside Linux routing with kube-proxy's nftables rules");
    let baselines = PLACES.map(|place| Baseline::build(lab, place));
    let mut paths = Vec::new();
    let mut kept = Vec::new();
    for (place, baseline) in PLACES.into_iter().zip(baselines) {
        let baseline = baseline?;
        let (from, to) = (netns(lab, &client_pod())?, target(lab, place)?);
        paths.push(Path { place, subject: Subject::VRouter, from, to });
        let (from, to) = (baseline.client().clone(), baseline.target());
        paths.push(Path { place, subject: Subject::Kernel, from, to });
        kept.push(baseline);
    }
    super_frames(lab, &paths[0], outcome)?;
    measure(&paths, seconds, outcome)?;
    kept.into_iter().try_for_each(Baseline::remove)?;
    for (place, least, name) in LEAST {
        let figure = |subject| outcome.figure(Case::Tcp, place, subject).unwrap_or(f64::NAN);
        let ratio = figure(Subject::VRouter) / figure(Subject::Kernel);
        outcome.reached(name, ratio >= least, format!("{ratio:.2}"));
    }
    Ok(())
}

fn measure(paths: &[Path], seconds: u32, outcome: &mut Outcome) -> Result<()> {
    for case in CASES {
        let mut values = vec![Vec::new(); paths.len()];
        for round in 1..=ROUNDS {
            for (path, values) in paths.iter().zip(&mut values) {
                let what = format!("{}, {}, {}", case.title(), path.place.title(), path.subject.title());
                let received = iperf::measure(&path.from, &path.to, case.traffic(), seconds)
                    .with_context(|| what.clone())?;
                let value = figure(case, &received);
                println!("    round {round} of {ROUNDS}: {what}: {value:.2} {}", unit(case));
                values.push(value);
            }
        }
        for (path, values) in paths.iter().zip(values) {
            let value = Summary::of(&values).map_or(f64::NAN, |summary| summary.median);
            outcome.measured(Figure {
                case,
                place: path.place,
                subject: path.subject,
                value,
                unit: unit(case),
            });
        }
    }
    Ok(())
}

/// The iperf3 server of this place, behind its Service.
fn target(lab: &LabName, place: Place) -> Result<Target> {
    let server = server(lab, place)?;
    let address = SocketAddr::new(address(lab, &server)?, iperf::PORT);
    Ok(Target { netns: netns(lab, &server)?, address })
}

/// The iperf3 server that is on the client's node, or one that is not. Its Service has the same name.
fn server(lab: &LabName, place: Place) -> Result<Name> {
    let state = lab::load(lab)?;
    let client = state.pod(&client_pod()).ok_or_else(|| anyhow!("no client pod"))?;
    let fits = |name: &Name| {
        let same = state.pod(name).map(|pod| pod.node == client.node);
        same == Some(place == Place::SameNode)
    };
    let mut servers = ["iperf3-0", "iperf3-1"].map(|name| Name::new("default", name)).into_iter();
    servers.find(fits).ok_or_else(|| anyhow!("no iperf3 server on the {}", place.title()))
}

/// On one node a super-frame of the sender reaches the receiver as it is.
fn super_frames(lab: &LabName, path: &Path, outcome: &mut Outcome) -> Result<()> {
    let state = lab::load(lab)?;
    let node = &state.pod(&client_pod()).ok_or_else(|| anyhow!("no client pod"))?.node;
    let before = counters(lab, node)?;
    iperf::measure(&path.from, &path.to, Case::Tcp.traffic(), 1)?;
    let after = counters(lab, node)?;
    let received = after.super_frames_received - before.super_frames_received;
    let sent = after.super_frames_sent - before.super_frames_sent;
    let cut = after.segments_cut - before.segments_cut;
    let detail = format!("{received} came in, {sent} left whole, {cut} segments were cut");
    outcome.check("super-frames stay whole", received > 0 && sent >= received && cut == 0, detail);
    Ok(())
}

fn counters(lab: &LabName, node: &str) -> Result<PacketCounters> {
    let line = Line::open(&node::socket(lab, node))?;
    let mut client = NodeClient::new(line.channel());
    Ok(line.call(client.status(NodeStatusRequest {}))?.packets.unwrap_or_default())
}

fn figure(case: Case, received: &Received) -> f64 {
    match case {
        Case::Tcp => received.gigabits_per_second(),
        Case::Udp => received.kilopackets_per_second(),
    }
}

fn unit(case: Case) -> &'static str {
    match case {
        Case::Tcp => "Gbit/s",
        Case::Udp => "kpps",
    }
}
