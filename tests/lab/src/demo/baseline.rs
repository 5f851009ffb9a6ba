//! The kernel's own path, set up beside the lab: Linux routing, kube-proxy's nftables rules and, between nodes, a `vxlan`
//! device. What the vRouter is measured against.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;

use super::iperf;
use super::outcome::Place;
use crate::name::{LabName, MARKER, Part};
use crate::netns::{self, Netns};
use crate::process::{self, Process};
use crate::shell::run_with_input;
use crate::underlay::{MTU, OVERLAY_MTU};

const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 66, 1, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 66, 2, 1);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);

/// A client pod and a server pod, and a service address that leads from the one to the other.
#[derive(Debug)]
pub struct Baseline {
    /// The client's namespace.
    pub client: Netns,
    /// The service.
    pub service: SocketAddr,
    parts: Vec<Netns>,
}

impl Baseline {
    /// Sets it up, with an iperf3 server in it.
    pub fn build(lab: &LabName, place: Place) -> Result<Self> {
        let (prefix, mtu) = match place {
            Place::SameNode => ("one", MTU),
            Place::AcrossNodes => ("two", OVERLAY_MTU),
        };
        let part = |role: &str| lab.netns(&Part::Baseline(format!("{prefix}{role}")));
        let (client, server, near, far) = (part("client"), part("server"), part("near"), part("far"));
        let nodes = match place {
            Place::SameNode => vec![near],
            Place::AcrossNodes => vec![near, far],
        };
        let parts: Vec<_> = [&client, &server].into_iter().chain(&nodes).cloned().collect();
        for netns in &parts {
            netns.create()?;
        }
        for node in &nodes {
            node.sysctl(&["net.ipv4.ip_forward=1"])?;
        }
        let (first, last) = (&nodes[0], &nodes[nodes.len() - 1]);
        attach(first, "client", &client, CLIENT, mtu)?;
        attach(last, "server", &server, SERVER, mtu)?;
        if let [near, far] = &nodes[..] {
            tunnel(near, far)?;
        }
        translate(first)?;
        let mut command = server.command("iperf3");
        command.args(["-s", "-p", &iperf::PORT.to_string()]);
        let log = lab.directory().join(format!("kernel-{prefix}.log"));
        Process::spawn(&command, (MARKER, &lab.to_string()), &log)?;
        Ok(Self { client, service: SocketAddr::new(SERVICE.into(), 80), parts })
    }

    /// Takes it away again.
    pub fn remove(self) -> Result<()> {
        for netns in self.parts {
            process::kill_all(&netns.processes()?)?;
            netns.delete()?;
        }
        Ok(())
    }
}

fn attach(node: &Netns, device: &str, pod: &Netns, address: Ipv4Addr, mtu: u16) -> Result<()> {
    netns::join((node, device), (pod, "eth0"), mtu)?;
    node.ip_batch(&format!(
        "addr add {GATEWAY}/32 dev {device}\n\
         route add {address} dev {device}\n"
    ))?;
    pod.ip_batch(&format!(
        "addr add {address}/32 dev eth0\n\
         route add default via {GATEWAY} dev eth0 onlink\n"
    ))
}

fn tunnel(near: &Netns, far: &Netns) -> Result<()> {
    netns::join((near, "underlay"), (far, "underlay"), MTU)?;
    for (node, own, other, own_net, other_net) in [(near, 1, 2, CLIENT, SERVER), (far, 2, 1, SERVER, CLIENT)]
    {
        let [a, b, c, _] = own_net.octets();
        let [d, e, f, _] = other_net.octets();
        node.ip_batch(&format!(
            "addr add 172.31.0.{own}/24 dev underlay\n\
             link add vxlan1 address 02:aa:00:00:00:0{own} mtu {OVERLAY_MTU} type vxlan id 1 local 172.31.0.{own} dstport 4789 nolearning\n\
             link set vxlan1 up\n\
             addr add {a}.{b}.{c}.0/32 dev vxlan1\n\
             neigh add {d}.{e}.{f}.0 lladdr 02:aa:00:00:00:0{other} dev vxlan1 nud permanent\n\
             route add {d}.{e}.{f}.0/24 via {d}.{e}.{f}.0 dev vxlan1 onlink\n"
        ))?;
        let mut bridge = node.command("bridge");
        bridge.args(["fdb", "append", &format!("02:aa:00:00:00:0{other}"), "dev", "vxlan1"]);
        run_with_input(bridge.args(["dst", &format!("172.31.0.{other}")]), b"")?;
    }
    Ok(())
}

/// One service in the shape of kube-proxy's nftables mode.
fn translate(node: &Netns) -> Result<()> {
    let (server, port) = (SERVER, iperf::PORT);
    let rules = format!(
        "table ip kube-proxy {{
            map service-ips {{
                type ipv4_addr . inet_proto . inet_service : verdict
            }}
            chain service-iperf3 {{
                ip protocol tcp dnat to {server}:{port}
                ip protocol udp dnat to {server}:{port}
            }}
            chain services {{
                ip daddr . meta l4proto . th dport vmap @service-ips
            }}
            chain nat-prerouting {{
                type nat hook prerouting priority dstnat
                jump services
            }}
            chain nat-postrouting {{
                type nat hook postrouting priority srcnat
                meta mark & 0x4000 != 0 masquerade
            }}
            chain filter-forward {{
                type filter hook forward priority filter
                ct state established,related accept
            }}
        }}
        add element ip kube-proxy service-ips {{
            {SERVICE} . tcp . 80 : goto service-iperf3, {SERVICE} . udp . 80 : goto service-iperf3
        }}"
    );
    run_with_input(node.command("nft").args(["-f", "-"]), rules.as_bytes()).map(drop)
}
