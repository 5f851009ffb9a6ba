//! Who may speak through the tunnel, and how.

use std::net::IpAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use vrouter_tests::command::eventually;
use vrouter_tests::frame::{Ends, Mac, mac, to_hex, vxlan};
use vrouter_tests::lab::{Family, Lab, Place, Programs, Shape};
use vrouter_tests::manifest::{ECHO, echo_pod, idle_pod};
use vrouter_tests::noise::Noise;
use vrouter_tests::report::Capture;
use vrouter_tests::wire::{Tunnelled, VXLAN_PORT};

use crate::group::{Group, cases};

pub const GROUP: Group = Group {
    name: "tunnels",
    shape: Shape { nodes: 2, kernel_nodes: 0 },
    objects,
    cases: cases![
        vxlan_2_strangers_are_not_heard,
        vxlan_2_nodes_come_and_go,
        vxlan_6_a_new_router_mac_is_used_at_once,
        ctrl_17_a_node_comes_back_elsewhere,
        vxlan_5_reserved_bits_are_ignored,
        vxlan_5_the_valid_bit_must_be_set,
        malf_4_a_header_cut_short,
        unknown_networks_and_other_routers_are_not_heard,
        malf_4_a_flood_of_damaged_packets,
    ],
};

const VNI: u32 = 1;
/// In every packet that is sent here, so that it is known again.
const MARK: &[u8] = b"through the tunnel";
const NODE: &str = "n1";
const PEER: Place = Place::Node("n2");

fn objects(programs: &Programs) -> Vec<Value> {
    vec![echo_pod("inside", NODE, programs.probe()), idle_pod("peer", "n2")]
}

/// `vrctl vxlan`, as far as it matters here.
#[derive(Deserialize)]
struct Vxlan {
    vteps: Vec<Vtep>,
}

#[derive(Deserialize)]
struct Vtep {
    node: String,
    address: IpAddr,
    mac: String,
}

/// A line of `vrctl route`.
#[derive(Debug, Deserialize)]
struct Route {
    prefix: String,
    next_hop: String,
}

fn vtep(lab: &Lab, node: &str) -> Result<Vtep> {
    let vxlan: Vxlan = lab.vrctl(NODE, &["vxlan"])?;
    vxlan.vteps.into_iter().find(|vtep| vtep.node == node).ok_or_else(|| anyhow!("no tunnel end {node}"))
}

/// A datagram from the other node's pod to the one inside, as it would come out of a tunnel.
fn inner(lab: &Lab) -> Result<Vec<u8>> {
    let ends = Ends {
        source_mac: mac(&vtep(lab, "n2")?.mac)?,
        destination_mac: mac(&vtep(lab, NODE)?.mac)?,
        source: lab.pod_address("peer", Family::V4)?,
        destination: lab.pod_address("inside", Family::V4)?,
    };
    ends.udp((5555, ECHO), MARK)
}

/// Sends a UDP payload to the tunnel's port from somewhere; says whether the pod got what is inside.
fn arrives(lab: &Lab, from: Place, payload: &[u8]) -> Result<bool> {
    let target = format!("{}:{VXLAN_PORT}", vtep(lab, NODE)?.address);
    let capture = lab.start_probe(Place::Pod("inside"), &["capture", "eth0"])?;
    let _: usize = lab.probe_with(from, &["send-udp", &target], &to_hex(payload))?;
    thread::sleep(Duration::from_millis(300));
    let capture: Capture = capture.finish(Duration::from_secs(10))?;
    let frames = capture.read()?;
    // The pod's own answer bears the mark as well, but comes only after the question.
    Ok(frames.iter().any(|frame| frame.ends_with(MARK)))
}

/// It does not arrive, and is counted for this reason.
fn dropped(lab: &Lab, from: Place, payload: &[u8], reason: &str) -> Result<()> {
    let before = lab.drops(NODE)?.of(reason);
    ensure!(!arrives(lab, from, payload)?, "it arrived");
    eventually(Duration::from_secs(3), || {
        let counted = lab.drops(NODE)?.of(reason) - before;
        ensure!(counted == 1, "{reason}: counted {counted} times");
        Ok(())
    })
}

fn vxlan_2_strangers_are_not_heard(lab: &Lab) -> Result<()> {
    let packet = vxlan(VNI, &inner(lab)?);
    ensure!(arrives(lab, PEER, &packet)?, "from the node itself it does not arrive either");
    dropped(lab, Place::Client, &packet, "unknown-vtep")
}

/// A node that the lab knows nothing of, in the client's place.
fn stranger(address: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "stranger"},
        "spec": {},
        "status": {"addresses": [{"type": "InternalIP", "address": address}]},
    })
}

fn vxlan_2_nodes_come_and_go(lab: &Lab) -> Result<()> {
    let packet = vxlan(VNI, &inner(lab)?);
    lab.apply(&[stranger(&client_address(lab)?)])?;
    let heard = arrives(lab, Place::Client, &packet);
    lab.delete("node", "stranger")?;
    ensure!(heard?, "a node that was added is not heard");
    dropped(lab, Place::Client, &packet, "unknown-vtep").context("a node that was removed")
}

/// Nothing else of the node changes, and the next packet bears its new address.
fn vxlan_6_a_new_router_mac_is_used_at_once(lab: &Lab) -> Result<()> {
    let mut node = stranger(&client_address(lab)?);
    node["spec"] = json!({"podCIDR": "10.244.90.0/24"});
    let outcome = ["02:99:00:00:00:01", "02:99:00:00:00:02"].iter().try_for_each(|router| {
        let data = json!({"VNI": VNI, "VtepMAC": router}).to_string();
        node["metadata"]["annotations"] = json!({"flannel.alpha.coreos.com/backend-data": data});
        lab.apply(&[node.clone()])?;
        let capture = lab.start_probe(Place::Client, &["capture", "eth0"])?;
        // Nobody is there to answer.
        lab.exec(Place::Pod("inside"), &["ping", "-n", "-c", "1", "-W", "1", "10.244.90.9"])?;
        let capture: Capture = capture.finish(Duration::from_secs(10))?;
        let frames = capture.read()?;
        let packets = frames.iter().filter_map(|frame| Tunnelled::read(frame).transpose());
        let packets = packets.collect::<Result<Vec<_>>>()?;
        let [packet] = packets.as_slice() else { bail!("{} packets for {router}", packets.len()) };
        ensure!(packet.inner.starts_with(&mac(router)?), "not for {router}: {packet:?}");
        Ok(())
    });
    lab.delete("node", "stranger")?;
    outcome
}

fn ctrl_17_a_node_comes_back_elsewhere(lab: &Lab) -> Result<()> {
    let places = [("172.30.0.240", "10.244.91.0/24"), ("172.30.0.241", "10.244.92.0/24")];
    for (address, block) in places {
        let mut node = stranger(address);
        node["spec"] = json!({"podCIDR": block});
        lab.apply(&[node])?;
        let routes: Vec<Route> = lab.vrctl(NODE, &["route"])?;
        lab.delete("node", "stranger")?;
        for (other, others_block) in places {
            let found = routes.iter().find(|route| route.prefix == others_block);
            let leads_there = found.is_some_and(|route| route.next_hop.contains(other));
            ensure!(leads_there == (other == address), "with {block} at {address}: {routes:?}");
        }
    }
    Ok(())
}

fn client_address(lab: &Lab) -> Result<String> {
    let shown =
        lab.exec(Place::Client, &["ip", "-4", "-o", "addr", "show", "dev", "eth0"])?.success()?.stdout;
    let address = shown.split_whitespace().find_map(|word| word.split_once('/'));
    Ok(address.ok_or_else(|| anyhow!("no address in {shown:?}"))?.0.to_owned())
}

fn vxlan_5_reserved_bits_are_ignored(lab: &Lab) -> Result<()> {
    let mut packet = vxlan(VNI, &inner(lab)?);
    packet[0] |= 0xf7;
    packet[1..4].fill(0xff);
    packet[7] = 0xff;
    ensure!(arrives(lab, PEER, &packet)?, "it did not arrive");
    Ok(())
}

fn vxlan_5_the_valid_bit_must_be_set(lab: &Lab) -> Result<()> {
    let mut packet = vxlan(VNI, &inner(lab)?);
    packet[0] = 0;
    dropped(lab, PEER, &packet, "invalid-vxlan")
}

fn malf_4_a_header_cut_short(lab: &Lab) -> Result<()> {
    let packet = vxlan(VNI, &inner(lab)?);
    dropped(lab, PEER, &packet[..7], "invalid-vxlan")?;
    dropped(lab, PEER, &packet[..8], "packet-truncated")?;
    dropped(lab, PEER, &packet[..20], "packet-truncated")
}

fn unknown_networks_and_other_routers_are_not_heard(lab: &Lab) -> Result<()> {
    let inner = inner(lab)?;
    dropped(lab, PEER, &vxlan(0xff_ffff, &inner), "unknown-vni")?;
    let nobody: Mac = [2, 0, 0, 0, 0, 9];
    let misdirected = [&nobody[..], &inner[6..]].concat();
    dropped(lab, PEER, &vxlan(VNI, &misdirected), "unknown-router-mac")
}

fn malf_4_a_flood_of_damaged_packets(lab: &Lab) -> Result<()> {
    let good = vxlan(VNI, &inner(lab)?);
    let mut noise = Noise::default();
    let packets: Vec<_> = (0..5000).map(|_| to_hex(&noise.damage(&good, 0))).collect();
    let target = format!("{}:{VXLAN_PORT}", vtep(lab, NODE)?.address);
    let _: usize = lab.probe_with(PEER, &["send-udp", &target], &packets.join("\n"))?;
    eventually(Duration::from_secs(3), || {
        let packets = lab.node_status(NODE)?.packets;
        let ended = packets.forwarded + packets.consumed + packets.dropped + packets.held;
        ensure!(packets.received == ended, "{packets:?}");
        Ok(())
    })?;
    ensure!(arrives(lab, PEER, &good)?, "what is in order no longer arrives");
    Ok(())
}
