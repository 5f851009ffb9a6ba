//! The kernel's own path, set up beside the lab: a client pod and server pods on nodes that Linux forwards on, one node or
//! two, with an underlay of the lab's kind between them. What the vRouter is measured against. Without rules it only
//! routes; what translates services is loaded by whoever measures.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::thread;

use anyhow::{Result, bail};

use crate::cluster;
use crate::kernel_node;
use crate::kube_proxy::{self, Networks, ServicePort};
use crate::name::{LabName, Part};
use crate::netns::Netns;
use crate::process;
use crate::shell::run_with_input;
use crate::state::{DataPath, Node};
use crate::underlay;

/// Where the servers are, as the client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// On its own node.
    OneNode,
    /// On another node.
    TwoNodes,
}

/// A pod's namespace, and the address it is reached by.
#[derive(Debug, Clone)]
pub struct Host {
    /// Where its processes run.
    pub netns: Netns,
    /// Its IPv4 address.
    pub address: Ipv4Addr,
}

/// Nodes on an underlay of their own, with nothing that forwards yet.
#[derive(Debug)]
pub struct Stage {
    /// What joins the nodes.
    pub underlay: Netns,
    /// The nodes, the client's first.
    pub nodes: Vec<Node>,
}

impl Stage {
    /// Makes them. The label, lower-case letters, tells them from others of the same lab.
    pub fn build(lab: &LabName, label: &str, span: Span) -> Result<Self> {
        let part = |role: &str| lab.netns(&Part::Baseline(format!("{label}{role}")));
        let count = match span {
            Span::OneNode => 1,
            Span::TwoNodes => 2,
        };
        let mut nodes = underlay::nodes(lab, 0, count)?;
        for (node, role) in nodes.iter_mut().zip(["near", "far"]) {
            node.netns = part(role);
        }
        let underlay = part("underlay");
        underlay::join(&underlay, &nodes)?;
        Ok(Self { underlay, nodes })
    }
}

/// The whole of it.
#[derive(Debug)]
pub struct KernelPath {
    /// Who asks.
    pub client: Host,
    /// Who answers.
    pub servers: Vec<Host>,
    nodes: Vec<Node>,
    underlay: Netns,
}

impl KernelPath {
    /// Sets it up; the label is the stage's.
    pub fn build(lab: &LabName, label: &str, span: Span, servers: u8) -> Result<Self> {
        let part = |role: &str| lab.netns(&Part::Baseline(format!("{label}{role}")));
        let Stage { underlay, nodes } = Stage::build(lab, label, span)?;
        connect(lab, &nodes)?;
        let mut taken = BTreeSet::new();
        let client = attach(&nodes[0], "client", part("client"), &mut taken)?;
        let servers = ('a'..='z').take(servers.into()).map(|letter| {
            let role = format!("server{letter}");
            attach(&nodes[nodes.len() - 1], &role, part(&role), &mut taken)
        });
        Ok(Self { client, servers: servers.collect::<Result<_>>()?, nodes, underlay })
    }

    /// Does something on every node, on all at once.
    pub fn on_nodes(&self, act: impl Fn(&Host) -> Result<()> + Sync) -> Result<()> {
        let hosts = self.nodes.iter().map(|node| Host { netns: node.netns.clone(), address: node.ipv4 });
        let hosts: Vec<_> = hosts.collect();
        thread::scope(|scope| {
            let acting: Vec<_> = hosts.iter().map(|host| scope.spawn(|| act(host))).collect();
            acting.into_iter().try_for_each(|thread| match thread.join() {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })
    }

    /// Has every node translate these services with kube-proxy's nftables rules.
    pub fn serve(&self, services: &[ServicePort]) -> Result<()> {
        self.on_nodes(|Host { netns, address }| {
            kube_proxy::nftables(&Networks::of_lab(*address), services).try_for_each(|rules| {
                run_with_input(netns.command("nft").args(["-f", "-"]), rules.as_bytes()).map(drop)
            })
        })
    }

    /// Takes it away again.
    pub fn remove(self) -> Result<()> {
        let nodes = self.nodes.into_iter().map(|node| node.netns);
        let pods = self.servers.into_iter().chain([self.client]).map(|host| host.netns);
        for netns in pods.chain(nodes).chain([self.underlay]) {
            process::kill_all(&netns.processes()?)?;
            netns.delete()?;
        }
        Ok(())
    }
}

fn connect(lab: &LabName, nodes: &[Node]) -> Result<()> {
    for node in nodes {
        if let DataPath::Kernel(blocks) = &node.data_path {
            kernel_node::build(node, blocks)?;
        }
        for other in nodes.iter().filter(|other| other.name != node.name) {
            kernel_node::connect(node, &cluster::peer(lab, other)?)?;
        }
    }
    Ok(())
}

fn attach(node: &Node, device: &str, netns: Netns, taken: &mut BTreeSet<IpAddr>) -> Result<Host> {
    let DataPath::Kernel(blocks) = &node.data_path else { bail!("{} is no kernel node", node.name) };
    let addresses = kernel_node::free_addresses(blocks, taken)?;
    let [IpAddr::V4(address), _] = addresses[..] else { bail!("{}: no IPv4 address is left", node.name) };
    netns.create()?;
    kernel_node::join_pod((&node.netns, device), &netns, &addresses)?;
    taken.extend(addresses);
    Ok(Host { netns, address })
}
