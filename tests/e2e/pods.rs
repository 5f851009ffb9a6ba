//! Pod to pod, on one node and across two, in both families.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde_json::Value;
use vrouter_tests::command::eventually;
use vrouter_tests::frame::{mac, neighbour_solicitation, to_hex};
use vrouter_tests::lab::{Family, Lab, Place, Programs, Shape};
use vrouter_tests::manifest::{ECHO, echo_pod};
use vrouter_tests::report::{Associations, Capture, Datagrams, Echo, Knock, Outcome};
use vrouter_tests::wire::NeighbourAdvertisement;

use crate::group::{Group, cases};

pub const GROUP: Group = Group {
    name: "pods",
    shape: Shape { nodes: 2, kernel_nodes: 0 },
    objects,
    cases: cases![
        ping,
        ping_in_fragments,
        tcp,
        udp_of_any_size,
        sctp,
        gateways_answer,
        cni_9_the_mtu_fits_the_tunnel,
        addresses_are_the_pods_alone,
        nobodys_address_is_answered_for,
        cni_8_duplicate_detection_is_answered,
        every_frame_ends_once,
    ],
};

const FROM: Place = Place::Pod("a");
/// On the same node, and on the other.
const TARGETS: [&str; 2] = ["b", "c"];
const GATEWAYS: [&str; 2] = ["10.244.0.1", "fd00:10:244::1"];

fn objects(programs: &Programs) -> Vec<Value> {
    [("a", "n1"), ("b", "n1"), ("c", "n2")].map(|(pod, node)| echo_pod(pod, node, programs.probe())).into()
}

/// Does something with every target, in each family.
fn each(lab: &Lab, check: impl Fn(&str, SocketAddr) -> Result<()>) -> Result<()> {
    for target in TARGETS {
        for family in Family::BOTH {
            let address = SocketAddr::new(lab.pod_address(target, family)?, ECHO);
            check(&format!("{target} at {address}"), address)?;
        }
    }
    Ok(())
}

fn ping(lab: &Lab) -> Result<()> {
    each(lab, |_, target| {
        let words = ["ping", "-n", "-c", "5", "-i", "0.05", "-W", "2", &target.ip().to_string()];
        lab.exec(FROM, &words)?.success().map(drop)
    })
}

fn ping_in_fragments(lab: &Lab) -> Result<()> {
    each(lab, |_, target| {
        let words =
            ["ping", "-n", "-c", "3", "-i", "0.05", "-W", "2", "-s", "3000", &target.ip().to_string()];
        lab.exec(FROM, &words)?.success().map(drop)
    })
}

fn tcp(lab: &Lab) -> Result<()> {
    each(lab, |name, target| {
        let bytes = 8 << 20;
        let echo: Echo = lab.probe(FROM, &["bulk", &target.to_string(), "--bytes", &bytes.to_string()])?;
        ensure!(echo == Echo { intact: bytes, damaged_at: None }, "{name}: {echo:?}");
        Ok(())
    })
}

fn udp_of_any_size(lab: &Lab) -> Result<()> {
    each(lab, |name, target| {
        for size in ["64", "1400", "1422", "1423", "3000", "8000"] {
            let words = ["datagrams", &target.to_string(), "--size", size, "--count", "40"];
            let report: Datagrams = lab.probe(FROM, &words)?;
            let all = Datagrams { sent: 40, answered: 40, ..Datagrams::default() };
            ensure!(report == all, "{name}, {size} bytes: {report:?}");
        }
        Ok(())
    })
}

fn sctp(lab: &Lab) -> Result<()> {
    each(lab, |name, target| {
        let report: Associations = lab.probe(FROM, &["sctp", &target.to_string(), "--count", "20"])?;
        ensure!(report == Associations { sent: 20, answered: 20 }, "{name}: {report:?}");
        Ok(())
    })
}

fn gateways_answer(lab: &Lab) -> Result<()> {
    for gateway in GATEWAYS {
        for pod in ["a", "c"] {
            let words = ["ping", "-n", "-c", "3", "-i", "0.05", "-W", "2", gateway];
            lab.exec(Place::Pod(pod), &words)?.success()?;
        }
    }
    Ok(())
}

fn cni_9_the_mtu_fits_the_tunnel(lab: &Lab) -> Result<()> {
    for pod in ["a", "b", "c"] {
        let mtu = lab.exec(Place::Pod(pod), &["cat", "/sys/class/net/eth0/mtu"])?.success()?.stdout;
        ensure!(mtu.trim() == "1450", "pod {pod}: MTU {mtu}");
        ensure!(lab.interface(pod)?.mtu == 1450, "vrctl vif says otherwise of pod {pod}");
    }
    Ok(())
}

fn addresses_are_the_pods_alone(lab: &Lab) -> Result<()> {
    for pod in ["a", "b", "c"] {
        let shown =
            lab.exec(Place::Pod(pod), &["ip", "-o", "addr", "show", "dev", "eth0", "scope", "global"])?;
        let shown = shown.success()?.stdout;
        let addresses = lab.pod(pod)?.ips;
        ensure!(addresses.len() == 2, "pod {pod}: {addresses:?}");
        for address in addresses {
            let host = format!(" {address}/{} ", if address.is_ipv4() { 32 } else { 128 });
            ensure!(shown.contains(&host), "pod {pod}: no {host}in {shown}");
        }
    }
    let block = |pod| Ok::<_, anyhow::Error>(lab.pod_address(pod, Family::V4)?.to_string());
    let prefix = |address: &str| address.rsplit_once('.').map(|(prefix, _)| prefix.to_owned());
    let (a, b, c) = (block("a")?, block("b")?, block("c")?);
    ensure!(prefix(&a) == prefix(&b) && prefix(&a) != prefix(&c), "blocks: {a}, {b}, {c}");
    Ok(())
}

/// An address of a node's block that no pod has: an error at once, neither silence nor a loop.
fn nobodys_address_is_answered_for(lab: &Lab) -> Result<()> {
    for target in TARGETS {
        let used = lab.pod_address(target, Family::V4)?.to_string();
        let (prefix, _) = used.rsplit_once('.').unwrap_or_default();
        let free = format!("{prefix}.250:{ECHO}");
        let knock: Knock = lab.probe(FROM, &["knock", &free, "--protocol", "tcp"])?;
        ensure!(matches!(knock.outcome, Outcome::Unreachable | Outcome::Refused), "{free}: {knock:?}");
        ensure!(knock.milliseconds < 1000, "{free}: {knock:?}");
    }
    Ok(())
}

fn cni_8_duplicate_detection_is_answered(lab: &Lab) -> Result<()> {
    let own = mac(&lab.interface("a")?.mac)?;
    let Some(IpAddr::V6(taken)) = Family::V6.pick(&lab.pod("b")?.ips) else {
        bail!("pod b has no IPv6 address");
    };
    let question = neighbour_solicitation(own, taken)?;
    let capture = lab.start_probe(FROM, &["capture", "eth0"])?;
    let _: usize = lab.probe_with(FROM, &["send", "eth0"], &to_hex(&question))?;
    thread::sleep(Duration::from_millis(300));
    let seen: Capture = capture.finish(Duration::from_secs(10))?;
    let frames = seen.read()?;
    let answers: Vec<_> = frames.iter().filter_map(|frame| NeighbourAdvertisement::read(frame)).collect();
    let all_nodes: Ipv6Addr = "ff02::1".parse()?;
    let right = answers.iter().any(|it| it.target == taken && it.destination == all_nodes && !it.solicited);
    ensure!(right, "no fitting answer among {answers:?}");
    Ok(())
}

/// Runs last: whatever the others sent, the counters add up.
fn every_frame_ends_once(lab: &Lab) -> Result<()> {
    for node in ["n1", "n2"] {
        eventually(Duration::from_secs(3), || {
            let packets = lab.node_status(node)?.packets;
            let ended = packets.forwarded + packets.consumed + packets.dropped + packets.held;
            ensure!(packets.received == ended && packets.received > 0, "{node}: {packets:?}");
            Ok(())
        })?;
    }
    Ok(())
}
