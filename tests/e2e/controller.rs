//! The controller goes away and comes back; the nodes go on.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use vrouter_tests::command::eventually;
use vrouter_tests::lab::{Family, Lab, Place, Programs, Shape};
use vrouter_tests::manifest::{
    ECHO, Endpoints, ServicePort, deployment, echo_pod, idle_pod, service, stream,
};
use vrouter_tests::report::{Datagrams, Echo};
use vrouter_tests::status::NodeStatus;

use crate::away::{Away, End};
use crate::group::{Group, cases};
use crate::load::{Requests, ask};

pub const GROUP: Group = Group {
    name: "controller",
    shape: Shape { nodes: 2, kernel_nodes: 0 },
    objects,
    cases: cases![
        stopped_traffic_goes_on,
        killed_traffic_goes_on,
        nothing_is_lost_when_it_comes_back,
        ctrl_4_a_node_restarts_meanwhile,
        ctrl_4_what_changed_meanwhile_arrives,
        a_pod_starts_meanwhile,
        ctrl_14_more_than_one_message_holds,
    ],
};

const CLIENT: &str = "client";
const CONTROLLER: &str = "controller";
const NODES: [&str; 2] = ["n1", "n2"];
const WEB: u16 = 8080;
/// Services with more members together than one may have.
const MANY: [&str; 2] = ["many-even", "many-odd"];

fn objects(programs: &Programs) -> Vec<Value> {
    vec![
        idle_pod(CLIENT, "n1"),
        echo_pod("far", "n2", programs.probe()),
        deployment("web", 2, &[("TCP", 80)]),
        service("web", Endpoints::OfApp("web"), &[ServicePort { protocol: "TCP", port: WEB, target: 80 }]),
    ]
}

fn web(lab: &Lab) -> Result<SocketAddr> {
    lab.service_address("web", Family::V4, WEB)
}

fn goes_on_without(lab: &Lab, end: End) -> Result<()> {
    let target = web(lab)?;
    let requests = Requests::start(lab, CLIENT, target)?;
    let away = Away::begin(lab, CONTROLLER, end)?;
    for node in NODES {
        eventually(Duration::from_secs(5), || {
            ensure!(!lab.node_status(node)?.controller_connected, "{node} still has its controller");
            Ok(())
        })?;
    }
    ask(lab, CLIENT, target, 300)?;
    away.back()?;
    requests.finish_unharmed().map(drop)
}

fn stopped_traffic_goes_on(lab: &Lab) -> Result<()> {
    goes_on_without(lab, Lab::stop)
}

fn killed_traffic_goes_on(lab: &Lab) -> Result<()> {
    goes_on_without(lab, Lab::kill)
}

fn nothing_is_lost_when_it_comes_back(lab: &Lab) -> Result<()> {
    lab.settle()?;
    let target = SocketAddr::new(lab.pod_address("far", Family::V4)?, ECHO).to_string();
    let statuses = || NODES.iter().map(|node| lab.node_status(node)).collect::<Result<Vec<_>>>();
    let before = statuses()?;
    let datagrams = lab.start_probe(Place::Pod(CLIENT), &["datagrams", &target])?;
    let ends: [End; 2] = [Lab::stop, Lab::kill];
    for end in ends {
        Away::begin(lab, CONTROLLER, end)?.back()?;
    }
    thread::sleep(Duration::from_millis(500));
    let report: Datagrams = datagrams.finish(Duration::from_secs(10))?;
    let all = Datagrams { sent: report.sent, answered: report.sent, ..Datagrams::default() };
    ensure!(report == all && report.sent > 100, "{report:?}");
    for (node, (before, after)) in NODES.iter().zip(before.iter().zip(statuses()?)) {
        unchanged(before, &after).map_err(|error| error.context(*node))?;
    }
    Ok(())
}

fn unchanged(before: &NodeStatus, after: &NodeStatus) -> Result<()> {
    ensure!(after.controller_connected, "the controller has not come back");
    ensure!(before.digest == after.digest, "digest {}, now {}", before.digest, after.digest);
    ensure!(
        after.applied_version >= before.applied_version,
        "version {}, now {}",
        before.applied_version,
        after.applied_version
    );
    ensure!(after.refusals.is_empty(), "{:?}", after.refusals);
    Ok(())
}

/// The node forwards by what it wrote down.
fn ctrl_4_a_node_restarts_meanwhile(lab: &Lab) -> Result<()> {
    let target = web(lab)?;
    let before = lab.node_status("n1")?;
    let away = Away::begin(lab, CONTROLLER, Lab::stop)?;
    Away::begin(lab, "n1", Lab::stop)?.back()?;
    ask(lab, CLIENT, target, 200)?;
    let meanwhile = lab.node_status("n1")?;
    ensure!(meanwhile.digest == before.digest, "digest {}, now {}", before.digest, meanwhile.digest);
    Away::begin(lab, "n1", Lab::kill)?.back()?;
    ask(lab, CLIENT, target, 200)?;
    away.back()?;
    unchanged(&before, &lab.node_status("n1")?)?;
    ask(lab, CLIENT, target, 200).map(drop)
}

fn ctrl_4_what_changed_meanwhile_arrives(lab: &Lab) -> Result<()> {
    let away = Away::begin(lab, CONTROLLER, Lab::stop)?;
    let ports = [ServicePort { protocol: "TCP", port: 9090, target: 80 }];
    let file = lab.write("late.yaml", &stream(&[service("late", Endpoints::OfApp("web"), &ports)]))?;
    // The lab says that nobody has acknowledged it.
    ensure!(!lab.try_apply(&file)?.succeeded(), "applied without a controller");
    away.back()?;
    ask(lab, CLIENT, lab.service_address("late", Family::V4, 9090)?, 20)?;
    lab.delete("service", "default/late")
}

fn a_pod_starts_meanwhile(lab: &Lab) -> Result<()> {
    let away = Away::begin(lab, CONTROLLER, Lab::stop)?;
    let pod = echo_pod("meanwhile", "n1", lab.programs().probe());
    let file = lab.write("meanwhile.yaml", &stream(&[pod]))?;
    lab.try_apply(&file)?;
    ensure!(lab.pod("meanwhile")?.phase == "Running", "{:?}", lab.pod("meanwhile")?);
    let target = SocketAddr::new(lab.pod_address("far", Family::V4)?, ECHO).to_string();
    let reach = |from: &str, target: &str| -> Result<()> {
        let echo: Echo = lab.probe(Place::Pod(from), &["bulk", target, "--bytes", "100000"])?;
        ensure!(echo == Echo { intact: 100_000, damaged_at: None }, "{from} to {target}: {echo:?}");
        Ok(())
    };
    reach("meanwhile", &target)?;
    let own = SocketAddr::new(lab.pod_address("meanwhile", Family::V4)?, ECHO).to_string();
    away.back()?;
    reach("meanwhile", &target)?;
    reach("far", &own)?;
    lab.delete("pod", "default/meanwhile")
}

/// Twenty thousand endpoints take more than the four megabytes that a gRPC message holds unless told otherwise.
fn ctrl_14_more_than_one_message_holds(lab: &Lab) -> Result<()> {
    let slice = |number: u8| {
        let address = |place: u16| Ipv4Addr::new(198, 18, number * 4 + (place >> 8) as u8, place as u8);
        let endpoints: Vec<_> = (0..1000).map(|place| json!({"addresses": [address(place)]})).collect();
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": format!("many-{number}"),
                "namespace": "default",
                "labels": {"kubernetes.io/service-name": MANY[usize::from(number % 2)]},
            },
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": [{"name": "tcp-80", "port": 80, "protocol": "TCP"}],
        })
    };
    let ports = [ServicePort { protocol: "TCP", port: 80, target: 80 }];
    let mut objects: Vec<_> = MANY.iter().map(|name| service(name, Endpoints::Listed, &ports)).collect();
    objects.extend((0..20).map(slice));
    let outcome = lab.apply(&objects).and_then(|()| {
        // A node that starts anew gets all of it at once.
        Away::begin(lab, "n2", Lab::stop)?.back()?;
        for node in NODES {
            let status = lab.node_status(node)?;
            ensure!(status.controller_connected && status.refusals.is_empty(), "{node}: {status:?}");
            let floating_ips = lab.floating_ips(node)?;
            let of_many = floating_ips
                .iter()
                .filter(|fip| fip.name.starts_with("default/many-") && fip.address.is_ipv4());
            let members: usize =
                of_many.flat_map(|fip| &fip.listeners).map(|listener| listener.members.len()).sum();
            ensure!(members == 20_000, "{node}: {members} members");
        }
        ask(lab, CLIENT, web(lab)?, 50).map(drop)
    });
    let file = lab.write("many.yaml", &stream(&objects))?;
    lab.delete_file(&file)?;
    outcome
}
