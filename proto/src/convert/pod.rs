//! What the controller decided about a pod.

use vrouter_objects::{PodBinding, VrfId};

use super::address::unicast;
use super::error::{ConvertError, Problem, Within};
use crate::v1;

impl From<&PodBinding> for v1::PodBinding {
    fn from(binding: &PodBinding) -> Self {
        Self {
            pod: Some((&binding.pod).into()),
            uid: binding.uid.clone(),
            vrf: binding.vrf.get(),
            addresses: binding.addresses.iter().map(|address| (*address).into()).collect(),
            refusal: binding.refusal.clone().unwrap_or_default(),
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
        })
    }
}
