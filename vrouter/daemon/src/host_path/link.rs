//! The device itself, as the node's own stack sees it.

use futures::TryStreamExt;
use rtnetlink::packet_core::ErrorMessage;
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags};
use rtnetlink::{Handle, LinkUnspec};
use vrouter_objects::MacAddress;

use super::family::Family;
use super::{DEVICE, HostDevice, HostPathError};

/// Brings the device up as it should be, with the router as its one neighbour. Returns its index.
pub(super) async fn follow(netlink: &Handle, device: HostDevice) -> Result<u32, HostPathError> {
    let failed = |step| HostPathError::kernel(DEVICE, step);
    let mut links = Box::pin(netlink.link().get().match_name(DEVICE.to_owned()).execute());
    let link = match links.try_next().await {
        Ok(Some(link)) => link,
        Ok(None) => return Err(HostPathError::NoDevice),
        Err(error) if is_absent(&error) => return Err(HostPathError::NoDevice),
        Err(error) => return Err(failed("looking for it")(error)),
    };
    let index = link.header.index;
    let is_right = link.header.flags.contains(LinkFlags::Up)
        && link.attributes.contains(&LinkAttribute::Mtu(device.mtu.into()))
        && link.attributes.contains(&LinkAttribute::Address(device.mac.0.to_vec()));
    if !is_right {
        let up = LinkUnspec::new_with_index(index).mtu(device.mtu.into()).address(device.mac.0.to_vec()).up();
        netlink.link().set(up.build()).execute().await.map_err(failed("setting it up"))?;
    }
    for family in Family::spoken() {
        let router = netlink.neighbours().add(index, family.gateway()).replace();
        let router = router.link_layer_address(&MacAddress::GATEWAY.0);
        router.execute().await.map_err(failed("making the router its neighbour"))?;
    }
    Ok(index)
}

/// Whether the kernel says that there is no such thing.
pub(super) fn is_absent(error: &rtnetlink::Error) -> bool {
    let errno = |message: &ErrorMessage| message.to_io().raw_os_error();
    let absent = [nix::errno::Errno::ENODEV, nix::errno::Errno::ENOENT, nix::errno::Errno::ESRCH];
    matches!(error, rtnetlink::Error::NetlinkError(message)
        if absent.iter().any(|absent| errno(message) == Some(*absent as i32)))
}
