//! Routes and next hops.

use vrouter_objects::{NextHop, Route, RouteKey, RouterId, VmiId, VrfId};

use super::address::prefix;
use super::error::{ConvertError, Problem, Within};
use crate::v1;
use crate::v1::next_hop::Kind;

impl From<&RouteKey> for v1::RouteKey {
    fn from(key: &RouteKey) -> Self {
        Self { vrf: key.vrf.get(), prefix: Some(key.prefix.into()) }
    }
}

impl TryFrom<v1::RouteKey> for RouteKey {
    type Error = ConvertError;

    fn try_from(message: v1::RouteKey) -> Result<Self, ConvertError> {
        Ok(Self {
            vrf: VrfId::new(message.vrf).within("vrf")?,
            prefix: prefix(message.prefix.as_ref()).within("prefix")?,
        })
    }
}

impl From<&Route> for v1::Route {
    fn from(route: &Route) -> Self {
        Self { key: Some((&route.key).into()), next_hop: Some((&route.next_hop).into()) }
    }
}

impl TryFrom<v1::Route> for Route {
    type Error = ConvertError;

    fn try_from(message: v1::Route) -> Result<Self, ConvertError> {
        Ok(Self {
            key: message.key.within("key")?.try_into().within("key")?,
            next_hop: message.next_hop.within("next_hop")?.try_into().within("next_hop")?,
        })
    }
}

impl From<&NextHop> for v1::NextHop {
    fn from(next_hop: &NextHop) -> Self {
        let kind = match next_hop {
            NextHop::Interface(vmi) => Kind::Interface(vmi.get()),
            NextHop::Tunnel(router) => Kind::Tunnel(router.get()),
            NextHop::Composite(parts) => {
                Kind::Composite(v1::Composite { parts: parts.iter().map(Into::into).collect() })
            }
            NextHop::Receive => Kind::Receive(v1::Empty {}),
            NextHop::VrfTranslate(vrf) => Kind::VrfTranslate(vrf.get()),
            NextHop::Reject => Kind::Reject(v1::Empty {}),
            NextHop::Discard => Kind::Discard(v1::Empty {}),
        };
        Self { kind: Some(kind) }
    }
}

impl TryFrom<v1::NextHop> for NextHop {
    type Error = ConvertError;

    fn try_from(message: v1::NextHop) -> Result<Self, ConvertError> {
        Ok(match message.kind.ok_or(Problem::Missing)? {
            Kind::Interface(vmi) => Self::Interface(VmiId::new(vmi).within("interface")?),
            Kind::Tunnel(router) => Self::Tunnel(RouterId::new(router).within("tunnel")?),
            Kind::Composite(composite) => Self::Composite(parts(composite).within("composite")?),
            Kind::Receive(_) => Self::Receive,
            Kind::VrfTranslate(vrf) => Self::VrfTranslate(VrfId::new(vrf).within("vrf_translate")?),
            Kind::Reject(_) => Self::Reject,
            Kind::Discard(_) => Self::Discard,
        })
    }
}

fn parts(composite: v1::Composite) -> Result<Vec<NextHop>, ConvertError> {
    if composite.parts.is_empty() {
        return Err(Problem::EmptyComposite.into());
    }
    composite
        .parts
        .into_iter()
        .enumerate()
        .map(|(index, part)| flat(part).within(format_args!("parts[{index}]")))
        .collect()
}

/// Looks before it converts, so that no message nests deeper than one level of recursion.
fn flat(part: v1::NextHop) -> Result<NextHop, ConvertError> {
    match part.kind {
        Some(Kind::Composite(_)) => Err(Problem::NestedComposite.into()),
        _ => part.try_into(),
    }
}
