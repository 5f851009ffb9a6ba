//! A Deployment is restarted again and again under load, and no client notices.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use vrouter_tests::command::Running;
use vrouter_tests::lab::{Family, Lab, Place, Programs, Shape};
use vrouter_tests::manifest::{Endpoints, ServicePort, deployment, idle_pod, service, with_spec};
use vrouter_tests::report::{Steady, Wrk};

use crate::group::{Group, cases};

pub const GROUP: Group = Group {
    name: "rollout",
    shape: Shape { nodes: 3, kernel_nodes: 0 },
    objects,
    cases: cases![twenty_restarts_lose_no_request],
};

const RESTARTS: usize = 20;
const MEMBERS: usize = 10;
const WEB: u16 = 8080;
const NAMES: u16 = 53;
const CLIENT: Place = Place::Pod("client");

fn objects(_: &Programs) -> Vec<Value> {
    let ports = [
        ServicePort { protocol: "TCP", port: WEB, target: 80 },
        ServicePort { protocol: "UDP", port: NAMES, target: 53 },
    ];
    vec![
        idle_pod("client", "n1"),
        deployment("web", MEMBERS, &[("TCP", 80), ("UDP", 53)]),
        with_spec(service("web", Endpoints::OfApp("web"), &ports), json!({"type": "LoadBalancer"})),
    ]
}

/// Probes that go on, each with what it does.
struct Loads<'a> {
    lab: &'a Lab,
    running: Vec<(String, Running)>,
}

impl<'a> Loads<'a> {
    fn of(lab: &'a Lab) -> Self {
        Self { lab, running: Vec::new() }
    }

    fn add(mut self, from: Place, target: SocketAddr, words: &[&str]) -> Result<Self> {
        let target = target.to_string();
        let words = [&words[..1], &[&target], &words[1..]].concat();
        self.running.push((format!("{from:?}: {}", words.join(" ")), self.lab.start_probe(from, &words)?));
        Ok(self)
    }

    fn finish<T: serde::de::DeserializeOwned>(self) -> Result<Vec<(String, T)>> {
        let finish = |(what, probe): (String, Running)| Ok((what, probe.finish(Duration::from_secs(30))?));
        self.running.into_iter().map(finish).collect()
    }
}

/// Kept connections and fresh ones, from inside and from outside by way of every node; and two sockets that never change.
fn twenty_restarts_lose_no_request(lab: &Lab) -> Result<()> {
    let inside = |family, port| lab.service_address("web", family, port);
    let outside = |family, port| lab.ingress("web", family, port);
    let (kept, fresh) = (["wrk", "--manner", "keep-alive"], ["wrk", "--manner", "connect"]);
    let requests = Loads::of(lab)
        .add(CLIENT, inside(Family::V4, WEB)?, &kept)?
        .add(CLIENT, inside(Family::V6, WEB)?, &fresh)?
        .add(Place::Client, outside(Family::V6, WEB)?, &kept)?
        .add(Place::Client, outside(Family::V4, WEB)?, &fresh)?;
    let datagrams = Loads::of(lab).add(CLIENT, inside(Family::V4, NAMES)?, &["steady"])?.add(
        Place::SecondClient,
        outside(Family::V6, NAMES)?,
        &["steady"],
    )?;
    for _ in 0..RESTARTS {
        lab.restart("default/web")?;
    }
    for (what, report) in requests.finish::<Wrk>()? {
        let unharmed = Wrk { requests: report.requests, ..Wrk::default() };
        ensure!(report == unharmed && report.requests > 1000, "{what}: {report:?}");
    }
    for (what, report) in datagrams.finish::<Steady>()? {
        ensure!(report.unanswered_in_a_row <= 1 && report.answered > 100, "{what}: {report:?}");
        // Each restart takes all members away, so it went from one to the next as often at least.
        ensure!(report.members.len() > RESTARTS / 2, "{what}: stuck: {report:?}");
    }
    Ok(())
}
