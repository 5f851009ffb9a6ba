//! Nodes, their own processes, and the world beyond, as pods reach them and are reached by them.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use vrouter_tests::lab::{Family, Lab, Place, Programs, Shape};
use vrouter_tests::manifest::{
    ECHO, Endpoints, ServicePort, echo_pod, idle_pod, of_app, on_host_network, server_pod, service, with_spec,
};
use vrouter_tests::report::{Echo, Steady};

use crate::group::{Group, cases};
use crate::load::{Protocol, ask_from, ask_seen_as, each, members, node_port};
use crate::way::Way;

pub const GROUP: Group = Group {
    name: "host",
    shape: Shape { nodes: 3, kernel_nodes: 0 },
    objects,
    cases: cases![
        a_node_reaches_every_pod,
        a_probe_like_kubelets,
        a_node_reaches_services,
        a_pod_reaches_node_ports_as_itself,
        snat_8_a_pod_reaches_nodes_as_itself,
        a_pod_reaches_the_world_as_its_node,
        snat_3_two_pods_with_one_source_port,
        members_on_the_host_network,
        snat_5_a_pod_reaches_itself_by_every_frontend,
        bulk_data_arrives_whole,
    ],
};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const PORT: u16 = 8080;
/// What the nodes' own server listens on.
const OWN: u16 = 8090;

fn objects(programs: &Programs) -> Vec<Value> {
    let ports = ["TCP", "UDP"].map(|protocol| ServicePort { protocol, port: PORT, target: 80 });
    let own = ["TCP", "UDP"].map(|protocol| ServicePort { protocol, port: PORT, target: OWN });
    let echo = [ServicePort { protocol: "TCP", port: PORT, target: ECHO }];
    let balanced = |name, app, ports: &[ServicePort]| {
        with_spec(service(name, Endpoints::OfApp(app), ports), json!({"type": "LoadBalancer"}))
    };
    let both = |port| [("TCP", port), ("UDP", port)];
    vec![
        of_app("web", server_pod("web-1", "n1", &both(80))),
        of_app("web", server_pod("web-2", "n2", &both(80))),
        server_pod("alone", "n1", &both(80)),
        echo_pod("echo", "n2", programs.probe()),
        idle_pod("near", "n1"),
        idle_pod("away", "n3"),
        on_host_network(server_pod("own", "n2", &both(OWN))),
        balanced("web", "web", &ports),
        balanced("alone", "alone", &ports),
        balanced("own", "own", &own),
        balanced("echo", "echo", &echo),
    ]
}

fn a_node_reaches_every_pod(lab: &Lab) -> Result<()> {
    each(|family, protocol| {
        for from in NODES.map(Place::Node) {
            for pod in ["web-1", "web-2"] {
                let target = SocketAddr::new(lab.pod_address(pod, family)?, 80);
                ask_seen_as(lab, from, protocol, target, lab.address(from, family)?)?;
            }
        }
        Ok(())
    })?;
    for family in Family::BOTH {
        for (from, pod) in [("n1", "web-1"), ("n1", "web-2"), ("n3", "web-1")] {
            let address = lab.pod_address(pod, family)?.to_string();
            for size in ["56", "3000"] {
                let words = ["ping", "-n", "-c", "2", "-i", "0.05", "-W", "2", "-s", size, &address];
                lab.exec(Place::Node(from), &words)?.success()?;
            }
        }
    }
    Ok(())
}

/// Each probe is a connection of its own, and has a second.
fn a_probe_like_kubelets(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        let url = format!("http://{}/healthz", SocketAddr::new(lab.pod_address("web-1", family)?, 80));
        for _ in 0..10 {
            let words = ["curl", "-s", "-g", "-f", "--max-time", "1", "-o", "/dev/null", &url];
            lab.exec(Place::Node("n1"), &words)?.success()?;
        }
    }
    Ok(())
}

fn a_node_reaches_services(lab: &Lab) -> Result<()> {
    each(|family, protocol| {
        for node in NODES {
            let from = Place::Node(node);
            let targets = [
                lab.service_address("web", family, PORT)?,
                lab.ingress("web", family, PORT)?,
                node_port(lab, ("web", PORT), node, family, protocol)?,
                node_port(lab, ("web", PORT), "n3", family, protocol)?,
                node_port(lab, ("web", PORT), "n1", family, protocol)?,
            ];
            for target in targets {
                ask_seen_as(lab, from, protocol, target, lab.address(from, family)?)?;
            }
        }
        Ok(())
    })
}

fn a_pod_reaches_node_ports_as_itself(lab: &Lab) -> Result<()> {
    each(|family, protocol| {
        for from in [Place::Pod("near"), Place::Pod("away")] {
            for node in NODES {
                let target = node_port(lab, ("web", PORT), node, family, protocol)?;
                ask_seen_as(lab, from, protocol, target, lab.address(from, family)?)?;
            }
        }
        Ok(())
    })
}

fn snat_8_a_pod_reaches_nodes_as_itself(lab: &Lab) -> Result<()> {
    each(|family, protocol| {
        let node = lab.address(Place::Node("n2"), family)?;
        for from in ["near", "web-2", "away"].map(Place::Pod) {
            let target = SocketAddr::new(node, OWN);
            ask_seen_as(lab, from, protocol, target, lab.address(from, family)?)?;
        }
        Ok(())
    })?;
    for family in Family::BOTH {
        for node in NODES {
            let address = lab.address(Place::Node(node), family)?.to_string();
            let words = ["ping", "-n", "-c", "2", "-i", "0.05", "-W", "2", &address];
            lab.exec(Place::Pod("near"), &words)?.success()?;
        }
    }
    Ok(())
}

fn a_pod_reaches_the_world_as_its_node(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        let world = lab.address(Place::Internet, family)?;
        for (pod, node) in [("near", "n1"), ("away", "n3"), ("web-2", "n2")] {
            let own = lab.address(Place::Node(node), family)?;
            for (protocol, port) in [(Protocol::Tcp, 80), (Protocol::Udp, 53)] {
                ask_seen_as(lab, Place::Pod(pod), protocol, SocketAddr::new(world, port), own)?;
            }
            let words = ["ping", "-n", "-c", "2", "-i", "0.05", "-W", "2", &world.to_string()];
            lab.exec(Place::Pod(pod), &words)?.success()?;
        }
    }
    Ok(())
}

/// Both at a time, and to one server: it must tell their answers apart.
fn snat_3_two_pods_with_one_source_port(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        let own = lab.address(Place::Node("n1"), family)?;
        let target = SocketAddr::new(lab.address(Place::Internet, family)?, 53).to_string();
        let words = ["steady", &target, "--source-port", "5000", "--pause", "2"];
        let running = ["near", "web-1"].map(|pod| lab.start_probe(Place::Pod(pod), &words));
        std::thread::sleep(Duration::from_millis(500));
        for probe in running {
            let report: Steady = probe?.finish(Duration::from_secs(10))?;
            ensure!(report.sent > 20 && report.answered == report.sent, "{target}: {report:?}");
            ensure!(report.clients.keys().eq([&own]), "seen otherwise than as {own}: {report:?}");
        }
    }
    Ok(())
}

/// From outside it is its node's kernel that answers, which knows no way back but to the node that the client came by: so
/// the member sees that node. Pods and nodes it sees as they are.
fn members_on_the_host_network(lab: &Lab) -> Result<()> {
    each(|family, protocol| {
        for node in NODES {
            let by = lab.address(Place::Node(node), family)?;
            let target = node_port(lab, ("own", PORT), node, family, protocol)?;
            ask_seen_as(lab, Place::Client, protocol, target, by)?;
            let balanced = lab.ingress("own", family, PORT)?;
            let _way = Way::by(lab, balanced.ip(), node)?;
            ask_seen_as(lab, Place::SecondClient, protocol, balanced, by)?;
        }
        let target = lab.service_address("own", family, PORT)?;
        for from in [Place::Pod("near"), Place::Pod("web-2"), Place::Node("n1"), Place::Node("n3")] {
            ask_seen_as(lab, from, protocol, target, lab.address(from, family)?)?;
        }
        ask_from(lab, Place::Node("n2"), protocol, target, 10).map(drop)
    })
}

/// A pod that answered itself under its own address would not believe it.
fn snat_5_a_pod_reaches_itself_by_every_frontend(lab: &Lab) -> Result<()> {
    each(|family, protocol| {
        let targets = [
            lab.service_address("alone", family, PORT)?,
            lab.ingress("alone", family, PORT)?,
            node_port(lab, ("alone", PORT), "n1", family, protocol)?,
            node_port(lab, ("alone", PORT), "n3", family, protocol)?,
        ];
        let own = lab.pod_address("alone", family)?;
        for target in targets {
            let tally = ask_from(lab, Place::Pod("alone"), protocol, target, 12)?;
            ensure!(members(&tally) == ["alone"], "{target}: {tally:?}");
            ensure!(!tally.clients.contains_key(&own), "{target}: seen as itself: {tally:?}");
        }
        Ok(())
    })
}

fn bulk_data_arrives_whole(lab: &Lab) -> Result<()> {
    let bytes = 8 << 20;
    for family in Family::BOTH {
        let ways = [
            (Place::Client, node_port(lab, ("echo", PORT), "n3", family, Protocol::Tcp)?),
            (Place::Client, node_port(lab, ("echo", PORT), "n2", family, Protocol::Tcp)?),
            (Place::Internet, lab.ingress("echo", family, PORT)?),
            (Place::Node("n1"), lab.service_address("echo", family, PORT)?),
            (Place::Node("n2"), SocketAddr::new(lab.pod_address("echo", family)?, ECHO)),
        ];
        for (from, target) in ways {
            let words = ["bulk", &target.to_string(), "--bytes", &bytes.to_string()];
            let echo: Echo = lab.probe(from, &words)?;
            ensure!(echo == Echo { intact: bytes, damaged_at: None }, "{from:?} to {target}: {echo:?}");
        }
    }
    Ok(())
}
