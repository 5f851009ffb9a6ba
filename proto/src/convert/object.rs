//! Objects of any kind, and their keys.

use vrouter_objects::{
    FloatingIpId, LeaseId, Object, ObjectKey, PeerAddressKey, PeerSetId, PolicyId, RouterId, VrfId,
};

use super::error::{ConvertError, Problem, Within};
use crate::v1;
use crate::v1::object::Kind;
use crate::v1::object_key::Kind as KeyKind;

impl From<&Object> for v1::Object {
    fn from(object: &Object) -> Self {
        let kind = match object {
            Object::VirtualRouter(object) => Kind::VirtualRouter(object.into()),
            Object::RoutingInstance(object) => Kind::RoutingInstance(object.into()),
            Object::Route(object) => Kind::Route(object.into()),
            Object::FloatingIp(object) => Kind::FloatingIp(object.into()),
            Object::AddressLease(object) => Kind::AddressLease(object.into()),
            Object::PodBinding(object) => Kind::PodBinding(object.into()),
            Object::Policy(object) => Kind::Policy(object.into()),
            Object::PeerSet(object) => Kind::PeerSet(object.into()),
            Object::PeerAddress(object) => Kind::PeerAddress(object.into()),
        };
        Self { kind: Some(kind) }
    }
}

impl TryFrom<v1::Object> for Object {
    type Error = ConvertError;

    fn try_from(message: v1::Object) -> Result<Self, ConvertError> {
        let kind = message.kind.ok_or_else(|| ConvertError::from(Problem::Missing).of("object"))?;
        let name = name_of(&kind);
        let object = match kind {
            Kind::VirtualRouter(message) => message.try_into().map(Self::VirtualRouter),
            Kind::RoutingInstance(message) => message.try_into().map(Self::RoutingInstance),
            Kind::Route(message) => message.try_into().map(Self::Route),
            Kind::FloatingIp(message) => message.try_into().map(Self::FloatingIp),
            Kind::AddressLease(message) => message.try_into().map(Self::AddressLease),
            Kind::PodBinding(message) => message.try_into().map(Self::PodBinding),
            Kind::Policy(message) => message.try_into().map(Self::Policy),
            Kind::PeerSet(message) => message.try_into().map(Self::PeerSet),
            Kind::PeerAddress(message) => message.try_into().map(Self::PeerAddress),
        };
        object.map_err(|error| error.of(name))
    }
}

/// What people find the object by, as far as the message says.
fn name_of(kind: &Kind) -> String {
    match kind {
        Kind::VirtualRouter(object) => format!("virtual router {} ({})", object.id, object.name),
        Kind::RoutingInstance(object) => format!("routing instance {} ({})", object.id, object.name),
        Kind::Route(object) => match object.key.clone().map(vrouter_objects::RouteKey::try_from) {
            Some(Ok(key)) => format!("route {key}"),
            _ => "route".to_owned(),
        },
        Kind::FloatingIp(object) => format!("floating ip {} ({})", object.id, object.name),
        Kind::AddressLease(object) => format!("address lease {}", object.id),
        Kind::PodBinding(object) => match &object.pod {
            Some(pod) => format!("pod binding {}/{}", pod.namespace, pod.name),
            None => "pod binding".to_owned(),
        },
        Kind::Policy(object) => format!("policy {} ({})", object.id, object.name),
        Kind::PeerSet(object) => format!("peer set {} ({})", object.id, object.name),
        Kind::PeerAddress(object) => match object.key.clone().map(PeerAddressKey::try_from) {
            Some(Ok(key)) => format!("peer address {key}"),
            _ => "peer address".to_owned(),
        },
    }
}

/// The key of an object as it came over the wire, however wrong the rest of it is; `None` where it has none.
pub fn key_of(object: &v1::Object) -> Option<v1::ObjectKey> {
    let kind = match object.kind.as_ref()? {
        Kind::VirtualRouter(object) => KeyKind::VirtualRouter(object.id),
        Kind::RoutingInstance(object) => KeyKind::RoutingInstance(object.id),
        Kind::Route(object) => KeyKind::Route(object.key.clone()?),
        Kind::FloatingIp(object) => KeyKind::FloatingIp(object.id),
        Kind::AddressLease(object) => KeyKind::AddressLease(object.id),
        Kind::PodBinding(object) => KeyKind::PodBinding(object.pod.clone()?),
        Kind::Policy(object) => KeyKind::Policy(object.id),
        Kind::PeerSet(object) => KeyKind::PeerSet(object.id),
        Kind::PeerAddress(object) => KeyKind::PeerAddress(object.key.clone()?),
    };
    Some(v1::ObjectKey { kind: Some(kind) })
}

impl From<&ObjectKey> for v1::ObjectKey {
    fn from(key: &ObjectKey) -> Self {
        let kind = match key {
            ObjectKey::VirtualRouter(id) => KeyKind::VirtualRouter(id.get()),
            ObjectKey::RoutingInstance(id) => KeyKind::RoutingInstance(id.get()),
            ObjectKey::Route(key) => KeyKind::Route(key.into()),
            ObjectKey::FloatingIp(id) => KeyKind::FloatingIp(id.get()),
            ObjectKey::AddressLease(id) => KeyKind::AddressLease(id.get()),
            ObjectKey::PodBinding(pod) => KeyKind::PodBinding(pod.into()),
            ObjectKey::Policy(id) => KeyKind::Policy(id.get()),
            ObjectKey::PeerSet(id) => KeyKind::PeerSet(id.get()),
            ObjectKey::PeerAddress(key) => KeyKind::PeerAddress(key.into()),
        };
        Self { kind: Some(kind) }
    }
}

impl TryFrom<v1::ObjectKey> for ObjectKey {
    type Error = ConvertError;

    fn try_from(message: v1::ObjectKey) -> Result<Self, ConvertError> {
        let key = match message.kind.ok_or_else(|| ConvertError::from(Problem::Missing).of("object key"))? {
            KeyKind::VirtualRouter(id) => RouterId::new(id).map(Self::VirtualRouter).within("virtual_router"),
            KeyKind::RoutingInstance(id) => {
                VrfId::new(id).map(Self::RoutingInstance).within("routing_instance")
            }
            KeyKind::Route(key) => key.try_into().map(Self::Route).within("route"),
            KeyKind::FloatingIp(id) => FloatingIpId::new(id).map(Self::FloatingIp).within("floating_ip"),
            KeyKind::AddressLease(id) => LeaseId::new(id).map(Self::AddressLease).within("address_lease"),
            KeyKind::PodBinding(pod) => pod.try_into().map(Self::PodBinding).within("pod_binding"),
            KeyKind::Policy(id) => PolicyId::new(id).map(Self::Policy).within("policy"),
            KeyKind::PeerSet(id) => PeerSetId::new(id).map(Self::PeerSet).within("peer_set"),
            KeyKind::PeerAddress(key) => key.try_into().map(Self::PeerAddress).within("peer_address"),
        };
        key.map_err(|error| error.of("object key"))
    }
}
