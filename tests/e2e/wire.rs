//! What two nodes say to each other, read off the underlay.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use vrouter_tests::lab::{Family, Lab, Place, Programs, Shape};
use vrouter_tests::manifest::{ECHO, Endpoints, ServicePort, echo_pod, server_pod, service};
use vrouter_tests::report::{Capture, Datagrams, Echo, Tally};
use vrouter_tests::wire::{Tunnelled, udp, verify_checksums};

use crate::group::{Group, cases};
use crate::load::all_answered;

pub const GROUP: Group = Group {
    name: "wire",
    shape: Shape { nodes: 2, kernel_nodes: 0 },
    objects,
    cases: cases![
        vxlan_3_checksums_are_right_from_the_first_packet,
        offl_11_inner_checksums_are_finished,
        vxlan_4_outer_ports_tell_flows_apart,
        vxlan_4_one_flow_keeps_its_outer_port,
        vxlan_8_nothing_is_fragmented_outside,
        offl_13_datagrams_stay_apart,
    ],
};

const FROM: Place = Place::Pod("near");
const UNDERLAY_MTU: u16 = 1500;
/// RFC 7348: the dynamic range is recommended; Linux's own begins here.
const EPHEMERAL: u16 = 32_768;

fn objects(programs: &Programs) -> Vec<Value> {
    let ports = [ServicePort { protocol: "TCP", port: 80, target: ECHO }];
    vec![
        echo_pod("near", "n1", programs.probe()),
        echo_pod("far", "n2", programs.probe()),
        server_pod("server", "n2", &[("UDP", 53)]),
        service("far", Endpoints::OfApp("far"), &ports),
    ]
}

/// What node n1 sends to n2 while something is done. A veth pair leaves checksums and segmentation to whoever reads, so
/// what is to be looked at is finished by the sender's kernel first.
fn sent_while(lab: &Lab, act: impl FnOnce() -> Result<()>) -> Result<Vec<Tunnelled>> {
    let off = ["ethtool", "-K", "eth0", "tx", "off", "sg", "off", "tso", "off", "gso", "off"];
    lab.exec(Place::Node("n1"), &off)?.success()?;
    let sender = node_address(lab, "n1")?;
    let capture = lab.start_probe(Place::Node("n2"), &["capture", "eth0"])?;
    act()?;
    let capture: Capture = capture.finish(Duration::from_secs(20))?;
    let mut packets = Vec::new();
    for frame in capture.read()? {
        let Some(packet) = Tunnelled::read(&frame)? else { continue };
        if IpAddr::from(packet.source) == sender {
            verify_checksums(&frame).context("outer")?;
            packets.push(packet);
        }
    }
    ensure!(!packets.is_empty(), "no packet of {sender} among {} frames", capture.frames.len());
    Ok(packets)
}

fn node_address(lab: &Lab, node: &str) -> Result<IpAddr> {
    let node = lab.status()?.nodes.into_iter().find(|it| it.name == node);
    Ok(node.context("no such node")?.address)
}

fn far(lab: &Lab, family: Family) -> Result<SocketAddr> {
    Ok(SocketAddr::new(lab.pod_address("far", family)?, ECHO))
}

fn bulk(lab: &Lab, target: SocketAddr, bytes: u64) -> Result<()> {
    let echo: Echo = lab.probe(FROM, &["bulk", &target.to_string(), "--bytes", &bytes.to_string()])?;
    ensure!(echo == Echo { intact: bytes, damaged_at: None }, "{target}: {echo:?}");
    Ok(())
}

fn vxlan_3_checksums_are_right_from_the_first_packet(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        let target = lab.service_address("far", family, 80)?;
        let packets = sent_while(lab, || bulk(lab, target, 1000))?;
        for packet in &packets {
            ensure!(packet.flags == 0x0800_0000, "reserved bits are set: {:#010x}", packet.flags);
            verify_checksums(&packet.inner).context("inner")?;
        }
    }
    Ok(())
}

fn offl_11_inner_checksums_are_finished(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        let target = far(lab, family)?;
        let packets = sent_while(lab, || {
            bulk(lab, target, 300_000)?;
            let words = ["datagrams", &target.to_string(), "--size", "700", "--count", "20"];
            let report: Datagrams = lab.probe(FROM, &words)?;
            ensure!(report.lost() == 0, "{report:?}");
            lab.exec(FROM, &["ping", "-n", "-c", "2", "-i", "0.05", &target.ip().to_string()])?
                .success()
                .map(drop)
        })?;
        for packet in &packets {
            verify_checksums(&packet.inner).with_context(|| format!("inner, {family:?}"))?;
        }
    }
    Ok(())
}

fn vxlan_4_outer_ports_tell_flows_apart(lab: &Lab) -> Result<()> {
    let target = SocketAddr::new(lab.pod_address("server", Family::V4)?, 53).to_string();
    let packets = sent_while(lab, || {
        let words = ["requests", &target, "--protocol", "udp", "--count", "100", "--parallel", "8"];
        let tally: Tally = lab.probe(FROM, &words)?;
        all_answered(&target, &tally)
    })?;
    let ports: BTreeSet<_> = packets.iter().map(|packet| packet.source_port).collect();
    ensure!(ports.len() > 50, "100 flows have {} outer ports", ports.len());
    ensure!(ports.iter().all(|port| *port >= EPHEMERAL), "ports out of range: {ports:?}");
    Ok(())
}

fn vxlan_4_one_flow_keeps_its_outer_port(lab: &Lab) -> Result<()> {
    let target = far(lab, Family::V4)?;
    let packets = sent_while(lab, || {
        let report: Datagrams = lab.probe(FROM, &["datagrams", &target.to_string(), "--count", "100"])?;
        ensure!(report.lost() == 0, "{report:?}");
        Ok(())
    })?;
    let to_target =
        packets.iter().filter(|packet| udp(&packet.inner).is_some_and(|(_, to, ..)| to == target.ip()));
    let ports: Vec<_> = to_target.map(|packet| packet.source_port).collect();
    ensure!(ports.len() == 100, "{} packets", ports.len());
    ensure!(ports.iter().all(|port| port == &ports[0]), "one flow, many ports: {ports:?}");
    Ok(())
}

fn vxlan_8_nothing_is_fragmented_outside(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        let target = far(lab, family)?;
        let packets = sent_while(lab, || {
            bulk(lab, target, 500_000)?;
            let words = ["datagrams", &target.to_string(), "--size", "8000", "--count", "20"];
            let report: Datagrams = lab.probe(FROM, &words)?;
            ensure!(report.lost() == 0, "{report:?}");
            Ok(())
        })?;
        for packet in &packets {
            ensure!(packet.dont_fragment, "may be fragmented: {packet:?}");
            ensure!(packet.length <= UNDERLAY_MTU, "{} bytes on a link of {UNDERLAY_MTU}", packet.length);
        }
    }
    Ok(())
}

fn offl_13_datagrams_stay_apart(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        let target = far(lab, family)?;
        let packets = sent_while(lab, || {
            let words = ["datagrams", &target.to_string(), "--size", "1000", "--run", "5", "--count", "50"];
            let report: Datagrams = lab.probe(FROM, &words)?;
            let all = Datagrams { sent: 50, answered: 50, ..Datagrams::default() };
            ensure!(report == all, "{report:?}");
            Ok(())
        })?;
        let datagrams: Vec<_> = packets
            .iter()
            .filter_map(|packet| udp(&packet.inner))
            .filter(|(_, to, ..)| *to == target.ip())
            .collect();
        if datagrams.len() != 50 {
            bail!("50 datagrams became {} packets", datagrams.len());
        }
        ensure!(datagrams.iter().all(|(.., payload)| payload.len() == 1000), "a datagram was cut or joined");
        for packet in &packets {
            verify_checksums(&packet.inner).context("inner")?;
        }
    }
    Ok(())
}
