//! Open vSwitch in userspace: its `netdev` datapath with connection tracking and NAT, one switch per node.
//!
//! Pods are attached by the switch's own TAP interfaces, its fastest port for a namespace without DPDK. Between nodes the
//! underlay's interface stands on a bridge of its own, as tunnels of this datapath need it, and the node's address on that
//! bridge.

mod flows;
mod switch;

use std::net::Ipv4Addr;

use anyhow::{Result, bail};
use vrouter_lab::kernel_path::{Host, Stage};
use vrouter_lab::kube_proxy::ServicePort;
use vrouter_lab::name::{LabName, Part};
use vrouter_lab::state::Node;
use vrouter_lab::underlay::{self, OVERLAY_MTU};

use super::service::{self, MEMBERS};
use super::{LABEL, Place, Services, Site};
use crate::machine;
use flows::Route;
use switch::Switch;

/// The bridge that pods are on.
const PODS: &str = "br-pods";

/// The bridge that the underlay is on.
const UNDERLAY: &str = "br-underlay";

/// The pods' gateway, and the MAC it has for them: nobody has to be asked for it.
const GATEWAY: &str = "169.254.1.1";
const GATEWAY_MAC: &str = "02:66:00:00:00:fe";

/// The number of the tunnel's port on [`PODS`], beyond those of pods.
const TUNNEL: u16 = 100;

/// Whether frames longer than the MTU may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// Every frame is cut to the MTU by whoever sends it.
    None,
    /// The switch takes TSO frames, and passes them on whole.
    Segmentation,
}

/// A pod that a switch has an interface for.
#[derive(Debug)]
struct Pod {
    role: String,
    host: Host,
    mac: String,
    port: u16,
}

/// The version that is installed, as far as it tells.
pub fn version() -> String {
    let said = machine::version(switch::DAEMON, "--version");
    let number = said.as_deref().and_then(|said| said.split_whitespace().last());
    number.unwrap_or("of an unknown version").to_owned()
}

/// Sets it up.
pub fn build(lab: &LabName, place: Place, others: Services, offload: Offload) -> Result<Site> {
    let stage = Stage::build(lab, LABEL, place.span())?;
    let switches: Vec<_> =
        stage.nodes.iter().map(|node| Switch::start(lab, &node.netns, offload)).collect::<Result<_>>()?;
    let client = pod(lab, "client".to_owned(), 1);
    let servers: Vec<_> = (0..MEMBERS)
        .map(|number| pod(lab, format!("server{}", char::from(b'a' + number)), 2 + u16::from(number)))
        .collect();
    let addresses: Vec<_> = servers.iter().map(|server| server.host.address).collect();
    let services = service::all(&addresses, others);
    match (&stage.nodes[..], &switches[..]) {
        ([node], [switch]) => {
            let pods: Vec<_> = servers.iter().chain([&client]).collect();
            bridge(switch)?;
            attach(node, switch, &pods)?;
            program(switch, &services, &pods, &[])?;
        }
        ([near, far], [near_switch, far_switch]) => {
            let (clients, servers): (Vec<_>, Vec<_>) = (vec![&client], servers.iter().collect());
            for (node, peer, switch, own, others) in
                [(near, far, near_switch, &clients, &servers), (far, near, far_switch, &servers, &clients)]
            {
                bridge(switch)?;
                connect(node, peer, switch)?;
                attach(node, switch, own)?;
                program(switch, &services, own, others)?;
            }
        }
        (nodes, _) => bail!("{} nodes: wanted one or two", nodes.len()),
    }
    let servers = servers.into_iter().map(|server| server.host.netns).collect();
    Ok(Site::with_services(lab, client.host.netns, servers))
}

fn pod(lab: &LabName, role: String, port: u16) -> Pod {
    let netns = lab.netns(&Part::Baseline(format!("{LABEL}{role}")));
    let [_, last] = port.to_be_bytes();
    let address = Ipv4Addr::new(10, 244, 254, last);
    Pod { role, host: Host { netns, address }, mac: format!("02:66:00:00:00:{last:02x}"), port }
}

fn bridge(switch: &Switch) -> Result<()> {
    switch.configure(&[
        "add-br",
        PODS,
        "--",
        "set",
        "bridge",
        PODS,
        "datapath_type=netdev",
        "fail-mode=secure",
    ])
}

/// Gives pods their interfaces. The switch keeps the other end of each by a descriptor, wherever the interface goes.
fn attach(node: &Node, switch: &Switch, pods: &[&Pod]) -> Result<()> {
    let ports: Vec<String> = pods
        .iter()
        .flat_map(|Pod { role, port, .. }| {
            format!("-- add-port {PODS} {role} -- set interface {role} type=internal ofport_request={port}")
                .split(' ')
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    switch.configure(&ports)?;
    for Pod { role, host: Host { netns, address }, mac, .. } in pods {
        netns.create()?;
        node.netns.ip(&format!("link set {role} netns {}", netns.name()))?;
        netns.ip_batch(&format!(
            "link set {role} address {mac} mtu {OVERLAY_MTU}\n\
             link set {role} up\n\
             addr add {address}/32 dev {role}\n\
             neigh replace {GATEWAY} lladdr {GATEWAY_MAC} dev {role} nud permanent\n\
             route add default via {GATEWAY} dev {role} onlink\n"
        ))?;
    }
    Ok(())
}

/// Puts the underlay's interface on a bridge, with the node's address, and a tunnel to the other node on top.
fn connect(node: &Node, peer: &Node, switch: &Switch) -> Result<()> {
    let device = underlay::DEVICE;
    let add = [
        "add-br",
        UNDERLAY,
        "--",
        "set",
        "bridge",
        UNDERLAY,
        "datapath_type=netdev",
        "--",
        "add-port",
        UNDERLAY,
        device,
    ];
    switch.configure(&add)?;
    node.netns.ip_batch(&format!(
        "addr flush dev {device}\n\
         addr add {}/24 dev {UNDERLAY}\n\
         link set {UNDERLAY} up\n",
        node.ipv4
    ))?;
    let number = format!("ofport_request={TUNNEL}");
    let [local, remote] = [("local", node.ipv4), ("remote", peer.ipv4)]
        .map(|(end, address)| format!("options:{end}_ip={address}"));
    let tunnel = ["type=vxlan", "options:key=1", "options:csum=false", &local, &remote, &number];
    let add = ["add-port", PODS, "tunnel", "--", "set", "interface", "tunnel"];
    switch.configure(&[&add[..], &tunnel[..]].concat())
}

fn program(switch: &Switch, services: &[ServicePort], own: &[&Pod], others: &[&Pod]) -> Result<()> {
    let route = |pod: &Pod, port| Route { address: pod.host.address, mac: pod.mac.clone(), port };
    let here = own.iter().map(|pod| route(pod, pod.port));
    let there = others.iter().map(|pod| route(pod, TUNNEL));
    let routes: Vec<_> = here.chain(there).collect();
    switch.program(PODS, &flows::groups(services), &flows::flows(services, &routes))
}
