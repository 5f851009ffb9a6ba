//! The controller's side: Kubernetes objects in, each node's tables out.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use vrouter_control_model::{
    Attachment, Layer, Model, ModelConfig, NamespacedName, NetworkVnis, ObjectRef, State,
};
use vrouter_objects::{IpNet, Object, ObjectKey, PodName, VmiId, Vni, VrfId};

use crate::objects::Objects;
use crate::world::{Name, node_name};

/// What a node holds.
pub type Tables = BTreeMap<ObjectKey, Object>;

/// The controller.
#[derive(Debug)]
pub struct Controller {
    model: Model,
    known: Objects,
}

impl Controller {
    /// One that knows of nothing.
    pub fn new() -> Result<Self> {
        let prefixes = |list: [&str; 2]| -> Result<Vec<IpNet>> {
            list.into_iter().map(|text| Ok(text.parse()?)).collect()
        };
        let vnis = NetworkVnis { pods: Vni::new(1)?, services: Vni::new(2)?, fabric: Vni::new(3)? };
        let pods = prefixes(["10.244.0.0/16", "fd00:10:244::/48"])?;
        let services = prefixes(["10.96.0.0/12", "fd00:10:96::/108"])?;
        let config = ModelConfig::new(pods, services, [24, 64], vnis)?;
        Ok(Self { model: Model::new(config, State::default())?, known: Objects::new() })
    }

    /// Makes these the only objects there are, by the changes that it takes.
    pub fn put(&mut self, objects: Objects) {
        let is_gone = |reference: &&ObjectRef| !objects.contains_key(reference);
        for reference in self.known.keys().filter(is_gone) {
            self.model.delete(reference);
        }
        for (reference, object) in &objects {
            if self.known.get(reference) != Some(object) {
                self.model.apply(object, "policy".into());
            }
        }
        self.known = objects;
        self.model.settle();
    }

    /// An interface is up.
    pub fn attach(&mut self, node: usize, attachment: Attachment) {
        self.model.attach(&node_name(node), attachment);
        self.model.settle();
    }

    /// An interface is gone.
    pub fn detach(&mut self, node: usize, vmi: VmiId) {
        self.model.detach(&node_name(node), vmi);
        self.model.settle();
    }

    /// The network that a pod is to be in.
    pub fn network(&self, node: usize, pod: &Name) -> Result<VrfId> {
        let key = ObjectKey::PodBinding(PodName { namespace: pod.namespace.clone(), name: pod.name.clone() });
        match self.tables(node).remove(&key) {
            Some(Object::PodBinding(binding)) if binding.refusal.is_none() => Ok(binding.vrf),
            other => None.with_context(|| format!("pod {pod} has no binding on node {node}: {other:?}")),
        }
    }

    /// What a node holds: the layers that it takes part in, and its own in place of them.
    pub fn tables(&self, node: usize) -> Tables {
        let own = Layer::Node(node_name(node));
        let held: BTreeSet<&Layer> = self.model.interest(&node_name(node)).collect();
        let shared = self.model.tables().filter(|(layer, _)| held.contains(layer) && **layer != own);
        let own = self.model.tables().filter(|(layer, _)| **layer == own);
        shared.chain(own).map(|(_, object)| (object.key(), Object::clone(object))).collect()
    }

    /// What the controller finds wrong with the objects.
    pub fn problems(&self) -> Vec<String> {
        self.model.problems().into_iter().map(|problem| format!("{problem:?}")).collect()
    }
}

/// A name as the controller has it.
pub fn namespaced(name: &Name) -> NamespacedName {
    NamespacedName::new(&name.namespace, &name.name)
}
