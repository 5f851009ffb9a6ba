//! Pods in networks of tenants: isolated ones, which share the cluster's subnets, and custom ones, whose addresses may be
//! anybody's.

use std::collections::HashSet;
use std::sync::Arc;

use ipnet::IpNet;
use vrouter_objects::{
    NextHop, Object, ObjectKey, PodBinding, Route, RouteKey, RouterId, RoutingInstance, Subnet, Vni, VrfId,
};

use super::{PATIENCE, SMALL, link_down};
use crate::agent::{Assignment, AttachError, UnassignedPods};
use crate::attachment::{AssignedBy, Attachment};
use crate::testing::{TestNode, anywhere, basics, binding, binding_in, interface, ip, lease, request, vrf};

const BLUE: u32 = 7;
const RED: u32 = 8;
const ISOLATED: u32 = 9;

fn id(number: u32) -> VrfId {
    VrfId::new(number).unwrap()
}

/// A network with addresses of its own, the same in all of them.
fn custom(number: u32, name: &str) -> Object {
    let subnet = Subnet { prefix: "10.0.0.0/24".parse().unwrap(), gateway: ip("10.0.0.1") };
    let network = RoutingInstance::new(id(number), name, Vni::new(number).unwrap(), vec![subnet]);
    Object::RoutingInstance(network)
}

/// The network of an isolated namespace.
fn isolated() -> Object {
    let Some(Object::RoutingInstance(pods)) = basics().pop() else { panic!("no pod network") };
    Object::RoutingInstance(RoutingInstance {
        id: id(ISOLATED),
        name: "shop/default-podnetwork".to_owned(),
        vni: Vni::new(ISOLATED).unwrap(),
        address_space: vrf(),
        known_in: vec![vrf(), id(3)],
        ..pods
    })
}

/// The default network with a lease, and these.
fn objects(more: impl IntoIterator<Item = Object>) -> Vec<Object> {
    basics().into_iter().chain([lease(1, SMALL)]).chain(more).collect()
}

fn node(more: impl IntoIterator<Item = Object>) -> TestNode {
    let node = TestNode::new();
    node.apply(1, &objects(more)).unwrap();
    node
}

/// As the local API does it.
fn attach(node: &TestNode, name: &str, container_id: &str) -> Result<Attachment, AttachError> {
    let request = request(name, container_id);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let assignment = runtime.block_on(Arc::clone(&node.agent).assignment(&request, PATIENCE))?;
    node.attach(request, &assignment)
}

fn two_tenants() -> Vec<Object> {
    let bindings = [binding_in(BLUE, "blue", &["10.0.0.5"]), binding_in(RED, "red", &["10.0.0.5"])];
    [custom(BLUE, "tenant/blue"), custom(RED, "tenant/red")].into_iter().chain(bindings).collect()
}

#[test]
fn two_pods_have_one_address_in_two_networks_through_a_whole_life() {
    let node = node(two_tenants());
    let [blue, red] = ["blue", "red"].map(|name| attach(&node, name, name).unwrap());
    assert_eq!((blue.vrf, red.vrf), (id(BLUE), id(RED)));
    assert_eq!((&blue.addresses, &red.addresses), (&vec![ip("10.0.0.5")], &vec![ip("10.0.0.5")]));
    assert_eq!((blue.vmi.get(), red.vmi.get()), (1000, 1001), "ids are of the lease of the default network");
    assert_eq!(node.agent.state().gateway(blue.vrf, blue.addresses[0]), Some(ip("10.0.0.1")));
    assert_eq!(attach(&node, "blue", "blue").unwrap(), blue, "asked again");
    node.agent.store_tables().unwrap();

    let node = node.restarted();
    for pod in [&blue, &red] {
        assert_eq!(node.agent.check(&pod.interface).unwrap(), *pod);
    }
    assert_eq!(node.open_ports(), 2);
    node.agent.detach(&blue.interface).unwrap();
    assert_eq!(node.agent.check(&red.interface).unwrap(), red);
    assert_eq!(attach(&node, "blue", "blue-2").unwrap().addresses, blue.addresses);
    assert_eq!(node.agent.collect_garbage("pods", &HashSet::from([interface("red")])).unwrap(), 1);
    assert_eq!(node.agent.check(&red.interface).unwrap(), red);
    assert!(node.agent.state().problems().is_empty());
}

#[test]
fn isolated_pods_have_addresses_of_the_nodes_leases_and_nobody_elses() {
    let node = node([isolated(), binding_in(ISOLATED, "till", &[])]);
    let till = attach(&node, "till", "c1").unwrap();
    assert_eq!((till.vrf, &till.addresses), (id(ISOLATED), &vec![ip("10.244.0.2")]));
    let web = node.attach(request("web", "c2"), &anywhere()).unwrap();
    assert_eq!(web.addresses, [ip("10.244.0.3")]);

    // The pod and its network are gone before its interface is, even over a restart.
    node.apply(2, &objects([])).unwrap();
    node.agent.store_tables().unwrap();
    let node = node.restarted();
    let addresses: Vec<_> = (3..6)
        .map(|number| format!("c{number}"))
        .flat_map(|name| node.attach(request(&name, &name), &anywhere()).unwrap().addresses)
        .collect();
    assert_eq!(addresses, ["10.244.0.4", "10.244.0.5", "10.244.0.6"].map(ip));
    let full = node.attach(request("c6", "c6"), &anywhere()).unwrap_err();
    assert!(full.to_string().contains("all addresses of 10.244.0.0/29"), "{full}");
}

#[test]
fn an_address_that_an_isolated_pod_elsewhere_has_is_given_to_nobody() {
    let prefix: IpNet = ip("10.244.0.2").into();
    let next_hop = NextHop::Tunnel(RouterId::new(7).unwrap());
    // Its own network is not held here; the nodes' knows it.
    let nodes = RoutingInstance::new(id(3), "default/ip-fabric", Vni::new(3).unwrap(), Vec::new());
    let route = Route { key: RouteKey { vrf: id(3), prefix }, next_hop };
    let node = node([Object::RoutingInstance(nodes), Object::Route(route)]);
    assert_eq!(node.attach(request("web", "c1"), &anywhere()).unwrap().addresses, [ip("10.244.0.3")]);
}

#[test]
fn one_address_space_has_an_address_once_whatever_the_network() {
    let wanted = "10.244.7.7";
    let node = node([isolated(), binding_in(ISOLATED, "till", &[wanted]), binding("web", &[wanted], None)]);
    attach(&node, "web", "c1").unwrap();
    let error = attach(&node, "till", "c2").unwrap_err();
    assert_eq!(
        error.to_string(),
        "pod default/till in network shop/default-podnetwork: address 10.244.7.7 is in use by pod default/web"
    );
}

#[test]
fn an_address_that_is_set_aside_in_one_space_is_free_in_another() {
    let bound = || binding_in(BLUE, "blue", &["10.244.0.3"]);
    let node = node([custom(BLUE, "tenant/blue"), bound()]);
    // Once the network is gone, nobody knows what space its addresses are of.
    node.apply(2, &objects([bound()])).unwrap();
    let given = |name| node.attach(request(name, name), &anywhere()).unwrap().addresses;
    assert_eq!(
        [given("a"), given("b"), given("c"), given("d")].concat(),
        ["10.244.0.2", "10.244.0.4", "10.244.0.5", "10.244.0.6"].map(ip)
    );
    node.apply(3, &objects([custom(BLUE, "tenant/blue"), bound()])).unwrap();
    assert_eq!(given("e"), [ip("10.244.0.3")]);
}

#[test]
fn without_a_lease_of_their_space_pods_get_no_address() {
    let node = node([custom(BLUE, "tenant/blue"), binding_in(BLUE, "blue", &[])]);
    let error = attach(&node, "blue", "c1").unwrap_err();
    assert_eq!(
        error.to_string(),
        "pod default/blue in network tenant/blue: no addresses of vrf 7 are leased to this node yet"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_the_network_that_it_belongs_to() {
    let node = node([binding_in(BLUE, "blue", &["10.0.0.5"])]);
    let assignment = |node: &TestNode| {
        let agent = Arc::clone(&node.agent);
        tokio::spawn(async move { agent.assignment(&request("blue", "c1"), PATIENCE).await })
    };
    let waiting = assignment(&node);
    tokio::task::yield_now().await;
    node.apply(2, &objects(two_tenants())).unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().vrf, id(BLUE));

    node.apply(3, &objects([binding_in(BLUE, "blue", &["10.0.0.5"])])).unwrap();
    let error = assignment(&node).await.unwrap().unwrap_err().to_string();
    let expected =
        "pod default/blue: the controller has not said yet what vrf 7 is, which it belongs to (waited ";
    assert!(error.starts_with(expected), "{error}");
    link_down(&node);
    let error = assignment(&node).await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "pod default/blue belongs to vrf 7, which is not known here yet");
}

#[test]
fn a_pod_that_nobody_assigns_may_be_refused() {
    let before = node([binding("db", &[], None)]);
    before.agent.store_tables().unwrap();
    let node = before.restarted_with(UnassignedPods::Refuse);
    link_down(&node);
    let error = attach(&node, "web", "c1").unwrap_err();
    let expected =
        "pod default/web: no controller says what network it belongs to and which policies govern it";
    assert_eq!(error.to_string(), expected);
    assert_eq!(node.open_ports(), 0);
    assert_eq!(attach(&node, "db", "c2").unwrap().addresses, [ip("10.244.0.2")], "this one is assigned");
}

#[test]
fn a_pod_that_turns_out_to_belong_elsewhere_is_told_until_it_is_attached_anew() {
    let node = node([]);
    link_down(&node);
    let astray = attach(&node, "blue", "c1").unwrap();
    assert_eq!((astray.vrf, astray.assigned_by), (vrf(), AssignedBy::Node));
    assert!(node.agent.state().problems().is_empty());

    node.apply(2, &objects(two_tenants())).unwrap();
    let problem = "pod default/blue is cut off until it is attached anew: \
                   it is in network default/default-podnetwork and belongs to tenant/blue";
    assert_eq!(node.agent.state().problems(), [problem]);
    assert_eq!(node.agent.attached(&request("blue", "c1")), None);
    let again = attach(&node, "blue", "c1").unwrap();
    assert_eq!((again.vrf, again.assigned_by), (id(BLUE), AssignedBy::Controller));
    assert_eq!((node.open_ports(), node.agent.state().problems()), (1, vec![]));
}

#[test]
fn a_pod_whose_network_changes_under_it_is_told() {
    let node = node(two_tenants());
    attach(&node, "blue", "c1").unwrap();
    let with = |binding: Object| {
        let others = two_tenants().into_iter().filter(|object| object.key() != binding.key());
        objects(others.chain([binding.clone()]).collect::<Vec<_>>())
    };
    node.apply(2, &with(binding_in(RED, "blue", &["10.0.0.9"]))).unwrap();
    let problem = "pod default/blue is cut off until it is attached anew: \
                   it is in network tenant/blue and belongs to tenant/red";
    assert_eq!(node.agent.state().problems(), [problem]);
    node.apply(3, &with(binding("blue", &[], Some("its annotation names no network")))).unwrap();
    let problem = "pod default/blue is attached, and refused by now: its annotation names no network";
    assert_eq!(node.agent.state().problems(), [problem]);
    // Of another pod of that name it says nothing.
    let another = PodBinding::new(request("blue", "c2").pod, "the next one", id(RED));
    node.apply(4, &with(Object::PodBinding(another))).unwrap();
    assert!(node.agent.state().problems().is_empty());
}

#[test]
fn what_the_controller_says_before_the_attaching_begins_counts() {
    let node = node([]);
    link_down(&node);
    node.apply(2, &objects(two_tenants())).unwrap();
    let attached = node.attach(request("blue", "c1"), &anywhere()).unwrap();
    assert_eq!(attached.vrf, id(BLUE));

    let taken_back = Assignment { vrf: id(BLUE), addresses: vec![], by: AssignedBy::Controller };
    let error = node.attach(request("web", "c2"), &taken_back).unwrap_err();
    assert!(matches!(error, AttachError::Unassigned { .. }), "{error}");
}

#[test]
fn a_pod_that_is_made_anew_in_another_network_takes_the_place_of_the_old_one() {
    let mut next = PodBinding::new(request("blue", "c2").pod, "the next one", id(RED));
    next.addresses = vec![ip("10.0.0.5")];
    let node = node(two_tenants());
    attach(&node, "blue", "c1").unwrap();
    let next = Object::PodBinding(next);
    let others = two_tenants().into_iter().filter(|object| !matches!(object.key(), ObjectKey::PodBinding(_)));
    node.apply(2, &objects(others.chain([next]).collect::<Vec<_>>())).unwrap();
    let mut wanted = request("blue", "c2");
    wanted.uid = "the next one".to_owned();
    let assignment = Assignment { vrf: id(RED), addresses: vec![ip("10.0.0.5")], by: AssignedBy::Controller };
    let attached = node.attach(wanted, &assignment).unwrap();
    assert_eq!((attached.vrf, node.open_ports()), (id(RED), 1));
    node.agent.detach(&interface("c1")).unwrap();
    assert_eq!(node.agent.check(&interface("c2")).unwrap(), attached);
}

#[test]
fn networks_of_tunnels_follow_the_tables() {
    let node = node([]);
    let networks = |node: &TestNode| {
        let tunnels = node.plane.tunnels.lock().unwrap().clone().unwrap();
        tunnels.networks.into_iter().map(Vni::get).collect::<Vec<_>>()
    };
    assert_eq!(networks(&node), [1]);
    node.apply(2, &objects([custom(BLUE, "tenant/blue"), isolated()])).unwrap();
    assert_eq!(networks(&node), [1, BLUE, ISOLATED]);
    node.apply(3, &objects([isolated()])).unwrap();
    assert_eq!(networks(&node), [1, ISOLATED]);
}
