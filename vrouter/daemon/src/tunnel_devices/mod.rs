//! The kernel's vxlan devices that carry the tunnels of this node: one for each VNI, with the other nodes in its
//! forwarding database, and a filter that keeps strangers out. All of it is brought to what is wanted from whatever is
//! there, so that a router that was killed takes up what it left.
//!
//! Everything happens in the network namespace of the caller, and blocks.

mod database;
mod link;
mod source_filter;

use std::collections::BTreeMap;

use rtnetlink::Handle;
use thiserror::Error;
use vrouter_io::{TunnelDevice, VXLAN_PORT};
use vrouter_objects::{MacAddress, Vni};

use self::link::Found;
use crate::plane::Tunnels;

/// What all our devices' names begin with; the VNI follows.
const PREFIX: &str = "vxlan-";

/// Why the devices are not as they should be.
#[derive(Debug, Error)]
pub enum TunnelDeviceError {
    /// Another device bears the name.
    #[error("device {0} is there already and is none of ours; it must be removed or renamed")]
    Foreign(String),
    /// The kernel refused.
    #[error("device {name}: {step}: {source}")]
    Device {
        /// Its name.
        name: String,
        /// What was being done.
        step: &'static str,
        /// What the kernel said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The devices or their databases could not be read.
    #[error("reading {what}: {source}")]
    Read {
        /// What was to be read.
        what: &'static str,
        /// What the kernel said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The filter could not be set or removed.
    #[error("the filter of tunnel sources: nft: {0}")]
    Filter(String),
}

/// Brings devices, databases and filter to what is wanted: what is new first, then what is to go. The devices, for whoever
/// serves them.
pub fn follow(tunnels: &Tunnels) -> Result<Vec<TunnelDevice>, TunnelDeviceError> {
    // First the filter: nothing of a stranger's is to get through a device at any time.
    let names: BTreeMap<Vni, String> = tunnels.networks.iter().map(|vni| (*vni, name_of(*vni))).collect();
    source_filter::set(tunnels.peers.values().copied(), names.values())?;
    on_netlink(async |netlink| {
        let mut found = link::find(&netlink).await?;
        let mut indices = Vec::new();
        for (vni, name) in &names {
            let device = found.remove(name);
            indices.push((name, link::bring_about(&netlink, *vni, name, tunnels.vtep, device).await?));
        }
        let mut entries = database::read(&netlink).await?;
        for (name, index) in indices {
            database::follow(
                &netlink,
                name,
                index,
                &tunnels.peers,
                entries.remove(&index).unwrap_or_default(),
            )
            .await?;
        }
        // What is left are devices of networks that are gone.
        remove(&netlink, &found).await
    })?;
    Ok(names.into_iter().map(|(vni, name)| TunnelDevice { vni, name }).collect())
}

/// Removes all our devices, and the filter with them.
pub fn remove_all() -> Result<(), TunnelDeviceError> {
    let is_any = on_netlink(async |netlink| {
        let found = link::find(&netlink).await?;
        remove(&netlink, &found).await?;
        Ok(!found.is_empty())
    })?;
    if is_any { source_filter::remove() } else { Ok(()) }
}

async fn remove(netlink: &Handle, devices: &BTreeMap<String, Found>) -> Result<(), TunnelDeviceError> {
    for (name, device) in devices {
        // Somebody else's business, even with such a name.
        if let Found::Ours { index, .. } = device {
            link::remove(netlink, name, *index).await?;
        }
    }
    Ok(())
}

fn name_of(vni: Vni) -> String {
    format!("{PREFIX}{}", vni.get())
}

/// The device's own MAC address. It is no tunnel end's: frames to that are for us, and not for the kernel to route as
/// well. By it we know a device for ours.
fn own_mac(vni: Vni) -> MacAddress {
    MacAddress::local(0x57, vni.get())
}

/// Does something with netlink, on a thread of its own, since the caller may be one of tokio's.
fn on_netlink<T: Send>(
    task: impl AsyncFnOnce(Handle) -> Result<T, TunnelDeviceError> + Send,
) -> Result<T, TunnelDeviceError> {
    let read = |source: std::io::Error| TunnelDeviceError::Read { what: "devices", source: source.into() };
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(read)?;
        runtime.block_on(async {
            let (connection, netlink, _) = rtnetlink::new_connection().map_err(read)?;
            tokio::spawn(connection);
            task(netlink).await
        })
    };
    std::thread::scope(|scope| scope.spawn(run).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
