//! ClusterIPs: spread, stability under change, ports, and what is refused.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use serde_json::{Value, json};
use vrouter_tests::lab::{Family, Lab, Place, Programs, Shape};
use vrouter_tests::manifest::{ECHO, Endpoints, ServicePort, deployment, echo_pod, idle_pod, service};
use vrouter_tests::report::{Associations, Knock, Outcome, Tally};

use crate::group::{Group, cases};
use crate::load::{Requests, all_answered, ask};

pub const GROUP: Group = Group {
    name: "services",
    shape: Shape { nodes: 2, kernel_nodes: 0 },
    objects,
    cases: cases![
        two_thousand_connections_are_spread,
        scaling_moves_nothing,
        ports_and_protocols_are_told_apart,
        sctp_finds_its_port,
        a_pod_reaches_itself,
        a_headless_service_has_no_frontend,
        listed_in_endpoints,
        listed_in_an_endpoint_slice,
        ctrl_16_the_last_endpoint_leaves,
        nobody_there_is_said_at_once,
        a_floating_ip_has_the_documented_shape,
    ],
};

const CLIENT: &str = "client";
const WEB: u16 = 8080;

fn objects(programs: &Programs) -> Vec<Value> {
    let port = |protocol, port, target| ServicePort { protocol, port, target };
    let names = [port("UDP", 53, 1053), port("TCP", 53, 1054), port("TCP", 9153, 9153)];
    let mut headless = service("headless", Endpoints::OfApp("web"), &[port("TCP", WEB, 80)]);
    headless["spec"]["clusterIP"] = json!("None");
    vec![
        idle_pod(CLIENT, "n1"),
        echo_pod("sctp", "n2", programs.probe()),
        deployment("web", 2, &[("TCP", 80)]),
        deployment("names", 2, &[("UDP", 1053), ("TCP", 1054), ("TCP", 9153)]),
        service("web", Endpoints::OfApp("web"), &[port("TCP", WEB, 80)]),
        service("names", Endpoints::OfApp("names"), &names),
        service("sctp", Endpoints::OfApp("sctp"), &[port("SCTP", 9000, ECHO)]),
        service("listed", Endpoints::Listed, &[port("TCP", WEB, 80)]),
        service("nobody", Endpoints::OfApp("nobody"), &[port("TCP", WEB, 80), port("UDP", WEB, 80)]),
        headless,
    ]
}

fn two_thousand_connections_are_spread(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        let tally = ask(lab, CLIENT, lab.service_address("web", family, WEB)?, 2000)?;
        ensure!(tally.requests == 2000 && tally.members.len() == 2, "{tally:?}");
        ensure!(
            tally.members.values().all(|share| (900..=1100).contains(share)),
            "not 45 to 55 %: {tally:?}"
        );
        let nodes =
            tally.members.keys().map(|pod| Ok(lab.pod(pod)?.node)).collect::<Result<BTreeSet<_>>>()?;
        ensure!(nodes.len() == 2, "members on one node only: {nodes:?}");
    }
    Ok(())
}

fn scaling_moves_nothing(lab: &Lab) -> Result<()> {
    let requests = Requests::start(lab, CLIENT, lab.service_address("web", Family::V4, WEB)?)?;
    for replicas in [4, 3] {
        thread::sleep(Duration::from_millis(500));
        lab.scale("default/web", replicas)?;
    }
    thread::sleep(Duration::from_millis(500));
    let load = requests.finish_unharmed()?;
    ensure!(load.fresh.members.len() == 4, "new members took no part: {load:?}");
    lab.scale("default/web", 2)
}

fn ports_and_protocols_are_told_apart(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        for (protocol, port) in [("udp", 53), ("tcp", 53), ("tcp", 9153)] {
            let target = lab.service_address("names", family, port)?.to_string();
            let words = ["requests", &target, "--protocol", protocol, "--count", "100", "--parallel", "8"];
            let tally: Tally = lab.probe(Place::Pod(CLIENT), &words)?;
            all_answered(&format!("{target}/{protocol}"), &tally)?;
            ensure!(tally.members.len() == 2, "{target}/{protocol}: {tally:?}");
        }
    }
    Ok(())
}

fn sctp_finds_its_port(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        let target = lab.service_address("sctp", family, 9000)?.to_string();
        let report: Associations = lab.probe(Place::Pod(CLIENT), &["sctp", &target, "--count", "20"])?;
        ensure!(report == Associations { sent: 20, answered: 20 }, "{target}: {report:?}");
    }
    Ok(())
}

/// Through a Service a pod's request may come back to itself; the answer must find it too.
fn a_pod_reaches_itself(lab: &Lab) -> Result<()> {
    let pods = lab.status()?.pods;
    let member = pods.iter().find(|pod| pod.name.starts_with("web-")).ok_or_else(|| anyhow!("no web pod"))?;
    for family in Family::BOTH {
        let tally = ask(lab, &member.name, lab.service_address("web", family, WEB)?, 60)?;
        ensure!(tally.members.len() == 2, "{}: {tally:?}", member.name);
    }
    Ok(())
}

fn a_headless_service_has_no_frontend(lab: &Lab) -> Result<()> {
    ensure!(lab.service("headless")?.cluster_ips.is_empty(), "it has an address");
    for node in ["n1", "n2"] {
        let floating_ips = lab.floating_ips(node)?;
        ensure!(floating_ips.iter().any(|fip| fip.name == "default/web"), "{node}: no floating IP of web");
        ensure!(floating_ips.iter().all(|fip| fip.name != "default/headless"), "{node} has a floating IP");
    }
    Ok(())
}

fn listed_in_endpoints(lab: &Lab) -> Result<()> {
    let pods = web_addresses(lab, Family::V4)?;
    let addresses: Vec<_> = pods.iter().map(|ip| json!({"ip": ip})).collect();
    lab.apply(&[json!({
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "listed", "namespace": "default"},
        "subsets": [{"addresses": addresses, "ports": [{"name": "tcp-8080", "port": 80}]}],
    })])?;
    let tally = ask(lab, CLIENT, lab.service_address("listed", Family::V4, WEB)?, 60);
    lab.delete("endpoints", "default/listed")?;
    ensure!(tally?.members.len() == pods.len(), "not every address serves");
    Ok(())
}

fn listed_in_an_endpoint_slice(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        lab.apply(&[slice(family, &web_addresses(lab, family)?)])?;
        let tally = ask(lab, CLIENT, lab.service_address("listed", family, WEB)?, 60);
        lab.delete("endpointslice", "default/listed-1")?;
        ensure!(tally?.members.len() == 2, "{family:?}: not every address serves");
    }
    Ok(())
}

fn ctrl_16_the_last_endpoint_leaves(lab: &Lab) -> Result<()> {
    let target = lab.service_address("listed", Family::V4, WEB)?;
    let all = web_addresses(lab, Family::V4)?;
    let leavings: [(&str, &dyn Fn() -> Result<()>); 2] = [
        ("emptied", &|| lab.apply(&[slice(Family::V4, &[])])),
        ("deleted", &|| lab.delete("endpointslice", "default/listed-1")),
    ];
    for (how, leave) in leavings {
        lab.apply(&[slice(Family::V4, &all)])?;
        ask(lab, CLIENT, target, 10)?;
        leave()?;
        refused(lab, target, "tcp").map_err(|error| error.context(how))?;
    }
    Ok(())
}

fn nobody_there_is_said_at_once(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        for protocol in ["tcp", "udp"] {
            refused(lab, lab.service_address("nobody", family, WEB)?, protocol)?;
            // A port that is none of the Service's, at an address that is.
            refused(lab, lab.service_address("web", family, 81)?, protocol)?;
        }
    }
    Ok(())
}

fn refused(lab: &Lab, target: SocketAddr, protocol: &str) -> Result<()> {
    let words = ["knock", &target.to_string(), "--protocol", protocol];
    let knock: Knock = lab.probe(Place::Pod(CLIENT), &words)?;
    ensure!(knock.outcome == Outcome::Refused && knock.milliseconds < 500, "{target}/{protocol}: {knock:?}");
    Ok(())
}

fn web_addresses(lab: &Lab, family: Family) -> Result<Vec<String>> {
    let pods = lab.status()?.pods;
    let web = pods.iter().filter(|pod| pod.name.starts_with("web-"));
    Ok(web.filter_map(|pod| family.pick(&pod.ips)).map(|address| address.to_string()).collect())
}

fn slice(family: Family, addresses: &[String]) -> Value {
    let endpoints: Vec<_> = addresses.iter().map(|address| json!({"addresses": [address]})).collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "listed-1",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "listed"},
        },
        "addressType": match family { Family::V4 => "IPv4", Family::V6 => "IPv6" },
        "endpoints": endpoints,
        "ports": [{"name": "tcp-8080", "port": 80, "protocol": "TCP"}],
    })
}

/// As Contrail documents it; where a Service names no target port, it is the port itself.
fn a_floating_ip_has_the_documented_shape(lab: &Lab) -> Result<()> {
    let mut plain =
        service("plain", Endpoints::OfApp("web"), &[ServicePort { protocol: "TCP", port: 80, target: 80 }]);
    if let Some(port) = plain["spec"]["ports"][0].as_object_mut() {
        port.remove("targetPort");
    }
    lab.apply(&[plain])?;
    let wanted = [
        ("web", json!([{"srcPort": WEB, "dstPort": 80, "protocol": "TCP"}])),
        ("plain", json!([{"srcPort": 80, "dstPort": 80, "protocol": "TCP"}])),
    ];
    let outcome = wanted.iter().try_for_each(|(name, mappings)| {
        let address = lab.service_address(name, Family::V4, 80)?.ip().to_string();
        let objects: Vec<Value> = lab.vrctl("n1", &["get", "fip"])?;
        let shown = objects.iter().find(|object| object["spec"]["address"] == json!(address));
        let shown = shown.ok_or_else(|| anyhow!("no floating IP {address} among {objects:?}"))?;
        let found = &shown["spec"]["floatingIpPortMappings"]["portMappings"];
        ensure!(found == mappings, "{name}: {shown}");
        Ok(())
    });
    lab.delete("service", "default/plain")?;
    outcome
}
