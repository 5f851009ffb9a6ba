use std::net::IpAddr;

use vrouter_objects::{
    AddressLease, AffinityTimeout, ExternalAddress, ExternalKind, FloatingIp, FloatingIpId, LeaseId,
    Listener, ListenerId, MacAddress, Member, MemberId, MemberState, NamedPort, NetworkKind, NextHop, Object,
    ObjectKey, Peer, PeerAddress, PeerAddressKey, PeerSet, PeerSetId, Peers, PodBinding, PodName, Policy,
    PolicyAction, PolicyId, PolicyRule, Port, PortMatch, Ports, Route, RouteKey, RouterId, RouterKind,
    RoutingInstance, ServiceProtocol, Subnet, Tier, TopologyHints, TrafficPolicy, VirtualRouter, VmiId, Vni,
    VrfId,
};

use crate::convert::key_of;
use crate::v1;
use crate::v1::object::Kind;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn vrf(number: u32) -> VrfId {
    VrfId::new(number).unwrap()
}

fn route(prefix: &str, next_hop: NextHop) -> Object {
    Object::Route(Route { key: RouteKey { vrf: vrf(1), prefix: prefix.parse().unwrap() }, next_hop })
}

fn member(id: u32, address: &str, vmi: Option<u32>, state: MemberState) -> Member {
    Member {
        id: MemberId::new(id).unwrap(),
        name: format!("default/web-{id}"),
        vrf: vrf(1),
        address: ip(address),
        port: Port::new(80).unwrap(),
        vmi: vmi.map(|vmi| VmiId::new(vmi).unwrap()),
        router: Some(RouterId::new(3).unwrap()),
        state,
        hints: TopologyHints { zones: vec!["a".to_owned()], routers: vec![RouterId::new(3).unwrap()] },
    }
}

fn floating_ip(address: &str, members: Vec<Member>) -> Object {
    let listener = |id, protocol, node_port, members| Listener {
        id: ListenerId::new(id).unwrap(),
        name: String::new(),
        protocol,
        port: Port::new(53).unwrap(),
        node_port,
        members,
    };
    Object::FloatingIp(FloatingIp {
        id: FloatingIpId::new(7).unwrap(),
        name: "default/web".to_owned(),
        vrf: vrf(2),
        address: ip(address),
        external_vrf: vrf(3),
        external: external(ip(address)),
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Local,
        affinity: Some(AffinityTimeout::new(10_800).unwrap()),
        source_ranges: vec![host(ip(address))],
        health_check_port: Some(Port::new(32_000).unwrap()),
        listeners: vec![
            listener(1, ServiceProtocol::Tcp, Some(Port::new(30_053).unwrap()), members),
            listener(2, ServiceProtocol::Udp, Some(Port::new(30_053).unwrap()), vec![]),
            listener(3, ServiceProtocol::Sctp, None, vec![]),
        ],
    })
}

/// Addresses of the same family as this one.
fn external(address: IpAddr) -> Vec<ExternalAddress> {
    let (one, other) =
        if address.is_ipv4() { ("192.0.2.1", "192.0.2.2") } else { ("2001:db8::1", "2001:db8::2") };
    vec![
        ExternalAddress { address: ip(one), kind: ExternalKind::ExternalIp },
        ExternalAddress { address: ip(other), kind: ExternalKind::LoadBalancer },
    ]
}

fn host(address: IpAddr) -> vrouter_objects::IpNet {
    address.into()
}

fn web() -> Object {
    floating_ip(
        "10.96.0.10",
        vec![
            member(4, "10.244.0.2", Some(9), MemberState::Ready),
            member(5, "10.244.1.2", None, MemberState::Leaving),
        ],
    )
}

fn every_kind() -> Vec<Object> {
    vec![
        Object::VirtualRouter(VirtualRouter {
            id: RouterId::new(3).unwrap(),
            name: "n3".to_owned(),
            address: ip("172.30.0.3"),
            mac: MacAddress::local(0x56, 3),
            addresses: vec![ip("172.30.0.3"), ip("fd00:172:30::3")],
            zone: "a".to_owned(),
            kind: RouterKind::Kernel,
        }),
        Object::RoutingInstance(RoutingInstance {
            id: vrf(1),
            name: "default/default-podnetwork".to_owned(),
            vni: Vni::new(1).unwrap(),
            kind: NetworkKind::Fabric,
            subnets: vec![
                Subnet { prefix: "10.244.0.0/16".parse().unwrap(), gateway: ip("10.244.0.1") },
                Subnet { prefix: "fd00:10:244::/48".parse().unwrap(), gateway: ip("fd00:10:244::1") },
            ],
            address_space: vrf(2),
            known_in: vec![vrf(2), vrf(3)],
        }),
        route("10.244.1.0/24", NextHop::Tunnel(RouterId::new(3).unwrap())),
        route("10.244.1.7/32", NextHop::Interface(VmiId::new(8).unwrap())),
        route("0.0.0.0/0", NextHop::Receive),
        route("10.96.0.0/12", NextHop::VrfTranslate(vrf(2))),
        route("fd00:10:96::/108", NextHop::Reject),
        route("::/0", NextHop::Discard),
        route(
            "10.0.0.0/8",
            NextHop::Composite(vec![NextHop::Receive, NextHop::Tunnel(RouterId::new(3).unwrap())]),
        ),
        web(),
        floating_ip("fd00:10:96::a", vec![member(4, "fd00:10:244::2", None, MemberState::Ready)]),
        Object::AddressLease(AddressLease {
            id: LeaseId::new(1).unwrap(),
            vrf: vrf(1),
            prefix: "10.244.0.0/24".parse().unwrap(),
            first_vmi: u32::MAX,
            vmi_count: 1,
        }),
        Object::PodBinding(PodBinding {
            pod: "default/web-1".parse().unwrap(),
            uid: "0f".to_owned(),
            vrf: vrf(1),
            addresses: vec![ip("10.244.7.7"), ip("fd00:10:244:7::7")],
            refusal: None,
            policies: vec![PolicyId::new(4).unwrap(), PolicyId::new(2).unwrap()],
            ports: vec![NamedPort {
                name: "http".to_owned(),
                protocol: ServiceProtocol::Tcp,
                port: Port::new(8080).unwrap(),
            }],
        }),
        Object::PodBinding(PodBinding {
            pod: PodName { namespace: "default".to_owned(), name: "web-2".to_owned() },
            uid: String::new(),
            vrf: vrf(1),
            addresses: vec![],
            refusal: Some("10.244.7.7 belongs to default/web-1".to_owned()),
            policies: vec![],
            ports: vec![],
        }),
        policy(Tier::Namespace, PolicyAction::Allow),
        policy(Tier::Admin(1000), PolicyAction::Pass),
        policy(Tier::Baseline(0), PolicyAction::Deny),
        Object::PeerSet(PeerSet { id: PeerSetId::new(6).unwrap(), name: "pods app=web".to_owned() }),
        peer_address(Some(Port::new(8080).unwrap())),
        peer_address(None),
        network(NetworkKind::Overlay),
        network(NetworkKind::LinkLocal),
    ]
}

fn network(kind: NetworkKind) -> Object {
    let vni = Vni::new(4096).unwrap();
    Object::RoutingInstance(RoutingInstance { kind, ..RoutingInstance::new(vrf(4), "shop/net", vni, vec![]) })
}

fn policy(tier: Tier, action: PolicyAction) -> Object {
    let block = |prefix: &str, except: &[&str]| Peer::Block {
        prefix: prefix.parse().unwrap(),
        except: except.iter().map(|prefix| prefix.parse().unwrap()).collect(),
    };
    let rule = |peers, ports| PolicyRule { name: "ingress[0]".to_owned(), action, peers, ports };
    let protocol = ServiceProtocol::Sctp;
    let peers = vec![
        Peer::Set(PeerSetId::new(6).unwrap()),
        block("10.0.0.0/8", &["10.1.0.0/16"]),
        block("fd00::/8", &[]),
    ];
    let ports = vec![
        PortMatch::Range { protocol, first: 0, last: u16::MAX },
        PortMatch::Own { protocol, name: "http".to_owned() },
        PortMatch::Peer { protocol },
    ];
    Object::Policy(Policy {
        id: PolicyId::new(4).unwrap(),
        name: "NetworkPolicy default/web".to_owned(),
        tier,
        ingress: Some(vec![
            rule(Peers::Any, Ports::Any),
            rule(Peers::These(vec![]), Ports::These(vec![])),
            rule(Peers::These(peers), Ports::These(ports)),
        ]),
        egress: (tier == Tier::Namespace).then(Vec::new),
    })
}

fn peer_address(port: Option<Port>) -> Object {
    let key =
        PeerAddressKey { set: PeerSetId::new(6).unwrap(), space: vrf(1), address: ip("fd00:10:244::2") };
    Object::PeerAddress(PeerAddress { key, port })
}

#[test]
fn every_kind_goes_out_and_comes_in_again_the_same() {
    for object in every_kind() {
        let message = v1::Object::from(&object);
        assert_eq!(key_of(&message), Some(v1::ObjectKey::from(&object.key())));
        assert_eq!(ObjectKey::try_from(key_of(&message).unwrap()), Ok(object.key()));
        assert_eq!(Object::try_from(message), Ok(object));
    }
}

/// A good object, something done to its message, and the error that names it.
struct Bad {
    object: Object,
    spoil: fn(&mut v1::Object),
    error: &'static str,
}

macro_rules! spoil {
    ($kind:ident, |$message:ident| $what:expr) => {
        |object| match &mut object.kind {
            Some(Kind::$kind($message)) => {
                $what;
            }
            other => panic!("not a {}: {other:?}", stringify!($kind)),
        }
    };
}

fn octets(octets: &[u8]) -> Option<v1::Address> {
    Some(v1::Address { octets: octets.to_vec() })
}

fn bad(object: Object, spoil: fn(&mut v1::Object), error: &'static str) -> Bad {
    Bad { object, spoil, error }
}

fn bad_nodes() -> Vec<Bad> {
    let router = || every_kind().remove(0);
    let instance = || every_kind().remove(1);
    let lease = || every_kind().remove(11);
    vec![
        bad(router(), |object| object.kind = None, "object: is missing"),
        bad(
            router(),
            spoil!(VirtualRouter, |m| m.id = 0),
            "virtual router 0 (n3): id: virtual router id 0 is not an id",
        ),
        bad(router(), spoil!(VirtualRouter, |m| m.name.clear()), "virtual router 3 (): name: is missing"),
        bad(
            router(),
            spoil!(VirtualRouter, |m| m.address = None),
            "virtual router 3 (n3): address: is missing",
        ),
        bad(
            router(),
            spoil!(VirtualRouter, |m| m.address = octets(&[1, 2, 3])),
            "virtual router 3 (n3): address: is an address of 3 bytes; it must have 4 or 16",
        ),
        bad(
            router(),
            spoil!(VirtualRouter, |m| m.address = octets(&[224, 0, 0, 1])),
            "virtual router 3 (n3): address: is no unicast address",
        ),
        bad(
            router(),
            spoil!(VirtualRouter, |m| m.address =
                octets(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 1, 2, 3, 4])),
            "virtual router 3 (n3): address: is an IPv4-mapped IPv6 address; it must be sent as IPv4",
        ),
        bad(
            router(),
            spoil!(VirtualRouter, |m| m.mac.truncate(5)),
            "virtual router 3 (n3): mac: is a MAC address of 5 bytes; it must have 6",
        ),
        bad(
            router(),
            spoil!(VirtualRouter, |m| m.mac[0] = 1),
            "virtual router 3 (n3): mac: is a multicast MAC address",
        ),
        bad(
            instance(),
            spoil!(RoutingInstance, |m| m.vni = 1 << 24),
            "routing instance 1 (default/default-podnetwork): vni: VNI 16777216 does not fit 24 bits",
        ),
        bad(
            instance(),
            spoil!(RoutingInstance, |m| m.subnets[1].gateway = octets(&[10, 244, 0, 1])),
            "routing instance 1 (default/default-podnetwork): subnets[1].gateway: is of the other address family",
        ),
        bad(
            instance(),
            spoil!(RoutingInstance, |m| m.subnets[0].gateway = octets(&[10, 245, 0, 1])),
            "routing instance 1 (default/default-podnetwork): subnets[0].gateway: lies outside the subnet",
        ),
        bad(
            instance(),
            spoil!(RoutingInstance, |m| m.subnets[0].prefix = None),
            "routing instance 1 (default/default-podnetwork): subnets[0].prefix: is missing",
        ),
        bad(
            lease(),
            spoil!(AddressLease, |m| m.vmi_count = 2),
            "address lease 1: first_vmi: is no range of interface ids (first 4294967295, count 2)",
        ),
        bad(
            lease(),
            spoil!(AddressLease, |m| m.first_vmi = 0),
            "address lease 1: first_vmi: is no range of interface ids (first 0, count 1)",
        ),
    ]
}

fn bad_routes() -> Vec<Bad> {
    let route = || every_kind().remove(2);
    let composite = || every_kind().remove(8);
    vec![
        bad(route(), spoil!(Route, |m| m.key = None), "route: key: is missing"),
        bad(
            route(),
            spoil!(Route, |m| m.key.as_mut().unwrap().vrf = 0),
            "route: key.vrf: vrf id 0 is not an id",
        ),
        bad(
            route(),
            spoil!(Route, |m| m.key.as_mut().unwrap().prefix.as_mut().unwrap().length = 23),
            "route: key.prefix: has host bits set beyond the prefix length",
        ),
        bad(
            route(),
            spoil!(Route, |m| m.key.as_mut().unwrap().prefix.as_mut().unwrap().length = 33),
            "route: key.prefix.length: is a prefix length of 33, longer than the address",
        ),
        bad(
            route(),
            spoil!(Route, |m| m.key.as_mut().unwrap().prefix.as_mut().unwrap().length = 280),
            "route: key.prefix.length: is a prefix length of 280, longer than the address",
        ),
        bad(
            route(),
            spoil!(Route, |m| m.next_hop = None),
            "route 10.244.1.0/24 in vrf 1: next_hop: is missing",
        ),
        bad(
            route(),
            spoil!(Route, |m| m.next_hop = Some(v1::NextHop { kind: None })),
            "route 10.244.1.0/24 in vrf 1: next_hop: is missing",
        ),
        bad(
            route(),
            spoil!(Route, |m| m.next_hop = Some(v1::NextHop { kind: Some(v1::next_hop::Kind::Tunnel(0)) })),
            "route 10.244.1.0/24 in vrf 1: next_hop.tunnel: virtual router id 0 is not an id",
        ),
        bad(
            composite(),
            spoil!(Route, |m| composite_parts(m).clear()),
            "route 10.0.0.0/8 in vrf 1: next_hop.composite: has no parts",
        ),
        bad(
            composite(),
            spoil!(Route, |m| {
                let inner = m.next_hop.clone().unwrap();
                composite_parts(m).push(inner);
            }),
            "route 10.0.0.0/8 in vrf 1: next_hop.composite.parts[2]: is a composite inside a composite",
        ),
    ]
}

fn composite_parts(route: &mut v1::Route) -> &mut Vec<v1::NextHop> {
    match &mut route.next_hop.as_mut().unwrap().kind {
        Some(v1::next_hop::Kind::Composite(composite)) => &mut composite.parts,
        other => panic!("not a composite: {other:?}"),
    }
}

fn bad_services() -> Vec<Bad> {
    vec![
        bad(
            web(),
            spoil!(FloatingIp, |m| m.id = 0),
            "floating ip 0 (default/web): id: floating ip id 0 is not an id",
        ),
        bad(
            web(),
            spoil!(FloatingIp, |m| m.address = octets(&[0; 4])),
            "floating ip 7 (default/web): address: is no unicast address",
        ),
        bad(
            web(),
            spoil!(FloatingIp, |m| m.listeners[0].port = 70_000),
            "floating ip 7 (default/web): listeners[0].port: port 70000 is not in 1-65535",
        ),
        bad(
            web(),
            spoil!(FloatingIp, |m| m.listeners[0].protocol = 0),
            "floating ip 7 (default/web): listeners[0].protocol: has no known value (number 0)",
        ),
        bad(
            web(),
            spoil!(FloatingIp, |m| m.listeners[1].node_port = 70_000),
            "floating ip 7 (default/web): listeners[1].node_port: port 70000 is not in 1-65535",
        ),
        bad(
            web(),
            spoil!(FloatingIp, |m| m.listeners[1].protocol = m.listeners[0].protocol),
            "floating ip 7 (default/web): listeners[1]: is a second listener for TCP port 53",
        ),
        bad(
            web(),
            spoil!(FloatingIp, |m| m.listeners[2].id = 1),
            "floating ip 7 (default/web): listeners[2].id: occurs a second time",
        ),
        bad(
            web(),
            spoil!(FloatingIp, |m| m.listeners[0].members[1].address = octets(&[0xfd; 16])),
            "floating ip 7 (default/web): listeners[0].members[1].address: is of the other address family",
        ),
        bad(
            web(),
            spoil!(FloatingIp, |m| m.listeners[0].members.swap(0, 1)),
            "floating ip 7 (default/web): listeners[0].members[1].id: is not in ascending order of id",
        ),
        bad(
            web(),
            spoil!(FloatingIp, |m| m.listeners[0].members[1].address = octets(&[10, 244, 0, 2])),
            "floating ip 7 (default/web): listeners[0].members[1].address: occurs a second time",
        ),
        bad(
            web(),
            spoil!(FloatingIp, |m| m.listeners[0].members[0].state = 0),
            "floating ip 7 (default/web): listeners[0].members[0].state: has no known value (number 0)",
        ),
    ]
}

fn bad_pods() -> Vec<Bad> {
    let binding = || every_kind().remove(12);
    vec![
        bad(binding(), spoil!(PodBinding, |m| m.pod = None), "pod binding: pod: is missing"),
        bad(
            binding(),
            spoil!(PodBinding, |m| m.pod.as_mut().unwrap().name.push_str("/x")),
            "pod binding default/web-1/x: pod.name: is empty or has a '/' in it",
        ),
        bad(
            binding(),
            spoil!(PodBinding, |m| m.vrf = 0),
            "pod binding default/web-1: vrf: vrf id 0 is not an id",
        ),
        bad(
            binding(),
            spoil!(PodBinding, |m| m.addresses[1] = m.addresses[0].clone()),
            "pod binding default/web-1: addresses[1]: occurs a second time",
        ),
    ]
}

fn bad_policies() -> Vec<Bad> {
    let namespaced = || policy(Tier::Namespace, PolicyAction::Allow);
    vec![
        bad(
            namespaced(),
            spoil!(Policy, |m| m.tier = 0),
            "policy 4 (NetworkPolicy default/web): tier: has no known value (number 0)",
        ),
        bad(
            namespaced(),
            spoil!(Policy, |m| m.priority = 7),
            "policy 4 (NetworkPolicy default/web): priority: is no priority of this tier (7)",
        ),
        bad(
            policy(Tier::Admin(1), PolicyAction::Deny),
            spoil!(Policy, |m| m.priority = 1001),
            "policy 4 (NetworkPolicy default/web): priority: is no priority of this tier (1001)",
        ),
        bad(
            namespaced(),
            spoil!(Policy, |m| m.ingress.as_mut().unwrap().rules[1].action = 2),
            "policy 4 (NetworkPolicy default/web): ingress.rules[1].action: is an action that the tier does not have",
        ),
        bad(
            namespaced(),
            spoil!(Policy, |m| {
                let ports = &mut m.ingress.as_mut().unwrap().rules[2].ports.as_mut().unwrap().ports;
                ports[0].kind = Some(v1::port_match::Kind::Range(v1::PortRange { first: 2, last: 1 }));
            }),
            "policy 4 (NetworkPolicy default/web): ingress.rules[2].ports.ports[0].range: \
             is no range of ports (2 to 1)",
        ),
        bad(
            namespaced(),
            spoil!(Policy, |m| {
                m.ingress.as_mut().unwrap().rules[2].peers.as_mut().unwrap().peers[0].kind = None;
            }),
            "policy 4 (NetworkPolicy default/web): ingress.rules[2].peers.peers[0]: is missing",
        ),
        bad(
            peer_address(None),
            spoil!(PeerAddress, |m| m.key.as_mut().unwrap().space = 0),
            "peer address: key.space: vrf id 0 is not an id",
        ),
        bad(
            peer_address(None),
            spoil!(PeerAddress, |m| m.port = 65536),
            "peer address fd00:10:244::2 of vrf 1 in peer set 6: port: port 65536 is not in 1-65535",
        ),
    ]
}

#[test]
fn what_no_object_can_be_is_refused_by_name() {
    let table = [bad_nodes(), bad_routes(), bad_services(), bad_pods(), bad_policies()];
    for Bad { object, spoil, error } in table.into_iter().flatten() {
        let mut message = v1::Object::from(&object);
        spoil(&mut message);
        let found = Object::try_from(message).expect_err(error);
        assert_eq!(found.to_string(), error);
    }
}

#[test]
fn a_key_without_a_kind_or_with_a_bad_one_is_refused() {
    let no_kind = v1::ObjectKey { kind: None };
    assert_eq!(ObjectKey::try_from(no_kind).unwrap_err().to_string(), "object key: is missing");
    let zero = v1::ObjectKey { kind: Some(v1::object_key::Kind::FloatingIp(0)) };
    let error = ObjectKey::try_from(zero).unwrap_err();
    assert_eq!(error.to_string(), "object key: floating_ip: floating ip id 0 is not an id");
    assert_eq!((error.object(), error.field()), ("object key", "floating_ip"));
}
