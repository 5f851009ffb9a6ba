//! A Deployment is restarted again and again under load, and no client notices.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use vrouter_tests::lab::{Family, Lab, Place, Programs, Shape};
use vrouter_tests::manifest::{Endpoints, ServicePort, deployment, idle_pod, service, with_spec};
use vrouter_tests::report::{Steady, Wrk};

use crate::group::{Group, cases};
use crate::load::Loads;

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
