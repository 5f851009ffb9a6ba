//! Two tenants with the same addresses at work at the same time, and every packet looked at: at each pod's interface, and on
//! the wire between the nodes.
//!
//! What tells the tenants' packets apart is a port: the clients of each take theirs from a range of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Range;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;
use vrouter_tests::command::Running;
use vrouter_tests::lab::{Family, Lab, Place};
use vrouter_tests::report::{Capture, Load, Steady};
use vrouter_tests::wire::{Tunnelled, ends, ports};

use super::{DNS, REPORT, ROLES, TENANTS, are_of, pod};
use crate::load::{Loads, all_answered};

const NODES: [&str; 2] = ["n1", "n2"];
/// What the tenants' pods and services have in common.
const SHARED: [&str; 2] = ["10.10.0.", "fd00:10:10:"];
/// Of each of the two.
const CLIENT_PORTS: [Range<u16>; 2] = [20_000..25_000, 30_000..35_000];
/// The default networks' VNIs.
const DEFAULT_VNIS: [u32; 2] = [1, 2];

/// The tenants by whose ports a packet goes.
type Owners = BTreeSet<&'static str>;

/// HTTP, datagrams and bulk data in both networks at once: every request is answered by the tenant's own, no pod sees a packet of
/// the other's, and on the wire each has a VNI of its own.
pub fn is_kept_apart(lab: &Lab) -> Result<()> {
    set_client_ports(lab)?;
    finish_on_the_way_out(lab)?;
    let mut captures = Vec::new();
    for tenant in TENANTS {
        for role in ROLES {
            let pod = pod(tenant, role);
            let capture = lab.start_probe(Place::Pod(&pod), &["capture", "eth0"])?;
            captures.push((tenant, pod, capture));
        }
    }
    let wire = lab.start_probe(Place::Node(NODES[0]), &["capture", "eth0"])?;
    at_work(lab)?;
    for (tenant, pod, capture) in captures {
        let seen: Owners = read(capture)?.iter().filter_map(|frame| owner(frame)).collect();
        ensure!(seen == [tenant].into(), "{pod} saw packets of {seen:?}");
    }
    look_at_wire(&read(wire)?)
}

fn read(capture: Running) -> Result<Vec<Vec<u8>>> {
    capture.finish::<Capture>(REPORT)?.read()
}

fn set_client_ports(lab: &Lab) -> Result<()> {
    for (tenant, ports) in TENANTS.iter().zip(CLIENT_PORTS) {
        let range = format!("net.ipv4.ip_local_port_range={} {}", ports.start, ports.end - 1);
        lab.exec(Place::Pod(&pod(tenant, "client")), &["sysctl", "-qw", &range])?.success()?;
    }
    Ok(())
}

/// What goes on the wire is cut and finished before it is looked at.
fn finish_on_the_way_out(lab: &Lab) -> Result<()> {
    for node in NODES {
        let off = ["ethtool", "-K", "eth0", "tx", "off", "sg", "off", "tso", "off", "gso", "off"];
        lab.exec(Place::Node(node), &off)?.success()?;
    }
    Ok(())
}

/// The tenant whose client's port a packet bears; `None`: it has no ports.
fn owner(frame: &[u8]) -> Option<&'static str> {
    let (one, other) = ports(frame)?;
    let bears = |range: &Range<u16>| range.contains(&one) || range.contains(&other);
    let found = TENANTS.into_iter().zip(CLIENT_PORTS).find(|(_, range)| bears(range));
    // Of nobody known: that must not be seen either.
    Some(found.map_or("nobody", |(tenant, _)| tenant))
}

/// Both tenants' clients at once.
fn at_work(lab: &Lab) -> Result<()> {
    let mut requests = Loads::of(lab);
    let mut datagrams = Loads::of(lab);
    let clients = TENANTS.map(|tenant| pod(tenant, "client"));
    for client in &clients {
        for family in Family::BOTH {
            let web = lab.service_address("red/web", family, 80)?;
            let words = ["load", "--kept", "4", "--pause", "10"];
            requests = requests.add(Place::Pod(client), web, &words)?;
            let dns = lab.service_address("red/web", family, DNS)?;
            datagrams = datagrams.add(Place::Pod(client), dns, &["steady"])?;
        }
    }
    thread::scope(|scope| {
        let bulk = clients.each_ref().map(|client| scope.spawn(move || bulk_data(lab, client)));
        bulk.into_iter().try_for_each(|it| it.join().map_err(|_| anyhow!("iperf3 panicked"))?)
    })?;
    let owners = TENANTS.into_iter().flat_map(|tenant| [tenant; 2]);
    for ((what, load), tenant) in requests.finish::<Load>()?.into_iter().zip(owners.clone()) {
        all_answered(&what, &load.kept)?;
        all_answered(&what, &load.fresh)?;
        are_of(tenant, load.kept.members.keys().chain(load.fresh.members.keys())).context(what)?;
    }
    for ((what, steady), tenant) in datagrams.finish::<Steady>()?.into_iter().zip(owners) {
        ensure!(steady.answered == steady.sent && steady.sent > 20, "{what}: {steady:?}");
        are_of(tenant, steady.members.keys()).context(what)?;
    }
    Ok(())
}

/// Some seconds of both families, both ways.
fn bulk_data(lab: &Lab, client: &str) -> Result<()> {
    for family in Family::BOTH {
        let address = lab.service_address("red/iperf3", family, 5201)?.ip().to_string();
        for more in [&[][..], &["-R"]] {
            let words = ["iperf3", "-J", "-c", &address, "-t", "1", "-b", "8M", "--connect-timeout", "3000"];
            let report: Value = lab.exec(Place::Pod(client), &[&words, more].concat())?.json()?;
            let bytes = report.pointer("/end/sum_received/bytes").and_then(Value::as_u64);
            ensure!(bytes.is_some_and(|bytes| bytes > 500_000), "{client} to {address} {more:?}: {report}");
        }
    }
    Ok(())
}

/// Each VNI bears one tenant's packets, and none of theirs goes without.
fn look_at_wire(frames: &[Vec<u8>]) -> Result<()> {
    let mut owners = BTreeMap::<u32, Owners>::new();
    for frame in frames {
        match Tunnelled::read(frame)? {
            Some(packet) => {
                let is_shared =
                    ends(&packet.inner).is_some_and(|(one, other)| is_shared(one) && is_shared(other));
                if let Some(owner) = owner(&packet.inner).filter(|_| is_shared) {
                    owners.entry(packet.vni).or_default().insert(owner);
                }
            }
            None => {
                let shared = ends(frame).filter(|(one, other)| is_shared(*one) || is_shared(*other));
                ensure!(shared.is_none(), "outside of tunnels: {shared:?}");
            }
        }
    }
    let found: Vec<_> = owners.values().flat_map(|owners| owners.iter().copied()).collect();
    let each_once = owners.values().all(|owners| owners.len() == 1);
    ensure!(each_once && BTreeSet::from_iter(found) == TENANTS.into(), "by VNI: {owners:?}");
    ensure!(owners.len() == TENANTS.len(), "by VNI: {owners:?}");
    ensure!(!owners.keys().any(|vni| DEFAULT_VNIS.contains(vni)), "by VNI: {owners:?}");
    Ok(())
}

fn is_shared(address: IpAddr) -> bool {
    let address = address.to_string();
    SHARED.iter().any(|prefix| address.starts_with(prefix))
}
