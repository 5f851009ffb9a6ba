//! Nodes: blocks, leases, tunnel ends and their routes.
#![allow(missing_docs)]

mod common;

use common::{Cluster, attachment, node};
use serde_json::{Value, json};
use vrouter_control_model::{Kind, Layer};
use vrouter_objects::{MacAddress, NextHop, Object, ObjectKey, RouterId, VirtualRouter};

fn router(cluster: &Cluster, name: &str) -> Option<VirtualRouter> {
    cluster.router(name)
}

fn with_blocks(name: &str, address: &str, blocks: &[&str]) -> Value {
    let mut node = node(name, address);
    node["spec"] = json!({ "podCIDRs": blocks });
    node
}

fn kernel(name: &str, block: &str, mac: &str) -> Value {
    let mut node = with_blocks(name, "192.0.2.9", &[block]);
    node["metadata"]["annotations"] = json!({
        "flannel.alpha.coreos.com/backend-data": format!("{{\"VNI\":1,\"VtepMAC\":\"{mac}\"}}"),
        "flannel.alpha.coreos.com/public-ip": "172.30.0.3",
    });
    node
}

#[test]
fn each_node_has_a_block_of_its_own_and_none_has_the_gateways() {
    let cluster = Cluster::with_two_nodes();
    assert_eq!(cluster.leases("n1"), ["10.244.1.0/24", "fd00:10:244:1::/64"]);
    assert_eq!(cluster.leases("n2"), ["10.244.2.0/24", "fd00:10:244:2::/64"]);
    let n1 = router(&cluster, "n1").unwrap();
    assert_eq!(n1.mac, MacAddress::local(0x56, n1.id.get()));
    assert_eq!(cluster.route("n1", "10.244.1.0/24"), Some(NextHop::Reject));
    assert_eq!(cluster.route("n2", "10.244.1.0/24"), Some(NextHop::Tunnel(n1.id)));
    assert_eq!(cluster.route("n2", "fd00:10:244:1::/64"), Some(NextHop::Tunnel(n1.id)));
}

#[test]
fn named_blocks_are_used_as_they_are() {
    let mut cluster = Cluster::new();
    cluster.record(node("a", "172.30.0.1"));
    cluster.apply(with_blocks("b", "172.30.0.2", &["10.244.1.0/24"]));
    assert_eq!(cluster.leases("b"), ["10.244.1.0/24", "fd00:10:244:2::/64"]);
    assert_eq!(cluster.leases("a")[0], "10.244.2.0/24", "none is picked from under a node");
}

#[test]
fn blocks_that_cannot_be_given() {
    for (block, part) in [
        ("10.244.1.0/25", "overlaps 10.244.1.0/24 of node n1"),
        ("192.168.0.0/24", "is no part of the pod network"),
        ("10.244.x.0/24", "\"10.244.x.0/24\" is not a prefix"),
    ] {
        let mut cluster = Cluster::with_two_nodes();
        cluster.apply(with_blocks("n3", "172.30.0.3", &[block]));
        let problems = cluster.problems();
        assert!(
            problems.len() == 1
                && problems[0].contains("n3.yaml: Node n3: spec.podCIDRs[0]: ")
                && problems[0].contains(part),
            "{problems:?}"
        );
        assert!(router(&cluster, "n3").is_some(), "the rest of the node is used");
    }
    // The overlap ends with the other node.
    let mut cluster = Cluster::with_two_nodes();
    cluster.apply(with_blocks("n3", "172.30.0.3", &["10.244.1.0/25"]));
    cluster.delete(Kind::Node, "n1");
    assert_eq!(cluster.leases("n3")[0], "10.244.1.0/25");
    assert!(cluster.problems().is_empty());
}

#[test]
fn ctrl_17_a_node_that_is_made_anew_is_taken_as_it_is() {
    let mut cluster = Cluster::with_two_nodes();
    cluster.apply(with_blocks("n3", "172.30.0.3", &["10.244.7.0/24"]));
    cluster.delete(Kind::Node, "n3");
    assert_eq!(cluster.route("n1", "10.244.7.0/24"), None);
    cluster.apply(with_blocks("n3", "172.30.0.33", &["10.244.8.0/24"]));
    let n3 = router(&cluster, "n3").unwrap();
    assert_eq!(n3.address.to_string(), "172.30.0.33");
    assert_eq!(cluster.route("n1", "10.244.8.0/24"), Some(NextHop::Tunnel(n3.id)));
    assert_eq!(cluster.route("n1", "10.244.7.0/24"), None);
    assert_eq!(cluster.leases("n3")[0], "10.244.8.0/24");
    // A change in place.
    cluster.apply(with_blocks("n3", "172.30.0.34", &["10.244.9.0/24"]));
    assert_eq!(router(&cluster, "n3").unwrap().address.to_string(), "172.30.0.34");
    assert_eq!(cluster.leases("n3")[0], "10.244.9.0/24");
}

#[test]
fn vxlan_6_a_kernel_nodes_mac_is_followed() {
    let mut cluster = Cluster::with_two_nodes();
    for mac in ["02:aa:00:00:00:01", "02:aa:00:00:00:02"] {
        cluster.apply(kernel("k1", "10.244.9.0/24", mac));
        let k1 = router(&cluster, "k1").unwrap();
        assert_eq!((k1.mac.to_string().as_str(), k1.address.to_string().as_str()), (mac, "172.30.0.3"));
        assert_eq!(cluster.route("n1", "10.244.9.0/24"), Some(NextHop::Tunnel(k1.id)));
    }
    assert!(cluster.leases("k1").is_empty(), "a kernel node is leased nothing");
}

#[test]
fn a_block_is_given_again_only_when_nothing_is_left_in_it() {
    let mut cluster = Cluster::with_two_nodes();
    let before = router(&cluster, "n1").unwrap().id;
    cluster.attach("n1", 1, "default/web-0", &["10.244.1.5"]);
    cluster.delete(Kind::Node, "n1");
    // The same node comes back to what it had.
    cluster.apply(node("n1", "172.30.0.1"));
    assert_eq!(
        (cluster.leases("n1")[0].as_str(), router(&cluster, "n1").unwrap().id),
        ("10.244.1.0/24", before)
    );
    // Fresh blocks come first, and then only one that nobody uses.
    cluster.delete(Kind::Node, "n1");
    cluster.delete(Kind::Node, "n2");
    for i in 3..256 {
        cluster.record(node(&format!("m{i}"), &format!("172.31.0.{i}")));
    }
    cluster.settle();
    assert!(cluster.problems().is_empty());
    cluster.apply(node("late", "172.31.1.1"));
    assert_eq!(cluster.leases("late")[0], "10.244.2.0/24");
    cluster.apply(node("later", "172.31.1.2"));
    assert_eq!(
        cluster.problems(),
        ["later.yaml: Node later: spec.podCIDRs: no block out of 10.244.0.0/16: all are taken"]
    );
    cluster.detach("n1", 1);
    assert_eq!(cluster.leases("later")[0], "10.244.1.0/24");
}

#[test]
fn interface_ids_are_renewed_before_they_run_out() {
    let lease = |cluster: &Cluster| {
        let own = |(layer, _): &(Layer, ObjectKey)| *layer == Layer::Node("n1".to_owned());
        let mut leases = cluster.tables.iter().filter(|(place, _)| own(place));
        leases.find_map(|(_, object)| match &**object {
            Object::AddressLease(lease) if lease.prefix.addr().is_ipv4() => Some(lease.clone()),
            _ => None,
        })
    };
    let mut cluster = Cluster::with_two_nodes();
    let first = lease(&cluster).unwrap();
    cluster.attach("n1", first.first_vmi, "default/a", &["10.244.1.5"]);
    assert_eq!(lease(&cluster).unwrap(), first);
    cluster.attach("n1", first.first_vmi + first.vmi_count / 2, "default/b", &["10.244.1.6"]);
    let second = lease(&cluster).unwrap();
    assert_eq!((second.id, second.prefix), (first.id, first.prefix));
    assert!(second.first_vmi > 4 * first.vmi_count, "a range that no other lease has");
}

#[test]
fn what_a_node_does_not_report_any_more_is_gone() {
    let mut cluster = Cluster::with_two_nodes();
    cluster.attach("n1", 1, "default/a", &["10.244.7.1"]);
    cluster.attach("n1", 2, "default/b", &["10.244.7.2"]);
    cluster.attach("n2", 3, "default/c", &["10.244.7.3"]);
    cluster.model.attached("n1", vec![attachment(2, "default/b", &["10.244.7.2"])]);
    cluster.settle();
    let n1 = RouterId::new(1).unwrap();
    assert_eq!(cluster.route("n2", "10.244.7.1/32"), None);
    assert_eq!(cluster.route("n2", "10.244.7.2/32"), Some(NextHop::Tunnel(n1)));
    assert!(cluster.route("n1", "10.244.7.3/32").is_some());
}

#[test]
fn a_block_in_use_is_nobody_elses() {
    // Of a node that is gone.
    let mut cluster = Cluster::with_two_nodes();
    cluster.attach("n1", 1, "default/web-0", &["10.244.1.5"]);
    cluster.delete(Kind::Node, "n1");
    cluster.apply(with_blocks("n3", "172.30.0.3", &["10.244.1.0/24"]));
    let problem = "n3.yaml: Node n3: spec.podCIDRs[0]: 10.244.1.0/24 overlaps 10.244.1.0/24, where pods of node n1 still have addresses";
    assert_eq!(cluster.problems(), [problem]);
    cluster.detach("n1", 1);
    assert_eq!(cluster.leases("n3")[0], "10.244.1.0/24");
    assert!(cluster.problems().is_empty());

    // Taken from a node that stays.
    let mut cluster = Cluster::with_two_nodes();
    cluster.attach("n1", 1, "default/web-0", &["10.244.1.5"]);
    cluster.apply(with_blocks("n1", "172.30.0.1", &["10.244.9.0/24"]));
    let mut restarted = Cluster::from_state(cluster.saved_state());
    for cluster in [&mut cluster, &mut restarted] {
        cluster.record(with_blocks("n1", "172.30.0.1", &["10.244.9.0/24"]));
        cluster.record(node("n2", "172.30.0.2"));
        cluster.record(node("n4", "172.30.0.4"));
        cluster.apply(with_blocks("n3", "172.30.0.3", &["10.244.1.0/25"]));
        assert_eq!(cluster.leases("n4")[0], "10.244.3.0/24", "it is not picked either");
        assert!(cluster.problems()[0].contains("where pods of node n1 still have addresses"));
        // Its own node may have it back.
        cluster.apply(with_blocks("n1", "172.30.0.1", &["10.244.1.0/24"]));
        assert_eq!(cluster.leases("n1")[0], "10.244.1.0/24");
        cluster.apply(with_blocks("n1", "172.30.0.1", &["10.244.9.0/24"]));
        cluster.detach("n1", 1);
        assert_eq!(cluster.leases("n3")[0], "10.244.1.0/25");
        assert!(cluster.problems().is_empty());
    }
}

#[test]
fn one_family_carries_all_tunnels() {
    let mut cluster = Cluster::new();
    cluster.apply(node("n6", "fd00::6"));
    assert_eq!(router(&cluster, "n6").unwrap().address.to_string(), "fd00::6");
    cluster.apply(node("n4", "172.30.0.4"));
    assert!(router(&cluster, "n6").is_none() && router(&cluster, "n4").is_some());
    assert_eq!(
        cluster.problems(),
        [
            "n6.yaml: Node n6: status.addresses: fd00::6 is not IPv4, as the tunnels of this cluster are: none reaches this node"
        ]
    );
    cluster.apply(node("m6", "fd00::7"));
    assert!(router(&cluster, "n6").is_some() && router(&cluster, "n4").is_none(), "most nodes decide");
    cluster.delete(Kind::Node, "n4");
    assert!(router(&cluster, "n6").is_some() && cluster.problems().is_empty());
}

#[test]
fn a_kernel_node_of_another_vni_or_of_none_that_can_be_read() {
    let mut cluster = Cluster::with_two_nodes();
    let mut node = kernel("k1", "10.244.9.0/24", "02:aa:00:00:00:01");
    let annotation = &mut node["metadata"]["annotations"]["flannel.alpha.coreos.com/backend-data"];
    *annotation = json!("{\"VNI\":7,\"VtepMAC\":\"02:aa:00:00:00:01\"}");
    cluster.apply(node.clone());
    assert!(cluster.problems()[0].contains("VNI 7 is not the pod network's, which is 1"));
    node["metadata"]["annotations"]["flannel.alpha.coreos.com/backend-data"] = json!("{");
    cluster.apply(node);
    assert!(router(&cluster, "k1").is_none() && cluster.leases("k1").is_empty(), "it is not taken for ours");
    assert_eq!(cluster.route("n1", "10.244.9.0/24"), None);
    assert_eq!(cluster.problems().len(), 1);
}
