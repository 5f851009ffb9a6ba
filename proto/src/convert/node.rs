//! Nodes, and what is leased to them.

use vrouter_objects::{AddressLease, LeaseId, RouterId, RouterKind, VirtualRouter, VrfId};

use super::address::{mac_from_bytes, mac_to_bytes, name, prefix, unicast};
use super::error::{ConvertError, Problem, Within, each};
use crate::v1;

impl From<&VirtualRouter> for v1::VirtualRouter {
    fn from(router: &VirtualRouter) -> Self {
        Self {
            id: router.id.get(),
            name: router.name.clone(),
            address: Some(router.address.into()),
            mac: mac_to_bytes(router.mac),
            addresses: router.addresses.iter().copied().map(Into::into).collect(),
            zone: router.zone.clone(),
            kind: v1::RouterKind::from(router.kind).into(),
        }
    }
}

impl TryFrom<v1::VirtualRouter> for VirtualRouter {
    type Error = ConvertError;

    fn try_from(message: v1::VirtualRouter) -> Result<Self, ConvertError> {
        Ok(Self {
            id: RouterId::new(message.id).within("id")?,
            name: name(message.name).within("name")?,
            address: unicast(message.address.as_ref()).within("address")?,
            mac: mac_from_bytes(&message.mac).within("mac")?,
            addresses: each("addresses", &message.addresses, |address| unicast(Some(address)))?,
            kind: router_kind(message.kind).within("kind")?,
            zone: message.zone,
        })
    }
}

impl From<RouterKind> for v1::RouterKind {
    fn from(kind: RouterKind) -> Self {
        match kind {
            RouterKind::Vrouter => Self::Vrouter,
            RouterKind::Kernel => Self::Kernel,
        }
    }
}

fn router_kind(number: i32) -> Result<RouterKind, Problem> {
    match v1::RouterKind::try_from(number) {
        Ok(v1::RouterKind::Vrouter) => Ok(RouterKind::Vrouter),
        Ok(v1::RouterKind::Kernel) => Ok(RouterKind::Kernel),
        Ok(v1::RouterKind::Unspecified) | Err(_) => Err(Problem::UnknownValue(number)),
    }
}

impl From<&AddressLease> for v1::AddressLease {
    fn from(lease: &AddressLease) -> Self {
        Self {
            id: lease.id.get(),
            vrf: lease.vrf.get(),
            prefix: Some(lease.prefix.into()),
            first_vmi: lease.first_vmi,
            vmi_count: lease.vmi_count,
        }
    }
}

impl TryFrom<v1::AddressLease> for AddressLease {
    type Error = ConvertError;

    fn try_from(message: v1::AddressLease) -> Result<Self, ConvertError> {
        let (first, count) = (message.first_vmi, message.vmi_count);
        let ends_in_range = first.checked_add(count.saturating_sub(1)).is_some();
        if first == 0 || count == 0 || !ends_in_range {
            return Err(Problem::VmiRange { first, count }).within("first_vmi");
        }
        Ok(Self {
            id: LeaseId::new(message.id).within("id")?,
            vrf: VrfId::new(message.vrf).within("vrf")?,
            prefix: prefix(message.prefix.as_ref()).within("prefix")?,
            first_vmi: first,
            vmi_count: count,
        })
    }
}
