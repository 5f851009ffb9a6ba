//! The data path behind the agent's seam.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::ValueEnum;
use futures::TryStreamExt;
use rtnetlink::packet_route::link::LinkAttribute;
use serde::Deserialize;
use vrouter_forward::frame::{PortId, Time};
use vrouter_forward::{DroppedPacket, Epoch, Shared, Snapshot};
use vrouter_io::{DataPath, DataPathConfig, FlowFile, IoError, Peers, Tap, TapSpec, TunnelEnd, boot_time};
use vrouter_objects::MacAddress;

use crate::host_path::{self, HostPath, HostPathError, Keeper};
use crate::plane::{DataPlane, Device, PlaneError, Tunnels};
use crate::tunnel_devices::{self, Followed, TunnelDeviceError, TunnelDevices};

/// How many dropped packets are shown.
const DROPS_SHOWN: usize = 1000;

/// How packets get into tunnels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TunnelKind {
    /// By UDP sockets of the router's own.
    Sockets,
    /// Through a vxlan device of the kernel for each network.
    Device,
}

/// The workers with their TAPs, sockets and flow table.
pub struct IoPlane {
    data_path: DataPath,
    flows: FlowFile,
    /// One for each worker.
    queues: u16,
    tunnel_kind: TunnelKind,
    drops: Mutex<VecDeque<DroppedPacket>>,
    /// Ports whose device has vanished, until somebody asks.
    unplugged: Mutex<BTreeSet<PortId>>,
    served: Mutex<Option<Served>>,
    keeper: Mutex<Keeper>,
}

/// Who sees to the node's own network stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostPathKind {
    /// The router: it makes `vhost0`, with routes and steering.
    Managed,
    /// Nobody: the node itself has no part in the router's networks.
    None,
}

/// Tunnel devices that the workers serve.
#[derive(Debug, PartialEq, Eq)]
struct Served {
    devices: TunnelDevices,
    peers: Peers,
}

impl IoPlane {
    /// Starts the workers on a first snapshot.
    pub fn start(
        flows: FlowFile,
        shared: Arc<Shared>,
        first: Arc<Snapshot>,
        tunnel_kind: TunnelKind,
        host_path: HostPathKind,
        mut keeper: Keeper,
    ) -> Result<Self, PlaneError> {
        if host_path == HostPathKind::None {
            // A router that was killed may have left some.
            remove_host_path(&mut keeper).iter().for_each(tell);
        }
        if tunnel_kind == TunnelKind::Sockets {
            // A router that was killed may have left some, and they would keep the port from us.
            tunnel_devices::remove_all()?;
        }
        // There are never more workers than a TAP has queues.
        let queues = u16::try_from(shared.workers()).unwrap_or(u16::MAX);
        let data_path = DataPath::start(DataPathConfig::default(), shared, first)?;
        Ok(Self {
            data_path,
            flows,
            queues,
            tunnel_kind,
            drops: Mutex::default(),
            unplugged: Mutex::default(),
            served: Mutex::default(),
            keeper: Mutex::new(keeper),
        })
    }

    /// Stops the workers. Pods' TAPs stay, as do flows; devices that carry tunnels go, as sockets would, and the node's
    /// own stack is as it was before.
    pub fn stop(self) {
        // While the workers still serve what is on its way.
        self.leave_host();
        self.data_path.stop();
        if self.tunnel_kind == TunnelKind::Device
            && let Err(error) = tunnel_devices::remove_all()
        {
            tracing::error!("{error}");
        }
    }

    /// The node's own stack is as if there were no router; `vhost0` ends with the workers.
    pub fn leave_host(&self) {
        remove_host_path(&mut self.keeper()).iter().for_each(tell);
    }

    /// The ports whose device has vanished, with those that the workers have noticed since.
    fn unplugged(&self) -> MutexGuard<'_, BTreeSet<PortId>> {
        let mut unplugged = self.unplugged.lock().unwrap_or_else(PoisonError::into_inner);
        unplugged.extend(self.data_path.unplugged_ports());
        unplugged
    }

    /// The tunnel devices that the workers serve, where that is known.
    fn served(&self) -> MutexGuard<'_, Option<Served>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_tunnel_devices(&self, tunnels: &Tunnels) -> Result<Vec<PlaneError>, PlaneError> {
        let Followed { devices, problems } = tunnel_devices::follow(tunnels)?;
        let next = Served { devices, peers: tunnels.peers.iter().map(|(mac, at)| (*mac, *at)).collect() };
        let mut served = self.served();
        if served.as_ref() != Some(&next) {
            // Whatever becomes of it, it is not what it was.
            *served = None;
            self.data_path.set_tunnel_end(&TunnelEnd::Devices {
                devices: next.devices.values().cloned().collect(),
                peers: Arc::new(next.peers.clone()),
            })?;
            *served = Some(next);
        }
        Ok(problems.into_iter().map(PlaneError::from).collect())
    }

    fn spec(&self, device: &Device) -> TapSpec {
        TapSpec {
            netns: Some(device.netns.path.clone()),
            name: device.name.clone(),
            queues: self.queues,
            mac: device.mac,
            mtu: device.mtu,
        }
    }
}

impl From<TunnelDeviceError> for PlaneError {
    fn from(error: TunnelDeviceError) -> Self {
        Self::new(&error)
    }
}

impl From<HostPathError> for PlaneError {
    fn from(error: HostPathError) -> Self {
        Self::new(&error)
    }
}

impl From<IoError> for PlaneError {
    fn from(error: IoError) -> Self {
        Self(error.to_string())
    }
}

impl DataPlane for IoPlane {
    fn next_epoch(&self) -> Epoch {
        self.flows.next_epoch()
    }

    fn publish(&self, snapshot: Arc<Snapshot>) {
        self.data_path.publish(snapshot);
    }

    fn open_port(&self, port: PortId, device: &Device) -> Result<(), PlaneError> {
        let tap = Tap::open(&self.spec(device))?;
        // Whatever was noticed of the port's earlier device says nothing of this one.
        self.data_path.remove_port(port)?;
        self.unplugged().remove(&port);
        Ok(self.data_path.add_port(port, tap)?)
    }

    fn close_port(&self, port: PortId, device: &Device) -> Result<(), PlaneError> {
        self.data_path.remove_port(port)?;
        // Another namespace at the same path is another pod's.
        if !device.netns.is_there() {
            return Ok(());
        }
        match Tap::remove(&self.spec(device)) {
            // It went in between, and the device with it.
            Err(IoError::Namespace { source, .. }) if is_gone(&source) => Ok(()),
            removed => Ok(removed?),
        }
    }

    fn unplugged_ports(&self) -> Vec<PortId> {
        std::mem::take(&mut *self.unplugged()).into_iter().collect()
    }

    fn set_tunnels(&self, tunnels: &Tunnels) -> Result<Vec<PlaneError>, PlaneError> {
        match self.tunnel_kind {
            TunnelKind::Sockets => {
                self.data_path.set_tunnel_end(&TunnelEnd::Sockets(tunnels.vtep.address))?;
                Ok(Vec::new())
            }
            TunnelKind::Device => self.set_tunnel_devices(tunnels),
        }
    }

    fn are_tunnels_whole(&self) -> bool {
        let served = self.served();
        let Some(served) = served.as_ref() else { return true };
        tunnel_devices::are_there(&served.devices).unwrap_or_else(|error| {
            tracing::error!("{error}");
            true
        })
    }

    fn underlay_mtu(&self, vtep: IpAddr) -> Result<u32, PlaneError> {
        // A thread of its own, since the caller may be one of tokio's.
        let ask = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(|error| PlaneError::new(&error))?.block_on(link_mtu(vtep))
        };
        let answer = std::thread::scope(|scope| scope.spawn(ask).join());
        answer.unwrap_or_else(|_| Err(PlaneError("asking the kernel for the MTU panicked".to_owned())))
    }

    fn own_addresses(&self) -> Result<BTreeSet<IpAddr>, PlaneError> {
        Ok(host_path::own_addresses()?)
    }

    fn device_index(&self, name: &str) -> Option<u32> {
        device_index(name)
    }

    fn set_host_path(&self, path: &HostPath) -> Vec<PlaneError> {
        self.keeper().follow(path).into_iter().map(PlaneError::from).collect()
    }

    fn remove_host_path(&self) -> Vec<PlaneError> {
        remove_host_path(&mut self.keeper())
    }

    fn now(&self) -> Time {
        boot_time()
    }

    fn recent_drops(&self) -> Vec<DroppedPacket> {
        let mut drops = self.drops.lock().unwrap_or_else(PoisonError::into_inner);
        drops.extend(self.data_path.recent_drops());
        let surplus = drops.len().saturating_sub(DROPS_SHOWN);
        drops.drain(..surplus);
        drops.iter().cloned().collect()
    }
}

/// Leaves nothing of the host path, of this process or one before it. Its device goes when the workers close it.
fn remove_host_path(keeper: &mut Keeper) -> Vec<PlaneError> {
    if !keeper.has_traces() {
        return Vec::new();
    }
    let mut problems: Vec<_> = keeper.withdraw().into_iter().map(PlaneError::from).collect();
    if device_index(host_path::DEVICE).is_some() {
        // It is known by its name; how it is does not matter.
        let (name, mac) = (host_path::DEVICE.to_owned(), MacAddress::BROADCAST);
        let device = TapSpec { netns: None, name, queues: 1, mac, mtu: host_path::MAX_MTU };
        problems.extend(Tap::remove(&device).err().map(PlaneError::from));
    }
    problems
}

fn device_index(name: &str) -> Option<u32> {
    nix::net::if_::if_nametoindex(name).ok()
}

fn tell(problem: &PlaneError) {
    tracing::error!("{problem}");
}

/// Whether entering a namespace failed because there is none at that path, or only the file that it was bound to.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput)
}

/// The MTU of the link that has this address.
async fn link_mtu(address: IpAddr) -> Result<u32, PlaneError> {
    let failed = |error: rtnetlink::Error| PlaneError::new(&error);
    let (connection, netlink, _) = rtnetlink::new_connection().map_err(|error| PlaneError::new(&error))?;
    tokio::spawn(connection);
    let mut addresses = Box::pin(netlink.address().get().set_address_filter(address).execute());
    let found = addresses.try_next().await.map_err(failed)?;
    let found = found.ok_or_else(|| PlaneError(format!("no link here has the address {address}")))?;
    let mut links = Box::pin(netlink.link().get().match_index(found.header.index).execute());
    let link = links.try_next().await.map_err(failed)?;
    let mtu = link.into_iter().flat_map(|link| link.attributes).find_map(|attribute| match attribute {
        LinkAttribute::Mtu(mtu) => Some(mtu),
        _ => None,
    });
    mtu.ok_or_else(|| PlaneError(format!("the link with the address {address} has no MTU")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_mtu_of_the_link_with_an_address() {
        let mtu = link_mtu(IpAddr::from([127, 0, 0, 1])).await.unwrap();
        assert!(mtu >= 1500, "{mtu}");
        let error = link_mtu(IpAddr::from([192, 0, 2, 77])).await.unwrap_err();
        assert_eq!(error.to_string(), "no link here has the address 192.0.2.77");
    }
}
