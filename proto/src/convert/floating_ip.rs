//! Floating IPs with their listeners and members.

use std::collections::HashSet;
use std::net::IpAddr;

use vrouter_objects::{
    AffinityTimeout, ExternalAddress, ExternalKind, FloatingIp, FloatingIpId, IpNet, Listener, ListenerId,
    Member, MemberId, MemberState, Port, RouterId, TopologyHints, TrafficPolicy, VmiId, VrfId,
};

use super::address::{name, prefix, unicast};
use super::error::{ConvertError, Problem, Within, each};
use super::protocol::service_protocol;
use crate::v1;

impl From<&FloatingIp> for v1::FloatingIp {
    fn from(floating_ip: &FloatingIp) -> Self {
        Self {
            id: floating_ip.id.get(),
            name: floating_ip.name.clone(),
            vrf: floating_ip.vrf.get(),
            address: Some(floating_ip.address.into()),
            external_vrf: floating_ip.external_vrf.get(),
            external: floating_ip.external.iter().map(Into::into).collect(),
            internal_policy: v1::TrafficPolicy::from(floating_ip.internal_policy).into(),
            external_policy: v1::TrafficPolicy::from(floating_ip.external_policy).into(),
            affinity_seconds: floating_ip.affinity.map_or(0, AffinityTimeout::seconds),
            source_ranges: floating_ip.source_ranges.iter().copied().map(Into::into).collect(),
            health_check_port: port_number(floating_ip.health_check_port),
            listeners: floating_ip.listeners.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<v1::FloatingIp> for FloatingIp {
    type Error = ConvertError;

    fn try_from(message: v1::FloatingIp) -> Result<Self, ConvertError> {
        let address = unicast(message.address.as_ref()).within("address")?;
        Ok(Self {
            id: FloatingIpId::new(message.id).within("id")?,
            name: name(message.name).within("name")?,
            vrf: VrfId::new(message.vrf).within("vrf")?,
            address,
            external_vrf: VrfId::new(message.external_vrf).within("external_vrf")?,
            external: each("external", &message.external, |external| external_address(external, address))?,
            internal_policy: traffic_policy(message.internal_policy).within("internal_policy")?,
            external_policy: traffic_policy(message.external_policy).within("external_policy")?,
            affinity: optional(message.affinity_seconds, AffinityTimeout::new).within("affinity_seconds")?,
            source_ranges: each("source_ranges", &message.source_ranges, |range| {
                source_range(range, address)
            })?,
            health_check_port: optional_port(message.health_check_port).within("health_check_port")?,
            listeners: listeners(message.listeners, address)?,
        })
    }
}

fn external_address(
    message: &v1::ExternalAddress,
    virtual_address: IpAddr,
) -> Result<ExternalAddress, ConvertError> {
    let address = unicast(message.address.as_ref()).within("address")?;
    if address.is_ipv4() != virtual_address.is_ipv4() {
        return Err(Problem::FamilyMix).within("address");
    }
    Ok(ExternalAddress { address, kind: external_kind(message.kind).within("kind")? })
}

fn source_range(message: &v1::Prefix, virtual_address: IpAddr) -> Result<IpNet, ConvertError> {
    let range = prefix(Some(message))?;
    let same_family = range.addr().is_ipv4() == virtual_address.is_ipv4();
    if same_family { Ok(range) } else { Err(Problem::FamilyMix.into()) }
}

/// 0 stands for "none"; every other number is one, or wrong.
fn optional<T, E>(number: u32, new: impl FnOnce(u32) -> Result<T, E>) -> Result<Option<T>, E> {
    if number == 0 { Ok(None) } else { new(number).map(Some) }
}

fn optional_port(number: u32) -> Result<Option<Port>, vrouter_objects::ObjectError> {
    optional(number, |number| Port::new(number.into()))
}

fn port_number(port: Option<Port>) -> u32 {
    port.map_or(0, |port| port.get().into())
}

fn listeners(messages: Vec<v1::Listener>, address: IpAddr) -> Result<Vec<Listener>, ConvertError> {
    let (mut ids, mut ports) = (HashSet::new(), HashSet::new());
    let mut listeners = Vec::with_capacity(messages.len());
    for (index, message) in messages.into_iter().enumerate() {
        let field = format!("listeners[{index}]");
        let listener = listener(message, address).within(&field)?;
        let (protocol, port) = (listener.protocol, listener.port);
        if !ids.insert(listener.id) {
            return Err(Problem::Duplicate).within("id").within(field);
        }
        if !ports.insert((protocol, port)) {
            return Err(Problem::DuplicateListener { protocol, port: port.get() }).within(field);
        }
        listeners.push(listener);
    }
    Ok(listeners)
}

fn listener(message: v1::Listener, address: IpAddr) -> Result<Listener, ConvertError> {
    Ok(Listener {
        id: ListenerId::new(message.id).within("id")?,
        protocol: service_protocol(message.protocol).within("protocol")?,
        port: Port::new(message.port.into()).within("port")?,
        node_port: optional_port(message.node_port).within("node_port")?,
        members: members(message.members, address)?,
        name: message.name,
    })
}

fn members(messages: Vec<v1::Member>, address: IpAddr) -> Result<Vec<Member>, ConvertError> {
    let mut endpoints = HashSet::new();
    let mut members: Vec<Member> = Vec::with_capacity(messages.len());
    for (index, message) in messages.into_iter().enumerate() {
        let field = format!("members[{index}]");
        let member = member(message, address).within(&field)?;
        if members.last().is_some_and(|last| last.id >= member.id) {
            return Err(Problem::Order).within("id").within(field);
        }
        if !endpoints.insert((member.address, member.port)) {
            return Err(Problem::Duplicate).within("address").within(field);
        }
        members.push(member);
    }
    Ok(members)
}

fn member(message: v1::Member, virtual_address: IpAddr) -> Result<Member, ConvertError> {
    let address = unicast(message.address.as_ref()).within("address")?;
    if address.is_ipv4() != virtual_address.is_ipv4() {
        return Err(Problem::FamilyMix).within("address");
    }
    Ok(Member {
        id: MemberId::new(message.id).within("id")?,
        name: message.name,
        vrf: VrfId::new(message.vrf).within("vrf")?,
        address,
        port: Port::new(message.port.into()).within("port")?,
        // 0 stands for "none known"; every other number is an id.
        vmi: VmiId::new(message.vmi).ok(),
        router: RouterId::new(message.router).ok(),
        state: member_state(message.state).within("state")?,
        hints: TopologyHints {
            routers: each("hint_routers", &message.hint_routers, |number| RouterId::new(*number))?,
            zones: message.hint_zones,
        },
    })
}

impl From<&Listener> for v1::Listener {
    fn from(listener: &Listener) -> Self {
        Self {
            id: listener.id.get(),
            name: listener.name.clone(),
            protocol: v1::ServiceProtocol::from(listener.protocol).into(),
            port: listener.port.get().into(),
            node_port: port_number(listener.node_port),
            members: listener.members.iter().map(Into::into).collect(),
        }
    }
}

impl From<&Member> for v1::Member {
    fn from(member: &Member) -> Self {
        Self {
            id: member.id.get(),
            name: member.name.clone(),
            vrf: member.vrf.get(),
            address: Some(member.address.into()),
            port: member.port.get().into(),
            vmi: member.vmi.map_or(0, VmiId::get),
            router: member.router.map_or(0, RouterId::get),
            state: v1::MemberState::from(member.state).into(),
            hint_zones: member.hints.zones.clone(),
            hint_routers: member.hints.routers.iter().map(|router| router.get()).collect(),
        }
    }
}

impl From<&ExternalAddress> for v1::ExternalAddress {
    fn from(external: &ExternalAddress) -> Self {
        let kind = match external.kind {
            ExternalKind::ExternalIp => v1::ExternalKind::ExternalIp,
            ExternalKind::LoadBalancer => v1::ExternalKind::LoadBalancer,
        };
        Self { address: Some(external.address.into()), kind: kind.into() }
    }
}

impl From<TrafficPolicy> for v1::TrafficPolicy {
    fn from(policy: TrafficPolicy) -> Self {
        match policy {
            TrafficPolicy::Cluster => Self::Cluster,
            TrafficPolicy::Local => Self::Local,
        }
    }
}

impl From<MemberState> for v1::MemberState {
    fn from(state: MemberState) -> Self {
        match state {
            MemberState::Ready => Self::Ready,
            MemberState::Serving => Self::Serving,
            MemberState::Leaving => Self::Leaving,
        }
    }
}

fn external_kind(number: i32) -> Result<ExternalKind, Problem> {
    match v1::ExternalKind::try_from(number) {
        Ok(v1::ExternalKind::ExternalIp) => Ok(ExternalKind::ExternalIp),
        Ok(v1::ExternalKind::LoadBalancer) => Ok(ExternalKind::LoadBalancer),
        Ok(v1::ExternalKind::Unspecified) | Err(_) => Err(Problem::UnknownValue(number)),
    }
}

fn traffic_policy(number: i32) -> Result<TrafficPolicy, Problem> {
    match v1::TrafficPolicy::try_from(number) {
        Ok(v1::TrafficPolicy::Cluster) => Ok(TrafficPolicy::Cluster),
        Ok(v1::TrafficPolicy::Local) => Ok(TrafficPolicy::Local),
        Ok(v1::TrafficPolicy::Unspecified) | Err(_) => Err(Problem::UnknownValue(number)),
    }
}

fn member_state(number: i32) -> Result<MemberState, Problem> {
    match v1::MemberState::try_from(number) {
        Ok(v1::MemberState::Ready) => Ok(MemberState::Ready),
        Ok(v1::MemberState::Serving) => Ok(MemberState::Serving),
        Ok(v1::MemberState::Leaving) => Ok(MemberState::Leaving),
        Ok(v1::MemberState::Unspecified) | Err(_) => Err(Problem::UnknownValue(number)),
    }
}
