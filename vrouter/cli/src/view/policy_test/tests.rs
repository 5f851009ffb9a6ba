use std::net::IpAddr;

use vrouter_objects::{
    MacAddress, MemberState, NetworkKind, NextHop, RouterId, RoutingInstance, Subnet, VirtualRouter, VmiId,
    Vni, VrfId,
};
use vrouter_proto::v1;
use vrouter_proto::v1::opinion::Kind;

use super::answer::{Answer, Astray, Connection, Course, Side};
use super::places::{End, Places};
use super::text::text;
use crate::arguments::PolicyTest;
use crate::outcome::Outcome;
use crate::service::testing::{ip, listener, member, router, service};
use crate::view::opinion::Verdict;

fn vrf(number: u32) -> VrfId {
    VrfId::new(number).unwrap()
}

fn network(number: u32, name: &str, prefix: &str) -> RoutingInstance {
    let prefix: vrouter_objects::IpNet = prefix.parse().unwrap();
    let subnet = Subnet { prefix, gateway: prefix.hosts().next().unwrap() };
    RoutingInstance::new(vrf(number), name, Vni::new(number).unwrap(), vec![subnet])
}

/// Node 1 of two, with pods in the cluster's own network, in an isolated one and in two that overlap.
fn places() -> Places {
    let isolated =
        RoutingInstance { address_space: vrf(1), ..network(4, "shop/default-podnetwork", "10.244.0.0/16") };
    let fabric =
        RoutingInstance { kind: NetworkKind::Fabric, ..network(3, "default/ip-fabric", "172.30.0.0/16") };
    let networks = [
        network(1, "default/default-podnetwork", "10.244.0.0/16"),
        network(2, "default/default-servicenetwork", "10.96.0.0/12"),
        fabric,
        isolated,
        network(6, "blue/net", "192.168.0.0/24"),
        network(8, "red/net", "192.168.0.0/24"),
        network(10, "green/net", "169.254.64.0/24"),
        RoutingInstance {
            kind: NetworkKind::LinkLocal,
            ..network(9, "default/link-local", "169.254.64.0/18")
        },
    ];
    let pod = |vmi, name: &str, vrf, address: &str| v1::Interface {
        vmi,
        name: name.to_owned(),
        kind: v1::InterfaceKind::Pod.into(),
        vrf,
        addresses: vec![ip(address).into()],
        link_local: vec![ip(&format!("169.254.64.{vmi}")).into()],
        ..Default::default()
    };
    let interfaces = vec![
        pod(5, "default/web", 1, "10.244.1.5"),
        pod(6, "blue/web", 6, "192.168.0.5"),
        pod(7, "red/web", 8, "192.168.0.5"),
    ];
    let routers = [(1, "n1", "172.30.0.1"), (2, "n2", "172.30.0.2")].map(|(id, name, address)| {
        VirtualRouter::new(router(id), name, ip(address), MacAddress::local(0x56, id))
    });
    let members =
        vec![member(1, "10.244.1.5", 1, MemberState::Ready), member(2, "10.244.2.5", 2, MemberState::Ready)];
    let shop = service("shop/front", "10.96.0.20", vec![listener("", 80, members)]);
    Places::of(
        "n1".to_owned(),
        interfaces,
        networks.iter().map(Into::into).collect(),
        routers.iter().map(Into::into).collect(),
        vec![(&shop).into()],
    )
    .unwrap()
}

fn opinion(kind: Kind) -> Option<v1::Opinion> {
    Some(v1::Opinion { kind: Some(kind) })
}

fn ungoverned() -> Kind {
    Kind::Ungoverned(v1::Empty {})
}

fn elsewhere() -> Kind {
    Kind::Elsewhere(v1::Empty {})
}

fn isolated() -> Kind {
    Kind::Isolated(v1::Isolation { policies: vec!["NetworkPolicy shop/deny-all".to_owned()] })
}

fn allowed() -> Kind {
    let (policy, rule) = ("NetworkPolicy shop/front".to_owned(), "egress[0]".to_owned());
    Kind::Allowed(v1::RuleReference { policy, rule })
}

fn lead(member: u32, destination: &str, next_hop: NextHop, egress: Kind, ingress: Kind) -> v1::Lead {
    v1::Lead {
        member,
        destination: Some(ip(destination).into()),
        port: 8080,
        egress_vrf: 1,
        next_hop: Some((&next_hop).into()),
        opinions: Some(v1::Opinions { egress: opinion(egress), ingress: opinion(ingress) }),
    }
}

fn interface(number: u32) -> NextHop {
    NextHop::Interface(VmiId::new(number).unwrap())
}

fn tunnel(number: u32) -> NextHop {
    NextHop::Tunnel(RouterId::new(number).unwrap())
}

fn reply(way_back: NextHop, leads: Vec<v1::Lead>) -> v1::TraceReply {
    v1::TraceReply { way_back: Some((&way_back).into()), leads, nowhere: String::new() }
}

fn web(places: &Places) -> End {
    places.pod(&"default/web".parse().unwrap()).unwrap()
}

fn test(to: &str, port: &str) -> PolicyTest {
    PolicyTest {
        from: "default/web".parse().unwrap(),
        to: to.parse().unwrap(),
        port: port.parse().unwrap(),
        vrf: None,
    }
}

/// What becomes of a connection from a pod of this node by this reply.
fn connections(places: &Places, destination: &str, reply: &v1::TraceReply) -> Vec<Connection> {
    let from = web(places);
    Connection::all((&from, ip(destination)), from.addresses[0], reply, places).unwrap()
}

#[test]
fn a_service_is_told_member_by_member() {
    let places = places();
    let leads = vec![
        lead(1, "10.244.1.5", interface(5), ungoverned(), Kind::Itself(v1::Empty {})),
        lead(2, "10.244.2.5", tunnel(2), allowed(), elsewhere()),
    ];
    let connections = connections(&places, "10.96.0.20", &reply(interface(5), leads));
    let answer = Answer::of(&web(&places), &test("service/shop/front", "80"), connections);
    assert_eq!(answer.outcome(), Outcome::Untold);
    let expected = "\
from:    default/web in default/default-podnetwork, on n1
to:      service shop/front, TCP 80
verdict: not denied here, and not decided here alone
ask on:  n2

FROM        TO          MEMBER                        BY                         EGRESS                              INGRESS                      VERDICT
10.244.1.5  10.96.0.20  10.244.1.5 (10.244.1.5:8080)  interface 5 (default/web)  no policy                           no policy: a pod and itself  allow
10.244.1.5  10.96.0.20  10.244.2.5 (10.244.2.5:8080)  tunnel 172.30.0.2 (n2)     NetworkPolicy shop/front egress[0]  decided on n2                untold";
    assert_eq!(text(&answer), expected);
}

#[test]
fn one_member_that_is_denied_denies_the_service() {
    let places = places();
    let leads = vec![
        lead(1, "10.244.1.5", interface(5), ungoverned(), isolated()),
        lead(2, "10.244.2.5", tunnel(2), ungoverned(), elsewhere()),
    ];
    let connections = connections(&places, "10.96.0.20", &reply(interface(5), leads));
    let answer = Answer::of(&web(&places), &test("10.96.0.20", "80"), connections);
    assert_eq!(answer.outcome(), Outcome::Denied);
    let text = text(&answer);
    assert!(text.contains("verdict: denied\n\n"), "{text}");
    assert!(text.contains("denied: no rule of NetworkPolicy shop/deny-all allows it"), "{text}");
    let document = serde_json::to_value(&answer).unwrap();
    assert_eq!(document["verdict"], "deny");
    let [first, second] = [0, 1].map(|number| &document["connections"][number]);
    assert_eq!((&first["leads"], &first["verdict"]), (&"to".into(), &"deny".into()));
    assert_eq!(first["ingress"]["policy"]["policies"][0], "NetworkPolicy shop/deny-all");
    assert_eq!(first["member"]["service"], "shop/front");
    assert_eq!(
        (&second["ingress"]["decided"], &second["ingress"]["node"]),
        (&"elsewhere".into(), &"n2".into())
    );
}

#[test]
fn what_is_to_no_pod_is_decided_by_its_sender_alone() {
    let places = places();
    for (destination, next_hop) in
        [("192.0.2.1", NextHop::Receive), ("172.30.0.1", NextHop::Receive), ("172.30.0.2", tunnel(2))]
    {
        let leads = vec![lead(0, destination, next_hop, allowed(), elsewhere())];
        let found = connections(&places, destination, &reply(interface(5), leads));
        let [Connection { course: Course::To { ingress, .. }, verdict, .. }] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!((ingress, *verdict), (&Side::NoPod, Verdict::Allow), "{destination}");
    }
}

#[test]
fn a_node_reaches_its_pods_by_link_local_addresses_whatever_policy_says() {
    let places = places();
    let from = places.whose(ip("172.30.0.1"), None).unwrap();
    let own_node = Kind::OwnNode(v1::Empty {});
    let leads = vec![lead(0, "192.168.0.5", interface(7), elsewhere(), own_node)];
    let reply = reply(NextHop::Receive, leads);
    let found = Connection::all((&from, ip("169.254.64.7")), from.addresses[0], &reply, &places).unwrap();
    let answer = Answer::of(&from, &test("169.254.64.7", "80"), found);
    assert_eq!(answer.outcome(), Outcome::Shown);
    assert!(text(&answer).contains("interface 7 (red/web)"), "{}", text(&answer));
}

#[test]
fn what_another_nodes_pod_sends_is_decided_there_as_well() {
    let places = places();
    let from = places.in_network(ip("10.244.2.5"), vrf(1));
    let reply = reply(tunnel(2), vec![lead(0, "10.244.1.5", interface(5), elsewhere(), ungoverned())]);
    assert_eq!(places.chooser(&reply, ip("10.244.2.5")).map(|router| router.name.as_str()), Some("n2"));
    let found = Connection::all((&from, ip("10.244.1.5")), ip("10.244.2.5"), &reply, &places).unwrap();
    let [Connection { course: Course::To { egress, .. }, verdict, .. }] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!((egress, *verdict), (&Side::Elsewhere { node: "n2".to_owned() }, Verdict::Untold));
    // A node is no pod, though it is reached by a tunnel.
    assert_eq!(places.chooser(&reply, ip("172.30.0.2")), None);
}

#[test]
fn a_pod_that_is_known_to_be_elsewhere_is_not_taken_for_nobody() {
    let places = places();
    let node = Some("n9".to_owned());
    let from = End { name: "shop/db".to_owned(), node, ..places.in_network(ip("10.244.9.5"), vrf(1)) };
    let reply = v1::TraceReply {
        leads: vec![lead(0, "10.244.1.5", interface(5), elsewhere(), ungoverned())],
        ..Default::default()
    };
    let found = Connection::all((&from, ip("10.244.1.5")), ip("10.244.9.5"), &reply, &places).unwrap();
    assert_eq!(found[0].verdict, Verdict::Untold);
}

#[test]
fn what_leaves_the_cluster_is_decided_where_its_sender_runs() {
    let places = places();
    let node = Some("n2".to_owned());
    let from = End { name: "shop/db".to_owned(), node, ..places.in_network(ip("10.244.9.5"), vrf(1)) };
    let nowhere = v1::TraceReply { nowhere: "no-flow".to_owned(), ..Default::default() };
    let found = Connection::all((&from, ip("203.0.113.1")), ip("10.244.9.5"), &nowhere, &places).unwrap();
    assert_eq!(found[0].verdict, Verdict::Untold);
    let answer = Answer::of(&from, &test("203.0.113.1", "80"), found);
    assert_eq!((answer.outcome(), answer.deciding_elsewhere()), (Outcome::Untold, vec!["n2"]));
}

#[test]
fn what_goes_astray_is_denied_with_the_reason() {
    let places = places();
    let nowhere = v1::TraceReply { nowhere: "no-members".to_owned(), ..reply(interface(5), vec![]) };
    let found = connections(&places, "10.96.0.20", &nowhere);
    assert_eq!(found[0].verdict, Verdict::Deny);
    let answer = Answer::of(&web(&places), &test("10.96.0.20", "80"), found);
    assert!(text(&answer).contains("nowhere: A service without a usable member"), "{}", text(&answer));
    let words = |why: Astray| why.to_string();
    assert_eq!(words(Astray::Network("red/net".to_owned())), "another, who has that address in red/net");
    assert_eq!(words(Astray::Service(None)), "no service: none has that address there");
    assert_eq!(words(Astray::Dropped("of-tomorrow".to_owned())), "nowhere: of-tomorrow");
}

#[test]
fn an_address_is_of_whoever_has_it_here_or_of_its_network() {
    let places = places();
    let whose = |address: &str, peer: Option<u32>| {
        let end = places.whose(ip(address), peer.map(vrf)).unwrap();
        (end.name, end.network.vrf.unwrap().get())
    };
    assert_eq!(whose("10.244.1.5", None), ("default/web".to_owned(), 1));
    assert_eq!(
        whose("10.244.2.5", None),
        ("10.244.2.5".to_owned(), 1),
        "its own network, not one that shares it"
    );
    assert_eq!(whose("10.244.2.5", Some(4)), ("10.244.2.5".to_owned(), 4), "whom it speaks to may share it");
    assert_eq!(whose("192.168.0.9", Some(8)), ("192.168.0.9".to_owned(), 8));
    assert_eq!(whose("203.0.113.1", Some(8)), ("203.0.113.1".to_owned(), 3), "beyond the nodes");
    assert_eq!(places.in_network(ip("192.168.0.5"), vrf(8)).name, "red/web");
    let red = places.whose(ip("169.254.64.7"), None).unwrap();
    assert_eq!(
        (red.name.as_str(), red.addresses),
        ("red/web", vec![ip("192.168.0.5")]),
        "as itself it bears this"
    );
    let peer = "169.254.64.7".to_owned();
    assert_eq!(whose(&peer, Some(10)), (peer.clone(), 10), "of whom it speaks to");

    let error = |address: &str| places.whose(ip(address), None).unwrap_err().to_string();
    let hint = "say by its name who is meant, or by --vrf";
    assert_eq!(error("192.168.0.5"), format!("192.168.0.5 may be of pod blue/web or of pod red/web: {hint}"));
    assert_eq!(
        error("192.168.0.9"),
        format!("192.168.0.9 may be of network blue/net or of network red/net: {hint}")
    );
}

#[test]
fn only_what_leaves_by_a_pods_own_address_space_or_the_fabric_is_to_it() {
    let places = places();
    for (egress, network, expected) in
        [(1, 4, true), (4, 4, true), (3, 4, true), (6, 8, false), (1, 8, false), (8, 8, true), (9, 1, false)]
    {
        assert_eq!(places.is_within(vrf(egress), Some(vrf(network))), expected, "{egress} {network}");
    }
    assert!(!places.is_within(vrf(1), None));
}

#[test]
fn members_are_found_with_their_services() {
    let places = places();
    let reply = reply(tunnel(2), vec![lead(2, "10.244.2.5", tunnel(2), elsewhere(), elsewhere())]);
    let (service, listener) = places.frontend(&reply).unwrap();
    assert_eq!((service.name.as_str(), listener.port.get()), ("shop/front", 80));
    assert_eq!(places.member(1).unwrap().1.address, "10.244.1.5".parse::<IpAddr>().unwrap());
    assert!(places.member(0).is_none());
    let error = places.service("shop/fronts").unwrap_err().to_string();
    assert_eq!(error, "this node holds no service \"shop/fronts\"; near to it: shop/front");
}
