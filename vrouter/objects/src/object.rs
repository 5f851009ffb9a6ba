//! Everything the controller pushes to a node, as one type.

use std::fmt;

use crate::{
    AddressLease, FloatingIp, FloatingIpId, LeaseId, PeerAddress, PeerAddressKey, PeerSet, PeerSetId,
    PodBinding, PodName, Policy, PolicyId, Route, RouteKey, RouterId, RoutingInstance, VirtualRouter, VrfId,
};

/// One object of a node's tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// A node of the cluster.
    VirtualRouter(VirtualRouter),
    /// A virtual network.
    RoutingInstance(RoutingInstance),
    /// A route.
    Route(Route),
    /// A service address.
    FloatingIp(FloatingIp),
    /// Addresses this node may give out.
    AddressLease(AddressLease),
    /// A set of addresses that policies refer to.
    PeerSet(PeerSet),
    /// An address of such a set.
    PeerAddress(PeerAddress),
    /// A network policy.
    Policy(Policy),
    /// A pod this node is to run.
    PodBinding(PodBinding),
}

/// What names an object. A second object with the same key replaces the first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKey {
    /// By id.
    VirtualRouter(RouterId),
    /// By id.
    RoutingInstance(VrfId),
    /// By VRF and prefix.
    Route(RouteKey),
    /// By id.
    FloatingIp(FloatingIpId),
    /// By id.
    AddressLease(LeaseId),
    /// By id.
    PeerSet(PeerSetId),
    /// By set and address.
    PeerAddress(PeerAddressKey),
    /// By id.
    Policy(PolicyId),
    /// By the pod.
    PodBinding(PodName),
}

/// The kinds of [`Object`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// [`VirtualRouter`].
    VirtualRouter,
    /// [`RoutingInstance`].
    RoutingInstance,
    /// [`Route`].
    Route,
    /// [`FloatingIp`].
    FloatingIp,
    /// [`AddressLease`].
    AddressLease,
    /// [`PeerSet`].
    PeerSet,
    /// [`PeerAddress`].
    PeerAddress,
    /// [`Policy`].
    Policy,
    /// [`PodBinding`].
    PodBinding,
}

impl Object {
    /// What names this object.
    pub fn key(&self) -> ObjectKey {
        match self {
            Self::VirtualRouter(object) => ObjectKey::VirtualRouter(object.id),
            Self::RoutingInstance(object) => ObjectKey::RoutingInstance(object.id),
            Self::Route(object) => ObjectKey::Route(object.key),
            Self::FloatingIp(object) => ObjectKey::FloatingIp(object.id),
            Self::AddressLease(object) => ObjectKey::AddressLease(object.id),
            Self::PeerSet(object) => ObjectKey::PeerSet(object.id),
            Self::PeerAddress(object) => ObjectKey::PeerAddress(object.key),
            Self::Policy(object) => ObjectKey::Policy(object.id),
            Self::PodBinding(object) => ObjectKey::PodBinding(object.pod.clone()),
        }
    }
}

impl ObjectKey {
    /// The kind of object this names.
    pub fn kind(&self) -> ObjectKind {
        match self {
            Self::VirtualRouter(_) => ObjectKind::VirtualRouter,
            Self::RoutingInstance(_) => ObjectKind::RoutingInstance,
            Self::Route(_) => ObjectKind::Route,
            Self::FloatingIp(_) => ObjectKind::FloatingIp,
            Self::AddressLease(_) => ObjectKind::AddressLease,
            Self::PeerSet(_) => ObjectKind::PeerSet,
            Self::PeerAddress(_) => ObjectKind::PeerAddress,
            Self::Policy(_) => ObjectKind::Policy,
            Self::PodBinding(_) => ObjectKind::PodBinding,
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::VirtualRouter(id) => write!(f, "virtual router {id}"),
            Self::RoutingInstance(id) => write!(f, "routing instance {id}"),
            Self::Route(key) => write!(f, "route {key}"),
            Self::FloatingIp(id) => write!(f, "floating ip {id}"),
            Self::AddressLease(id) => write!(f, "address lease {id}"),
            Self::PeerSet(id) => write!(f, "peer set {id}"),
            Self::PeerAddress(key) => write!(f, "peer address {key}"),
            Self::Policy(id) => write!(f, "policy {id}"),
            Self::PodBinding(pod) => write!(f, "pod binding {pod}"),
        }
    }
}
