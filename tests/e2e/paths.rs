//! What a path does to packets: hops, smaller links, fragments; and what must never be seen on it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use vrouter_tests::frame::mac;
use vrouter_tests::lab::{Family, Lab, Place, Programs, Shape};
use vrouter_tests::manifest::{ECHO, Endpoints, ServicePort, echo_pod, idle_pod, service, with_spec};
use vrouter_tests::report::{Capture, Datagrams, Echo, Outcome};
use vrouter_tests::wire::destination;

use crate::group::{Group, cases};
use crate::load::{Protocol, expect, knock};

pub const GROUP: Group = Group {
    name: "paths",
    shape: Shape { nodes: 3, kernel_nodes: 0 },
    objects,
    cases: cases![
        icmp_10_the_router_is_a_hop,
        icmp_4_a_smaller_path_to_the_client_is_learnt,
        frag_2_fragments_in_any_order,
        icmp_3_the_world_answers_with_errors,
        tpol_6_nothing_leaks_to_the_uplink,
    ],
};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const PORT: u16 = 9000;
const GATEWAYS: [&str; 2] = ["10.244.0.1", "fd00:10:244::1"];
/// The MTU of the way beyond the router, while it is small.
const SMALL: &str = "1400";
const BEYOND: [(&str, &str); 2] = [("203.0.113.0/24", "0"), ("2001:db8:113::/64", "256")];

fn objects(programs: &Programs) -> Vec<Value> {
    let ports = ["TCP", "UDP"].map(|protocol| ServicePort { protocol, port: PORT, target: ECHO });
    let balanced =
        |name, app| with_spec(service(name, Endpoints::OfApp(app), &ports), json!({"type": "LoadBalancer"}));
    vec![
        echo_pod("echo", "n2", programs.probe()),
        idle_pod("near", "n1"),
        balanced("echo", "echo"),
        balanced("nobody", "nobody"),
    ]
}

fn of<T: Copy>(pair: [T; 2], family: Family) -> T {
    pair[usize::from(family == Family::V6)]
}

/// Who answered at each hop of a TCP connection's way; `None`: nobody.
fn hops(lab: &Lab, from: Place, target: SocketAddr) -> Result<Vec<Option<IpAddr>>> {
    let (address, port) = (target.ip().to_string(), target.port().to_string());
    let words = ["traceroute", "-n", "-T", "-q", "1", "-w", "1", "-m", "8", "-p", &port, &address];
    let said = lab.exec(from, &words)?.success()?.stdout;
    let hop = |line: &str| line.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    Ok(said.lines().skip(1).map(hop).collect())
}

fn icmp_10_the_router_is_a_hop(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        let gateway: IpAddr = of(GATEWAYS, family).parse()?;
        let pod = SocketAddr::new(lab.pod_address("echo", family)?, ECHO);
        for target in [pod, lab.service_address("echo", family, PORT)?] {
            let hops = hops(lab, Place::Pod("near"), target)?;
            ensure!(hops.first() == Some(&Some(gateway)), "from a pod to {target}: {hops:?}");
            ensure!(hops.last() == Some(&Some(target.ip())), "from a pod to {target}: {hops:?}");
        }
        let target = lab.ingress("echo", family, PORT)?;
        let hops = hops(lab, Place::Client, target)?;
        let nodes =
            NODES.iter().map(|node| lab.address(Place::Node(node), family)).collect::<Result<Vec<_>>>()?;
        ensure!(
            hops.first().copied().flatten().is_some_and(|hop| nodes.contains(&hop)),
            "to {target}: {hops:?}"
        );
        ensure!(hops.last() == Some(&Some(target.ip())), "from outside to {target}: {hops:?}");
    }
    Ok(())
}

/// The way beyond the router is small for as long as this lives.
struct SmallPath<'a>(&'a Lab);

impl<'a> SmallPath<'a> {
    fn begin(lab: &'a Lab) -> Result<Self> {
        let path = Self(lab);
        path.set(SMALL)?;
        Ok(path)
    }

    /// In place of the kernel's own routes, the one of IPv6 told by its metric.
    fn set(&self, mtu: &str) -> Result<()> {
        for (beyond, metric) in BEYOND {
            let words = ["route", "replace", beyond, "dev", "internet", "proto", "kernel", "metric", metric];
            self.0.router(&[&words[..], &["mtu", mtu]].concat())?;
        }
        Ok(())
    }
}

impl Drop for SmallPath<'_> {
    fn drop(&mut self) {
        // What cannot be set back now goes with the lab.
        let _ = self.set("1500");
    }
}

/// The router says that a packet of the service is too big. It says so to the node that the packet came by, about addresses
/// that the pod has never heard of.
fn icmp_4_a_smaller_path_to_the_client_is_learnt(lab: &Lab) -> Result<()> {
    let _path = SmallPath::begin(lab)?;
    let bytes = 500_000;
    for family in Family::BOTH {
        let port = lab.node_port("echo", "TCP", PORT)?;
        let mut targets = vec![lab.ingress("echo", family, PORT)?];
        for node in ["n1", "n2"] {
            targets.push(SocketAddr::new(lab.address(Place::Node(node), family)?, port));
        }
        for target in targets {
            let words = ["bulk", &target.to_string(), "--bytes", &bytes.to_string()];
            let echo: Echo = lab.probe(Place::Internet, &words)?;
            ensure!(echo == Echo { intact: bytes, damaged_at: None }, "{target}: {echo:?}");
            let client = lab.address(Place::Internet, family)?.to_string();
            let known = lab.exec(Place::Pod("echo"), &["ip", "route", "get", &client])?.success()?.stdout;
            ensure!(known.contains(&format!("mtu {SMALL}")), "{target}: the pod has not learnt it: {known}");
            lab.exec(Place::Pod("echo"), &["ip", "route", "flush", "cache"])?.success()?;
            lab.exec(Place::Pod("echo"), &["ip", "-6", "route", "flush", "cache"])?.success()?;
        }
    }
    Ok(())
}

fn frag_2_fragments_in_any_order(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        let port = lab.node_port("echo", "UDP", PORT)?;
        let balanced = lab.ingress("echo", family, PORT)?;
        let ways = [
            (Place::Pod("near"), lab.service_address("echo", family, PORT)?),
            (Place::Pod("near"), balanced),
            (Place::Client, balanced),
            (Place::Client, SocketAddr::new(lab.address(Place::Node("n1"), family)?, port)),
            (Place::Client, SocketAddr::new(lab.address(Place::Node("n2"), family)?, port)),
            (Place::Node("n3"), lab.service_address("echo", family, PORT)?),
        ];
        for (from, target) in ways {
            for order in ["forward", "backward", "inward"] {
                let report: Datagrams =
                    lab.probe(from, &["fragments", &target.to_string(), "--order", order])?;
                let whole = Datagrams { sent: 1, answered: 1, ..Datagrams::default() };
                ensure!(report == whole, "{order} from {from:?} to {target}: {report:?}");
            }
        }
    }
    Ok(())
}

/// Nobody listens there, which the host beyond says of the node's address and port; the pod must understand it.
fn icmp_3_the_world_answers_with_errors(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        let target = SocketAddr::new(lab.address(Place::Internet, family)?, 99);
        for protocol in Protocol::BOTH {
            expect(lab, Place::Pod("near"), protocol, target, Outcome::Refused)?;
        }
    }
    Ok(())
}

/// Whatever is asked, and whether it is answered: no packet to or from a cluster address leaves a node but in a tunnel.
fn tpol_6_nothing_leaks_to_the_uplink(lab: &Lab) -> Result<()> {
    let capture = lab.start_probe(Place::Node("n1"), &["capture", "eth0"])?;
    for family in Family::BOTH {
        for protocol in Protocol::BOTH {
            for (service, port) in [("echo", PORT), ("echo", 81), ("nobody", PORT)] {
                for target in
                    [lab.service_address(service, family, port)?, lab.ingress(service, family, port)?]
                {
                    for from in [Place::Pod("near"), Place::Node("n1")] {
                        knock(lab, from, protocol, target)?;
                    }
                }
            }
        }
        for address in [lab.service_address("echo", family, 1)?.ip(), lab.ingress("echo", family, 1)?.ip()] {
            // Whether it is answered does not matter here.
            lab.exec(Place::Pod("near"), &["ping", "-n", "-c", "1", "-W", "1", &address.to_string()])?;
        }
    }
    let capture: Capture = capture.finish(Duration::from_secs(20))?;
    let own = lab.exec(Place::Node("n1"), &["cat", "/sys/class/net/eth0/address"])?.success()?.stdout;
    let own = mac(own.trim())?;
    let mut sent = 0;
    for frame in capture.read()? {
        if frame.get(6..12) != Some(&own) {
            continue;
        }
        sent += 1;
        if let Some(destination) = destination(&frame) {
            ensure!(!is_of_the_cluster(destination), "n1 sent a packet to {destination}: {frame:02x?}");
        }
    }
    ensure!(sent > 0, "nothing was captured");
    Ok(())
}

/// In the pods', the services' or the load balancers' networks.
fn is_of_the_cluster(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => match address.octets() {
            [10, second, ..] => second == 244 || (96..112).contains(&second),
            [172, 30, third, _] => third >= 254,
            _ => false,
        },
        IpAddr::V6(address) => {
            matches!(address.segments(), [0xfd00, 0x10, 0x96 | 0x244, ..] | [0xfd00, 0x30, 0x254 | 0x255, ..])
        }
    }
}
