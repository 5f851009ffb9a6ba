//! The host path: how the node's own network stack and the router reach each other. `vhost0` is a TAP between the two;
//! here is everything that the kernel must know besides:
//!
//! - the device is up, with the router as its one neighbour;
//! - routes lead to pods and services, and a table of its own to everything that is marked;
//! - rules have marked packets looked up there before the kernel looks whether they are for the node itself;
//! - the steering marks them: an nftables table, `inet vrouter_host`, which also keeps out what pods must not send to the
//!   node, nor others as the node;
//! - sysctls let the kernel forward, and take packets from `vhost0` that bear its own addresses.
//!
//! All of it is brought to what is wanted from whatever is there, so that a router that was killed takes up what it left
//! and what somebody removes is put back. While no router serves `vhost0`, the kernel passes over the routes to it: what
//! may be the node's own is the node's own again. When the router is stopped in order, nothing is left.
//!
//! Everything happens in the network namespace of the caller, and blocks.

mod addresses;
mod error;
mod family;
mod link;
mod marks;
mod ports;
mod routes;
mod rules;
mod steering;
mod sysctls;
mod watch;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use vrouter_objects::MacAddress;

pub use addresses::{in_order, own_addresses};
pub use error::HostPathError;
pub use family::Family;
pub use marks::{MarkError, Marks};
pub use ports::{PortRange, PortRangeError};
pub use steering::{NodePort, ServicePort, Steered};
pub use sysctls::check_source_ports;
pub use watch::watch;

use self::steering::Steering;
use self::sysctls::Sysctls;
use crate::netlink::with_netlink;
use crate::state::SysctlFile;

/// The device's name.
pub const DEVICE: &str = "vhost0";

/// The largest MTU that a TAP takes: 65,535 less its Ethernet header.
pub const MAX_MTU: u16 = 65_521;

/// What the node's own stack is to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPath {
    /// The device.
    pub device: HostDevice,
    /// The prefixes of pods and services, each with the node's address that packets to there come from.
    pub routes: BTreeMap<IpNet, IpAddr>,
    /// What is to go to the router before the node's own stack takes it for its own.
    pub steered: Arc<Steered>,
}

/// `vhost0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostDevice {
    /// Its MAC address.
    pub mac: MacAddress,
    /// Its MTU.
    pub mtu: u16,
}

/// The node's own stack, kept as the router needs it.
#[derive(Debug)]
pub struct Keeper {
    marks: Marks,
    source_ports: PortRange,
    sysctls: Sysctls,
    steering: Steering,
}

impl Keeper {
    /// Nothing is touched before it is told to.
    pub fn new(marks: Marks, source_ports: PortRange, before: SysctlFile, boot_id: String) -> Self {
        Self {
            marks,
            source_ports,
            sysctls: Sysctls::new(before, boot_id),
            steering: Steering::new(marks, source_ports),
        }
    }

    /// Brings everything to what is wanted, once the device is there. The steering comes last: what it marks has a way
    /// then. Returns what could not be done, while the rest is.
    pub fn follow(&mut self, path: &HostPath) -> Vec<HostPathError> {
        let mut problems = Vec::new();
        let done = self.sysctls.follow(self.source_ports, &mut problems);
        let done = done.and_then(|()| route(path, self.marks, &mut problems));
        let done = done.and_then(|()| Ok(self.steering.follow(&path.steered)?));
        problems.extend(done.err());
        problems
    }

    /// Whether something of it may be there, of this process or one before it.
    pub fn has_traces(&self) -> bool {
        // What cannot be read is there.
        self.sysctls.may_be_changed().unwrap_or(true)
    }

    /// Takes everything away, of this process or one before it, where there may be something. The steering goes first:
    /// from then on everything is the node's own. The device is another's to remove. Returns what could not be done; the
    /// rest is, and it can be tried again.
    pub fn withdraw(&mut self) -> Vec<HostPathError> {
        let mut problems = Vec::new();
        if !self.has_traces() {
            return problems;
        }
        problems.extend(self.steering.withdraw().map_err(Into::into).err());
        let unrouted = unroute(&mut problems);
        problems.extend(unrouted.err());
        let put_back = self.sysctls.put_back(&mut problems);
        problems.extend(put_back.err());
        if problems.is_empty() {
            // While something is left, whoever tries again must find that there is.
            problems.extend(self.sysctls.forget().err());
        }
        problems
    }
}

fn route(path: &HostPath, marks: Marks, problems: &mut Vec<HostPathError>) -> Result<(), HostPathError> {
    with_netlink(async |netlink| {
        let device = link::follow(&netlink, path.device).await?;
        routes::follow(&netlink, device, path, problems).await?;
        rules::follow(&netlink, marks).await
    })
    .map_err(HostPathError::kernel("netlink", "connecting"))?
}

fn unroute(problems: &mut Vec<HostPathError>) -> Result<(), HostPathError> {
    with_netlink(async |netlink| {
        problems.extend(rules::withdraw(&netlink).await.err());
        routes::withdraw(&netlink, problems).await
    })
    .map_err(HostPathError::kernel("netlink", "connecting"))?
}
