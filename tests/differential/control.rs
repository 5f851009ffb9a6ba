//! What the controller makes of the objects: the tables of the own node.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::Result;
use vrouter_control_model::{
    Attachment, KubeObject, Layer, Model, ModelConfig, NamespacedName, NetworkVnis, State,
};
use vrouter_objects::{IpNet, MacAddress, Object, ObjectKey, VmiId, Vni, VrfId};
use vrouter_tests::lab::Family;

use crate::objects::{NAMESPACE, Objects};
use crate::place::{CALLER_ADDRESSES, Client, OWN, PODS, pod_prefix, service_prefix};

/// What a node holds.
pub type Tables = BTreeMap<ObjectKey, Object>;

/// The interface of one of the own node's pods.
#[derive(Debug)]
pub struct Interface {
    /// Its id.
    pub vmi: VmiId,
    /// The pod's name.
    pub name: String,
    /// Its MAC address.
    pub mac: MacAddress,
    /// Its addresses of both families.
    pub addresses: Vec<IpAddr>,
}

impl Interface {
    /// Of the pod with this number.
    pub fn of(pod: u8) -> Result<Self> {
        let number = u32::from(pod) + 1;
        let of_family = |family| match pod {
            0 => (0..CALLER_ADDRESSES).map(|which| Client::Caller.address(family, which)).collect(),
            _ => vec![OWN.pod(family, pod)],
        };
        Ok(Self {
            vmi: VmiId::new(number)?,
            name: format!("pod-{pod}"),
            mac: MacAddress::local(0x50, number),
            addresses: Family::BOTH.into_iter().flat_map(of_family).collect(),
        })
    }
}

/// The network of the pods.
pub fn pods() -> Result<VrfId> {
    Ok(config()?.pods.vrf)
}

/// The network of the nodes.
pub fn fabric() -> Result<VrfId> {
    Ok(config()?.fabric.vrf)
}

/// The tables of the own node: what all nodes hold, and its own in place of it.
pub fn tables(objects: &Objects) -> Result<Tables> {
    let model = model(objects)?;
    let own = OWN.name();
    let is_own = |layer: &Layer| matches!(layer, Layer::Node(name) if *name == own);
    let is_shared = |layer: &Layer| !matches!(layer, Layer::Node(_));
    let shared = model.tables().filter(|(layer, _)| is_shared(layer));
    let own = model.tables().filter(|(layer, _)| is_own(layer));
    Ok(shared.chain(own).map(|(_, object)| (object.key(), Object::clone(object))).collect())
}

fn config() -> Result<ModelConfig> {
    let both = |prefix: fn(Family) -> &'static str| -> Result<Vec<IpNet>> {
        Family::BOTH.into_iter().map(|family| Ok(prefix(family).parse()?)).collect()
    };
    let vnis = NetworkVnis { pods: Vni::new(1)?, services: Vni::new(2)?, fabric: Vni::new(3)? };
    Ok(ModelConfig::new(both(pod_prefix)?, both(service_prefix)?, [24, 64], vnis)?)
}

fn model(objects: &Objects) -> Result<Model> {
    let config = config()?;
    let vrf = config.pods.vrf;
    let mut model = Model::new(config, State::default())?;
    let nodes = objects.nodes.iter().map(|node| KubeObject::Node(Box::new(node.clone())));
    let services = objects.services.iter().map(|service| KubeObject::Service(Box::new(service.clone())));
    let slices = objects.slices.iter().map(|slice| KubeObject::EndpointSlice(Box::new(slice.clone())));
    for object in nodes.chain(services).chain(slices) {
        model.apply(&object, "differential".into());
    }
    model.settle();
    for number in 0..=PODS {
        let Interface { vmi, name, mac, addresses } = Interface::of(number)?;
        let attachment = Attachment {
            vmi,
            pod: NamespacedName::new(NAMESPACE, &name),
            uid: String::new(),
            container_id: format!("container-{number}"),
            interface: "eth0".to_owned(),
            vrf,
            mac,
            addresses,
            link_local: Vec::new(),
        };
        model.attach(&OWN.name(), attachment);
    }
    model.settle();
    Ok(model)
}
