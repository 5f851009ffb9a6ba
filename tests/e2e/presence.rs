//! What the vRouter does to its node: what it sets up it keeps right, takes away again, and none of it is in the way of the
//! node's own traffic.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use vrouter_tests::command::{eventually, run};
use vrouter_tests::lab::{Family, Lab, Place, Programs, Shape};
use vrouter_tests::manifest::{
    ECHO, Endpoints, ServicePort, echo_pod, on_host_network, server_pod, service, with_spec,
};
use vrouter_tests::report::{Datagrams, Outcome};

use crate::away::{Away, End};
use crate::group::{Group, cases};
use crate::load::{Protocol, Requests, ask_from, ask_seen_as, knock, node_port};

pub const GROUP: Group = Group {
    name: "presence",
    shape: Shape { nodes: 2, kernel_nodes: 0 },
    objects,
    cases: cases![
        the_nodes_own_traffic_is_never_cut,
        ctrl_2_what_passes_through_outlives_a_kill,
        tpol_15_addresses_come_and_go,
        everything_is_gone_after_a_stop,
        everything_is_healed_after_a_kill,
    ],
};

const NODE: &str = "n1";
const ENDS: [End; 2] = [Lab::stop, Lab::kill];
const WEB: u16 = 8080;
const OWN: u16 = 8090;

fn objects(programs: &Programs) -> Vec<Value> {
    let ports = [ServicePort { protocol: "TCP", port: WEB, target: 80 }];
    vec![
        server_pod("web", "n2", &[("TCP", 80)]),
        on_host_network(server_pod("own-1", "n1", &[("TCP", OWN)])),
        on_host_network(echo_pod("own-2", "n2", programs.probe())),
        on_host_network(server_pod("own-3", "n2", &[("TCP", OWN)])),
        with_spec(service("web", Endpoints::OfApp("web"), &ports), json!({"type": "NodePort"})),
    ]
}

fn web(lab: &Lab, family: Family) -> Result<SocketAddr> {
    node_port(lab, ("web", WEB), NODE, family, Protocol::Tcp)
}

/// Stopped, started, killed, started: no datagram between the nodes is lost, no echo, and no request fails.
fn the_nodes_own_traffic_is_never_cut(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        let other = lab.address(Place::Node("n2"), family)?;
        let node = Place::Node(NODE);
        let datagrams =
            lab.start_probe(node, &["datagrams", &SocketAddr::new(other, ECHO).to_string(), "--pause", "1"])?;
        let out = Requests::from(lab, node, SocketAddr::new(other, OWN))?;
        let own = SocketAddr::new(lab.address(node, family)?, OWN);
        let within = Requests::from(lab, Place::Node("n2"), own)?;
        thread::scope(|scope| -> Result<()> {
            let words = ["ping", "-n", "-q", "-i", "0.02", "-c", "100", "-W", "1", &other.to_string()];
            let mut ping = lab.command(node, &words);
            let ping = scope.spawn(move || run(&mut ping, b"", Duration::from_secs(30)));
            for end in ENDS {
                Away::begin(lab, NODE, end)?.back()?;
            }
            let said = ping.join().expect("it does not panic")?.success()?.stdout;
            ensure!(said.contains(" 0% packet loss"), "{said}");
            Ok(())
        })?;
        let report: Datagrams = datagrams.finish(Duration::from_secs(10))?;
        let all = Datagrams { sent: report.sent, answered: report.sent, ..Datagrams::default() };
        ensure!(report == all && report.sent > 100, "{other}: {report:?}");
        out.finish_unharmed()?;
        within.finish_unharmed()?;
    }
    Ok(())
}

/// A connection from outside to a pod elsewhere only passes through this node. (A stop takes the node ports away: then the
/// node itself says that nobody is there.)
fn ctrl_2_what_passes_through_outlives_a_kill(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        let requests = Requests::from(lab, Place::Client, web(lab, family)?)?;
        thread::sleep(Duration::from_millis(300));
        Away::begin(lab, NODE, Lab::kill)?.back()?;
        // Longer than the next retransmission.
        thread::sleep(Duration::from_secs(2));
        requests.finish_unharmed()?;
    }
    Ok(())
}

fn tpol_15_addresses_come_and_go(lab: &Lab) -> Result<()> {
    let port = lab.node_port("web", "TCP", WEB)?;
    for (family, address, length) in [(Family::V4, "172.30.0.77", "24"), (Family::V6, "fd00:30::77", "64")] {
        let target = SocketAddr::new(address.parse()?, port);
        let prefix = format!("{address}/{length}");
        let ip = |verb: &str| {
            let more: &[&str] = if family == Family::V6 && verb == "add" { &["nodad"] } else { &[] };
            let words = [&["ip", "addr", verb, &prefix, "dev", "eth0"], more].concat();
            lab.exec(Place::Node(NODE), &words)?.success()
        };
        ip("add")?;
        let served = eventually(Duration::from_secs(5), || {
            let own = lab.address(Place::Client, family)?;
            ask_seen_as(lab, Place::Client, Protocol::Tcp, target, own)
        });
        ip("delete")?;
        served?;
        eventually(Duration::from_secs(5), || {
            let outcome = knock(lab, Place::Client, Protocol::Tcp, target)?;
            ensure!(outcome != Outcome::Open, "{target} still answers");
            Ok(())
        })?;
    }
    Ok(())
}

/// What a node has of interfaces, routes, rules and filters, in the words of the system's own tools.
fn equipment(lab: &Lab) -> Result<Vec<(String, String)>> {
    let looks: [&[&str]; 6] = [
        &["ls", "/sys/class/net"],
        &["ip", "-4", "rule"],
        &["ip", "-6", "rule"],
        &["ip", "-4", "route", "show", "table", "all"],
        &["ip", "-6", "route", "show", "table", "all"],
        &["nft", "list", "tables"],
    ];
    let look = |words: &&[&str]| {
        let said = lab.exec(Place::Node(NODE), words)?.success()?.stdout;
        let mut lines: Vec<_> = said.lines().map(str::trim).collect();
        lines.sort_unstable();
        Ok((words.join(" "), lines.join("\n")))
    };
    looks.iter().map(look).collect()
}

fn everything_is_gone_after_a_stop(lab: &Lab) -> Result<()> {
    let away = Away::begin(lab, NODE, Lab::stop)?;
    let left = equipment(lab);
    away.back()?;
    for (look, said) in left? {
        ensure!(!said.contains("vhost0") && !said.contains("vrouter"), "{look}:\n{said}");
        let untouched = match look.as_str() {
            "ip -4 rule" => {
                "0:\tfrom all lookup local\n32766:\tfrom all lookup main\n32767:\tfrom all lookup default"
            }
            "ip -6 rule" => "0:\tfrom all lookup local\n32766:\tfrom all lookup main",
            _ => continue,
        };
        ensure!(said == untouched, "{look}:\n{said}");
    }
    ask_from(lab, Place::Client, Protocol::Tcp, web(lab, Family::V4)?, 10).map(drop)
}

/// Whatever a dead one left behind or somebody took away: what is there then is what was there before, and once.
fn everything_is_healed_after_a_kill(lab: &Lab) -> Result<()> {
    let before = equipment(lab)?;
    let damages: [&[&str]; 3] = [
        &["true"],
        &["nft", "flush", "ruleset"],
        // It may have gone with the process.
        &["sh", "-c", "ip link delete vhost0 2>/dev/null || true"],
    ];
    for damage in damages {
        let away = Away::begin(lab, NODE, Lab::kill)?;
        lab.exec(Place::Node(NODE), damage)?.success()?;
        away.back()?;
        let what = damage.join(" ");
        eventually(Duration::from_secs(5), || {
            for ((look, before), (_, after)) in before.iter().zip(equipment(lab)?) {
                ensure!(*before == after, "{look}: before:\n{before}\nnow:\n{after}");
            }
            Ok(())
        })
        .with_context(|| what.clone())?;
        for family in Family::BOTH {
            ask_from(lab, Place::Client, Protocol::Tcp, web(lab, family)?, 10)
                .with_context(|| what.clone())?;
        }
    }
    Ok(())
}
