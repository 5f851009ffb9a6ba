mod host;
mod link_local;
mod restart;
mod tenants;
mod upkeep;

use std::collections::HashSet;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use vrouter_objects::{NextHop, Object, ObjectKey, Route, RouteKey, RouterId, Version};
use vrouter_proto::v1;

use crate::agent::{Assignment, AttachError};
use crate::attachment::{AssignedBy, Attachment};
use crate::control::LinkState;
use crate::testing::{TestNode, anywhere, basics, binding, interface, ip, lease, request, vrf};

const SMALL: &str = "10.244.0.0/29";

/// As the controller says it of a pod of the default network that has a binding.
fn fixed(address: &str) -> Assignment {
    Assignment { vrf: vrf(), addresses: vec![ip(address)], by: AssignedBy::Controller }
}

fn attach(node: &TestNode, name: &str, container_id: &str) -> Attachment {
    node.attach(request(name, container_id), &anywhere()).unwrap()
}

fn link_down(node: &TestNode) {
    node.agent.link().send_replace(LinkState::Down { error: "gone".to_owned() });
}

#[test]
fn an_attachment_is_made_once_and_undone_once() {
    let node = TestNode::with_lease(SMALL);
    let first = attach(&node, "web", "c1");
    assert_eq!(first.addresses, [ip("10.244.0.2")]);
    assert_eq!(
        (first.vmi.get(), first.mtu, first.mac.to_string().as_str()),
        (1000, 1450, "02:50:00:00:03:e8")
    );
    assert_eq!(attach(&node, "web", "c1"), first);
    assert_eq!(node.agent.attached(&request("web", "c1")), Some(first.clone()));
    assert_eq!(node.agent.check(&interface("c1")).unwrap(), first);
    assert_eq!((node.open_ports(), node.agent.state().tables.interfaces().count()), (1, 1));

    node.agent.detach(&interface("c1")).unwrap();
    node.agent.detach(&interface("c1")).unwrap();
    assert_eq!((node.open_ports(), node.agent.state().tables.interfaces().count()), (0, 0));
    assert!(matches!(node.agent.check(&interface("c1")), Err(AttachError::NotAttached(_))));
}

#[test]
fn cni_2_an_exhausted_pool_leaves_nothing_behind() {
    let node = TestNode::with_lease("10.244.0.0/30");
    attach(&node, "web", "c1");
    let error = node.attach(request("db", "c2"), &anywhere()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "pod default/db in network default/default-podnetwork: all addresses of 10.244.0.0/30 in vrf 1 are in use"
    );
    assert_eq!((node.open_ports(), node.agent.state().attached().count()), (1, 1));
}

#[test]
fn a_device_that_cannot_be_made_leaves_nothing_behind() {
    let node = TestNode::with_lease("10.244.0.0/30");
    *node.plane.refuses_to_open.lock().unwrap() = Some("no such luck".to_owned());
    let error = node.attach(request("web", "c1"), &anywhere()).unwrap_err();
    assert_eq!(error.to_string(), "eth0 of container c1: no such luck");
    assert_eq!((node.open_ports(), node.agent.state().attached().count()), (0, 0));
    assert_eq!(node.restarted().agent.state().attached().count(), 0);

    *node.plane.refuses_to_open.lock().unwrap() = None;
    assert_eq!(attach(&node, "web", "c1").addresses, [ip("10.244.0.2")], "the only address is free again");
}

#[test]
fn cni_3_a_killed_add_is_freed_by_container_id() {
    let node = TestNode::with_lease("10.244.0.0/30");
    // The plugin is gone, and never heard the answer.
    attach(&node, "web", "c1");
    node.agent.detach(&interface("c1")).unwrap();
    assert_eq!(attach(&node, "db", "c2").addresses, [ip("10.244.0.2")], "the pool is full again");
}

#[test]
fn cni_4_a_late_del_of_an_old_sandbox_leaves_the_new_one() {
    let node = TestNode::with_lease(SMALL);
    let old = attach(&node, "web", "c1");
    let new = attach(&node, "web", "c2");
    assert_ne!(old.vmi, new.vmi, "interface ids are never given twice");
    assert_eq!(node.open_ports(), 1, "a pod has one sandbox at a time");
    node.agent.detach(&interface("c1")).unwrap();
    assert_eq!(node.agent.check(&interface("c2")).unwrap(), new);
}

#[test]
fn cni_7_a_static_address_moves_to_the_pods_new_sandbox_and_to_nobody_else() {
    let node = TestNode::new();
    let mut objects = basics();
    let bindings = ["web", "db"].map(|name| binding(name, &["10.244.7.7"], None));
    objects.extend(bindings.into_iter().chain([lease(1, SMALL)]));
    node.apply(1, &objects).unwrap();
    let wanted = fixed("10.244.7.7");
    node.attach(request("web", "c1"), &wanted).unwrap();
    let new = node.attach(request("web", "c2"), &wanted).unwrap();
    assert_eq!(new.addresses, [ip("10.244.7.7")]);
    let error = node.attach(request("db", "c3"), &wanted).unwrap_err();
    assert_eq!(
        error.to_string(),
        "pod default/db in network default/default-podnetwork: address 10.244.7.7 is in use by pod default/web"
    );
    assert_eq!(node.open_ports(), 1);
}

#[test]
fn an_address_that_is_set_aside_for_a_pod_is_given_to_no_other() {
    let node = TestNode::new();
    let mut objects = basics();
    objects.extend([lease(1, SMALL), binding("db", &["10.244.0.2"], None)]);
    node.apply(1, &objects).unwrap();
    assert_eq!(attach(&node, "web", "c1").addresses, [ip("10.244.0.3")]);
}

#[test]
fn an_address_of_this_block_that_a_pod_elsewhere_has_is_given_to_nobody() {
    let node = TestNode::new();
    let mut objects = basics();
    let key = RouteKey { vrf: vrf(), prefix: ip("10.244.0.2").into() };
    let elsewhere = NextHop::Tunnel(RouterId::new(7).unwrap());
    objects.extend([lease(1, SMALL), Object::Route(Route { key, next_hop: elsewhere })]);
    node.apply(1, &objects).unwrap();
    assert_eq!(attach(&node, "web", "c1").addresses, [ip("10.244.0.3")]);
}

#[test]
fn garbage_is_what_the_runtime_no_longer_knows() {
    let node = TestNode::with_lease(SMALL);
    for name in ["a", "b", "c"] {
        attach(&node, name, name);
    }
    assert_eq!(
        node.agent.collect_garbage("pods", &HashSet::from([interface("b"), interface("x")])).unwrap(),
        2
    );
    assert_eq!(node.agent.state().attached().count(), 1);
}

#[test]
fn a_restarted_node_goes_on_with_what_it_had() {
    let node = TestNode::with_lease(SMALL);
    let before = attach(&node, "web", "c1");
    node.agent.store_tables().unwrap();

    let after = node.restarted();
    assert_eq!(after.agent.held(), node.agent.held());
    assert_eq!(after.agent.check(&interface("c1")).unwrap(), before);
    assert_eq!(after.open_ports(), 1);
    let next = attach(&after, "db", "c2");
    assert_eq!((next.vmi.get(), next.addresses), (1001, vec![ip("10.244.0.3")]));

    let booted = after.rebooted();
    assert_eq!((booted.open_ports(), booted.agent.state().attached().count()), (0, 0));
    assert_eq!(attach(&booted, "web", "c3").vmi.get(), 1002);
}

#[test]
fn a_pod_whose_namespace_went_while_the_node_was_down_is_gone() {
    let node = TestNode::with_lease(SMALL);
    let netns = node.path("netns");
    fs::write(&netns, "").unwrap();
    let mut request = request("web", "c1");
    request.netns.clone_from(&netns);
    node.attach(request, &anywhere()).unwrap();
    assert!(node.agent.check(&interface("c1")).is_ok());
    fs::remove_file(netns).unwrap();
    let error = node.agent.check(&interface("c1")).unwrap_err();
    assert_eq!(error.to_string(), "eth0 of container c1: its network namespace is gone");

    let after = node.restarted();
    assert_eq!((after.open_ports(), after.agent.state().attached().count()), (0, 0));
    assert!(after.agent.subscribe().attachments.is_empty(), "the controller is told by its absence");
}

#[test]
fn an_attachment_without_tables_finds_its_network_when_they_come() {
    let node = TestNode::with_lease(SMALL);
    attach(&node, "web", "c1");
    let after = node.restarted_without_journal();
    assert!(after.agent.check(&interface("c1")).is_err());
    let mut objects = basics();
    objects.push(lease(1, SMALL));
    after.apply(2, &objects).unwrap();
    assert!(after.agent.check(&interface("c1")).is_ok());
}

#[test]
fn corrupt_tables_are_left_out_and_everything_comes_anew() {
    let node = TestNode::with_lease(SMALL);
    node.agent.store_tables().unwrap();
    fs::write(node.path("state/tables.bin"), "not tables").unwrap();
    assert_eq!(node.restarted().agent.held().0, Version(0));
}

#[test]
fn a_refused_object_is_named_and_the_rest_applies() {
    let node = TestNode::new();
    let mut objects = basics();
    let mut twin = objects[0].clone();
    if let Object::VirtualRouter(router) = &mut twin {
        router.id = vrouter_objects::RouterId::new(2).unwrap();
        router.name = "n2".to_owned();
    }
    objects.push(twin);
    objects.push(lease(1, SMALL));
    let applied = node.apply(1, &objects).unwrap();
    let [refusal] = applied.refusals.as_slice() else { panic!("{:?}", applied.refusals) };
    let key = ObjectKey::try_from(refusal.object.clone().unwrap()).unwrap();
    assert_eq!(key.to_string(), "virtual router 2");
    assert_eq!(refusal.reason, "address 172.30.0.1 belongs to virtual router 1 already");
    assert_eq!(attach(&node, "web", "c1").addresses, [ip("10.244.0.2")]);
}

#[test]
fn attachments_are_reported_to_the_newest_session() {
    let node = TestNode::with_lease(SMALL);
    let mut old = node.agent.subscribe();
    let made = attach(&node, "web", "c1");
    assert!(matches!(old.reports.try_recv().unwrap().kind, Some(v1::node_message::Kind::Attachment(_))));

    let mut new = node.agent.subscribe();
    assert_eq!(new.attachments, [v1::Attachment::from(&made)]);
    node.agent.detach(&interface("c1")).unwrap();
    let detached = v1::node_message::Kind::Detached(v1::Detached { vmi: made.vmi.get() });
    assert_eq!(new.reports.try_recv().unwrap().kind, Some(detached));
    assert!(old.reports.try_recv().is_err());
}

const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn without_a_controller_the_lease_decides() {
    let node = TestNode::with_lease(SMALL);
    link_down(&node);
    let assignment = Arc::clone(&node.agent).assignment(&request("web", "c1"), PATIENCE).await.unwrap();
    assert_eq!(assignment, anywhere());

    let bare = TestNode::new();
    link_down(&bare);
    let error = Arc::clone(&bare.agent).assignment(&request("web", "c1"), PATIENCE).await.unwrap_err();
    assert_eq!(error.to_string(), "no controller is connected, and no addresses are leased to this node");
}

#[tokio::test]
async fn what_the_controller_said_counts_also_when_it_is_gone() {
    let node = TestNode::new();
    let mut objects = basics();
    objects.extend([binding("web", &["10.244.7.7"], None), binding("db", &[], Some("its address is taken"))]);
    node.apply(1, &objects).unwrap();
    link_down(&node);
    assert_eq!(
        Arc::clone(&node.agent).assignment(&request("web", "c1"), PATIENCE).await.unwrap(),
        fixed("10.244.7.7")
    );
    let error = Arc::clone(&node.agent).assignment(&request("db", "c2"), PATIENCE).await.unwrap_err();
    assert_eq!(error.to_string(), "pod default/db is refused: its address is taken");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_the_controller_never_mentions_is_waited_for_in_vain() {
    let node = TestNode::with_lease(SMALL);
    let error = Arc::clone(&node.agent).assignment(&request("web", "c1"), PATIENCE).await.unwrap_err();
    assert!(matches!(error, AttachError::NotAssigned { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_waited_for_and_an_earlier_one_of_its_name_does_not_count() {
    let node = TestNode::new();
    let mut objects = basics();
    objects.push(binding("web", &["10.244.7.7"], None));
    node.apply(1, &objects).unwrap();
    let mut wanted = request("web", "c1");
    wanted.uid = "the next one".to_owned();
    let waiting = tokio::spawn({
        let agent = node.agent.clone();
        async move { agent.assignment(&wanted, PATIENCE).await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    if let Some(Object::PodBinding(binding)) = objects.last_mut() {
        binding.uid = "the next one".to_owned();
        binding.addresses = vec![ip("10.244.8.8")];
    }
    node.apply(2, &objects).unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), fixed("10.244.8.8"));
}

#[test]
fn attached_at_once_from_many_sides_each_has_its_own() {
    let node = TestNode::with_lease("10.244.0.0/24");
    let attachments: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..40)
            .map(|number| {
                let (node, name) = (&node, format!("web-{}", number / 2));
                scope.spawn(move || node.attach(request(&name, &name), &anywhere()).unwrap())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let distinct = |values: Vec<String>| values.into_iter().collect::<HashSet<_>>().len();
    assert_eq!(distinct(attachments.iter().map(|a| a.addresses[0].to_string()).collect()), 20);
    assert_eq!(distinct(attachments.iter().map(|a| a.vmi.to_string()).collect()), 20);
    assert_eq!(distinct(attachments.iter().map(|a| a.port.0.to_string()).collect()), 20);
}

#[tokio::test]
async fn a_binding_without_a_uid_counts_for_any_pod_of_its_name() {
    let node = TestNode::new();
    let mut objects = basics();
    objects.push(binding("web", &["10.244.7.7"], None));
    if let Some(Object::PodBinding(binding)) = objects.last_mut() {
        binding.uid.clear();
    }
    node.apply(1, &objects).unwrap();
    let found = Arc::clone(&node.agent).assignment(&request("web", "c1"), PATIENCE).await.unwrap();
    assert_eq!(found, fixed("10.244.7.7"));
}
