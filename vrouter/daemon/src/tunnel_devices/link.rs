//! The devices themselves.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::{fs, io};

use futures::TryStreamExt;
use rtnetlink::packet_route::link::{
    InfoData, InfoVxlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, VxlanDf,
};
use rtnetlink::{Handle, LinkUnspec, LinkVxlan};
use vrouter_objects::Vni;

use super::{PREFIX, TunnelDeviceError, VXLAN_PORT, own_mac};
use crate::plane::Vtep;

/// A device with such a name as ours have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// A vxlan device that we made.
    Ours(Own),
    /// Anything else.
    Foreign,
}

/// How a device of ours is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Own {
    pub(super) index: u32,
    /// The address it sends from.
    local: Option<IpAddr>,
    /// Everything else that cannot be changed is as [`make`] has it.
    is_sound: bool,
    mtu: Option<u32>,
    is_up: bool,
}

impl Found {
    /// Whether this is our device of that index, and up.
    pub(super) fn is_up_as(&self, index: u32) -> bool {
        matches!(self, Self::Ours(own) if own.index == index && own.is_up)
    }
}

/// The devices with such names as ours have.
pub(super) async fn find(netlink: &Handle) -> Result<BTreeMap<String, Found>, TunnelDeviceError> {
    let links: Vec<_> = netlink
        .link()
        .get()
        .execute()
        .try_collect()
        .await
        .map_err(|error| TunnelDeviceError::Read { what: "devices", source: Box::new(error) })?;
    Ok(links.iter().filter_map(recognise).collect())
}

/// The network whose device would bear this name.
pub(super) fn vni_of(name: &str) -> Option<Vni> {
    name.strip_prefix(PREFIX)?.parse().ok().and_then(|number| Vni::new(number).ok())
}

fn recognise(link: &LinkMessage) -> Option<(String, Found)> {
    let name = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name),
        _ => None,
    })?;
    let vni = vni_of(name)?;
    let has_our_mac = link.attributes.contains(&LinkAttribute::Address(own_mac(vni).0.to_vec()));
    let settings = settings(link);
    let is_ours = has_our_mac
        && settings.contains(&InfoVxlan::Id(vni.get()))
        && settings.contains(&InfoVxlan::Port(VXLAN_PORT));
    let local = settings.iter().find_map(|setting| match setting {
        InfoVxlan::Local(address) => Some((*address).into()),
        InfoVxlan::Local6(address) => Some((*address).into()),
        _ => None,
    });
    let mtu = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Mtu(mtu) => Some(*mtu),
        _ => None,
    });
    let flags = link.header.flags;
    let is_sound = are_sound(settings) && flags.contains(LinkFlags::Noarp);
    let own = Own { index: link.header.index, local, is_sound, mtu, is_up: flags.contains(LinkFlags::Up) };
    Some((name.clone(), if is_ours { Found::Ours(own) } else { Found::Foreign }))
}

/// Whether these are settings that [`make`] makes.
fn are_sound(settings: &[InfoVxlan]) -> bool {
    // Before Linux 6.14 the kernel says nothing of reserved bits.
    let minds_reserved_bits =
        settings.iter().any(|setting| matches!(setting, InfoVxlan::ReservedBits(bits) if *bits != 0));
    settings.contains(&InfoVxlan::Learning(false))
        && settings.contains(&InfoVxlan::Df(VxlanDf::Set))
        && !minds_reserved_bits
}

/// What is set of a vxlan device; nothing, if it is of another kind.
fn settings(link: &LinkMessage) -> &[InfoVxlan] {
    let infos = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::LinkInfo(infos) => Some(infos),
        _ => None,
    });
    let data = infos.into_iter().flatten().find_map(|info| match info {
        LinkInfo::Data(InfoData::Vxlan(settings)) => Some(settings.as_slice()),
        _ => None,
    });
    data.unwrap_or_default()
}

/// Makes the device, or takes it up where it is there as `found`; it is up afterwards. Returns its index.
pub(super) async fn bring_about(
    netlink: &Handle,
    vni: Vni,
    name: &str,
    vtep: Vtep,
    found: Option<Found>,
) -> Result<u32, TunnelDeviceError> {
    let fitting = match found {
        Some(Found::Foreign) => return Err(TunnelDeviceError::Foreign(name.to_owned())),
        Some(Found::Ours(own)) if own.is_sound && own.local == Some(vtep.address) => Some(own),
        Some(Found::Ours(own)) => {
            remove(netlink, name, own.index).await?;
            None
        }
        None => None,
    };
    let index = match fitting {
        Some(own) => own.index,
        None => make(netlink, vni, name, vtep).await?,
    };
    // Also where it was found: whoever made it may have been killed before it came to this.
    disable_ipv6(name).map_err(failed(name, "keeping IPv6 off it"))?;
    if !fitting.is_some_and(|own| own.is_up && own.mtu == Some(vtep.pod_mtu.into())) {
        let up = LinkUnspec::new_with_index(index).mtu(vtep.pod_mtu.into()).up().build();
        netlink.link().set(up).execute().await.map_err(failed(name, "setting it up"))?;
    }
    Ok(index)
}

async fn make(netlink: &Handle, vni: Vni, name: &str, vtep: Vtep) -> Result<u32, TunnelDeviceError> {
    let device = LinkVxlan::new(name, vni.get())
        .port(VXLAN_PORT)
        // Who is where, the controller says.
        .learning(false)
        // None is looked at, as the RFC says; before Linux 6.14 the kernel drops packets that have some set.
        .reserved_bits(0)
        .append_info_data(InfoVxlan::Df(VxlanDf::Set))
        .address(own_mac(vni).0.to_vec())
        // Nobody asks for addresses through a tunnel, and the kernel is not to answer.
        .arp(false);
    let device = match vtep.address {
        IpAddr::V4(address) => device.local(address),
        IpAddr::V6(address) => device.local6(address),
    };
    netlink.link().add(device.build()).execute().await.map_err(failed(name, "making it"))?;
    let mut links = Box::pin(netlink.link().get().match_name(name).execute());
    let link = links.try_next().await.map_err(failed(name, "looking for it"))?;
    let gone = || failed(name, "looking for it")(io::Error::from(io::ErrorKind::NotFound));
    Ok(link.ok_or_else(gone)?.header.index)
}

/// The kernel would give it an address of its own, and speak through it.
fn disable_ipv6(name: &str) -> io::Result<()> {
    match fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1") {
        // There is no IPv6 at all.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

pub(super) async fn remove(netlink: &Handle, name: &str, index: u32) -> Result<(), TunnelDeviceError> {
    netlink.link().del(index).execute().await.map_err(failed(name, "removing it"))
}

/// Names the device and the step that failed.
pub(super) fn failed<E: std::error::Error + Send + Sync + 'static>(
    name: &str,
    step: &'static str,
) -> impl FnOnce(E) -> TunnelDeviceError {
    move |error| TunnelDeviceError::Device { name: name.to_owned(), step, source: Box::new(error) }
}
