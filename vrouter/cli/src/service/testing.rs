//! Services for tests, as seen from node 1 of three.

use std::net::IpAddr;

use vrouter_objects::{
    FloatingIp, FloatingIpId, Listener, ListenerId, Member, MemberId, MemberState, Port, RouterId,
    ServiceProtocol, VrfId,
};

use super::OwnNode;

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn number(number: u16) -> Port {
    Port::new(number.into()).unwrap()
}

pub(crate) fn router(number: u32) -> RouterId {
    RouterId::new(number).unwrap()
}

/// Node 1, in zone `a`.
pub(crate) fn node() -> OwnNode {
    OwnNode {
        router: Some(router(1)),
        zone: "a".to_owned(),
        addresses: vec![ip("172.30.0.1"), ip("fd00:30::1")],
        node_port_addresses: vec![],
        pod_prefixes: vec!["10.244.0.0/16".parse().unwrap(), "fd00:10:244::/48".parse().unwrap()],
    }
}

pub(crate) fn service(name: &str, address: &str, listeners: Vec<Listener>) -> FloatingIp {
    let vrf = |number| VrfId::new(number).unwrap();
    let id = FloatingIpId::new(1).unwrap();
    FloatingIp { listeners, ..FloatingIp::new(id, name, vrf(2), ip(address), vrf(3)) }
}

pub(crate) fn listener(name: &str, port: u16, members: Vec<Member>) -> Listener {
    Listener {
        id: ListenerId::new(port.into()).unwrap(),
        name: name.to_owned(),
        protocol: ServiceProtocol::Tcp,
        port: number(port),
        node_port: None,
        members,
    }
}

/// A member on a node, at port 8080.
pub(crate) fn member(id: u32, address: &str, on: u32, state: MemberState) -> Member {
    let vrf = VrfId::new(1).unwrap();
    let new = Member::new(MemberId::new(id).unwrap(), vrf, ip(address), number(8080));
    Member { router: Some(router(on)), state, ..new }
}
