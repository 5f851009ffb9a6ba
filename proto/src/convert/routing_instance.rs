//! Routing instances.

use vrouter_objects::{RoutingInstance, Subnet, Vni, VrfId};

use super::address::{name, prefix, unicast};
use super::error::{ConvertError, Problem, Within};
use crate::v1;

impl From<&RoutingInstance> for v1::RoutingInstance {
    fn from(instance: &RoutingInstance) -> Self {
        Self {
            id: instance.id.get(),
            name: instance.name.clone(),
            vni: instance.vni.get(),
            subnets: instance.subnets.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<v1::RoutingInstance> for RoutingInstance {
    type Error = ConvertError;

    fn try_from(message: v1::RoutingInstance) -> Result<Self, ConvertError> {
        let subnets = message.subnets.iter().enumerate();
        let subnets =
            subnets.map(|(index, subnet)| subnet.try_into().within(format_args!("subnets[{index}]")));
        Ok(Self {
            id: VrfId::new(message.id).within("id")?,
            name: name(message.name).within("name")?,
            vni: Vni::new(message.vni).within("vni")?,
            subnets: subnets.collect::<Result<_, ConvertError>>()?,
        })
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
