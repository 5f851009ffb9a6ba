//! Kubernetes objects, read once into records that hold what the model needs, with every fault noted.
//!
//! A record that equals the one before means that nothing changed: heartbeats and other noise end here.

mod cluster_network_policy;
mod custom;
mod endpoints;
mod field;
mod namespace;
mod network_policy;
mod network_wish;
mod node;
mod pod;
mod policy;
mod selector;
mod service;
mod virtual_network;
mod virtual_network_router;

use std::fmt;

use k8s_openapi::api::core::v1::{Endpoints, Namespace, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::NamespacedName;
use crate::problem::Finding;

pub use cluster_network_policy::{ClusterNetworkPolicySpec, read_cluster_network_policy};
pub use custom::Custom;
pub use endpoints::{Condition, EndpointSet, Hints, SliceRecord, read_endpoints};
pub use namespace::{Isolation, NamespaceRecord};
pub use network_policy::read_network_policy;
pub use network_wish::{NETWORK_ANNOTATION, NetworkWish, field as network_field};
pub use node::{BACKEND_DATA, NodeKind, NodeRecord};
pub use pod::{ADDRESSES_ANNOTATION, AddressWish, PodRecord, Readiness};
pub use policy::{Block, PeerRecord, PolicyRecord, PortName, PortRecord, RuleRecord, Which};
pub use selector::{NAMESPACE_NAME, NamespaceSelection, PodSelection, Requirement, Selector, Test};
pub use service::{
    AddressRequest, Distribution, FamilyPolicy, Frontend, HealthCheck, NodePorts, Policies, PoolWish,
    PortWish, ServicePort, ServiceRecord, ServiceType, TargetPort,
};
pub use virtual_network::{
    IpRange, SubnetRange, SubnetRecord, SubnetReference, SubnetSpec, SubnetWish, VirtualNetworkRecord,
    VirtualNetworkSpec,
};
pub use virtual_network_router::{
    ImportRecord, RouterEntry, RouterImport, RouterRecord, RouterType, VirtualNetworkRouterSpec,
};

/// One Kubernetes object of a kind the model mirrors.
#[derive(Debug, Clone, PartialEq)]
pub enum KubeObject {
    /// A project.
    Namespace(Box<Namespace>),
    /// A virtual router.
    Node(Box<Node>),
    /// A virtual machine.
    Pod(Box<Pod>),
    /// A load balancer.
    Service(Box<Service>),
    /// Members.
    EndpointSlice(Box<EndpointSlice>),
    /// Members, in the older form.
    Endpoints(Box<Endpoints>),
    /// Who may talk to a namespace's pods, and whom they may talk to.
    NetworkPolicy(Box<NetworkPolicy>),
    /// The same, said by the administrator for pods of any namespace.
    ClusterNetworkPolicy(Box<Custom<ClusterNetworkPolicySpec>>),
    /// A tenant network.
    VirtualNetwork(Box<Custom<VirtualNetworkSpec>>),
    /// A prefix of tenant networks.
    Subnet(Box<Custom<SubnetSpec>>),
    /// Ways between tenant networks.
    VirtualNetworkRouter(Box<Custom<VirtualNetworkRouterSpec>>),
}

/// The kinds of [`KubeObject`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// v1 Namespace.
    Namespace,
    /// v1 Node.
    Node,
    /// v1 Pod.
    Pod,
    /// v1 Service.
    Service,
    /// discovery.k8s.io/v1 EndpointSlice.
    EndpointSlice,
    /// v1 Endpoints.
    Endpoints,
    /// networking.k8s.io/v1 NetworkPolicy.
    NetworkPolicy,
    /// policy.networking.k8s.io/v1alpha2 ClusterNetworkPolicy.
    ClusterNetworkPolicy,
    /// core.contrail.juniper.net/v1alpha1 VirtualNetwork.
    VirtualNetwork,
    /// core.contrail.juniper.net/v1alpha1 Subnet.
    Subnet,
    /// core.contrail.juniper.net/v1alpha1 VirtualNetworkRouter.
    VirtualNetworkRouter,
}

/// What names a Kubernetes object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace, empty for cluster-wide kinds.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 11] = [
        Self::Namespace,
        Self::Node,
        Self::Pod,
        Self::Service,
        Self::EndpointSlice,
        Self::Endpoints,
        Self::NetworkPolicy,
        Self::ClusterNetworkPolicy,
        Self::VirtualNetwork,
        Self::Subnet,
        Self::VirtualNetworkRouter,
    ];

    /// The API version that they are read in.
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::EndpointSlice => "discovery.k8s.io/v1",
            Self::NetworkPolicy => "networking.k8s.io/v1",
            Self::ClusterNetworkPolicy => "policy.networking.k8s.io/v1alpha2",
            Self::VirtualNetwork | Self::Subnet | Self::VirtualNetworkRouter => {
                "core.contrail.juniper.net/v1alpha1"
            }
            Self::Namespace | Self::Node | Self::Pod | Self::Service | Self::Endpoints => "v1",
        }
    }

    /// Whether objects of this kind live in a namespace.
    pub const fn is_namespaced(self) -> bool {
        !matches!(self, Self::Namespace | Self::Node | Self::ClusterNetworkPolicy)
    }
}

impl KubeObject {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Namespace(_) => Kind::Namespace,
            Self::Node(_) => Kind::Node,
            Self::Pod(_) => Kind::Pod,
            Self::Service(_) => Kind::Service,
            Self::EndpointSlice(_) => Kind::EndpointSlice,
            Self::Endpoints(_) => Kind::Endpoints,
            Self::NetworkPolicy(_) => Kind::NetworkPolicy,
            Self::ClusterNetworkPolicy(_) => Kind::ClusterNetworkPolicy,
            Self::VirtualNetwork(_) => Kind::VirtualNetwork,
            Self::Subnet(_) => Kind::Subnet,
            Self::VirtualNetworkRouter(_) => Kind::VirtualNetworkRouter,
        }
    }

    /// Its metadata.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Namespace(object) => &object.metadata,
            Self::Node(object) => &object.metadata,
            Self::Pod(object) => &object.metadata,
            Self::Service(object) => &object.metadata,
            Self::EndpointSlice(object) => &object.metadata,
            Self::Endpoints(object) => &object.metadata,
            Self::NetworkPolicy(object) => &object.metadata,
            Self::ClusterNetworkPolicy(object) => &object.metadata,
            Self::VirtualNetwork(object) => &object.metadata,
            Self::Subnet(object) => &object.metadata,
            Self::VirtualNetworkRouter(object) => &object.metadata,
        }
    }

    /// What it asks for that nobody here does, with what is done instead. That is no fault of it.
    pub fn unserved(&self) -> Vec<Finding> {
        match self {
            Self::Service(service) => service::unserved(service),
            Self::VirtualNetwork(network) => virtual_network::unserved(network),
            _ => Vec::new(),
        }
    }

    /// What names it. An object without a namespace is in `default`.
    pub fn reference(&self) -> ObjectRef {
        let (kind, metadata) = (self.kind(), self.metadata());
        let namespace = match &metadata.namespace {
            _ if !kind.is_namespaced() => String::new(),
            Some(namespace) => namespace.clone(),
            None => "default".to_owned(),
        };
        ObjectRef { kind, namespace, name: metadata.name.clone().unwrap_or_default() }
    }
}

impl ObjectRef {
    /// Its name in its namespace.
    pub fn namespaced_name(&self) -> NamespacedName {
        NamespacedName::new(&self.namespace, &self.name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}
