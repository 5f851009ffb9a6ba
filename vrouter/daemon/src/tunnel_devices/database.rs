//! The devices' forwarding databases: by a tunnel end's MAC address the kernel finds where it is.

use std::collections::BTreeMap;
use std::net::IpAddr;

use futures::TryStreamExt;
use rtnetlink::Handle;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage,
};
use vrouter_objects::MacAddress;

use super::TunnelDeviceError;
use super::link::failed;

/// What one device's database holds, with the message that says so.
pub(super) type Entries = BTreeMap<MacAddress, (Option<IpAddr>, NeighbourMessage)>;

/// The databases of all devices, by index.
pub(super) async fn read(netlink: &Handle) -> Result<BTreeMap<u32, Entries>, TunnelDeviceError> {
    let request = netlink.neighbours().get().set_address_family(AddressFamily::Bridge);
    let messages: Vec<_> = request
        .execute()
        .try_collect()
        .await
        .map_err(|error| TunnelDeviceError::Read { what: "forwarding databases", source: Box::new(error) })?;
    let mut databases: BTreeMap<u32, Entries> = BTreeMap::new();
    for message in messages {
        let destination = message.attributes.iter().find_map(|attribute| match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(address)) => Some((*address).into()),
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(address)) => Some((*address).into()),
            _ => None,
        });
        let mac = message.attributes.iter().find_map(|attribute| match attribute {
            NeighbourAttribute::LinkLayerAddress(bytes) => bytes.as_slice().try_into().ok().map(MacAddress),
            _ => None,
        });
        if let Some(mac) = mac {
            databases.entry(message.header.ifindex).or_default().insert(mac, (destination, message));
        }
    }
    Ok(databases)
}

/// Brings the database of a device from what it holds to these peers. What fails for one of them is added to
/// `problems`, and disturbs no other.
pub(super) async fn follow(
    netlink: &Handle,
    name: &str,
    index: u32,
    peers: &BTreeMap<MacAddress, IpAddr>,
    mut held: Entries,
    problems: &mut Vec<TunnelDeviceError>,
) {
    for (mac, address) in peers {
        if held.remove(mac).is_some_and(|(held, _)| held == Some(*address)) {
            continue;
        }
        let entry = netlink.neighbours().add_bridge(index, &mac.0).destination(*address);
        let put = entry.flags(NeighbourFlags::Own).replace().execute().await;
        problems.extend(put.map_err(failed(name, "putting a node into its forwarding database")).err());
    }
    for (_, message) in held.into_values() {
        let removed = netlink.neighbours().del(message).execute().await;
        problems.extend(removed.map_err(failed(name, "removing a node from its forwarding database")).err());
    }
}
