//! The kernel's vxlan devices that carry the tunnels of this node: one for each VNI, with the other nodes in its
//! forwarding database, and a filter that keeps strangers out. All of it is brought to what is wanted from whatever is
//! there, so that a router that was killed takes up what it left.
//!
//! Everything happens in the network namespace of the caller, and blocks.

mod database;
mod link;
mod source_filter;

use std::collections::BTreeMap;
use std::io;

use rtnetlink::Handle;
use thiserror::Error;
use vrouter_io::{TunnelDevice, VXLAN_PORT};
use vrouter_objects::{MacAddress, Vni};

use self::link::Found;
use crate::netlink::with_netlink;
use crate::nft::NftError;
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
    #[error("the filter of tunnel sources: {0}")]
    Filter(#[from] NftError),
}

/// What became of devices that were to be so.
#[derive(Debug)]
pub struct Followed {
    /// Those that carry their network, by index, for whoever serves them.
    pub devices: TunnelDevices,
    /// Why the others do not, or not to everybody.
    pub problems: Vec<TunnelDeviceError>,
}

/// Devices of ours by index: one that was removed and made anew has another.
pub type TunnelDevices = BTreeMap<u32, TunnelDevice>;

/// Brings devices, databases and filter to what is wanted: what is new first, then what is to go. Where that fails for
/// one device, the others follow all the same. Peers must have addresses of the tunnel end's own family.
pub fn follow(tunnels: &Tunnels) -> Result<Followed, TunnelDeviceError> {
    // First the filter: nothing of a stranger's is to get through a device at any time.
    let names: BTreeMap<Vni, String> = tunnels.networks.iter().map(|vni| (*vni, name_of(*vni))).collect();
    let peers = tunnels.peers.iter().map(|(mac, address)| (*mac, *address));
    source_filter::set(tunnels.vtep.address, peers, names.values())?;
    on_netlink(async |netlink| {
        let mut found = link::find(&netlink).await?;
        let mut followed = Followed { devices: BTreeMap::new(), problems: Vec::new() };
        for (vni, name) in names {
            let device = found.remove(&name);
            match link::bring_about(&netlink, vni, &name, tunnels.vtep, device).await {
                Ok(index) => drop(followed.devices.insert(index, TunnelDevice { vni, name })),
                Err(error) => followed.problems.push(error),
            }
        }
        let mut entries = database::read(&netlink).await?;
        for (index, TunnelDevice { name, .. }) in &followed.devices {
            let held = entries.remove(index).unwrap_or_default();
            let problems = &mut followed.problems;
            database::follow(&netlink, name, *index, &tunnels.peers, held, problems).await;
        }
        // What is left are devices of networks that are gone.
        followed.problems.extend(remove(&netlink, &found).await);
        Ok(followed)
    })
}

/// Whether these devices are all still there and up, and the filter is there. Anybody may remove them or set them down,
/// and whoever flushes the whole ruleset removes the filter with it.
pub fn are_there(devices: &TunnelDevices) -> Result<bool, TunnelDeviceError> {
    if !source_filter::is_there() {
        return Ok(false);
    }
    on_netlink(async |netlink| {
        let found = link::find(&netlink).await?;
        Ok(devices
            .iter()
            .all(|(index, device)| found.get(&device.name).is_some_and(|own| own.is_up_as(*index))))
    })
}

/// Removes all our devices, and the filter, whichever of them are there.
pub fn remove_all() -> Result<(), TunnelDeviceError> {
    let problems = on_netlink(async |netlink| Ok(remove(&netlink, &link::find(&netlink).await?).await))?;
    // Without the filter, what is left of the devices would let in strangers.
    problems.into_iter().next().map_or_else(source_filter::remove, Err)
}

/// Removes those of the devices that are ours; returns why any are left.
async fn remove(netlink: &Handle, devices: &BTreeMap<String, Found>) -> Vec<TunnelDeviceError> {
    let mut problems = Vec::new();
    for (name, device) in devices {
        // Somebody else's business, even with such a name.
        if let Found::Ours(own) = device {
            problems.extend(link::remove(netlink, name, own.index).await.err());
        }
    }
    problems
}

/// Whether a device of this name would be one of ours.
pub(crate) fn is_own_name(name: &str) -> bool {
    link::vni_of(name).is_some()
}

fn name_of(vni: Vni) -> String {
    format!("{PREFIX}{}", vni.get())
}

/// The device's own MAC address. It is no tunnel end's: frames to that are for us, and not for the kernel to route as
/// well. By it we know a device for ours.
fn own_mac(vni: Vni) -> MacAddress {
    MacAddress::local(0x57, vni.get())
}

fn on_netlink<T: Send>(
    task: impl AsyncFnOnce(Handle) -> Result<T, TunnelDeviceError> + Send,
) -> Result<T, TunnelDeviceError> {
    let read = |source: io::Error| TunnelDeviceError::Read { what: "devices", source: source.into() };
    with_netlink(task).map_err(read)?
}
