//! The real process in network namespaces of the test's own, against a controller that says what the test does. Needs root.

mod controller;
mod link_local;
mod support;
mod tenants;

use std::pin::pin;
use std::time::Duration;

use controller::Controller;
use support::{Netns, Node, Pod};
use vrouter_proto::v1;

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_outlives_the_node_and_the_controller() {
    let underlay = Netns::new("life");
    underlay.run("ip address add 172.30.0.1/24 dev lo");
    let controller = Controller::start(&underlay).await;
    let mut node = Node::start(&underlay).await;
    node.tables(1).await;

    let pod = Pod::new("life-pod");
    let attached = node.attach(&pod).await.unwrap();
    assert_eq!(attached.mtu, 65_486, "the loopback's MTU less the tunnel's headers");
    let link = pod.netns.run("ip -o link show eth0");
    assert!(link.contains("02:50:00:00:00:64") && link.contains("mtu 65486"), "{link}");
    assert_eq!(node.attach(&pod).await.unwrap(), attached, "asked again, it is the same");

    pod.configure(&attached);
    pod.netns.run("ping -c 1 -W 2 10.244.0.1");
    pod.netns.run("ping -c 1 -W 2 fd00:10:244::1");

    let twin = Node::command(&underlay, "run").output().unwrap();
    let said = String::from_utf8(twin.stderr).unwrap();
    assert!(!twin.status.success() && said.contains("another vrouter is running"), "{said}");

    drop(controller);
    node.kill();
    let mut node = Node::start_again(node).await;
    assert_eq!(node.attach(&pod).await.unwrap(), attached, "it goes on where it was");
    pod.netns.run("ping -c 1 -W 2 10.244.0.1");

    node.detach(&pod).await;
    node.detach(&pod).await;
    assert!(!pod.netns.run("ip -o link").contains("eth0"));
    assert!(node.stop().success(), "SIGTERM ends it well");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_own_stack_has_a_port_for_as_long_as_the_node_runs() {
    let underlay = with_link("host");
    let before = underlay.run("ip rule");
    let _controller = Controller::start(&underlay).await;
    let mut node = Node::start(&underlay).await;
    node.tables(1).await;
    let link = underlay.run("ip -o link show vhost0");
    assert!(link.contains("LOWER_UP") && link.contains("02:48:00:00:00:01"), "{link}");
    let route = underlay.run("ip route get 10.244.0.2");
    assert!(route.contains("via 169.254.1.1 dev vhost0 src 172.30.0.1"), "{route}");
    assert!(underlay.run("nft list set inet vrouter_host own4").contains("172.30.0.1"));
    let healthy = underlay.run("curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:10256/healthz");
    assert_eq!(healthy, "200");

    let pod = Pod::new("host-pod");
    let attached = node.attach(&pod).await.unwrap();
    pod.configure(&attached);
    for (own, address) in [("172.30.0.1", "10.244.0.2"), ("fd00:30::1", "fd00:10:244::2")] {
        underlay.run(&format!("ping -c 1 -W 2 {address}"));
        pod.netns.run(&format!("ping -c 1 -W 2 {own}"));
    }

    underlay.run("ip address add 172.30.0.7/24 dev eth0");
    until(|| underlay.run("nft list set inet vrouter_host own4").contains("172.30.0.7")).await;
    pod.netns.run("ping -c 1 -W 2 172.30.0.7");
    underlay.run("ip link del vhost0");
    until(|| underlay.run("ip route").contains("dev vhost0 proto 86")).await;

    node.kill();
    let mut node = Node::start_again(node).await;
    until(|| underlay.run("ip -o link show vhost0").contains("LOWER_UP")).await;
    underlay.run("ping -c 1 -W 2 10.244.0.2");
    assert!(node.stop().success());
    let links = underlay.run("ip -o link");
    assert!(!links.contains("vhost0"), "{links}");
    assert_eq!(underlay.run("nft list tables"), "");
    assert_eq!(underlay.run("ip rule"), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_while_a_call_waits_it_leaves_nothing_in_the_nodes_own_stack_either() {
    let underlay = with_link("call");
    let before = underlay.run("ip rule");
    let _controller = Controller::start(&underlay).await;
    let mut node = Node::start(&underlay).await;
    node.tables(1).await;
    assert_ne!(underlay.run("nft list tables"), "");

    let pod = Pod::new("call-pod");
    let mut client = node.client().await;
    let mut other = client.clone();
    // Of this pod the controller says nothing, and it is waited for that.
    let mut call = pin!(client.attach(pod.request("unheard-of")));
    tokio::select! {
        biased;
        reply = &mut call => panic!("{reply:?}"),
        report = other.status(v1::NodeStatusRequest {}) => drop(report.unwrap()),
    }
    assert!(node.stop().success());
    call.await.unwrap_err();
    assert_eq!(underlay.run("nft list tables"), "");
    assert_eq!(underlay.run("ip rule"), before);
    assert!(!underlay.run("ip -o link").contains("vhost0"));
}

/// A node whose address is on a link of its own.
fn with_link(name: &str) -> Netns {
    let underlay = Netns::new(name);
    underlay.run("ip link add eth0 type veth peer name eth1");
    underlay.run("ip link set eth0 up");
    underlay.run("ip link set eth1 up");
    underlay.run("ip address add 172.30.0.1/24 dev eth0");
    underlay.run("ip address add fd00:30::1/64 dev eth0 nodad");
    underlay
}

/// Waits until something is so.
async fn until(mut is_so: impl FnMut() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_3_stopped_in_order_it_leaves_the_pods_interface_and_takes_it_up_again() {
    let underlay = Netns::new("stop");
    underlay.run("ip address add 172.30.0.1/24 dev lo");
    let controller = Controller::start(&underlay).await;
    let mut node = Node::start(&underlay).await;
    node.tables(1).await;
    let pod = Pod::new("stop-pod");
    let attached = node.attach(&pod).await.unwrap();
    pod.configure(&attached);

    assert!(node.stop().success());
    assert!(!node.socket().exists());
    assert!(pod.netns.run("ip -o link show eth0").contains("NO-CARRIER"), "it stays, without a carrier");

    let node = Node::start_again(node).await;
    pod.netns.run("ping -c 1 -W 2 10.244.0.1");
    let report = node.client().await.status(v1::NodeStatusRequest {}).await.unwrap().into_inner();
    assert_eq!((report.interfaces, report.applied_version), (1, 1));
    drop(controller);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_gone_is_forgotten_and_the_controller_told() {
    let underlay = Netns::new("gone");
    underlay.run("ip address add 172.30.0.1/24 dev lo");
    let mut controller = Controller::start(&underlay).await;
    let mut node = Node::start(&underlay).await;
    assert!(controller.hello().await.attachments.is_empty());
    node.tables(1).await;
    let pod = Pod::new("gone-pod");
    node.attach(&pod).await.unwrap();
    node.kill();
    drop(pod);

    let _node = Node::start_again(node).await;
    assert!(controller.hello().await.attachments.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_namespace_vanishes_is_down_until_it_is_detached() {
    let underlay = Netns::new("vanish");
    underlay.run("ip address add 172.30.0.1/24 dev lo");
    let controller = Controller::start(&underlay).await;
    let mut node = Node::start(&underlay).await;
    node.tables(1).await;
    let pod = Pod::new("vanish-pod");
    let attached = node.attach(&pod).await.unwrap();
    let name = pod.netns.name().to_owned();
    drop(pod);
    node.interface_down().await;

    let pod = Pod::named(&name);
    node.detach(&pod).await;
    let again = node.attach(&pod).await.unwrap();
    assert_ne!(again.attachment.unwrap().vmi, attached.attachment.unwrap().vmi);
    pod.netns.run("ip link show eth0");
    drop(controller);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_do_not_share_their_state() {
    let underlay = Netns::new("twin");
    let _node = Node::start(&underlay).await;
    let twin = Node::command(&underlay, "another-run").output().unwrap();
    let said = String::from_utf8(twin.stderr).unwrap();
    assert!(said.contains("another vrouter is running: it holds") && said.contains("/state/"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_never_saw_a_controller_says_so() {
    let underlay = Netns::new("alone");
    let mut node = Node::start(&underlay).await;
    let pod = Pod::new("alone-pod");
    // Until it has tried once, it is worth waiting.
    let error = node.attach(&pod).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::Unavailable);
    assert_eq!(error.message(), "no controller is connected, and no addresses are leased to this node");
    assert!(!pod.netns.run("ip -o link").contains("eth0"));
    let report = tokio::time::timeout(Duration::from_secs(20), node.report()).await.unwrap();
    assert!(report.controller_error.contains("cannot connect"), "{}", report.controller_error);
}
