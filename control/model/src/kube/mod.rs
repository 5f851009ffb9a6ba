//! Kubernetes objects, read once into records that hold what the model needs, with every fault noted.
//!
//! A record that equals the one before means that nothing changed: heartbeats and other noise end here.

mod endpoints;
mod field;
mod namespace;
mod node;
mod pod;
mod service;

use std::fmt;

use k8s_openapi::api::core::v1::{Endpoints, Namespace, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::NamespacedName;
use crate::problem::Finding;

pub use endpoints::{Condition, EndpointSet, Hints, SliceRecord, read_endpoints};
pub use namespace::NamespaceRecord;
pub use node::{BACKEND_DATA, NodeKind, NodeRecord};
pub use pod::{ADDRESSES_ANNOTATION, AddressWish, PodRecord, Readiness};
pub use service::{
    AddressRequest, Distribution, FamilyPolicy, Frontend, HealthCheck, NodePorts, Policies, PoolWish,
    PortWish, ServicePort, ServiceRecord, ServiceType, TargetPort,
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
}

/// The kinds of [`KubeObject`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
}

/// What names a Kubernetes object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    pub const ALL: [Self; 6] =
        [Self::Namespace, Self::Node, Self::Pod, Self::Service, Self::EndpointSlice, Self::Endpoints];

    /// The API version that they are read in.
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::EndpointSlice => "discovery.k8s.io/v1",
            _ => "v1",
        }
    }

    /// Whether objects of this kind live in a namespace.
    pub const fn is_namespaced(self) -> bool {
        !matches!(self, Self::Namespace | Self::Node)
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
        }
    }

    /// What it asks for that nobody here does, with what is done instead. That is no fault of it.
    pub fn unserved(&self) -> Vec<Finding> {
        match self {
            Self::Service(service) => service::unserved(service),
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
