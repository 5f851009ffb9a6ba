//! What a node goes on with after a restart.

use std::fs;
use std::time::Duration;

use tokio::sync::oneshot;
use vrouter_forward::frame::PortId;
use vrouter_objects::{Object, RouterId, Version};
use vrouter_proto::v1;

use super::{SMALL, attach};
use crate::control::{Base, Update, WireKey};
use crate::testing::{TestNode, Told, basics, digest, interface, ip, lease};

#[test]
fn every_pod_is_in_the_tables_in_force_before_a_packet_is_taken() {
    let node = TestNode::with_lease(SMALL);
    let pod = attach(&node, "web", "c1");
    let tunnels = Told::SetTunnels(ip("172.30.0.1"));
    let told = |node: &TestNode| node.plane.told.lock().unwrap().clone();

    let bare = node.restarted();
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
    let again = || after.attach(crate::testing::request("web", "c1"), &super::anywhere());
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
