//! What a node goes on with after a restart.

use std::fs;
use std::time::Duration;

use tokio::sync::oneshot;
use vrouter_forward::frame::PortId;
use vrouter_objects::{Object, PodBinding, Policy, PolicyId, RouterId, Tier, Version};
use vrouter_proto::v1;

use super::{SMALL, attach};
use crate::agent::Assignment;
use crate::attachment::AssignedBy;
use crate::control::{Base, Update, WireKey};
use crate::testing::{TestNode, Told, anywhere, basics, binding, digest, interface, ip, lease, request, vrf};

#[test]
fn every_pod_is_in_the_tables_in_force_before_a_packet_is_taken() {
    let node = TestNode::with_lease(SMALL);
    let pod = attach(&node, "web", "c1");
    let tunnels = Told::SetTunnels(ip("172.30.0.1"));
    let told = |node: &TestNode| node.plane.told.lock().unwrap().clone();

    let bare = node.restarted_without_journal();
    assert_eq!(told(&bare), [Told::Publish, Told::OpenPort(PortId(0))], "nobody says where tunnels end");
    bare.apply(1, &[basics(), vec![lease(1, SMALL)]].concat()).unwrap();
    assert_eq!(told(&bare)[2..], [Told::Publish, tunnels]);
    assert!(bare.agent.state().is_in_tables(pod.vmi));

    node.agent.store_tables().unwrap();
    let after = node.restarted();
    assert_eq!(told(&after), [Told::Publish, Told::OpenPort(PortId(0)), tunnels]);
    assert!(after.agent.state().is_in_tables(pod.vmi));
}

#[test]
fn a_version_that_was_acknowledged_is_held_after_a_kill() {
    let node = TestNode::with_lease(SMALL);
    node.agent.store_tables().unwrap();
    let mut objects = basics();
    objects.extend([lease(1, SMALL), binding("web", &[], None)]);
    let applied = node.apply(7, &objects).unwrap();
    assert_eq!(node.restarted().agent.held(), (applied.version, applied.digest));
    objects.pop();
    let applied = node.apply(8, &objects).unwrap();
    assert_eq!(node.restarted().agent.held(), (applied.version, applied.digest));
    node.agent.store_tables().unwrap();
    assert_eq!(node.restarted().agent.held(), (applied.version, applied.digest));
}

#[test]
fn what_was_refused_is_refused_again_and_the_next_delta_fits() {
    let node = TestNode::new();
    let mut objects = basics();
    let mut twin = objects[0].clone();
    if let Object::VirtualRouter(router) = &mut twin {
        router.id = RouterId::new(2).unwrap();
        router.name = "n2".to_owned();
    }
    objects.push(twin);
    let applied = node.apply(1, &objects).unwrap();
    node.agent.store_tables().unwrap();

    let after = node.restarted();
    assert_eq!(after.agent.held(), (applied.version, applied.digest));
    assert_eq!(after.agent.state().held.refusals(), applied.refusals);
    let more = v1::Object::from(&lease(1, SMALL));
    let key = WireKey::new(&vrouter_proto::convert::key_of(&more).unwrap());
    let mut all: Vec<_> = objects.iter().map(v1::Object::from).collect();
    all.push(more.clone());
    let update = Update {
        version: Version(2),
        base: Base::Held(Version(1)),
        changes: [(key, Some(more))].into(),
        unknown: 0,
        digest: digest(&all),
    };
    assert_eq!(after.agent.apply(update).unwrap().refusals, applied.refusals);
}

#[test]
fn a_pod_comes_back_with_the_policies_that_govern_it_before_a_packet_is_taken() {
    let node = TestNode::new();
    let policy = Policy {
        id: PolicyId::new(5).unwrap(),
        name: "NetworkPolicy default/nobody".to_owned(),
        tier: Tier::Namespace,
        ingress: Some(Vec::new()),
        egress: None,
    };
    let mut binding = PodBinding::new(request("web", "c1").pod, "web", vrf());
    binding.policies = vec![policy.id];
    let mut objects = basics();
    objects.extend([lease(1, SMALL), Object::Policy(policy.clone()), Object::PodBinding(binding)]);
    node.apply(1, &objects).unwrap();
    let assignment = Assignment { by: AssignedBy::Controller, ..anywhere() };
    let pod = node.attach(request("web", "c1"), &assignment).unwrap();
    node.agent.store_tables().unwrap();

    let after = node.restarted();
    let told = after.plane.told.lock().unwrap().clone();
    assert_eq!(told[..2], [Told::Publish, Told::OpenPort(pod.port)]);
    let state = after.agent.state();
    assert!(state.is_in_tables(pod.vmi) && state.tables.policy_use(policy.id).is_some());
}

#[test]
fn a_pod_whose_binding_is_not_held_any_more_comes_back_when_the_controller_has_spoken() {
    let node = TestNode::new();
    let objects = |more: Vec<Object>| [basics(), vec![lease(1, SMALL)], more].concat();
    // The tables on disk are older than the pod.
    node.apply(1, &objects(vec![])).unwrap();
    node.agent.store_tables().unwrap();
    node.apply(2, &objects(vec![binding("web", &[], None)])).unwrap();
    let assignment = Assignment { by: AssignedBy::Controller, ..anywhere() };
    let bound = node.attach(request("web", "c1"), &assignment).unwrap();
    let free = node.attach(request("db", "c2"), &anywhere()).unwrap();

    let after = node.restarted_without_journal();
    assert!(!after.agent.state().is_in_tables(bound.vmi) && after.agent.state().is_in_tables(free.vmi));
    let error = after.agent.check(&interface("c1")).unwrap_err();
    assert_eq!(error.to_string(), "eth0 of container c1: which policies govern it is not known here");
    let problem = "pod default/web is cut off until the controller says which policies govern it";
    assert_eq!(after.agent.state().problems(), [problem]);
    after.apply(2, &objects(vec![binding("web", &[], None)])).unwrap();
    assert_eq!(after.agent.check(&interface("c1")).unwrap(), bound);
    assert!(after.agent.state().problems().is_empty());

    // While the node runs, an interface that outlives its pod for a moment stays as it is.
    after.apply(3, &objects(vec![])).unwrap();
    assert_eq!(after.agent.check(&interface("c1")).unwrap(), bound);
}

/// No word of the controller's will ever bring it back.
#[test]
fn a_pod_whose_name_another_has_by_now_does_not_wait_for_the_controller() {
    let node = TestNode::new();
    let objects = |uid| {
        let bound = Object::PodBinding(PodBinding::new(request("web", "c1").pod, uid, vrf()));
        [basics(), vec![lease(1, SMALL), bound]].concat()
    };
    node.apply(1, &objects("web")).unwrap();
    let assignment = Assignment { by: AssignedBy::Controller, ..anywhere() };
    let old = node.attach(request("web", "c1"), &assignment).unwrap();
    node.apply(2, &objects("the next one")).unwrap();
    assert!(node.agent.state().is_in_tables(old.vmi) && node.agent.state().problems().is_empty());

    let after = node.restarted();
    assert!(!after.agent.state().is_in_tables(old.vmi));
    let problem = "pod default/web is cut off: another pod of its name is to be in its place";
    assert_eq!(after.agent.state().problems(), [problem]);
    let mut next = request("web", "c2");
    next.uid = "the next one".to_owned();
    let new = after.attach(next, &assignment).unwrap();
    after.agent.detach(&interface("c1")).unwrap();
    assert_eq!(after.agent.check(&interface("c2")).unwrap(), new);
    assert!(after.agent.state().problems().is_empty());
}

#[test]
fn a_pod_that_the_node_attached_by_itself_is_the_controllers_once_it_has_spoken() {
    let node = TestNode::new();
    let objects = |more: Vec<Object>| [basics(), vec![lease(1, SMALL)], more].concat();
    node.apply(1, &objects(vec![])).unwrap();
    let pod = node.attach(request("web", "c1"), &anywhere()).unwrap();
    assert!(node.restarted().agent.state().is_in_tables(pod.vmi), "nobody has spoken");
    node.apply(2, &objects(vec![binding("web", &[], None)])).unwrap();
    // The pod is gone; its containers may not be.
    node.apply(3, &objects(vec![])).unwrap();
    assert!(node.agent.state().is_in_tables(pod.vmi));

    let after = node.restarted();
    assert!(!after.agent.state().is_in_tables(pod.vmi), "what governed it is not known any more");
    after.apply(4, &objects(vec![binding("web", &[], None)])).unwrap();
    assert!(after.agent.state().is_in_tables(pod.vmi));
}

#[test]
fn a_device_that_cannot_be_opened_again_is_told_until_it_is() {
    let node = TestNode::with_lease(SMALL);
    let before = attach(&node, "web", "c1");
    node.agent.store_tables().unwrap();

    let after = node.restarted_without_devices("no such luck");
    let error = after.agent.check(&interface("c1")).unwrap_err();
    assert_eq!(error.to_string(), "eth0 of container c1: no such luck");
    let mut session = after.agent.subscribe();
    assert!(session.attachments.is_empty(), "the controller is not told that it is there");
    assert!(!after.agent.state().is_in_tables(before.vmi));
    let again = || after.attach(request("web", "c1"), &anywhere());
    assert_eq!(again().unwrap_err().to_string(), "eth0 of container c1: no such luck");

    *after.plane.refuses_to_open.lock().unwrap() = None;
    assert_eq!(again().unwrap(), before);
    assert_eq!(after.agent.check(&interface("c1")).unwrap(), before);
    let report = session.reports.try_recv().unwrap().kind;
    assert!(matches!(report, Some(v1::node_message::Kind::Attachment(_))), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn tables_that_could_not_be_kept_are_kept_later_and_the_last_ones_at_the_stop() {
    let node = TestNode::with_lease(SMALL);
    let (stop, told_to_stop) = oneshot::channel::<()>();
    let told_to_stop = async move { drop(told_to_stop.await) };
    let keeper = tokio::spawn(std::sync::Arc::clone(&node.agent).keep_tables(told_to_stop));
    let in_the_way = node.path("state/tables.bin");
    fs::create_dir(&in_the_way).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(in_the_way.is_dir());
    fs::remove_dir(&in_the_way).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(node.restarted().agent.held(), node.agent.held());

    node.apply(2, &basics()).unwrap();
    drop(stop);
    keeper.await.unwrap();
    assert_eq!(node.restarted().agent.held(), node.agent.held());
}
