//! Nodes, and what is leased to them.

use vrouter_objects::{AddressLease, LeaseId, RouterId, VirtualRouter, VrfId};

use super::address::{mac_from_bytes, mac_to_bytes, name, prefix, unicast};
use super::error::{ConvertError, Problem, Within};
use crate::v1;

impl From<&VirtualRouter> for v1::VirtualRouter {
    fn from(router: &VirtualRouter) -> Self {
        Self {
            id: router.id.get(),
            name: router.name.clone(),
            address: Some(router.address.into()),
            mac: mac_to_bytes(router.mac),
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
        })
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
