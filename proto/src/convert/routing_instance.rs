//! Routing instances.

use vrouter_objects::{NetworkKind, RoutingInstance, Subnet, Vni, VrfId};

use super::address::{name, prefix, unicast};
use super::error::{ConvertError, Problem, Within, each};
use crate::v1;

impl From<&RoutingInstance> for v1::RoutingInstance {
    fn from(instance: &RoutingInstance) -> Self {
        Self {
            id: instance.id.get(),
            name: instance.name.clone(),
            vni: instance.vni.get(),
            kind: v1::NetworkKind::from(instance.kind).into(),
            subnets: instance.subnets.iter().map(Into::into).collect(),
            address_space: instance.address_space.get(),
            known_in: instance.known_in.iter().map(|vrf| vrf.get()).collect(),
        }
    }
}

impl TryFrom<v1::RoutingInstance> for RoutingInstance {
    type Error = ConvertError;

    fn try_from(message: v1::RoutingInstance) -> Result<Self, ConvertError> {
        Ok(Self {
            id: VrfId::new(message.id).within("id")?,
            name: name(message.name).within("name")?,
            vni: Vni::new(message.vni).within("vni")?,
            kind: network_kind(message.kind).within("kind")?,
            subnets: each("subnets", &message.subnets, |subnet| Subnet::try_from(subnet))?,
            address_space: VrfId::new(message.address_space).within("address_space")?,
            known_in: each("known_in", &message.known_in, |id| VrfId::new(*id))?,
        })
    }
}

impl From<NetworkKind> for v1::NetworkKind {
    fn from(kind: NetworkKind) -> Self {
        match kind {
            NetworkKind::Overlay => Self::Overlay,
            NetworkKind::Fabric => Self::Fabric,
            NetworkKind::LinkLocal => Self::LinkLocal,
        }
    }
}

fn network_kind(number: i32) -> Result<NetworkKind, Problem> {
    match v1::NetworkKind::try_from(number) {
        Ok(v1::NetworkKind::Overlay) => Ok(NetworkKind::Overlay),
        Ok(v1::NetworkKind::Fabric) => Ok(NetworkKind::Fabric),
        Ok(v1::NetworkKind::LinkLocal) => Ok(NetworkKind::LinkLocal),
        Ok(v1::NetworkKind::Unspecified) | Err(_) => Err(Problem::UnknownValue(number)),
    }
}

impl From<&Subnet> for v1::Subnet {
    fn from(subnet: &Subnet) -> Self {
        Self { prefix: Some(subnet.prefix.into()), gateway: Some(subnet.gateway.into()) }
    }
}

impl TryFrom<&v1::Subnet> for Subnet {
    type Error = ConvertError;

    fn try_from(message: &v1::Subnet) -> Result<Self, ConvertError> {
        let prefix = prefix(message.prefix.as_ref()).within("prefix")?;
        let gateway = unicast(message.gateway.as_ref()).within("gateway")?;
        if gateway.is_ipv4() != prefix.addr().is_ipv4() {
            return Err(Problem::FamilyMix).within("gateway");
        }
        if !prefix.contains(&gateway) {
            return Err(Problem::OutsideSubnet).within("gateway");
        }
        Ok(Self { prefix, gateway })
    }
}
