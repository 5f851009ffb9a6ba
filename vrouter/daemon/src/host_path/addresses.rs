//! The node's own addresses: those by which others reach it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use futures::TryStreamExt;
use rtnetlink::Handle;
use rtnetlink::packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope};
use rtnetlink::packet_route::link::LinkAttribute;

use super::{DEVICE, HostPathError};
use crate::netlink::with_netlink;
use crate::tunnel_devices;

/// The global unicast addresses of all links except the loopback and our own.
pub fn own_addresses() -> Result<BTreeSet<IpAddr>, HostPathError> {
    const STEP: &str = "reading them";
    let read = async |netlink| read(&netlink).await.map_err(HostPathError::kernel("addresses", STEP));
    with_netlink(read).map_err(HostPathError::kernel("addresses", STEP))?
}

async fn read(netlink: &Handle) -> Result<BTreeSet<IpAddr>, rtnetlink::Error> {
    let links = names(netlink).await?;
    let messages: Vec<_> = netlink.address().get().execute().try_collect().await?;
    let is_ours = |name: &String| name == "lo" || name == DEVICE || tunnel_devices::is_own_name(name);
    let others =
        messages.iter().filter(|message| links.get(&message.header.index).is_some_and(|name| !is_ours(name)));
    Ok(others.filter_map(usable).collect())
}

async fn names(netlink: &Handle) -> Result<BTreeMap<u32, String>, rtnetlink::Error> {
    let links: Vec<_> = netlink.link().get().execute().try_collect().await?;
    let named = links.into_iter().filter_map(|link| {
        let name = link.attributes.into_iter().find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name),
            _ => None,
        })?;
        Some((link.header.index, name))
    });
    Ok(named.collect())
}

/// The address that others may send to.
fn usable(message: &AddressMessage) -> Option<IpAddr> {
    let unusable = AddressHeaderFlags::Tentative | AddressHeaderFlags::Dadfailed;
    if message.header.scope != AddressScope::Universe || message.header.flags.intersects(unusable) {
        return None;
    }
    let local = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    // Only a point-to-point link has both; then this is the other end's.
    let plain = || {
        message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
    };
    local.or_else(plain).filter(|address| is_global(*address))
}

/// Whether an address means the same beyond its own link.
fn is_global(address: IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !is_link_local && !address.is_loopback() && !address.is_unspecified() && !address.is_multicast()
}

/// The addresses in the order in which they are to be used: first those that the node is known by in the cluster, as
/// they come, then the others.
pub fn in_order(own: &BTreeSet<IpAddr>, known: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    let mut ordered: Vec<IpAddr> = Vec::new();
    for address in known.filter(|address| own.contains(address)).chain(own.iter().copied()) {
        if !ordered.contains(&address) {
            ordered.push(address);
        }
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_addresses_that_the_cluster_knows_come_first() {
        let own = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1", "fd00::2"].map(ip).into();
        let known = ["10.0.0.2", "192.0.2.1", "fd00::2", "10.0.0.2"].map(ip);
        let expected = ["10.0.0.2", "fd00::2", "10.0.0.1", "10.0.0.3", "fd00::1"].map(ip);
        assert_eq!(in_order(&own, known.into_iter()), expected);
    }

    #[test]
    fn what_means_nothing_beyond_its_link_is_left_out() {
        for (address, expected) in [
            ("10.0.0.1", true),
            ("fd00::1", true),
            ("2001:db8::1", true),
            ("169.254.7.7", false),
            ("fe80::1", false),
            ("127.0.0.1", false),
            ("::1", false),
        ] {
            assert_eq!(is_global(ip(address)), expected, "{address}");
        }
    }
}
