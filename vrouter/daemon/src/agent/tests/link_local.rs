//! Addresses by which the node's own stack reaches its pods.

use std::net::IpAddr;

use vrouter_objects::{LinkLocal, NetworkKind, NextHop, Object, RoutingInstance, Subnet, Vni, VrfId};
use vrouter_proto::v1;
use vrouter_proto::v1::node_message::Kind;

use super::{SMALL, attach};
use crate::testing::{TestNode, Told, basics, interface, ip, lease, vrf};

const V4: &str = "169.254.64.0/18";
const V6: &str = "fd00:169:254::/112";
/// With one address to give.
const TINY: &str = "169.254.64.0/30";
const LINK_LOCAL: u32 = 6;

/// The link-local network with these prefixes.
fn network(number: u32, prefixes: &[&str]) -> Object {
    let subnets = prefixes.iter().map(|prefix| {
        let prefix: ipnet::IpNet = prefix.parse().unwrap();
        Subnet { prefix, gateway: prefix.hosts().next().unwrap() }
    });
    let (id, vni) = (VrfId::new(number).unwrap(), Vni::new(number).unwrap());
    Object::RoutingInstance(RoutingInstance {
        kind: NetworkKind::LinkLocal,
        ..RoutingInstance::new(id, "default/link-local", vni, subnets.collect())
    })
}

/// The default network with leases of both families, and these.
fn objects(more: impl IntoIterator<Item = Object>) -> Vec<Object> {
    basics().into_iter().chain([lease(1, SMALL), lease(2, "fd00:10:244::/64")]).chain(more).collect()
}

fn node(more: impl IntoIterator<Item = Object>) -> TestNode {
    let node = TestNode::new();
    node.apply(1, &objects(more)).unwrap();
    node
}

fn addresses(node: &TestNode, container_id: &str) -> Vec<IpAddr> {
    node.agent.check(&interface(container_id)).unwrap().link_local_addresses().collect()
}

/// What the tables in force lead to an interface by, beside its own addresses.
fn led(node: &TestNode) -> Vec<(u32, IpAddr)> {
    let state = node.agent.state();
    let local = state.tables.routes().filter(|route| matches!(route.next_hop, NextHop::Interface(_)));
    let others = local.filter(|route| route.key.vrf != vrf());
    others.map(|route| (route.key.vrf.get(), route.key.prefix.addr())).collect()
}

fn reported(reports: &mut tokio::sync::mpsc::Receiver<v1::NodeMessage>) -> Vec<v1::Attachment> {
    let messages = std::iter::from_fn(|| reports.try_recv().ok());
    let attachments = messages.filter_map(|message| match message.kind {
        Some(Kind::Attachment(report)) => report.attachment,
        _ => None,
    });
    attachments.collect()
}

#[test]
fn a_pod_has_one_of_each_family_from_its_first_moment_on() {
    let node = node([network(LINK_LOCAL, &[V4, V6])]);
    let mut session = node.agent.subscribe();
    let pod = attach(&node, "web", "c1");
    // Its id is 1000.
    let own = ["169.254.67.233", "fd00:169:254::3e9"].map(ip);
    assert_eq!(
        pod.link_local,
        Some(LinkLocal { vrf: VrfId::new(LINK_LOCAL).unwrap(), addresses: own.to_vec() })
    );
    assert_eq!(led(&node), own.map(|address| (LINK_LOCAL, address)));
    let [report] = reported(&mut session.reports).try_into().unwrap();
    assert_eq!(report.link_local, own.map(v1::Address::from));
    assert_eq!(report, v1::Attachment::from(&pod));

    node.agent.detach(&interface("c1")).unwrap();
    assert_eq!(led(&node), []);
    assert_eq!(attach(&node, "web", "c2").link_local_addresses().next(), Some(ip("169.254.67.234")));
}

#[test]
fn they_follow_the_network_as_it_comes_and_changes_and_goes() {
    let node = node([]);
    assert_eq!(attach(&node, "web", "c1").link_local, None);
    let mut session = node.agent.subscribe();
    let mut version = 1;
    for (number, prefixes, expected) in [
        (LINK_LOCAL, &[V4][..], &["169.254.67.233"][..]),
        (LINK_LOCAL, &[V4, V6], &["169.254.67.233", "fd00:169:254::3e9"]),
        // What still fits stays.
        (LINK_LOCAL, &["169.254.64.0/19", V6], &["169.254.67.233", "fd00:169:254::3e9"]),
        (LINK_LOCAL, &["169.254.128.0/18", V6], &["169.254.131.233", "fd00:169:254::3e9"]),
        (7, &["169.254.128.0/18", V6], &["169.254.131.233", "fd00:169:254::3e9"]),
        (7, &[V6], &["fd00:169:254::3e9"]),
    ] {
        let before = node.agent.check(&interface("c1")).unwrap();
        version += 1;
        node.apply(version, &objects([network(number, prefixes)])).unwrap();
        let expected: Vec<_> = expected.iter().map(|address| ip(address)).collect();
        assert_eq!(addresses(&node, "c1"), expected, "{prefixes:?}");
        assert_eq!(led(&node), expected.iter().map(|address| (number, *address)).collect::<Vec<_>>());
        let now = node.agent.check(&interface("c1")).unwrap();
        let news: Vec<_> = (now != before).then(|| v1::Attachment::from(&now)).into_iter().collect();
        assert_eq!(reported(&mut session.reports), news, "{prefixes:?}");
        assert_eq!(node.restarted().agent.check(&interface("c1")).unwrap(), now);
    }
    node.apply(version + 1, &objects([])).unwrap();
    assert_eq!((addresses(&node, "c1"), led(&node)), (vec![], vec![]));
    let [report] = reported(&mut session.reports).try_into().unwrap();
    assert!(report.link_local.is_empty());
}

#[test]
fn they_are_kept_before_they_are_in_force() {
    let node = node([]);
    attach(&node, "web", "c1");
    let file = node.path("state/attachments.json");
    let before = std::fs::read_to_string(&file).unwrap();
    assert!(!before.contains("169.254."), "{before}");
    node.plane.told.lock().unwrap().clear();
    node.apply(2, &objects([network(LINK_LOCAL, &[V4])])).unwrap();
    assert!(std::fs::read_to_string(&file).unwrap().contains("169.254.67.233"));
    let publications = |node: &TestNode| {
        let told = node.plane.told.lock().unwrap();
        told.iter().filter(|told| **told == Told::Publish).count()
    };
    assert_eq!(publications(&node), 1, "the network and its addresses come into force together");
}

#[test]
fn nothing_is_written_or_told_where_nothing_of_them_changed() {
    let with = || objects([network(LINK_LOCAL, &[V4, V6])]);
    let node = node([network(LINK_LOCAL, &[V4, V6])]);
    attach(&node, "web", "c1");
    let mut session = node.agent.subscribe();
    let file = node.path("state/attachments.json");
    std::fs::remove_file(&file).unwrap();
    node.apply(2, &[with(), vec![lease(3, "10.244.9.0/24")]].concat()).unwrap();
    assert!(!file.exists() && reported(&mut session.reports).is_empty());
}

#[test]
fn a_restarted_node_goes_on_with_those_that_fit() {
    let before = node([network(LINK_LOCAL, &[V4])]);
    let others = attach(&before, "other", "c0");
    let pod = attach(&before, "web", "c1");
    before.agent.detach(&others.interface).unwrap();

    // Without the tables nobody says that there are none any more.
    let bare = before.restarted_without_journal();
    let kept: Vec<_> = bare.agent.state().attached().cloned().collect();
    assert_eq!(kept, [pod]);
    bare.apply(2, &objects([network(LINK_LOCAL, &[V4])])).unwrap();
    assert_eq!(bare.agent.state().attached().cloned().collect::<Vec<_>>(), kept);
    assert_eq!(led(&bare), [(LINK_LOCAL, ip("169.254.67.234"))]);

    // What the file holds may be older than the tables.
    let file = before.path("state/attachments.json");
    let contents = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, contents.replace("169.254.67.234", "169.254.1.1")).unwrap();
    let again = bare.restarted();
    assert_eq!(addresses(&again, "c1"), [ip("169.254.67.234")]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), contents, "and the file follows");
    assert_eq!(again.agent.subscribe().attachments[0].link_local, [ip("169.254.67.234").into()]);
}

#[test]
fn a_pod_that_none_is_left_for_is_attached_without_and_it_is_told() {
    let node = node([network(LINK_LOCAL, &[TINY])]);
    let first = attach(&node, "web", "c1");
    assert_eq!(first.link_local_addresses().collect::<Vec<_>>(), [ip("169.254.64.2")]);
    assert_eq!(attach(&node, "db", "c2").link_local, None);
    let problem = "pod default/db has no link-local address: all of 169.254.64.0/30 were in use";
    assert_eq!(node.agent.state().problems(), [problem]);

    node.agent.detach(&first.interface).unwrap();
    node.apply(2, &objects([network(LINK_LOCAL, &[TINY])])).unwrap();
    assert_eq!(addresses(&node, "c2"), [ip("169.254.64.2")]);
    assert!(node.agent.state().problems().is_empty());
}

#[test]
fn many_at_once_have_different_ones() {
    let node = node([]);
    let names = ["a", "b", "c", "d"];
    names.iter().for_each(|name| drop(attach(&node, name, name)));
    node.apply(2, &objects([network(LINK_LOCAL, &["169.254.64.0/29"])])).unwrap();
    let mut given: Vec<_> = names.iter().flat_map(|name| addresses(&node, name)).collect();
    given.sort();
    given.dedup();
    assert_eq!(given.len(), names.len(), "{given:?}");
    assert_eq!(led(&node).len(), names.len());
}

#[test]
fn they_are_of_no_use_where_the_nodes_own_stack_takes_no_part() {
    let node = TestNode::without_host_path();
    node.apply(1, &objects([network(LINK_LOCAL, &[V4])])).unwrap();
    assert_eq!(attach(&node, "web", "c1").link_local, None);
    node.apply(2, &objects([network(LINK_LOCAL, &[V4, V6])])).unwrap();
    assert_eq!((addresses(&node, "c1"), node.agent.state().problems()), (vec![], vec![]));
}

#[test]
fn no_tunnel_carries_their_network() {
    let node = node([network(LINK_LOCAL, &[V4])]);
    let tunnels = node.plane.tunnels.lock().unwrap().clone().unwrap();
    assert_eq!(tunnels.networks, [Vni::new(1).unwrap()].into());
}
