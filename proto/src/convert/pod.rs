//! What the controller decided about a pod.

use vrouter_objects::{NamedPort, PodBinding, PolicyId, Port, VrfId};

use super::address::{name, unicast};
use super::error::{ConvertError, Problem, Within, each};
use super::protocol::service_protocol;
use crate::v1;

impl From<&PodBinding> for v1::PodBinding {
    fn from(binding: &PodBinding) -> Self {
        Self {
            pod: Some((&binding.pod).into()),
            uid: binding.uid.clone(),
            vrf: binding.vrf.get(),
            addresses: binding.addresses.iter().map(|address| (*address).into()).collect(),
            refusal: binding.refusal.clone().unwrap_or_default(),
            policies: binding.policies.iter().map(|policy| policy.get()).collect(),
            ports: binding.ports.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<v1::PodBinding> for PodBinding {
    type Error = ConvertError;

    fn try_from(message: v1::PodBinding) -> Result<Self, ConvertError> {
        let mut addresses = Vec::with_capacity(message.addresses.len());
        for (index, address) in message.addresses.iter().enumerate() {
            let field = format!("addresses[{index}]");
            let address = unicast(Some(address)).within(&field)?;
            if addresses.contains(&address) {
                return Err(Problem::Duplicate).within(field);
            }
            addresses.push(address);
        }
        Ok(Self {
            pod: message.pod.within("pod")?.try_into().within("pod")?,
            uid: message.uid,
            vrf: VrfId::new(message.vrf).within("vrf")?,
            addresses,
            refusal: Some(message.refusal).filter(|reason| !reason.is_empty()),
            policies: each("policies", &message.policies, |id| PolicyId::new(*id))?,
            ports: each("ports", &message.ports, |port| NamedPort::try_from(port))?,
        })
    }
}

impl From<&NamedPort> for v1::NamedPort {
    fn from(port: &NamedPort) -> Self {
        Self {
            name: port.name.clone(),
            protocol: v1::ServiceProtocol::from(port.protocol).into(),
            port: port.port.get().into(),
        }
    }
}

impl TryFrom<&v1::NamedPort> for NamedPort {
    type Error = ConvertError;

    fn try_from(message: &v1::NamedPort) -> Result<Self, ConvertError> {
        Ok(Self {
            name: name(message.name.clone()).within("name")?,
            protocol: service_protocol(message.protocol).within("protocol")?,
            port: Port::new(message.port.into()).within("port")?,
        })
    }
}
