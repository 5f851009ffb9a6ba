use std::net::IpAddr;

use vrouter_objects::{
    FloatingIp, FloatingIpId, IpProtocol, Listener, ListenerId, MacAddress, Member, MemberId, Port, RouterId,
    ServiceProtocol, Subnet, TrafficPolicy, VmiKind, Vni,
};

use super::*;

fn vrf(number: u32) -> VrfId {
    VrfId::new(number).unwrap()
}

fn network(number: u32, vni: u32) -> Object {
    let subnet = Subnet { prefix: "10.1.0.0/16".parse().unwrap(), gateway: "10.1.0.1".parse().unwrap() };
    Object::RoutingInstance(RoutingInstance::new(vrf(number), "n", Vni::new(vni).unwrap(), vec![subnet]))
}

fn router(number: u32, address: &str) -> Object {
    let id = RouterId::new(number).unwrap();
    let mac = MacAddress::local(0x56, number);
    Object::VirtualRouter(VirtualRouter::new(id, &format!("node-{number}"), address.parse().unwrap(), mac))
}

fn route(prefix: &str, next_hop: NextHop) -> Object {
    Object::Route(Route { key: RouteKey { vrf: vrf(1), prefix: prefix.parse().unwrap() }, next_hop })
}

fn member(number: u32, address: &str) -> Member {
    let (id, port) = (MemberId::new(number).unwrap(), Port::new(8080).unwrap());
    Member::new(id, vrf(1), address.parse().unwrap(), port)
}

fn service(number: u32, address: &str, ports: &[i64], members: Vec<Member>) -> Object {
    let listener = |port: &i64| Listener {
        id: ListenerId::new(number).unwrap(),
        name: String::new(),
        protocol: ServiceProtocol::Tcp,
        port: Port::new(*port).unwrap(),
        node_port: None,
        members: members.clone(),
    };
    let id = FloatingIpId::new(number).unwrap();
    Object::FloatingIp(FloatingIp {
        listeners: ports.iter().map(listener).collect(),
        ..FloatingIp::new(id, "s", vrf(1), address.parse().unwrap(), vrf(1))
    })
}

fn interface(number: u32, address: &str) -> Vmi {
    Vmi {
        id: VmiId::new(number).unwrap(),
        name: "p".to_owned(),
        kind: VmiKind::Pod,
        vrf: vrf(1),
        mac: MacAddress::local(0x50, number),
        addresses: vec![address.parse().unwrap()],
        link_local: None,
        uid: String::new(),
        mtu: 1450,
    }
}

fn fip_at(snapshot: &Snapshot, address: &str) -> Option<FloatingIpId> {
    let address: IpAddr = address.parse().unwrap();
    snapshot.fip_at(vrf(1), address.into(), IpProtocol::TCP, 80)
}

fn put(tables: &mut Tables, objects: impl IntoIterator<Item = Object>) -> Vec<TableError> {
    let refusals = tables.apply(objects.into_iter().map(Change::Put).collect());
    refusals.into_iter().map(|refusal| refusal.reason).collect()
}

/// Tables with one network, and the number of the next snapshot.
fn tables() -> (Tables, u32) {
    let mut tables = Tables::new("node-1", Epoch(0));
    assert_eq!(put(&mut tables, [network(1, 1)]), []);
    (tables, 1)
}

fn next_hop(snapshot: &Snapshot, address: &str) -> Option<NextHop> {
    let address: IpAddr = address.parse().unwrap();
    snapshot.vrf(vrf(1))?.route(address.into()).cloned()
}

#[test]
fn what_cannot_be_told_apart_or_followed_is_refused() {
    let (mut tables, _) = tables();
    let taken = |key| TableError::Taken { address: "10.1.0.9".parse().unwrap(), holder: key };
    let fine = [service(1, "10.1.0.9", &[80], vec![member(1, "10.1.0.2")]), router(1, "10.1.0.9")];
    assert_eq!(put(&mut tables, fine), []);
    let outside = Subnet { prefix: "10.1.0.0/16".parse().unwrap(), gateway: "10.2.0.1".parse().unwrap() };
    let mut with_gateway_outside = network(3, 3);
    if let Object::RoutingInstance(instance) = &mut with_gateway_outside {
        instance.subnets = vec![outside];
    }
    let unordered = vec![member(2, "10.1.0.2"), member(1, "10.1.0.3")];
    let foreign = vec![member(1, "fd00::1")];
    let in_no_network = Object::Route(Route {
        key: RouteKey { vrf: vrf(7), prefix: "10.1.0.0/24".parse().unwrap() },
        next_hop: NextHop::Discard,
    });
    let table = [
        (network(2, 1), TableError::VniTaken { vni: Vni::new(1).unwrap(), holder: vrf(1) }),
        (router(2, "10.1.0.9"), taken(ObjectKey::VirtualRouter(RouterId::new(1).unwrap()))),
        (
            service(2, "10.1.0.9", &[81, 80], vec![]),
            TableError::FrontendTaken {
                protocol: IpProtocol::TCP,
                port: 80,
                address: "10.1.0.9".parse().unwrap(),
                holder: ObjectKey::FloatingIp(FloatingIpId::new(1).unwrap()),
            },
        ),
        (
            service(3, "10.1.0.8", &[80, 80], vec![]),
            TableError::PortMappedTwice { protocol: ServiceProtocol::Tcp, port: Port::new(80).unwrap() },
        ),
        (
            service(3, "10.1.0.8", &[80], foreign),
            TableError::MemberFamily {
                listener: ListenerId::new(3).unwrap(),
                member: MemberId::new(1).unwrap(),
                address: "fd00::1".parse().unwrap(),
            },
        ),
        (service(3, "10.1.0.8", &[80], unordered), TableError::MembersUnordered(ListenerId::new(3).unwrap())),
        (route("10.1.0.0/24", NextHop::Composite(vec![])), TableError::CompositeParts),
        (in_no_network, TableError::UnknownVrf(vrf(7))),
        (
            with_gateway_outside,
            TableError::GatewayOutside { gateway: outside.gateway, subnet: outside.prefix },
        ),
    ];
    for (object, reason) in table {
        let key = object.key();
        assert_eq!(put(&mut tables, [object]), [reason], "{key}");
        assert!(tables.objects().all(|held| held.key() != key), "{key} is not held");
    }
}

#[test]
fn a_refused_replacement_leaves_nothing_in_its_place() {
    let (mut tables, epoch) = tables();
    put(&mut tables, [service(1, "10.1.0.9", &[80], vec![])]);
    assert_eq!(put(&mut tables, [service(1, "10.1.0.9", &[80, 80], vec![])]).len(), 1);
    let snapshot = tables.publish(Epoch(epoch));
    assert!(fip_at(&snapshot, "10.1.0.9").is_none());
}

#[test]
fn an_address_passes_from_one_holder_to_another_at_once() {
    let (mut tables, epoch) = tables();
    put(&mut tables, [service(1, "10.1.0.9", &[80], vec![])]);
    let old = ObjectKey::FloatingIp(FloatingIpId::new(1).unwrap());
    let changes = vec![Change::Put(service(2, "10.1.0.9", &[80], vec![])), Change::Remove(old)];
    assert_eq!(tables.apply(changes), []);
    let snapshot = tables.publish(Epoch(epoch));
    assert_eq!(fip_at(&snapshot, "10.1.0.9"), FloatingIpId::new(2).ok());
}

#[test]
fn a_local_interface_wins_over_what_was_pushed() {
    let (mut tables, epoch) = tables();
    let tunnel = NextHop::Tunnel(RouterId::new(2).unwrap());
    put(&mut tables, [route("10.1.0.2/32", tunnel.clone())]);
    let before = tables.publish(Epoch(epoch));
    let pod = interface(5, "10.1.0.2");
    tables.attach(pod.clone(), PortId(1)).unwrap();
    // Pushed again meanwhile, it still waits.
    put(&mut tables, [route("10.1.0.2/32", NextHop::Discard)]);
    let during = tables.publish(Epoch(epoch + 1));
    tables.detach(pod.id);
    let after = tables.publish(Epoch(epoch + 2));
    assert_eq!(next_hop(&before, "10.1.0.2"), Some(tunnel), "a snapshot never changes");
    assert_eq!(next_hop(&during, "10.1.0.2"), Some(NextHop::Interface(pod.id)));
    assert_eq!(next_hop(&after, "10.1.0.2"), Some(NextHop::Discard));
}

#[test]
fn an_interface_attached_again_keeps_nothing_of_before() {
    let (mut tables, epoch) = tables();
    tables.attach(interface(5, "10.1.0.2"), PortId(1)).unwrap();
    tables.attach(interface(5, "10.1.0.3"), PortId(2)).unwrap();
    let snapshot = tables.publish(Epoch(epoch));
    assert_eq!(next_hop(&snapshot, "10.1.0.2"), None);
    assert_eq!(next_hop(&snapshot, "10.1.0.3"), Some(NextHop::Interface(VmiId::new(5).unwrap())));
    assert!(snapshot.port(PortId(1)).is_none(), "the old port speaks for nobody");
    assert_eq!(snapshot.port_of(VmiId::new(5).unwrap()).map(|entry| entry.port), Some(PortId(2)));
}

#[test]
fn two_interfaces_share_neither_address_nor_port() {
    let (mut tables, _) = tables();
    tables.attach(interface(5, "10.1.0.2"), PortId(1)).unwrap();
    let taken =
        TableError::AddressTaken { address: "10.1.0.2".parse().unwrap(), holder: VmiId::new(5).unwrap() };
    let elsewhere = Vmi { vrf: vrf(9), ..interface(6, "10.1.0.3") };
    let table = [
        (interface(6, "10.1.0.2"), PortId(2), taken),
        (interface(6, "10.1.0.3"), PortId(1), TableError::PortTaken(1)),
        (interface(6, "10.1.0.3"), PortId(MAX_PORTS as u16), TableError::PortRange(MAX_PORTS as u16)),
        (elsewhere, PortId(2), TableError::UnknownVrf(vrf(9))),
    ];
    for (vmi, port, reason) in table {
        assert_eq!(tables.attach(vmi, port), Err(reason));
    }
    assert_eq!(tables.interfaces().count(), 1);
}

#[test]
fn a_network_that_comes_back_has_all_it_had() {
    let (mut tables, epoch) = tables();
    let pod = interface(5, "10.1.0.2");
    put(&mut tables, [route("10.1.0.0/24", NextHop::Reject), service(1, "10.1.0.9", &[80], vec![])]);
    tables.attach(pod.clone(), PortId(1)).unwrap();
    tables.apply(vec![Change::Remove(ObjectKey::RoutingInstance(vrf(1)))]);
    let without = tables.publish(Epoch(epoch));
    assert!(without.vrf(vrf(1)).is_none());
    put(&mut tables, [network(1, 1)]);
    let with = tables.publish(Epoch(epoch + 1));
    assert_eq!(next_hop(&with, "10.1.0.2"), Some(NextHop::Interface(pod.id)));
    assert_eq!(next_hop(&with, "10.1.0.7"), Some(NextHop::Reject));
    assert!(fip_at(&with, "10.1.0.9").is_some());
}

#[test]
fn a_worker_is_never_the_last_to_let_go_of_a_snapshot() {
    let (mut tables, epoch) = tables();
    let [first, second] = [tables.publish(Epoch(epoch)), tables.publish(Epoch(epoch + 1))];
    let [first_is, second_is] = [&first, &second].map(Arc::downgrade);
    drop(first);
    assert!(first_is.upgrade().is_some(), "letting go of it frees nothing");
    let _third = tables.publish(Epoch(epoch + 2));
    assert!(first_is.upgrade().is_none(), "the agent freed it");
    assert!(second_is.upgrade().is_some(), "this one is in use");
}

#[test]
fn what_is_unique_may_change_hands_within_one_version() {
    let swaps = [
        ([router(1, "192.0.2.1"), router(2, "192.0.2.2")], [router(1, "192.0.2.2"), router(2, "192.0.2.1")]),
        ([network(3, 13), network(4, 14)], [network(3, 14), network(4, 13)]),
        (
            [service(1, "10.1.0.8", &[80], vec![]), service(2, "10.1.0.9", &[80], vec![])],
            [service(1, "10.1.0.9", &[80], vec![]), service(2, "10.1.0.8", &[80], vec![])],
        ),
    ];
    for (before, after) in swaps {
        for order in [after.clone(), {
            let [one, two] = after;
            [two, one]
        }] {
            let (mut tables, epoch) = tables();
            put(&mut tables, before.clone());
            put(&mut tables, order.clone());
            assert!(order.iter().all(|object| tables.objects().any(|held| held == object)));
            let snapshot = tables.publish(Epoch(epoch));
            for object in order {
                match object {
                    Object::VirtualRouter(router) => {
                        assert_eq!(snapshot.router_at(router.address.into()), Some(router.id));
                    }
                    Object::RoutingInstance(network) => {
                        assert_eq!(snapshot.vrf_of_vni(network.vni), Some(network.id));
                    }
                    Object::FloatingIp(fip) => {
                        assert_eq!(
                            snapshot.fip_at(fip.vrf, fip.address.into(), IpProtocol::TCP, 80),
                            Some(fip.id)
                        );
                    }
                    other => panic!("no swap of {other:?}"),
                }
            }
        }
    }
}

#[test]
fn members_count_for_as_long_as_they_are_members() {
    let (mut tables, _) = tables();
    let both = vec![member(1, "10.1.0.2"), member(2, "10.1.0.3")];
    assert_eq!(put(&mut tables, [service(1, "10.1.9.1", &[80], both)]), []);
    let count = |tables: &Tables, number| tables.hits[&MemberId::new(number).unwrap()].count();
    count(&tables, 1);
    count(&tables, 2);
    // Another stays, with its count, when one leaves and when one comes.
    let others = vec![member(2, "10.1.0.3"), member(3, "10.1.0.4")];
    assert_eq!(put(&mut tables, [service(1, "10.1.9.1", &[80], others)]), []);
    let hits = [1, 2, 3].map(|number| tables.hits(MemberId::new(number).unwrap()));
    assert_eq!((hits, tables.hits.len()), ([0, 1, 0], 2));
    tables.apply(vec![Change::Remove(ObjectKey::FloatingIp(FloatingIpId::new(1).unwrap()))]);
    assert!(tables.hits.is_empty());
}

#[test]
fn what_is_refused_counts_for_nobody() {
    let (mut tables, _) = tables();
    let members = vec![member(1, "10.1.0.2"), member(2, "10.1.0.3")];
    assert_eq!(put(&mut tables, [service(1, "10.1.9.1", &[80], members.clone())]), []);
    assert_eq!(put(&mut tables, [service(1, "10.1.9.1", &[80, 80], members)]).len(), 1);
    assert!(tables.hits.is_empty());
}

/// Whichever comes first in the version.
#[test]
fn members_are_looked_at_from_the_node_that_comes_with_them() {
    let own = |number: u32| Member { router: RouterId::new(number).ok(), ..member(1, "10.1.0.2") };
    for swap in [false, true] {
        let (mut tables, epoch) = tables();
        let mut objects = vec![router(1, "192.0.2.1"), service(1, "10.1.9.1", &[80], vec![own(1)])];
        if swap {
            objects.reverse();
        }
        assert_eq!(put(&mut tables, objects), []);
        let has_own = |snapshot: &Snapshot| {
            let address: IpAddr = "10.1.9.1".parse().unwrap();
            let vip = snapshot.vrf(vrf(1)).and_then(|vrf| vrf.vip(address.into())).unwrap();
            let pool = &vip.frontend(IpProtocol::TCP, 80).unwrap().listener().pool;
            pool.choose(TrafficPolicy::Local, 0).is_some()
        };
        assert!(has_own(&tables.publish(Epoch(epoch))));
        tables.apply(vec![Change::Remove(router(1, "192.0.2.1").key())]);
        assert!(!has_own(&tables.publish(Epoch(epoch + 1))), "a node that does not know itself has none");
    }
}
