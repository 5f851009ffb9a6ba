//! The seam between the agent and the machine: what the agent asks of the data path and of the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use thiserror::Error;
use vrouter_forward::frame::{PortId, Time};
use vrouter_forward::{DroppedPacket, Epoch, Snapshot};
use vrouter_objects::{MacAddress, Vni};

use crate::attachment::NetworkNamespace;
use crate::host_path::HostPath;

/// The data path of this node, with its devices.
pub trait DataPlane: Send + Sync + 'static {
    /// An epoch larger than any before, also over restarts.
    fn next_epoch(&self) -> Epoch;

    /// Workers forward by this from their next burst on.
    fn publish(&self, snapshot: Arc<Snapshot>);

    /// Makes the device, or attaches to it where it is there, and gives it to the workers as this port.
    fn open_port(&self, port: PortId, device: &Device) -> Result<(), PlaneError>;

    /// Takes the port from the workers and removes the device. Of what is not there it is done already.
    fn close_port(&self, port: PortId, device: &Device) -> Result<(), PlaneError>;

    /// Ports whose device has vanished since this was last asked. They are served no more.
    fn unplugged_ports(&self) -> Vec<PortId>;

    /// Tunnels are to be so. Of what is so already, nothing happens. Returns what of it could not be done, while the
    /// rest is; an error where they are as they were.
    fn set_tunnels(&self, tunnels: &Tunnels) -> Result<Vec<PlaneError>, PlaneError>;

    /// Whether the tunnels are still as they were set: others may take their devices away.
    fn are_tunnels_whole(&self) -> bool;

    /// The MTU of the link that has this address.
    fn underlay_mtu(&self, vtep: IpAddr) -> Result<u32, PlaneError>;

    /// The addresses by which others reach this node.
    fn own_addresses(&self) -> Result<BTreeSet<IpAddr>, PlaneError>;

    /// The index of a device in the node's own network namespace; `None`: it is not there.
    fn device_index(&self, name: &str) -> Option<u32>;

    /// The node's own stack is to be so, with a device that is open. Of what is so already, nothing happens. Returns what
    /// of it could not be done, while the rest is.
    fn set_host_path(&self, path: &HostPath) -> Vec<PlaneError>;

    /// The node's own stack is to be as if there were no router, this process's or one's before it; the device goes when
    /// its port is closed. Returns what of it could not be done.
    fn remove_host_path(&self) -> Vec<PlaneError>;

    /// The time that flows are measured by.
    fn now(&self) -> Time;

    /// The last packets that were dropped, oldest first.
    fn recent_drops(&self) -> Vec<DroppedPacket>;
}

/// Where tunnels to a node end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vtep {
    /// Its address.
    pub address: IpAddr,
    /// The largest IP packet that still fits into a tunnel from here.
    pub pod_mtu: u16,
}

/// This node's tunnels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tunnels {
    /// Where those to this node end.
    pub vtep: Vtep,
    /// The networks they carry.
    pub networks: BTreeSet<Vni>,
    /// Where the other nodes are that can be reached from there: by the MAC address of their tunnel end.
    pub peers: BTreeMap<MacAddress, IpAddr>,
}

/// An interface's device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The network namespace it is in: the pod's, or the node's own.
    pub netns: NetworkNamespace,
    /// The device's name inside it.
    pub name: String,
    /// Its MAC address.
    pub mac: MacAddress,
    /// Its MTU.
    pub mtu: u16,
}

/// The data path or the kernel refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct PlaneError(pub String);

impl PlaneError {
    /// The same, with everything the error has to say.
    pub fn new(error: &dyn std::error::Error) -> Self {
        Self(crate::chain(error))
    }
}
