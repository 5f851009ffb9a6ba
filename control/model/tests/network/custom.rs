//! Custom networks.

use serde_json::{Value, json};
use vrouter_control_model::Kind;
use vrouter_objects::MemberState;

use crate::common::{Cluster, made, service};
use crate::support::{NETWORK, annotated, isolated, namespace, network, plain_pod, subnet, two_nodes};

/// The networks red/net and blue/net, both 10.0.0.0/24; each namespace's pods web and client are in its own.
fn red_and_blue() -> Cluster {
    let mut cluster = two_nodes();
    for colour in ["red", "blue"] {
        cluster.record_network(&format!("{colour}/net"), "10.0.0.0/24");
        cluster.record(annotated(namespace(colour), NETWORK, &format!("{colour}/net")));
        cluster.record(plain_pod(&format!("{colour}/web"), "n1"));
        cluster.record(plain_pod(&format!("{colour}/client"), "n2"));
        let spec =
            json!({ "clusterIP": "10.96.0.80", "selector": { "app": "web" }, "ports": [{ "port": 80 }] });
        cluster.record(service(&format!("{colour}/web"), spec));
    }
    cluster.settle();
    for (i, colour) in ["red", "blue"].into_iter().enumerate() {
        let network = format!("{colour}/net");
        for (node, vmi, pod) in [("n1", 11, "web"), ("n2", 21, "client")] {
            let pod = format!("{colour}/{pod}");
            let (bound, addresses) = cluster.bound(node, &pod);
            assert_eq!(bound, network);
            let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
            cluster.attach_in(&network, node, vmi + i as u32, &pod, &addresses);
        }
    }
    cluster
}

#[test]
fn two_with_the_same_addresses_and_services_are_told_apart() {
    let cluster = red_and_blue();
    assert!(cluster.problems().is_empty(), "{:?}", cluster.problems());
    for colour in ["red", "blue"] {
        let (own, services) = (format!("{colour}/net"), format!("{colour}/net-servicenetwork"));
        let instance = cluster.instance(&own).unwrap();
        assert_eq!(instance.address_space, instance.id);
        assert_eq!(instance.subnets[0].gateway.to_string(), "10.0.0.1");
        assert!(cluster.known_in(&own).is_empty());
        // Picked in order of the pods' names.
        assert_eq!(cluster.bound("n2", &format!("{colour}/client")).1, ["10.0.0.2"]);
        assert_eq!(cluster.bound("n1", &format!("{colour}/web")).1, ["10.0.0.3"]);
        assert_eq!(cluster.way("n2", &own, "10.0.0.3/32"), "to n1");
        assert_eq!(cluster.way("n1", &own, "10.0.0.3/32"), "reject");
        assert_eq!(cluster.way("n1", &own, "10.0.0.0/24"), "reject");
        assert_eq!(cluster.way("n1", &own, "10.244.0.0/16"), "reject", "the cluster's pods are not its own");
        assert_eq!(cluster.way("n1", &own, "10.96.0.0/12"), format!("into {services}"));
        assert_eq!(cluster.way("n1", &services, "10.96.0.0/12"), "reject");
        assert_eq!(cluster.way("n1", &own, "0.0.0.0/0"), "into default/ip-fabric");
        let floating_ip = cluster.floating_ip(&format!("{colour}/web"), true);
        assert_eq!(floating_ip.address.to_string(), "10.96.0.80");
        assert_eq!(floating_ip.vrf, cluster.vrf(&services));
        let member = cluster.member(&format!("{colour}/web"), "10.0.0.3");
        assert_eq!(member.vrf, instance.id);
        assert_eq!(member.name, format!("{colour}/web"));
    }
    for network in ["default/default-podnetwork", "default/ip-fabric"] {
        assert_eq!(cluster.way("n1", network, "10.0.0.3/32"), "none");
        assert_eq!(cluster.way("n1", network, "10.0.0.0/24"), "none");
    }
    let [red, blue] = ["red/web", "blue/web"].map(|service| cluster.floating_ip(service, true));
    assert_ne!(red.id, blue.id);
}

#[test]
fn a_pods_own_word_counts_before_its_namespaces() {
    let mut cluster = red_and_blue();
    cluster.record(annotated(plain_pod("red/guest", "n1"), NETWORK, "blue/net"));
    cluster.record(annotated(plain_pod("red/home", "n1"), NETWORK, "default/default-podnetwork"));
    cluster.record(annotated(plain_pod("free/local", "n1"), NETWORK, " net "));
    cluster.record_network("free/net", "10.9.0.0/24");
    cluster.settle();
    assert_eq!(cluster.bound("n1", "red/guest"), ("blue/net".to_owned(), vec!["10.0.0.4".to_owned()]));
    assert_eq!(cluster.bound("n1", "red/home").0, "default/default-podnetwork");
    assert_eq!(cluster.bound("n1", "free/local").0, "free/net", "a bare name is one of its own namespace");
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    let mut cluster = two_nodes();
    cluster.record(subnet("a/services-v4", "10.100.0.0/16"));
    cluster.record(network("a/services", &["v4"]));
    cluster.record(network("a/dangling", &["v4"]));
    cluster.record(subnet("a/wrong-v4", "fd00::/64"));
    cluster.record(network("a/wrong", &["v4"]));
    cluster.record(network("a/empty", &[]));
    for (i, name) in ["a/services", "a/dangling", "a/wrong", "a/empty", "a/none", "a/b/c"].iter().enumerate()
    {
        cluster.record(annotated(plain_pod(&format!("a/p{i}"), "n1"), NETWORK, name));
    }
    cluster.record(annotated(plain_pod("a/p6", "n1"), NETWORK, "default/ip-fabric"));
    cluster.record(annotated(namespace("b"), NETWORK, "a/none"));
    cluster.record(plain_pod("b/p", "n1"));
    cluster.record(service("b/s", json!({ "ports": [{ "port": 80 }] })));
    cluster.settle();
    let annotation = format!("annotation {NETWORK} of Pod a/p");
    let subnet = "network a/services cannot be used: 10.100.0.0/16 of Subnet a/services-v4 overlaps \
                  10.96.0.0/12, where cluster addresses are";
    for (i, reason) in [
        subnet,
        "network a/dangling cannot be used: there is no Subnet a/dangling-v4",
        "network a/wrong cannot be used: fd00::/64 of Subnet a/wrong-v4 is not IPv4",
        "network a/empty cannot be used: it has no subnet",
        "there is no network a/none",
        "\"a/b/c\" is not namespace/network",
        "network default/ip-fabric is not for pods",
    ]
    .into_iter()
    .enumerate()
    {
        let refusal = cluster.refusal("n1", &format!("a/p{i}"));
        assert_eq!(refusal, format!("pod a/p{i}: {annotation}{i}: {reason}"));
        assert_eq!(cluster.bound("n1", &format!("a/p{i}")).0, "default/ip-fabric", "where no pod is");
    }
    let of_b = format!("annotation {NETWORK} of Namespace b: there is no network a/none");
    assert_eq!(cluster.refusal("n1", "b/p"), format!("pod b/p: {of_b}"));
    assert!(cluster.floating_ips("b/s").is_empty());
    for problem in [
        format!("s.yaml: Service b/s: {of_b}"),
        format!("b.yaml: Namespace b: metadata.annotations[{NETWORK}]: there is no network a/none"),
        "empty.yaml: VirtualNetwork a/empty: spec: it has no subnet".to_owned(),
        "dangling.yaml: VirtualNetwork a/dangling: spec.v4SubnetReference: there is no Subnet a/dangling-v4"
            .to_owned(),
    ] {
        assert!(cluster.problems().contains(&problem), "{problem}: {:#?}", cluster.problems());
    }
}

#[test]
fn subnets_are_what_pods_can_be_in() {
    for (spec, problem) in [
        (
            json!({ "cidr": "10.0.0.0/31" }),
            "spec.cidr: 10.0.0.0/31 has no room for pods: it must be at least a /30",
        ),
        (json!({ "cidr": "224.0.0.0/24" }), "spec.cidr: 224.0.0.0/24 is no prefix that pods can have"),
        (json!({ "cidr": "ten" }), "spec.cidr: \"ten\" is not a prefix"),
        (json!({}), "spec.cidr: \"\" is not a prefix"),
        (
            json!({ "cidr": "10.0.0.0/24", "defaultGateway": "10.0.1.1" }),
            "spec.defaultGateway: 10.0.1.1 cannot be an interface's in 10.0.0.0/24",
        ),
        (
            json!({ "cidr": "10.0.0.0/24", "ranges": [{ "ipRanges": [{ "from": "10.0.0.9", "to": "10.0.0.2" }] }] }),
            "spec.ranges[0].ipRanges[0]: 10.0.0.9 to 10.0.0.2 is no range of 10.0.0.0/24",
        ),
    ] {
        let mut cluster = two_nodes();
        let mut broken = subnet("a/net-v4", "");
        broken["spec"] = spec;
        cluster.record(broken);
        cluster.apply(network("a/net", &["v4"]));
        assert!(cluster.instance("a/net").is_none());
        assert!(
            cluster.problems().contains(&format!("net-v4.yaml: Subnet a/net-v4: {problem}")),
            "{problem}"
        );
        cluster.apply(subnet("a/net-v4", "10.0.0.0/24"));
        assert!(cluster.instance("a/net").is_some() && cluster.problems().is_empty());
    }
}

#[test]
fn both_families_gateways_and_ranges_are_as_the_subnets_say() {
    let mut cluster = two_nodes();
    let mut v4 = subnet("a/net-v4", "10.0.0.0/24");
    v4["spec"]["defaultGateway"] = "10.0.0.254".into();
    v4["spec"]["ranges"] =
        json!([{ "key": "k", "ipRanges": [{ "from": "10.0.0.100", "to": "10.0.0.101" }] }]);
    cluster.record(v4);
    cluster.record(subnet("a/net-v6", "fd00:a::/64"));
    cluster.record(network("a/net", &["v4", "v6"]));
    for name in ["a", "b", "c"] {
        cluster.record(annotated(plain_pod(&format!("a/{name}"), "n1"), NETWORK, "a/net"));
    }
    cluster.settle();
    let gateways: Vec<_> =
        cluster.instance("a/net").unwrap().subnets.iter().map(|one| one.gateway.to_string()).collect();
    assert_eq!(gateways, ["10.0.0.254", "fd00:a::1"]);
    assert_eq!(cluster.bound("n1", "a/a").1, ["10.0.0.100", "fd00:a::2"]);
    assert_eq!(cluster.bound("n1", "a/b").1, ["10.0.0.101", "fd00:a::3"]);
    assert_eq!(cluster.refusal("n1", "a/c"), "pod a/c: network a/net has no free address in 10.0.0.0/24");
    assert_eq!(cluster.problems(), ["c.yaml: Pod a/c: network a/net has no free address in 10.0.0.0/24"]);
    // Who waits is served when somebody leaves.
    cluster.delete(Kind::Pod, "a/a");
    assert_eq!(cluster.bound("n1", "a/c").1[0], "10.0.0.100");
    assert!(cluster.problems().is_empty());
}

#[test]
fn an_address_is_one_pods_at_a_time() {
    let mut cluster = two_nodes();
    cluster.record_network("a/net", "10.0.0.0/29");
    let of_net = |name: &str, uid: &str| {
        let mut pod = annotated(plain_pod(&format!("a/{name}"), "n1"), NETWORK, "a/net");
        pod["metadata"]["uid"] = uid.into();
        pod
    };
    let wishing = |name: &str, address: &str| {
        annotated(of_net(name, name), "net.juniper.contrail.podnetwork.ip", address)
    };
    cluster.record(wishing("wish", "10.0.0.2"));
    cluster.apply(of_net("any", "1"));
    assert_eq!(cluster.bound("n1", "a/wish").1, ["10.0.0.2"]);
    assert_eq!(cluster.bound("n1", "a/any").1, ["10.0.0.3"], "what is asked for by name is not picked");
    cluster.apply(wishing("late", "10.0.0.3"));
    assert_eq!(cluster.refusal("n1", "a/late"), "pod a/late: 10.0.0.3 is pod a/any's already");
    cluster.apply(wishing("gateway", "10.0.0.1"));
    assert_eq!(cluster.refusal("n1", "a/gateway"), "pod a/gateway: 10.0.0.1 is reserved in the pod network");
    // Another pod of the name: the old one's address is its own until its interface is gone.
    let mut attached = crate::common::attachment(5, "a/any", &["10.0.0.3"]);
    (attached.vrf, attached.uid) = (cluster.vrf("a/net"), "1".to_owned());
    cluster.model.attach("n1", attached);
    cluster.settle();
    cluster.apply(of_net("any", "2"));
    assert_eq!(cluster.bound("n1", "a/any").1, ["10.0.0.4"]);
    cluster.detach("n1", 5);
    assert_eq!(cluster.bound("n1", "a/late").1, ["10.0.0.3"], "now it is free");
    assert_eq!(cluster.bound("n1", "a/any").1, ["10.0.0.4"], "and what was picked stays");
}

#[test]
fn members_are_in_the_services_own_network_or_beyond_all_of_them() {
    let mut cluster = red_and_blue();
    let mut host = plain_pod("red/web-host", "n2");
    host["metadata"]["labels"]["app"] = "web".into();
    host["spec"]["hostNetwork"] = true.into();
    cluster.record(host);
    let mut guest = annotated(plain_pod("red/guest", "n1"), NETWORK, "blue/net");
    guest["metadata"]["labels"]["app"] = "web".into();
    cluster.apply(guest);
    cluster.attach_in("blue/net", "n1", 31, "red/guest", &["10.0.0.4"]);
    assert_eq!(cluster.members("red/web", "TCP/80", MemberState::Ready), ["10.0.0.3:80", "172.30.0.2:80"]);
    assert_eq!(cluster.member("red/web", "172.30.0.2").vrf.get(), 3);
    let message = "red/guest: no member, as it is not in network red/net, where members are";
    assert_eq!(cluster.problems(), [format!("web.yaml: Service red/web: {message}")]);
    // An address alone: what is in the network is there, the cluster's pods are out of reach, all else is outside.
    cluster.record(service("red/all", json!({ "ports": [{ "port": 80 }] })));
    let addresses = crate::common::endpoints(&["10.0.0.9", "10.244.1.1", "198.51.100.1"]);
    cluster.apply(crate::common::slice("red/all", "all", json!([{ "port": 80 }]), addresses));
    let red = cluster.vrf("red/net");
    assert_eq!(cluster.members("red/all", "TCP/80", MemberState::Ready), ["10.0.0.9:80", "198.51.100.1:80"]);
    assert_eq!(cluster.member("red/all", "10.0.0.9").vrf, red);
    assert_eq!(cluster.member("red/all", "198.51.100.1").vrf.get(), 3);
}

#[test]
fn a_service_goes_where_its_own_annotation_says() {
    let mut cluster = red_and_blue();
    let spec = json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }] });
    cluster.apply(annotated(service("red/other", spec), NETWORK, "blue/net"));
    assert_eq!(cluster.floating_ip("red/other", true).vrf, cluster.vrf("blue/net-servicenetwork"));
    assert!(cluster.members("red/other", "TCP/80", MemberState::Ready).is_empty(), "red's are not in it");
    assert_eq!(cluster.floating_ip("red/other", true).address.to_string(), "10.96.1.1");
}

fn with_vni(name: &str, year: u32, vni: i64) -> Value {
    let mut network = made(year, network(name, &["v4"]));
    network["spec"]["virtualNetworkNetworkId"] = vni.into();
    network
}

#[test]
fn a_vni_is_one_networks() {
    let mut cluster = two_nodes();
    for name in ["a/one", "a/two", "a/pods"] {
        cluster.record_network(name, "10.0.0.0/24");
    }
    cluster.record(with_vni("a/two", 2021, 700));
    cluster.apply(with_vni("a/pods", 2020, 1));
    let vni = |cluster: &Cluster, name: &str| cluster.instance(name).unwrap().vni.get();
    assert_eq!(vni(&cluster, "a/two"), 700);
    let picked = vni(&cluster, "a/pods");
    let taken = format!(
        "pods.yaml: VirtualNetwork a/pods: spec.virtualNetworkNetworkId: \
         1 is network default/default-podnetwork's already: it has {picked}"
    );
    assert_eq!(cluster.problems(), std::slice::from_ref(&taken));
    // Of two that name one, the older has it.
    cluster.apply(with_vni("a/one", 2020, 700));
    assert_eq!(vni(&cluster, "a/one"), 700);
    let second = vni(&cluster, "a/two");
    assert!(second >= 4096);
    let lost = format!(
        "two.yaml: VirtualNetwork a/two: spec.virtualNetworkNetworkId: \
         700 is network a/one's already: it has {second}"
    );
    assert_eq!(cluster.problems(), [taken, lost]);
    cluster.delete(Kind::VirtualNetwork, "a/one");
    assert_eq!(vni(&cluster, "a/two"), 700);
    cluster.apply(with_vni("a/pods", 2020, 1 << 24));
    let range = "spec.virtualNetworkNetworkId: 16777216 is no VNI: they are 1 to 16777215";
    assert_eq!(cluster.problems(), [format!("pods.yaml: VirtualNetwork a/pods: {range}")]);
}

#[test]
fn what_nobody_does_is_said() {
    let mut network = network("a/net", &["v4"]);
    network["spec"]["fabricSNAT"] = false.into();
    network["spec"]["fabricForwarding"] = true.into();
    let unserved = crate::common::object(network).unserved();
    let fields: Vec<_> = unserved.iter().map(|finding| finding.field.as_str()).collect();
    assert_eq!(fields, ["spec.fabricSNAT", "spec.fabricForwarding"]);
}

#[test]
fn no_service_network_is_two_networks() {
    let mut cluster = two_nodes();
    cluster.record(isolated("shop"));
    for name in ["shop/default", "default/default"] {
        cluster.record_network(name, "10.0.0.0/24");
    }
    cluster.record(annotated(plain_pod("shop/web", "n1"), NETWORK, "shop/default"));
    cluster.settle();
    let reason = "its service network would be default-servicenetwork, which is there without it";
    assert!(cluster.refusal("n1", "shop/web").ends_with(reason), "{}", cluster.refusal("n1", "shop/web"));
    for name in ["shop/default", "default/default"] {
        assert!(cluster.instance(name).is_none());
        let problem = format!("default.yaml: VirtualNetwork {name}: metadata.name: {reason}");
        assert!(cluster.problems().contains(&problem), "{:#?}", cluster.problems());
    }
    let shared = cluster.instance("shop/default-servicenetwork").unwrap().address_space;
    assert_eq!(shared, cluster.vrf("default/default-servicenetwork"));
    assert_eq!(shared.get(), 2);
}

#[test]
fn a_pod_that_is_on_no_node_yet_lacks_nothing() {
    let mut cluster = two_nodes();
    cluster.record_network("red/net", "10.0.0.0/24");
    let mut waiting = annotated(plain_pod("red/web", "n1"), NETWORK, "red/net");
    waiting["spec"].as_object_mut().unwrap().remove("nodeName");
    cluster.apply(waiting);
    assert!(cluster.problems().is_empty(), "{:#?}", cluster.problems());
    cluster.apply(annotated(plain_pod("red/web", "n1"), NETWORK, "red/net"));
    assert_eq!(cluster.bound("n1", "red/web"), ("red/net".to_owned(), vec!["10.0.0.2".to_owned()]));
}
