//! The network by whose addresses each node reaches its own pods.

use serde_json::{Value, json};
use vrouter_control_model::{DocumentKind, Layer, Selection, State};
use vrouter_objects::{MemberState, NetworkKind};

use crate::common::{
    Cluster, config, config_with_link_local, endpoints, node, pod, running, service, slice, tables,
};
use crate::support::{NETWORK, annotated, bare, isolated, labelled, namespace, plain_pod, router, subnet};

const LINK_LOCAL: &str = "default/link-local";
const FABRIC: &str = "default/ip-fabric";
/// Prefixes that somebody else may have as well.
const PREFIXES: [&str; 2] = ["100.64.0.0/18", "fd00:169:254::/112"];

/// The nodes n1 and n2, and a link-local network.
fn two_nodes() -> Cluster {
    two_nodes_with(PREFIXES, State::default())
}

fn two_nodes_with(prefixes: [&str; 2], state: State) -> Cluster {
    let mut cluster = Cluster::build(config_with_link_local(prefixes), state);
    cluster.record(node("n1", "172.30.0.1"));
    cluster.record(node("n2", "172.30.0.2"));
    cluster.settle();
    cluster
}

/// An interface comes up, or is reported again, with these link-local addresses.
fn attach(cluster: &mut Cluster, vmi: u32, pod: &str, address: &str, link_local: &[&str]) -> usize {
    let mut attachment = crate::common::attachment(vmi, pod, &[address]);
    attachment.link_local = link_local.iter().map(|address| address.parse().unwrap()).collect();
    cluster.model.attach("n1", attachment);
    cluster.settle()
}

fn instance_ip(cluster: &Cluster, name: &str) -> Option<Value> {
    let found = cluster.model.documents(DocumentKind::InstanceIp, Selection::Named(name));
    found.first().map(|document| serde_json::to_value(document).unwrap()["spec"].clone())
}

#[test]
fn every_node_holds_it_and_leads_there_from_its_own_network_alone() {
    let mut cluster = two_nodes();
    cluster.record(isolated("shop"));
    cluster.record_network("red/net", "10.0.0.0/24");
    cluster.settle();
    let instance = cluster.instance(LINK_LOCAL).unwrap();
    assert_eq!(instance.kind, NetworkKind::LinkLocal);
    assert_eq!((instance.address_space, instance.known_in.len()), (instance.id, 0));
    let subnets: Vec<_> =
        instance.subnets.iter().map(|one| (one.prefix.to_string(), one.gateway.to_string())).collect();
    let expected = [("100.64.0.0/18", "100.64.0.1"), ("fd00:169:254::/112", "fd00:169:254::1")];
    assert_eq!(subnets, expected.map(|(prefix, gateway)| (prefix.to_owned(), gateway.to_owned())));
    let own = Layer::Network(instance.id);
    for node in ["n1", "n2"] {
        assert!(cluster.interest(node).contains(&own), "{node} has no pods, and holds it all the same");
        for prefix in PREFIXES {
            assert_eq!(cluster.way(node, LINK_LOCAL, prefix), "reject");
            assert_eq!(cluster.way(node, FABRIC, prefix), format!("into {LINK_LOCAL}"));
            for network in ["default/default-podnetwork", "shop/default-podnetwork", "red/net"] {
                assert_eq!(cluster.way(node, network, prefix), "none");
            }
        }
    }
    assert!(cluster.problems().is_empty());
}

#[test]
fn it_is_numbered_by_its_name_and_found_again_with_other_prefixes() {
    let mut before = Cluster::build(config(), State::default());
    before.record_network("a/net", "10.0.0.0/24");
    before.settle();
    assert!(before.instance(LINK_LOCAL).is_none());
    let (taken, state) = (before.vrf("a/net"), before.saved_state());
    let with = |prefixes, state| {
        let mut cluster = two_nodes_with(prefixes, state);
        cluster.record_network("a/net", "10.0.0.0/24");
        cluster.settle();
        cluster
    };
    // What a controller that knew no such network saved stays as it is.
    let first = with(PREFIXES, state);
    let number = first.vrf(LINK_LOCAL);
    assert_eq!(first.vrf("a/net"), taken);
    assert!(number > first.vrf("a/net-servicenetwork"));
    let others = with(["169.254.64.0/18", PREFIXES[1]], first.saved_state());
    assert_eq!(others.vrf(LINK_LOCAL), number);
    for network in [LINK_LOCAL, FABRIC] {
        assert_eq!(others.way("n1", network, PREFIXES[0]), "none", "{network}");
        assert_ne!(others.way("n1", network, "169.254.64.0/18"), "none", "{network}");
    }
    let mut without = Cluster::build(config(), others.saved_state());
    without.settle();
    assert!(without.instance(LINK_LOCAL).is_none());
    assert_eq!(without.way("n1", FABRIC, PREFIXES[1]), "none");
}

#[test]
fn a_manifest_gives_it_labels_and_neither_pods_nor_services_nor_routers_find_it() {
    let mut cluster = two_nodes();
    let label = [("vn", "x")];
    cluster.record_network("default/net", "10.0.0.0/24");
    cluster.record(labelled(crate::support::network("default/net", &["v4"]), &label));
    cluster.record(labelled(bare(LINK_LOCAL), &label));
    cluster.record(router("default/mesh", "mesh", json!({ "vn": "x" }), &[]));
    cluster.settle();
    assert!(cluster.problems().is_empty(), "{:?}", cluster.problems());
    let documents = cluster.documents(DocumentKind::VirtualNetworkRouter);
    let selected = documents[0]["spec"]["virtualNetworkReferences"].as_array().unwrap();
    assert_eq!((selected.len(), &selected[0]["name"]), (1, &json!("net")));
    assert!(cluster.leaks("default/net").is_empty() && cluster.leaks(LINK_LOCAL).is_empty());

    cluster.record(annotated(plain_pod("a/web", "n1"), NETWORK, LINK_LOCAL));
    cluster.record(annotated(service("a/web", json!({ "ports": [{ "port": 80 }] })), NETWORK, LINK_LOCAL));
    cluster.record(annotated(namespace("b"), NETWORK, LINK_LOCAL));
    cluster.record(crate::support::network(LINK_LOCAL, &["v4"]));
    cluster.settle();
    let reason = "network default/link-local is not for pods";
    let annotation = |asker: &str| format!("annotation {NETWORK} of {asker}: {reason}");
    let refusal = annotation("Pod a/web");
    assert_eq!(cluster.refusal("n1", "a/web"), format!("pod a/web: {refusal}"));
    assert!(cluster.floating_ips("a/web").is_empty());
    let field = format!("metadata.annotations[{NETWORK}]");
    let more = "is a network's that is there without it: a manifest gives it labels and nothing else";
    let problems = [
        format!("b.yaml: Namespace b: {field}: {reason}"),
        format!("link-local.yaml: VirtualNetwork default/link-local: metadata.name: {more}"),
        format!("web.yaml: Pod a/web: {field}: {refusal}"),
        format!("web.yaml: Service a/web: {field}: {}", annotation("Service a/web")),
    ];
    assert_eq!(cluster.problems(), problems);
    assert_eq!(cluster.way("n1", LINK_LOCAL, PREFIXES[0]), "reject", "it is as it was");
}

#[test]
fn its_name_is_no_custom_networks_even_where_there_is_none() {
    let mut cluster = Cluster::new();
    cluster.record(subnet("default/link-local-v4", "10.0.0.0/24"));
    cluster.record(crate::support::network(LINK_LOCAL, &["v4"]));
    cluster.settle();
    assert!(cluster.instance(LINK_LOCAL).is_none());
    assert_eq!(cluster.problems().len(), 1, "{:?}", cluster.problems());
}

#[test]
fn a_custom_network_may_have_the_same_addresses() {
    let mut cluster = two_nodes();
    cluster.record_network("red/net", PREFIXES[0]);
    cluster.record(annotated(plain_pod("red/web", "n1"), NETWORK, "red/net"));
    cluster.settle();
    let (network, addresses) = cluster.bound("n1", "red/web");
    assert_eq!((network.as_str(), addresses), ("red/net", vec!["100.64.0.2".to_owned()]));
    cluster.attach_in("red/net", "n1", 11, "red/web", &["100.64.0.2"]);
    assert_eq!(cluster.way("n2", "red/net", "100.64.0.2/32"), "to n1");
    assert_eq!(cluster.way("n2", FABRIC, "100.64.0.2/32"), "none");
    let mut written = annotated(service("red/web", json!({ "ports": [{ "port": 80 }] })), NETWORK, "red/net");
    written["metadata"]["namespace"] = "red".into();
    cluster.record(written);
    cluster.apply(slice("red/web", "web", json!([{ "port": 80 }]), endpoints(&["100.64.0.2"])));
    assert_eq!(cluster.members("red/web", "TCP/80", MemberState::Ready), ["100.64.0.2:80"]);
    assert!(cluster.problems().is_empty(), "{:?}", cluster.problems());
}

#[test]
fn its_addresses_are_no_nodes_no_services_and_no_members() {
    let mut cluster = two_nodes();
    let mut odd = node("n3", "172.30.0.3");
    let stated = [("InternalIP", "172.30.0.3"), ("ExternalIP", "100.64.0.9")];
    odd["status"]["addresses"] =
        stated.iter().map(|(kind, address)| json!({ "type": kind, "address": address })).collect();
    cluster.record(odd);
    cluster.record(node("n4", "100.64.0.10"));
    let spec = json!({ "externalIPs": ["192.0.2.1", "100.64.0.11"], "ports": [{ "port": 80 }] });
    cluster.record(service("web", spec));
    cluster.record(slice("web", "web", json!([{ "port": 80 }]), endpoints(&["100.64.0.12", "192.0.2.7"])));
    cluster.settle();
    let known = cluster.router("n3").unwrap().addresses;
    assert_eq!(known, ["172.30.0.3".parse::<std::net::IpAddr>().unwrap()]);
    assert!(cluster.router("n4").is_none(), "no tunnel could reach it");
    for address in ["100.64.0.9", "100.64.0.10"] {
        assert_eq!(cluster.way("n1", FABRIC, &format!("{address}/32")), "none");
    }
    assert_eq!(cluster.external("default/web"), ["ip 192.0.2.1"]);
    assert_eq!(cluster.members("default/web", "TCP/80", MemberState::Ready), ["192.0.2.7:80"]);
    let of_node = "is an address of the link-local network: no node has it";
    let foreign = "no member, as it is not in network default/default-podnetwork, where members are";
    let of_service = "is an address of the link-local network: nobody outside reaches it";
    let problems = [
        format!("n3.yaml: Node n3: status.addresses[1].address: 100.64.0.9 {of_node}"),
        format!("n4.yaml: Node n4: status.addresses[0].address: 100.64.0.10 {of_node}"),
        format!("web.yaml: Service default/web: 100.64.0.12: {foreign}"),
        format!("web.yaml: Service default/web: spec.externalIPs[1]: 100.64.0.11 {of_service}"),
    ];
    assert_eq!(cluster.problems(), problems);
}

#[test]
fn an_interfaces_link_local_addresses_are_shown_and_mean_nothing_to_others() {
    let mut cluster = two_nodes();
    let peers = json!({ "from": [{ "podSelector": {} }] });
    cluster.record(json!({
        "kind": "NetworkPolicy", "metadata": crate::common::metadata("all"),
        "spec": { "podSelector": {}, "ingress": [peers] },
    }));
    cluster.record(service("web", json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }] })));
    cluster.record(pod("web", "web", "n1", running("10.244.1.5", true)));
    cluster.settle();
    attach(&mut cluster, 11, "default/web", "10.244.1.5", &[]);
    let (without, tables_without) = (cluster.saved_state(), cluster.tables.clone());
    assert!(instance_ip(&cluster, "default/web-eth0-link-local-v4").is_none());

    let own = ["100.64.0.11", "fd00:169:254::b"];
    assert_eq!(attach(&mut cluster, 11, "default/web", "10.244.1.5", &own), 0, "nothing is recomputed");
    assert_eq!(cluster.tables, tables_without);
    for (family, address) in [("v4", own[0]), ("v6", own[1])] {
        let shown = instance_ip(&cluster, &format!("default/web-eth0-link-local-{family}")).unwrap();
        assert_eq!(
            (&shown["instanceIPAddress"], &shown["instanceIPFamily"]),
            (&json!(address), &json!(family))
        );
        assert_eq!(shown["virtualNetworkReference"]["name"], "link-local");
        assert_eq!(shown["virtualMachineInterfaceReferences"][0]["name"], "web-eth0");
    }
    assert_eq!(instance_ip(&cluster, "default/web-eth0-v4").unwrap()["instanceIPAddress"], "10.244.1.5");
    // The same address is another pod's on another node.
    let mut other = crate::common::attachment(21, "default/other", &["10.244.2.5"]);
    other.link_local = vec![own[0].parse().unwrap()];
    cluster.record(plain_pod("other", "n2"));
    cluster.model.attach("n2", other);
    cluster.settle();
    assert!(cluster.problems().is_empty(), "{:?}", cluster.problems());
    assert!(instance_ip(&cluster, "default/other-eth0-link-local-v4").is_some());
    assert!(!tables(&cluster.model).values().any(|object| format!("{object:?}").contains(own[0])));

    // They are kept, and a state from before there were any is taken up.
    let again = two_nodes_with(PREFIXES, cluster.saved_state());
    assert!(instance_ip(&again, "default/web-eth0-link-local-v6").is_some());
    let text = serde_json::to_string(&without).unwrap().replace(",\"link_local\":[]", "");
    assert!(!text.contains("link_local"), "{text}");
    two_nodes_with(PREFIXES, serde_json::from_str(&text).unwrap());
}

#[test]
fn a_new_link_local_address_makes_no_older_interface_the_latest() {
    let mut cluster = two_nodes();
    cluster.record(service("web", json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }] })));
    cluster.apply(pod("web", "web", "n1", running("10.244.1.5", true)));
    attach(&mut cluster, 11, "default/web", "10.244.1.5", &["100.64.0.11"]);
    attach(&mut cluster, 12, "default/web", "10.244.1.6", &["100.64.0.12"]);
    let members = |cluster: &Cluster| cluster.members("default/web", "TCP/80", MemberState::Ready);
    assert_eq!(members(&cluster), ["10.244.1.6:80"]);
    attach(&mut cluster, 11, "default/web", "10.244.1.5", &["100.64.0.13"]);
    cluster.apply(labelled(pod("web", "web", "n1", running("10.244.1.5", true)), &[("more", "x")]));
    assert_eq!(members(&cluster), ["10.244.1.6:80"]);
}

#[test]
fn an_address_that_no_interface_can_have_is_not_believed() {
    for address in ["0.0.0.0", "224.0.0.1", "255.255.255.255", "fe80::1", "::1"] {
        let mut cluster = two_nodes();
        cluster.record(plain_pod("web", "n1"));
        attach(&mut cluster, 11, "default/web", "10.244.1.5", &[address]);
        let problem = format!(
            "node n1: Pod default/web: attachment of vmi 11: link_local: {address} cannot be an interface's"
        );
        assert_eq!(cluster.problems(), [problem]);
        // One of prefixes that the network does not have, or not any more, is.
        attach(&mut cluster, 11, "default/web", "10.244.1.5", &["169.254.7.7"]);
        assert!(cluster.problems().is_empty());
    }
}
