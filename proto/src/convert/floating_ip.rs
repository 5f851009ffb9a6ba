//! Floating IPs with their listeners and members.

use std::collections::HashSet;
use std::net::IpAddr;

use vrouter_objects::{
    FloatingIp, FloatingIpId, Listener, ListenerId, Member, MemberId, MemberState, NoMembers, Port,
    ServiceProtocol, VmiId, VrfId,
};

use super::address::{name, unicast};
use super::error::{ConvertError, Problem, Within};
use crate::v1;

impl From<&FloatingIp> for v1::FloatingIp {
    fn from(floating_ip: &FloatingIp) -> Self {
        Self {
            id: floating_ip.id.get(),
            name: floating_ip.name.clone(),
            vrf: floating_ip.vrf.get(),
            address: Some(floating_ip.address.into()),
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
            listeners: listeners(message.listeners, address)?,
        })
    }
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
        protocol: protocol(message.protocol).within("protocol")?,
        port: Port::new(message.port.into()).within("port")?,
        no_members: no_members(message.no_members).within("no_members")?,
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
        state: member_state(message.state).within("state")?,
    })
}

impl From<&Listener> for v1::Listener {
    fn from(listener: &Listener) -> Self {
        Self {
            id: listener.id.get(),
            name: listener.name.clone(),
            protocol: v1::ServiceProtocol::from(listener.protocol).into(),
            port: listener.port.get().into(),
            no_members: v1::NoMembers::from(listener.no_members).into(),
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
            state: v1::MemberState::from(member.state).into(),
        }
    }
}

impl From<ServiceProtocol> for v1::ServiceProtocol {
    fn from(protocol: ServiceProtocol) -> Self {
        match protocol {
            ServiceProtocol::Tcp => Self::Tcp,
            ServiceProtocol::Udp => Self::Udp,
            ServiceProtocol::Sctp => Self::Sctp,
        }
    }
}

impl From<NoMembers> for v1::NoMembers {
    fn from(no_members: NoMembers) -> Self {
        match no_members {
            NoMembers::Reject => Self::Reject,
            NoMembers::Drop => Self::Drop,
        }
    }
}

impl From<MemberState> for v1::MemberState {
    fn from(state: MemberState) -> Self {
        match state {
            MemberState::Active => Self::Active,
            MemberState::Draining => Self::Draining,
        }
    }
}

fn protocol(number: i32) -> Result<ServiceProtocol, Problem> {
    match v1::ServiceProtocol::try_from(number) {
        Ok(v1::ServiceProtocol::Tcp) => Ok(ServiceProtocol::Tcp),
        Ok(v1::ServiceProtocol::Udp) => Ok(ServiceProtocol::Udp),
        Ok(v1::ServiceProtocol::Sctp) => Ok(ServiceProtocol::Sctp),
        Ok(v1::ServiceProtocol::Unspecified) | Err(_) => Err(Problem::UnknownValue(number)),
    }
}

fn no_members(number: i32) -> Result<NoMembers, Problem> {
    match v1::NoMembers::try_from(number) {
        Ok(v1::NoMembers::Reject) => Ok(NoMembers::Reject),
        Ok(v1::NoMembers::Drop) => Ok(NoMembers::Drop),
        Ok(v1::NoMembers::Unspecified) | Err(_) => Err(Problem::UnknownValue(number)),
    }
}

fn member_state(number: i32) -> Result<MemberState, Problem> {
    match v1::MemberState::try_from(number) {
        Ok(v1::MemberState::Active) => Ok(MemberState::Active),
        Ok(v1::MemberState::Draining) => Ok(MemberState::Draining),
        Ok(v1::MemberState::Unspecified) | Err(_) => Err(Problem::UnknownValue(number)),
    }
}
