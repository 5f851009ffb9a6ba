//! What is measured: each subject, set up in namespaces of its own.
//!
//! All stand on the same stage: nodes on an underlay with an MTU of 1500, pods with the MTU that VXLAN leaves of it (1450,
//! as in any cluster with an overlay, also between pods of one node), one client and three servers. Every node
//! translates the same services; kube-proxy runs on the servers' node as well.
//!
//! The veth subject has one server and no services: the ceiling. On one node nothing stands between client and server;
//! across nodes the kernel routes between two nodes' pods over VXLAN.

mod iptables;
mod kernel;
mod ovs;
mod policy;
mod service;
mod vrouter;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;
use vrouter_lab::commands::lifecycle;
use vrouter_lab::iperf;
use vrouter_lab::kernel_path::Span;
use vrouter_lab::name::LabName;
use vrouter_lab::netns::Netns;
use vrouter_lab::state::Vxlan;

pub use policy::Policy;
pub use service::ServerPort;

/// Tells the stages that subjects stand on from others of the same lab.
const LABEL: &str = "bench";

/// What forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// This project.
    #[serde(rename = "vrouter")]
    #[value(name = "vrouter")]
    VRouter,
    /// Linux routing with kube-proxy's nftables rules.
    Nftables,
    /// Linux routing with kube-proxy's iptables rules; the measured services stand in the middle.
    Iptables,
    /// Open vSwitch in userspace, frames cut to the MTU.
    Ovs,
    /// Open vSwitch in userspace with segmentation offload.
    OvsTso,
    /// A veth pair, or plain routing over VXLAN: the ceiling.
    Veth,
}

impl Subject {
    /// How many other services it has, where so many are asked for.
    pub fn loaded(self, asked: Services) -> Services {
        match self {
            Self::Veth => Services::NONE,
            Self::VRouter | Self::Nftables | Self::Iptables | Self::Ovs | Self::OvsTso => asked,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::VRouter => "vrouter",
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
            Self::Ovs => "ovs",
            Self::OvsTso => "ovs-tso",
            Self::Veth => "veth",
        })
    }
}

/// Where client and servers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// On one node.
    Same,
    /// On two, joined by VXLAN.
    Cross,
}

impl Place {
    fn span(self) -> Span {
        match self {
            Self::Same => Span::OneNode,
            Self::Cross => Span::TwoNodes,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Same => "same",
            Self::Cross => "cross",
        })
    }
}

/// How many other services are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Services(pub usize);

impl Services {
    /// Where services are not known at all.
    pub const NONE: Self = Self(0);
}

impl fmt::Display for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} other services", self.0)
    }
}

/// What a subject is measured under.
#[derive(Debug, Clone, Copy)]
pub struct Conditions {
    /// How many other services are loaded.
    pub services: Services,
    /// How the vRouter's packets get into tunnels.
    pub vxlan: Vxlan,
    /// Whether policies select the measured pods.
    pub policy: Policy,
}

/// What a case talks to: addresses that the subject leads to servers in the `servers`' namespaces.
#[derive(Debug)]
pub struct Site {
    /// The client's namespace.
    pub client: Netns,
    /// The servers' namespaces.
    pub servers: Vec<Netns>,
    /// Leads to port 5201 of the first server, TCP and UDP.
    pub iperf: iperf::Target,
    /// Leads to port 11111 of any server.
    pub pingpong: SocketAddr,
    /// Leads to port 8080 of any server.
    pub http: SocketAddr,
    lab: LabName,
}

impl Site {
    /// Whether this subject can be had here; why not, where it cannot.
    pub fn is_supported(subject: Subject, place: Place, policy: Policy) -> Result<(), String> {
        let needed: &[(&str, &str)] = match subject {
            Subject::VRouter | Subject::Veth => &[],
            Subject::Nftables => &[("nft", "nftables")],
            Subject::Iptables => &[("iptables-restore", "iptables")],
            Subject::Ovs | Subject::OvsTso => {
                &[("ovs-vswitchd", "openvswitch-switch"), ("ovsdb-server", "openvswitch-switch")]
            }
        };
        if let Some((program, package)) = needed.iter().find(|(program, _)| !is_installed(program)) {
            return Err(format!("{subject} needs {program}: install the package {package}"));
        }
        match (subject, place, policy) {
            (Subject::VRouter | Subject::Nftables, _, _) => Ok(()),
            (_, _, Policy::On) => Err("policy is set up for the vRouter and nftables alone".to_owned()),
            (Subject::OvsTso, Place::Cross, Policy::Off) => Err(format!(
                "Open vSwitch {} has no segmentation offload over tunnels in userspace",
                ovs::version()
            )),
            _ => Ok(()),
        }
    }

    /// Sets a subject up afresh: whatever is left of an earlier site with this lab's name is removed first. A lab's name
    /// stands for one site at a time.
    pub fn build(lab: &LabName, subject: Subject, place: Place, conditions: Conditions) -> Result<Self> {
        lifecycle::down(lab)?;
        let Conditions { services, policy, .. } = conditions;
        let built = match subject {
            Subject::VRouter => vrouter::build(lab, place, conditions),
            Subject::Nftables => kernel::nftables(lab, place, services, policy),
            Subject::Iptables => kernel::iptables(lab, place, services),
            Subject::Ovs => ovs::build(lab, place, services, ovs::Offload::None),
            Subject::OvsTso => ovs::build(lab, place, services, ovs::Offload::Segmentation),
            Subject::Veth => kernel::plain(lab, place),
        };
        built.map_err(|error| match lifecycle::down(lab) {
            Ok(()) => error,
            Err(left) => error.context(format!("what was set up so far stays, as {left:#}")),
        })
    }

    /// Takes it away, with every process in its namespaces.
    pub fn remove(self) -> Result<()> {
        lifecycle::down(&self.lab)
    }

    /// A site whose services translate.
    fn with_services(lab: &LabName, client: Netns, servers: Vec<Netns>) -> Self {
        let [iperf, pingpong, http] =
            [ServerPort::Iperf, ServerPort::PingPong, ServerPort::Http].map(|port| port.frontend().into());
        // A site has at least one server.
        let iperf = iperf::Target { netns: servers[0].clone(), address: iperf };
        Self { client, servers, iperf, pingpong, http, lab: lab.clone() }
    }

    /// A site whose one server is spoken to directly.
    fn direct(lab: &LabName, client: Netns, server: Netns, address: Ipv4Addr) -> Self {
        let [iperf, pingpong, http] = [ServerPort::Iperf, ServerPort::PingPong, ServerPort::Http]
            .map(|port| SocketAddr::new(address.into(), port.number()));
        let iperf = iperf::Target { netns: server.clone(), address: iperf };
        Self { client, servers: vec![server], iperf, pingpong, http, lab: lab.clone() }
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([Path::new("/usr/sbin").to_owned()])
        .any(|directory| directory.join(program).exists())
}
