//! A node's vRouter dies under load and is started again.

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;
use vrouter_tests::lab::{Family, Lab, Programs, Shape};
use vrouter_tests::manifest::{Endpoints, ServicePort, deployment, idle_pod, service};

use crate::away::{Away, End};
use crate::group::{Group, cases};
use crate::load::{Requests, ask};

pub const GROUP: Group = Group {
    name: "restart",
    shape: Shape { nodes: 2, kernel_nodes: 0 },
    objects,
    cases: cases![
        killed_at_the_client_connections_go_on,
        killed_at_a_member_connections_go_on,
        ctrl_3_stopped_connections_go_on,
    ],
};

const CLIENT: &str = "client";
const WEB: u16 = 8080;

fn objects(_: &Programs) -> Vec<Value> {
    vec![
        idle_pod(CLIENT, "n1"),
        deployment("web", 2, &[("TCP", 80)]),
        service("web", Endpoints::OfApp("web"), &[ServicePort { protocol: "TCP", port: WEB, target: 80 }]),
    ]
}

/// Established connections go on with the member they had, and none is refused: at worst packets are sent again.
fn goes_on(lab: &Lab, node: &str, end: End) -> Result<()> {
    for family in Family::BOTH {
        let target = lab.service_address("web", family, WEB)?;
        let requests = Requests::start(lab, CLIENT, target)?;
        thread::sleep(Duration::from_millis(500));
        let before = lab.node_status(node)?.flows;
        Away::begin(lab, node, end)?.back()?;
        let after = lab.node_status(node)?.flows;
        // Longer than the next retransmission.
        thread::sleep(Duration::from_secs(2));
        let load = requests.finish_unharmed().map_err(|error| error.context(format!("{family:?}")))?;
        ensure!(load.closed == 0, "connections were closed: {load:?}");
        // Short connections may have come to their end meanwhile.
        ensure!(after >= before / 2, "of {before} flows {after} are left");
        ask(lab, CLIENT, target, 100)?;
    }
    Ok(())
}

fn killed_at_the_client_connections_go_on(lab: &Lab) -> Result<()> {
    goes_on(lab, "n1", Lab::kill)
}

fn killed_at_a_member_connections_go_on(lab: &Lab) -> Result<()> {
    goes_on(lab, "n2", Lab::kill)
}

fn ctrl_3_stopped_connections_go_on(lab: &Lab) -> Result<()> {
    goes_on(lab, "n1", Lab::stop)
}
