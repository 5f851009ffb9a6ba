//! Packets that make no sense, sent from a pod: each is counted under its reason, makes no flow and harms nobody.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;
use vrouter_tests::command::eventually;
use vrouter_tests::frame::{ETHERNET, Ends, GATEWAY_MAC, mac, to_hex};
use vrouter_tests::lab::{Family, Lab, Place, Programs, Shape};
use vrouter_tests::manifest::{ECHO, echo_pod, idle_pod};
use vrouter_tests::noise::Noise;
use vrouter_tests::report::{Capture, Echo};

use crate::group::{Group, cases};

pub const GROUP: Group = Group {
    name: "malformed",
    shape: Shape { nodes: 1, kernel_nodes: 0 },
    objects,
    cases: cases![
        malf_4_headers_that_lie,
        malf_4_addresses_that_lie,
        malf_3_an_authentication_header_is_walked,
        malf_4_a_flood_of_damaged_frames,
    ],
};

const FROM: &str = "sender";
const PORTS: (u16, u16) = (5555, ECHO);
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;

fn objects(programs: &Programs) -> Vec<Value> {
    vec![idle_pod(FROM, "n1"), echo_pod("receiver", "n1", programs.probe())]
}

/// A frame, and the reason it is to be dropped for.
type Bad = (&'static str, Vec<u8>);

/// A good frame with something written over.
fn damaged(frame: &[u8], changes: &[(usize, u8)]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    for (at, byte) in changes {
        frame[*at] = *byte;
    }
    frame
}

fn ends(lab: &Lab, family: Family) -> Result<Ends> {
    Ok(Ends {
        source_mac: mac(&lab.interface(FROM)?.mac)?,
        destination_mac: GATEWAY_MAC,
        source: lab.pod_address(FROM, family)?,
        destination: lab.pod_address("receiver", family)?,
    })
}

/// Sends frames from the pod. Each is counted under its reason, none makes a flow, and the next good packet passes.
fn all_dropped(lab: &Lab, bad: &[Bad]) -> Result<()> {
    let (drops, flows) = (lab.drops("n1")?, lab.interface(FROM)?.flows);
    let mut wanted = BTreeMap::<&str, u64>::new();
    bad.iter().for_each(|(reason, _)| *wanted.entry(reason).or_default() += 1);
    let lines: Vec<_> = bad.iter().map(|(_, frame)| to_hex(frame)).collect();
    let sent: usize = lab.probe_with(Place::Pod(FROM), &["send", "eth0"], &lines.join("\n"))?;
    ensure!(sent == bad.len(), "only {sent} of {} frames were sent", bad.len());
    eventually(Duration::from_secs(3), || {
        let now = lab.drops("n1")?;
        let counted: BTreeMap<_, _> =
            wanted.keys().map(|reason| (*reason, now.of(reason) - drops.of(reason))).collect();
        ensure!(counted == wanted, "counted {counted:?}, wanted {wanted:?}");
        Ok(())
    })?;
    ensure!(lab.interface(FROM)?.flows == flows, "a flow was made");
    unharmed(lab)
}

/// The counters add up, and good packets pass.
fn unharmed(lab: &Lab) -> Result<()> {
    eventually(Duration::from_secs(3), || {
        let packets = lab.node_status("n1")?.packets;
        let ended = packets.forwarded + packets.consumed + packets.dropped + packets.held;
        ensure!(packets.received == ended, "{packets:?}");
        Ok(())
    })?;
    for family in Family::BOTH {
        let target = SocketAddr::new(lab.pod_address("receiver", family)?, ECHO).to_string();
        let echo: Echo = lab.probe(Place::Pod(FROM), &["bulk", &target, "--bytes", "1000"])?;
        ensure!(echo.intact == 1000, "{target}: {echo:?}");
    }
    Ok(())
}

fn malf_4_headers_that_lie(lab: &Lab) -> Result<()> {
    let (v4, v6) = (ends(lab, Family::V4)?, ends(lab, Family::V6)?);
    let (udp, tcp) = (v4.udp(PORTS, &[0; 32])?, v4.tcp_syn(PORTS)?);
    let (udp6, tcp6) = (v6.udp(PORTS, &[0; 32])?, v6.tcp_syn(PORTS)?);
    let ip = ETHERNET;
    let (l4, l4_6) = (ip + IPV4_HEADER, ip + IPV6_HEADER);
    all_dropped(
        lab,
        &[
            ("unknown-ethertype", damaged(&udp, &[(12, 0x88), (13, 0xb5)])),
            ("packet-truncated", udp[..ip + 12].to_vec()),
            // IPv4: version, header length, total length below the header's, and beyond the frame.
            ("invalid-ipv4", damaged(&udp, &[(ip, 0x55)])),
            ("invalid-ipv4", damaged(&udp, &[(ip, 0x44)])),
            ("invalid-ipv4", damaged(&udp, &[(ip + 2, 0), (ip + 3, 19)])),
            ("packet-truncated", damaged(&udp, &[(ip + 2, 0x10)])),
            // IPv6: version, no payload, payload beyond the frame.
            ("invalid-ipv6", damaged(&udp6, &[(ip, 0x40)])),
            ("invalid-ipv6", damaged(&udp6, &[(ip + 4, 0), (ip + 5, 0)])),
            ("packet-truncated", damaged(&udp6, &[(ip + 4, 0x10)])),
            // An extension header longer than the packet, and one where it may not be.
            ("invalid-extension", damaged(&udp6, &[(ip + 6, 60), (l4_6 + 1, 0xff)])),
            ("invalid-extension", damaged(&udp6, &[(ip + 6, 60), (l4_6, 0), (l4_6 + 1, 0)])),
            // TCP: header length below the least, beyond the packet; flags that exclude each other; port 0.
            ("invalid-transport", damaged(&tcp, &[(l4 + 12, 0x40)])),
            ("invalid-transport", damaged(&tcp, &[(l4 + 12, 0xf0)])),
            ("invalid-transport", damaged(&tcp, &[(l4 + 13, 0x03)])),
            ("invalid-transport", damaged(&tcp, &[(l4 + 2, 0), (l4 + 3, 0)])),
            ("invalid-transport", damaged(&tcp6, &[(l4_6 + 12, 0x40)])),
            ("invalid-transport", damaged(&tcp6, &[(l4_6 + 12, 0xf0)])),
            // UDP: length below the header's, and beyond the packet.
            ("invalid-transport", damaged(&udp, &[(l4 + 4, 0), (l4 + 5, 7)])),
            ("invalid-transport", damaged(&udp, &[(l4 + 4, 0xff)])),
            ("invalid-transport", damaged(&udp6, &[(l4_6 + 4, 0), (l4_6 + 5, 7)])),
            ("invalid-transport", damaged(&udp6, &[(l4_6 + 4, 0xff)])),
            // Each family's ICMP in the other.
            ("invalid-transport", damaged(&udp, &[(ip + 9, 58)])),
            ("invalid-transport", damaged(&udp6, &[(ip + 6, 1)])),
        ],
    )
}

fn malf_4_addresses_that_lie(lab: &Lab) -> Result<()> {
    let mut bad: Vec<Bad> = Vec::new();
    for family in Family::BOTH {
        let own = ends(lab, family)?;
        let multicast = match family {
            Family::V4 => "224.0.0.9".parse()?,
            Family::V6 => "ff02::9".parse()?,
        };
        let other = lab.pod_address("receiver", family)?;
        let of = |ends: Ends| ends.udp(PORTS, b"x");
        bad.push(("invalid-ethernet", of(Ends { source_mac: [3, 0, 0, 0, 0, 1], ..own })?));
        bad.push(("spoofed-mac", of(Ends { source_mac: [2, 0, 0, 0, 0, 1], ..own })?));
        bad.push(("not-for-us", of(Ends { destination_mac: [2, 0, 0, 0, 0, 1], ..own })?));
        bad.push(("invalid-address", of(Ends { destination: own.source, ..own })?));
        bad.push(("invalid-address", of(Ends { source: multicast, ..own })?));
        bad.push(("spoofed-address", of(Ends { source: other, destination: own.source, ..own })?));
    }
    all_dropped(lab, &bad)
}

/// An authentication header's length counts words of four bytes, unlike every other's; behind it stands UDP.
fn malf_3_an_authentication_header_is_walked(lab: &Lab) -> Result<()> {
    const AUTHENTICATION: u8 = 51;
    const UDP: u8 = 17;
    let plain = ends(lab, Family::V6)?.udp(PORTS, b"behind a header")?;
    let (headers, udp) = plain.split_at(ETHERNET + IPV6_HEADER);
    // 24 bytes: six words, less two.
    let mut extension = vec![0; 24];
    extension[..2].copy_from_slice(&[UDP, 4]);
    let length = (extension.len() + udp.len()) as u16;
    let [high, low] = length.to_be_bytes();
    let headers =
        damaged(headers, &[(ETHERNET + 4, high), (ETHERNET + 5, low), (ETHERNET + 6, AUTHENTICATION)]);
    let capture = lab.start_probe(Place::Pod("receiver"), &["capture", "eth0"])?;
    let frame = [headers, extension, udp.to_vec()].concat();
    let _: usize = lab.probe_with(Place::Pod(FROM), &["send", "eth0"], &to_hex(&frame))?;
    thread::sleep(Duration::from_millis(300));
    let seen: Capture = capture.finish(Duration::from_secs(10))?;
    let frames = seen.read()?;
    let arrived = frames.iter().any(|frame| frame.ends_with(b"behind a header"));
    ensure!(arrived, "it did not arrive: {:?}", lab.drops("n1")?);
    let flows: Value = lab.vrctl("n1", &["flow", "--port", "5555"])?;
    let forward =
        flows["flows"].as_array().and_then(|all| all.iter().find(|flow| flow["direction"] == "forward"));
    let port = forward.and_then(|flow| flow["destination_port"].as_u64());
    ensure!(port == Some(ECHO.into()), "its flow has not the ports behind the header: {flows}");
    Ok(())
}

/// Whatever comes: it ends once, somehow, and the vRouter goes on.
fn malf_4_a_flood_of_damaged_frames(lab: &Lab) -> Result<()> {
    const COUNT: usize = 5000;
    /// The addresses of the link stay, so that the rest is looked at.
    const DAMAGED_FROM: usize = 12;
    let mut good = Vec::new();
    for family in Family::BOTH {
        let ends = ends(lab, family)?;
        good.extend([ends.udp(PORTS, &[0; 32])?, ends.tcp_syn(PORTS)?]);
    }
    let mut noise = Noise::default();
    let mut frames = Vec::new();
    while frames.len() < COUNT {
        let template = noise.below(good.len());
        let frame = noise.damage(&good[template], DAMAGED_FROM);
        // The kernel itself refuses to send less than a link header.
        if frame.len() > ETHERNET {
            frames.push(to_hex(&frame));
        }
    }
    let before = lab.node_status("n1")?.packets.received;
    let sent: usize = lab.probe_with(Place::Pod(FROM), &["send", "eth0"], &frames.join("\n"))?;
    ensure!(sent == COUNT, "only {sent} frames were sent");
    unharmed(lab)?;
    // A burst may overflow the interface's own queue.
    let received = lab.node_status("n1")?.packets.received - before;
    ensure!(received > COUNT as u64 / 10, "only {received} of {COUNT} frames came in");
    Ok(())
}
