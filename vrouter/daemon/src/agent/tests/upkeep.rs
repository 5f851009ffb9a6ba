//! What goes wrong while nobody asks, and what is called off.

use std::collections::HashSet;
use std::fs;
use std::net::IpAddr;
use std::sync::atomic::Ordering;

use vrouter_forward::frame::PortId;
use vrouter_proto::v1;

use super::{SMALL, attach};
use crate::agent::{AttachError, Caller};
use crate::testing::{TestNode, Told, anywhere, basics, interface, ip, lease, request, router};

#[test]
fn a_vanished_interface_leaves_the_tables_and_keeps_its_address() {
    let node = TestNode::with_lease("10.244.0.0/29");
    let gone = attach(&node, "web", "c1");
    let other = attach(&node, "db", "c2");
    let mut session = node.agent.subscribe();
    node.plane.unplugged.lock().unwrap().push(gone.port);
    node.agent.tend();

    let detached = v1::node_message::Kind::Detached(v1::Detached { vmi: gone.vmi.get() });
    assert_eq!(session.reports.try_recv().unwrap().kind, Some(detached));
    assert!(!node.agent.state().is_in_tables(gone.vmi));
    let error = node.agent.check(&interface("c1")).unwrap_err();
    assert_eq!(error.to_string(), "eth0 of container c1: its interface has vanished");
    assert_eq!(node.agent.check(&interface("c2")).unwrap(), other);
    assert_eq!(attach(&node, "new", "c3").addresses, [ip("10.244.0.4")], "its address is not given away");

    node.agent.detach(&interface("c1")).unwrap();
    let reports: Vec<_> = std::iter::from_fn(|| session.reports.try_recv().ok()).collect();
    assert_eq!(reports.len(), 1, "it is not detached twice: {reports:?}");
    assert_eq!(node.agent.state().attached().count(), 2);
}

#[test]
fn a_vanished_namespace_is_let_go_of() {
    let node = TestNode::with_lease(SMALL);
    let mut request = request("web", "c1");
    request.netns = node.path("netns");
    fs::write(&request.netns, "").unwrap();
    node.attach(request, &anywhere()).unwrap();
    node.agent.tend();
    assert!(node.agent.check(&interface("c1")).is_ok());
    fs::remove_file(node.path("netns")).unwrap();
    node.agent.tend();
    let state = node.agent.state();
    assert_eq!((node.open_ports(), state.working().count(), state.attached().count()), (0, 0, 1));
}

#[test]
fn cni_3_a_del_calls_off_the_add_that_came_before_it() {
    let node = TestNode::with_lease(SMALL);
    let killed = node.agent.begin(request("web", "c1"));
    let other = node.agent.begin(request("db", "c2"));
    node.agent.detach(&interface("c1")).unwrap();
    let error = node.agent.attach(&killed, &anywhere()).unwrap_err();
    assert!(matches!(error, AttachError::CalledOff(_)), "{error}");
    assert_eq!((node.open_ports(), node.agent.state().attached().count()), (0, 0));

    node.agent.attach(&other, &anywhere()).unwrap();
    let again = node.attach(request("web", "c1"), &anywhere()).unwrap();
    assert_eq!(node.agent.check(&interface("c1")).unwrap(), again, "a later ADD is not called off");
}

#[test]
fn cni_3_an_add_whose_caller_went_away_leaves_nothing_and_its_repetition_stays() {
    let node = TestNode::with_lease(SMALL);
    let call = node.agent.begin(request("web", "c1"));
    drop(Caller::of(&call));
    assert!(matches!(node.agent.attach(&call, &anywhere()), Err(AttachError::CalledOff(_))));
    assert_eq!((node.open_ports(), node.agent.state().attached().count()), (0, 0));

    let again = attach(&node, "web", "c1");
    assert!(node.agent.attach(&call, &anywhere()).is_err(), "the first one comes late");
    assert_eq!(node.agent.check(&interface("c1")).unwrap(), again);
}

#[test]
fn a_tunnel_end_that_cannot_be_opened_is_tried_again() {
    let node = TestNode::new();
    *node.plane.refuses_tunnels.lock().unwrap() = Some("address not available".to_owned());
    node.apply(1, &[basics(), vec![lease(1, SMALL)]].concat()).unwrap();
    let reason = "tunnels cannot end at 172.30.0.1: address not available";
    assert_eq!(node.agent.state().readiness().unwrap_err().to_string(), reason);
    let error = node.attach(request("web", "c1"), &anywhere()).unwrap_err();
    assert_eq!(error.to_string(), reason);

    *node.plane.refuses_tunnels.lock().unwrap() = None;
    node.agent.tend();
    let state = node.agent.state();
    assert_eq!(state.vtep().map(|vtep| vtep.address), Some(ip("172.30.0.1")));
    assert!(state.readiness().is_ok());
}

#[test]
fn a_change_of_tunnels_that_fails_leaves_those_that_are_open() {
    let node = TestNode::with_lease(SMALL);
    let first = [basics(), vec![lease(1, SMALL)]].concat();
    *node.plane.refuses_tunnels.lock().unwrap() = Some("no such luck".to_owned());
    node.apply(2, &[first, vec![router(2, "172.30.0.2")]].concat()).unwrap();
    assert_eq!(node.agent.state().vtep().map(|vtep| vtep.address), Some(ip("172.30.0.1")));
    attach(&node, "web", "c1");

    // Trying again is no reason to look at every flow anew.
    let epoch = node.agent.state().epoch;
    node.agent.tend();
    assert_eq!(node.agent.state().epoch, epoch);

    *node.plane.refuses_tunnels.lock().unwrap() = None;
    node.agent.tend();
    assert_eq!(peers(&node), [ip("172.30.0.2")]);
}

#[test]
fn tunnels_that_are_open_in_part_carry_pods_and_are_tried_again() {
    let node = TestNode::new();
    *node.plane.tunnel_problem.lock().unwrap() = Some("device vxlan-7 is none of ours".to_owned());
    node.apply(1, &[basics(), vec![lease(1, SMALL)]].concat()).unwrap();
    assert!(node.agent.state().readiness().is_ok());
    let attempts = || node.plane.told.lock().unwrap().iter().filter(|told| is_of_tunnels(**told)).count();
    assert_eq!(attempts(), 1);
    *node.plane.tunnel_problem.lock().unwrap() = None;
    node.agent.tend();
    node.agent.tend();
    assert_eq!(attempts(), 2, "tried until it succeeds");
}

#[test]
fn tunnels_that_somebody_took_away_are_made_anew() {
    let node = TestNode::with_lease(SMALL);
    *node.plane.tunnels.lock().unwrap() = None;
    node.agent.tend();
    assert_eq!(*node.plane.tunnels.lock().unwrap(), None, "nobody noticed anything");
    node.plane.are_tunnels_broken.store(true, Ordering::Relaxed);
    node.agent.tend();
    assert!(node.plane.tunnels.lock().unwrap().is_some());
}

#[test]
fn peers_are_nodes_of_the_own_address_family() {
    let node = TestNode::with_lease(SMALL);
    let others = vec![lease(1, SMALL), router(2, "172.30.0.2"), router(3, "fd00::3")];
    node.apply(2, &[basics(), others].concat()).unwrap();
    assert_eq!(peers(&node), [ip("172.30.0.2")]);
}

fn is_of_tunnels(told: Told) -> bool {
    matches!(told, Told::SetTunnels(_))
}

/// The addresses of the tunnels' other ends.
fn peers(node: &TestNode) -> Vec<IpAddr> {
    node.plane.tunnels.lock().unwrap().iter().flat_map(|tunnels| tunnels.peers.values().copied()).collect()
}

#[test]
fn a_node_says_why_no_pod_can_be_attached() {
    let node = TestNode::new();
    let why = |node: &TestNode| node.agent.state().readiness().unwrap_err().to_string();
    assert!(why(&node).starts_with("this node's tunnel address is not known yet"));
    node.apply(1, &basics()).unwrap();
    assert_eq!(why(&node), "no addresses are leased to this node yet");
    node.apply(2, &[basics(), vec![lease(1, SMALL)]].concat()).unwrap();
    assert!(node.agent.state().readiness().is_ok());
}

#[test]
fn garbage_is_collected_by_network_and_as_far_as_it_goes() {
    let node = TestNode::with_lease("10.244.0.0/28");
    for name in ["a", "b", "c"] {
        attach(&node, name, name);
    }
    let mut other = request("d", "d");
    other.configuration = "other".to_owned();
    node.attach(other, &anywhere()).unwrap();
    *node.plane.refuses_to_close.lock().unwrap() = Some(PortId(0));
    let error = node.agent.collect_garbage("pods", &HashSet::from([interface("c")])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "1 attachments were removed, 1 could not be: eth0 of container a: it is in use"
    );
    let state = node.agent.state();
    let left: Vec<_> = state.attached().map(|attachment| attachment.pod.name.as_str()).collect();
    assert_eq!(left, ["a", "c", "d"], "nothing of another network is touched");
}

#[test]
fn a_session_that_falls_behind_is_ended() {
    let node = TestNode::new();
    let mut session = node.agent.subscribe();
    for vmi in 0..=u32::try_from(crate::agent::REPORTS).unwrap() {
        node.agent.state().report(v1::node_message::Kind::Detached(v1::Detached { vmi }));
    }
    let told = std::iter::from_fn(|| session.reports.blocking_recv()).count();
    assert_eq!(told, crate::agent::REPORTS, "and then it is closed");
}
