//! The kernel's own path with an iperf3 server behind a service of kube-proxy's.

use std::net::{Ipv4Addr, SocketAddrV4};

use anyhow::Result;

use super::outcome::Place;
use crate::iperf::{self, Target};
use crate::kernel_path::{KernelPath, Span};
use crate::kube_proxy::ServicePort;
use crate::name::{LabName, MARKER};
use crate::netns::Netns;
use crate::ports::Transport;
use crate::process::Process;

const SERVICE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 96, 0, 1), 80);

/// A client pod and a server pod, and a service address that leads from the one to the other.
#[derive(Debug)]
pub struct Baseline {
    path: KernelPath,
}

impl Baseline {
    /// Sets it up, with an iperf3 server in it.
    pub fn build(lab: &LabName, place: Place) -> Result<Self> {
        let (label, span) = match place {
            Place::SameNode => ("one", Span::OneNode),
            Place::AcrossNodes => ("two", Span::TwoNodes),
        };
        let path = KernelPath::build(lab, label, span, 1)?;
        let server = &path.servers[0];
        let port = |name: &str, transport| ServicePort {
            name: format!("default/iperf3/{name}"),
            frontend: SERVICE,
            transport,
            endpoints: vec![SocketAddrV4::new(server.address, iperf::PORT)],
        };
        path.serve(&[port("tcp", Transport::Tcp), port("udp", Transport::Udp)])?;
        let mut command = server.netns.command("iperf3");
        command.args(["-s", "-p", &iperf::PORT.to_string()]);
        let log = lab.directory().join(format!("kernel-{label}.log"));
        Process::spawn(&command, (MARKER, &lab.to_string()), &log)?;
        Ok(Self { path })
    }

    /// Where to send from.
    pub fn client(&self) -> &Netns {
        &self.path.client.netns
    }

    /// Where to send to.
    pub fn target(&self) -> Target {
        Target { netns: self.path.servers[0].netns.clone(), address: SERVICE.into() }
    }

    /// Takes it away again.
    pub fn remove(self) -> Result<()> {
        self.path.remove()
    }
}
