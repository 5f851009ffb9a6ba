//! What happens in one run, as plain data: a world, and then packets and changes in turn.

use std::fmt;

use k8s_openapi::api::networking::v1::NetworkPolicy;

use crate::reach::Probe;
use crate::text::ClusterPolicySpec;
use crate::world::{Name, Namespace, Node, Pod, World, node_name};

/// One run.
#[derive(Debug, Clone)]
pub struct Script {
    /// What there is at first.
    pub world: World,
    /// What happens then.
    pub steps: Vec<Step>,
}

/// One thing that happens.
#[derive(Debug, Clone)]
pub enum Step {
    /// Somebody begins a connection.
    Begin(Probe),
    /// Who began the connection with this number sends again.
    GoOn(u16),
    /// Who was spoken to sends again.
    Answer(u16),
    /// The world changes, by all of these at once.
    Change(Vec<Change>),
}

/// An object is this now, or gone.
#[derive(Debug, Clone)]
pub enum Change {
    /// A node.
    Node(usize, Node),
    /// A Namespace object.
    Namespace(String, Option<Namespace>),
    /// A pod.
    Pod(Name, Option<Pod>),
    /// A NetworkPolicy.
    Policy(Name, Option<Box<NetworkPolicy>>),
    /// A ClusterNetworkPolicy.
    ClusterPolicy(String, Option<ClusterPolicySpec>),
}

impl Change {
    /// Makes it so.
    pub fn apply(&self, world: &mut World) {
        fn put<K: Ord + Clone, V: Clone>(
            map: &mut std::collections::BTreeMap<K, V>,
            key: &K,
            value: Option<&V>,
        ) {
            match value {
                Some(value) => map.insert(key.clone(), value.clone()),
                None => map.remove(key),
            };
        }
        match self {
            Self::Node(number, node) => put(&mut world.nodes, number, Some(node)),
            Self::Namespace(name, namespace) => put(&mut world.namespaces, name, namespace.as_ref()),
            Self::Pod(name, pod) => put(&mut world.pods, name, pod.as_ref()),
            Self::Policy(name, policy) => put(&mut world.policies, name, policy.as_deref()),
            Self::ClusterPolicy(name, policy) => put(&mut world.cluster_policies, name, policy.as_ref()),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin(probe) => {
                let Probe { id, from, to, family, transport, shape } = probe;
                write!(f, "connection {id}: {from:?} to {to:?}, {family:?} {transport:?} {shape:?}")
            }
            Self::GoOn(id) => write!(f, "connection {id} goes on"),
            Self::Answer(id) => write!(f, "connection {id} is answered"),
            Self::Change(changes) => changes.iter().try_for_each(|change| writeln!(f, "now {change}")),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn json(value: &impl serde::Serialize) -> String {
            serde_json::to_string(value).unwrap_or_else(|error| error.to_string())
        }
        match self {
            Self::Node(number, node) => write!(f, "node {}: {node:?}", node_name(*number)),
            Self::Namespace(name, namespace) => write!(f, "namespace {name}: {namespace:?}"),
            Self::Pod(name, pod) => write!(f, "pod {name}: {pod:?}"),
            Self::Policy(name, policy) => {
                write!(f, "policy {name}: {}", json(&policy.as_ref().map(|it| &it.spec)))
            }
            Self::ClusterPolicy(name, policy) => write!(f, "cluster policy {name}: {}", json(policy)),
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let World { nodes, namespaces, pods, services, policies, cluster_policies } = &self.world;
        let mut first: Vec<Change> = Vec::new();
        first.extend(nodes.iter().map(|(number, node)| Change::Node(*number, node.clone())));
        first.extend(namespaces.iter().map(|(name, it)| Change::Namespace(name.clone(), Some(it.clone()))));
        first.extend(pods.iter().map(|(name, it)| Change::Pod(name.clone(), Some(it.clone()))));
        first.extend(
            policies.iter().map(|(name, it)| Change::Policy(name.clone(), Some(Box::new(it.clone())))),
        );
        first.extend(
            cluster_policies.iter().map(|(name, it)| Change::ClusterPolicy(name.clone(), Some(it.clone()))),
        );
        first.iter().try_for_each(|change| writeln!(f, "  {change}"))?;
        services.iter().try_for_each(|(name, service)| writeln!(f, "  service {name}: {service:?}"))?;
        self.steps.iter().try_for_each(|step| writeln!(f, "  {step}"))
    }
}
