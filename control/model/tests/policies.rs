//! Who is led where: traffic policies, affinity, source ranges, members' places, states and hints.
#![allow(missing_docs)]

mod common;

use common::{Cluster, config_with_pool, endpoints, node, node_in, pod, running, service, slice};
use serde_json::{Value, json};
use vrouter_control_model::Kind;
use vrouter_objects::{MemberState, RouterId, TrafficPolicy, VrfId};

const PORTS: &str = "TCP/80";

fn spec(more: Value) -> Value {
    let mut spec = json!({ "ports": [{ "port": 80 }] });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

fn ports() -> Value {
    json!([{ "port": 80 }])
}

fn in_two_zones() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.record(node_in("z1", "n1", "172.30.0.1"));
    cluster.record(node_in("z2", "n2", "172.30.0.2"));
    cluster.apply(node("n3", "172.30.0.3"));
    cluster
}

fn router(cluster: &Cluster, node: &str) -> Option<RouterId> {
    cluster.router(node).map(|router| router.id)
}

#[test]
fn tpol_2_each_policy_is_for_its_own_frontends() {
    for (internal, external) in
        [("Cluster", "Cluster"), ("Local", "Cluster"), ("Cluster", "Local"), ("Local", "Local")]
    {
        let policy = |text| if text == "Local" { TrafficPolicy::Local } else { TrafficPolicy::Cluster };
        let mut cluster = Cluster::new();
        let more = json!({
            "type": "NodePort", "internalTrafficPolicy": internal, "externalTrafficPolicy": external,
            "ipFamilyPolicy": "RequireDualStack",
        });
        cluster.apply(service("web", spec(more)));
        for floating_ip in cluster.floating_ips("default/web") {
            assert_eq!(floating_ip.internal_policy, policy(internal));
            assert_eq!(floating_ip.external_policy, policy(external));
        }
        assert!(cluster.problems().is_empty());
    }
    let mut cluster = Cluster::new();
    cluster.apply(service("web", spec(json!({ "internalTrafficPolicy": "Near" }))));
    assert_eq!(cluster.floating_ip("default/web", true).internal_policy, TrafficPolicy::Cluster);
    assert!(
        cluster.problems()[0].contains("spec.internalTrafficPolicy: \"Near\" is neither Cluster nor Local")
    );
}

#[test]
fn tpol_5_no_members_and_no_local_ones_are_told_apart() {
    let mut cluster = Cluster::with_two_nodes();
    cluster.record(service("web", spec(json!({ "type": "NodePort", "externalTrafficPolicy": "Local" }))));
    cluster.apply(slice("web", "web", ports(), json!([])));
    assert!(cluster.listeners("default/web", PORTS)[0].members.is_empty());
    // The remote one is there for the node to see that somebody is, elsewhere.
    let list = json!([{ "addresses": ["10.244.2.5"], "nodeName": "n2" }]);
    cluster.apply(slice("web", "web", ports(), list));
    assert_eq!(cluster.member("default/web", "10.244.2.5").router, router(&cluster, "n2"));
}

#[test]
fn tpol_16_a_members_place_is_the_node_objects_name() {
    let mut cluster = Cluster::new();
    let mut named = node("n1", "172.30.0.1");
    named["metadata"]["labels"] = json!({ "kubernetes.io/hostname": "h1" });
    named["status"]["addresses"] =
        json!([{ "type": "Hostname", "address": "h1" }, { "type": "InternalIP", "address": "172.30.0.1" }]);
    cluster.record(named);
    cluster.record(service("web", spec(json!({}))));
    let list = json!([
        { "addresses": ["10.244.1.5"], "nodeName": "n1" }, { "addresses": ["10.244.1.6"], "nodeName": "h1" },
        { "addresses": ["10.244.1.7"] },
    ]);
    cluster.apply(slice("web", "web", ports(), list));
    let place = |cluster: &Cluster, address: &str| cluster.member("default/web", address).router;
    assert_eq!(place(&cluster, "10.244.1.5"), router(&cluster, "n1"));
    assert_eq!((place(&cluster, "10.244.1.6"), place(&cluster, "10.244.1.7")), (None, None));
    // A node that comes later, or goes.
    cluster.apply(node("h1", "172.30.0.2"));
    assert_eq!(place(&cluster, "10.244.1.6"), router(&cluster, "h1"));
    cluster.delete(Kind::Node, "n1");
    assert_eq!(place(&cluster, "10.244.1.5"), None);
}

#[test]
fn a_members_place_is_its_attachments_or_its_pods() {
    let mut cluster = Cluster::with_two_nodes();
    cluster.record(service("web", spec(json!({}))));
    let target = json!({ "kind": "Pod", "name": "host", "namespace": "default" });
    let list = json!([{ "addresses": ["10.244.7.5"] }, { "addresses": ["172.30.0.2"], "targetRef": target }]);
    cluster.apply(slice("web", "web", ports(), list));
    let place = |cluster: &Cluster, address: &str| cluster.member("default/web", address).router;
    assert_eq!((place(&cluster, "10.244.7.5"), place(&cluster, "172.30.0.2")), (None, None));
    cluster.attach("n1", 1, "default/web-0", &["10.244.7.5"]);
    assert_eq!(place(&cluster, "10.244.7.5"), router(&cluster, "n1"));
    let mut host = pod("host", "x", "n2", running("172.30.0.2", true));
    host["spec"]["hostNetwork"] = true.into();
    cluster.apply(host.clone());
    assert_eq!(place(&cluster, "172.30.0.2"), router(&cluster, "n2"));
    host["spec"]["nodeName"] = "n1".into();
    cluster.apply(host);
    assert_eq!(place(&cluster, "172.30.0.2"), router(&cluster, "n1"));
    // Derived ones.
    cluster.record(service("derived", spec(json!({ "selector": { "app": "web" } }))));
    cluster.apply(pod("web-1", "web", "n2", running("10.244.2.9", true)));
    assert_eq!(cluster.member("default/derived", "10.244.2.9").router, router(&cluster, "n2"));
}

#[test]
fn a_member_that_is_no_pods_address_is_in_the_fabric() {
    let mut cluster = Cluster::with_two_nodes();
    cluster.record(service("web", spec(json!({ "selector": { "app": "web" } }))));
    cluster.record(service("outside", spec(json!({}))));
    cluster.record(slice("outside", "outside", ports(), endpoints(&["192.0.2.1", "10.244.1.5"])));
    let mut host = pod("web-0", "web", "n1", Value::Null);
    host["spec"]["hostNetwork"] = true.into();
    cluster.record(host);
    cluster.apply(pod("web-1", "web", "n1", running("10.244.1.6", true)));
    let vrf = |service: &str, address: &str| cluster.member(service, address).vrf;
    let [pods, fabric] = [1, 3].map(|number| VrfId::new(number).unwrap());
    assert_eq!(vrf("default/outside", "192.0.2.1"), fabric);
    assert_eq!(vrf("default/outside", "10.244.1.5"), pods);
    assert_eq!(vrf("default/web", "172.30.0.1"), fabric);
    assert_eq!(vrf("default/web", "10.244.1.6"), pods);
    let host = cluster.member("default/web", "172.30.0.1");
    assert_eq!((host.router, host.vmi, host.name.as_str()), (router(&cluster, "n1"), None, "default/web-0"));
}

#[test]
fn svc_17_nodes_are_told_every_condition_and_weigh_themselves() {
    let mut cluster = Cluster::new();
    cluster.record(service("web", spec(json!({}))));
    let with = |address: &str, ready: bool, serving: bool, terminating: bool| {
        let conditions = json!({ "ready": ready, "serving": serving, "terminating": terminating });
        json!({ "addresses": [address], "conditions": conditions })
    };
    let list = json!([
        with("10.244.1.1", true, true, false),
        with("10.244.1.2", true, true, true),
        with("10.244.1.3", false, true, true),
        with("10.244.1.4", false, true, false),
        with("10.244.1.5", false, false, true),
        with("10.244.1.6", true, false, false),
    ]);
    cluster.apply(slice("web", "web", ports(), list));
    let of = |state| cluster.members("default/web", PORTS, state);
    assert_eq!(of(MemberState::Ready), ["10.244.1.1:80", "10.244.1.2:80", "10.244.1.6:80"]);
    assert_eq!(of(MemberState::Serving), ["10.244.1.3:80"]);
    assert!(of(MemberState::Leaving).is_empty());
}

#[test]
fn stale_9_a_terminating_member_is_the_same_member() {
    let mut cluster = Cluster::with_two_nodes();
    cluster.record(service("web", spec(json!({ "selector": { "app": "web" } }))));
    cluster.record(pod("web-0", "web", "n1", running("10.244.1.5", true)));
    cluster.attach("n1", 1, "default/web-0", &["10.244.1.5"]);
    let id = cluster.member("default/web", "10.244.1.5").id;
    let mut terminating = pod("web-0", "web", "n1", running("10.244.1.5", true));
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    cluster.apply(terminating.clone());
    let member = cluster.member("default/web", "10.244.1.5");
    assert_eq!((member.id, member.state), (id, MemberState::Serving));
    terminating["status"]["conditions"][0]["status"] = "False".into();
    cluster.apply(terminating);
    let member = cluster.member("default/web", "10.244.1.5");
    assert_eq!((member.id, member.state), (id, MemberState::Leaving));
    cluster.delete(Kind::Pod, "default/web-0");
    cluster.detach("n1", 1);
    assert!(cluster.listeners("default/web", PORTS)[0].members.is_empty());
}

#[test]
fn an_outside_member_that_is_not_ready_keeps_its_tcp_connections_while_it_is_listed() {
    let mut cluster = Cluster::with_two_nodes();
    let both = json!({ "ports": [
        { "name": "t", "port": 80 }, { "name": "u", "port": 80, "protocol": "UDP" },
    ] });
    cluster.record(service("web", both));
    let list = |ready: bool| {
        let both = json!([{ "name": "t", "port": 80 }, { "name": "u", "port": 80, "protocol": "UDP" }]);
        slice("web", "web", both, json!([{ "addresses": ["192.0.2.1"], "conditions": { "ready": ready } }]))
    };
    cluster.apply(list(false));
    assert!(cluster.draining("default/web", PORTS).is_empty(), "it never was a member");
    cluster.apply(list(true));
    let id = cluster.member("default/web", "192.0.2.1").id;
    cluster.apply(list(false));
    assert_eq!(cluster.draining("default/web", PORTS), ["192.0.2.1:80"]);
    assert!(cluster.draining("default/web", "UDP/80").is_empty());
    cluster.apply(list(true));
    assert_eq!(cluster.member("default/web", "192.0.2.1").id, id);
    cluster.apply(list(false));
    cluster.delete(Kind::EndpointSlice, "default/web");
    assert!(cluster.listeners("default/web", PORTS)[0].members.is_empty());
}

#[test]
fn aff_2_a_timeout_that_is_not_named_is_three_hours() {
    let affinity = |more: Value| {
        let mut cluster = Cluster::new();
        cluster.apply(service("web", spec(more)));
        let seconds = cluster.floating_ip("default/web", true).affinity.map(|affinity| affinity.seconds());
        (seconds, cluster.problems())
    };
    let timeout = |seconds: i32| json!({ "sessionAffinity": "ClientIP", "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": seconds } } });
    assert_eq!(affinity(json!({ "sessionAffinity": "ClientIP" })), (Some(10_800), vec![]));
    for seconds in [1, 10, 86_400] {
        assert_eq!(affinity(timeout(seconds)), (u32::try_from(seconds).ok(), vec![]));
    }
    for seconds in [0, -1, 86_401] {
        let (got, problems) = affinity(timeout(seconds));
        assert_eq!(got, Some(10_800), "{seconds}");
        assert!(problems[0].contains("spec.sessionAffinityConfig.clientIP.timeoutSeconds: "), "{problems:?}");
    }
    let (got, problems) = affinity(json!({ "sessionAffinity": "Cookie" }));
    assert_eq!(got, None);
    assert!(problems[0].contains("spec.sessionAffinity: \"Cookie\" is neither None nor ClientIP"));
}

#[test]
fn aff_5_without_affinity_there_is_none() {
    let mut cluster = Cluster::new();
    for more in [json!({}), json!({ "sessionAffinity": "None" })] {
        cluster.apply(service("web", spec(more)));
        assert_eq!(cluster.floating_ip("default/web", true).affinity, None);
    }
}

#[test]
fn aff_4_affinity_outlives_its_members() {
    let mut cluster = Cluster::new();
    cluster.apply(service("web", spec(json!({ "sessionAffinity": "ClientIP" }))));
    let before = cluster.floating_ip("default/web", true);
    for list in [endpoints(&["10.244.1.1", "10.244.1.2"]), json!([]), endpoints(&["10.244.1.1"])] {
        cluster.apply(slice("web", "web", ports(), list));
        let now = cluster.floating_ip("default/web", true);
        assert_eq!((now.affinity, now.listeners[0].id), (before.affinity, before.listeners[0].id));
    }
}

#[test]
fn aff_6_each_service_has_its_own_timeout() {
    let mut cluster = Cluster::new();
    for (name, seconds) in [("a", 10), ("b", 100)] {
        let config = json!({ "clientIP": { "timeoutSeconds": seconds } });
        let more = json!({ "sessionAffinity": "ClientIP", "sessionAffinityConfig": config });
        cluster.apply(service(name, spec(more)));
    }
    let seconds = |name: &str| cluster.floating_ip(name, true).affinity.unwrap().seconds();
    assert_eq!((seconds("default/a"), seconds("default/b")), (10, 100));
}

#[test]
fn tpol_11_source_ranges_go_with_their_family() {
    let mut cluster = Cluster::with_config(config_with_pool());
    let more = |ranges: Value| {
        spec(
            json!({ "type": "LoadBalancer", "ipFamilyPolicy": "RequireDualStack", "loadBalancerSourceRanges": ranges }),
        )
    };
    cluster.apply(service(
        "web",
        more(json!([" 198.51.100.7/24 ", "2001:db8:1::/48\n", "203.0.113.0/24", "nobody"])),
    ));
    let ranges = |cluster: &Cluster, is_v4| -> Vec<String> {
        cluster.floating_ip("default/web", is_v4).source_ranges.iter().map(ToString::to_string).collect()
    };
    assert_eq!(ranges(&cluster, true), ["198.51.100.0/24", "203.0.113.0/24"]);
    assert_eq!(ranges(&cluster, false), ["2001:db8:1::/48"]);
    assert_eq!(
        cluster.problems(),
        ["web.yaml: Service default/web: spec.loadBalancerSourceRanges[3]: \"nobody\" is not a prefix"]
    );
    assert_eq!(cluster.external("default/web").len(), 2);
    // Where none can be read, nobody is let in: everybody would be the opposite of what is meant.
    cluster.apply(service("web", more(json!(["nobody"]))));
    assert!(cluster.external("default/web").is_empty());
    assert_eq!(cluster.problems().len(), 2);
    cluster.apply(service("web", more(json!([]))));
    assert_eq!(cluster.external("default/web").len(), 2);
    assert!(ranges(&cluster, true).is_empty() && cluster.problems().is_empty());
    // They are no business of other types.
    let other = json!({ "type": "NodePort", "loadBalancerSourceRanges": ["198.51.100.0/24"] });
    cluster.apply(service("web", spec(other)));
    assert!(ranges(&cluster, true).is_empty());
}

#[test]
fn tpol_12_an_external_ip_is_not_guarded_by_source_ranges() {
    let mut cluster = Cluster::with_config(config_with_pool());
    let mut both = service(
        "web",
        spec(json!({
            "type": "LoadBalancer", "externalIPs": ["203.0.113.1", "203.0.113.2"],
            "loadBalancerSourceRanges": ["198.51.100.0/24"],
        })),
    );
    both["status"] =
        json!({ "loadBalancer": { "ingress": [{ "ip": "203.0.113.2" }, { "ip": "203.0.113.3" }] } });
    cluster.apply(both);
    // As kube-proxy has it, what is both is an external IP.
    assert_eq!(cluster.external("default/web"), ["ip 203.0.113.1", "ip 203.0.113.2", "lb 203.0.113.3"]);
}

#[test]
fn hints_of_slices_are_passed_on() {
    let mut cluster = in_two_zones();
    cluster.record(service("web", spec(json!({}))));
    let hints = json!({ "forZones": [{ "name": "z1" }, { "name": "z2" }], "forNodes": [{ "name": "n2" }, { "name": "gone" }] });
    let list = json!([
        { "addresses": ["10.244.1.5"], "hints": hints },
        { "addresses": ["10.244.1.6"], "hints": hints, "conditions": { "ready": false, "serving": true, "terminating": true } },
    ]);
    cluster.apply(slice("web", "web", ports(), list));
    let ready = cluster.member("default/web", "10.244.1.5").hints;
    assert_eq!(
        (ready.zones, ready.routers),
        (vec!["z1".to_owned(), "z2".to_owned()], vec![router(&cluster, "n2").unwrap()])
    );
    assert_eq!(cluster.member("default/web", "10.244.1.6").hints, Default::default());
    // The node behind a hint may come later.
    cluster.apply(node("gone", "172.30.0.7"));
    assert_eq!(cluster.member("default/web", "10.244.1.5").hints.routers.len(), 2);
}

#[test]
fn derived_members_have_the_hints_that_their_service_asks_for() {
    let hints = |more: Value| {
        let mut cluster = in_two_zones();
        let mut spec = spec(json!({ "selector": { "app": "web" } }));
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        cluster.record(service("web", spec));
        cluster.record(pod("web-1", "web", "n1", running("10.244.1.5", true)));
        cluster.apply(pod("web-3", "web", "n3", running("10.244.3.5", true)));
        let nodes = ["n1", "n3"].map(|node| router(&cluster, node).unwrap());
        let of = |address: &str| {
            let hints = cluster.member("default/web", address).hints;
            let place = |router| if router == nodes[0] { "n1" } else { "n3" };
            let routers: Vec<&str> = hints.routers.into_iter().map(place).collect();
            format!("{} {}", hints.zones.join(","), routers.join(","))
        };
        ([of("10.244.1.5"), of("10.244.3.5")], cluster.problems())
    };
    for (distribution, expected) in [
        ("", [" ", " "]),
        ("PreferSameZone", ["z1 ", " "]),
        ("PreferClose", ["z1 ", " "]),
        ("PreferSameNode", ["z1 n1", " n3"]),
    ] {
        let (got, problems) = hints(json!({ "trafficDistribution": distribution }));
        assert_eq!(got, expected, "{distribution}");
        assert!(problems.is_empty());
    }
    let (got, problems) = hints(json!({ "trafficDistribution": "Anywhere" }));
    assert_eq!(got, [" ", " "]);
    assert!(problems[0].contains("spec.trafficDistribution: \"Anywhere\" is none of PreferSameZone"));
}

#[test]
fn a_derived_hint_follows_its_nodes_zone() {
    let mut cluster = in_two_zones();
    let more = json!({ "selector": { "app": "web" }, "trafficDistribution": "PreferSameZone" });
    cluster.record(service("web", spec(more)));
    cluster.apply(pod("web-1", "web", "n1", running("10.244.1.5", true)));
    let zones = |cluster: &Cluster| cluster.member("default/web", "10.244.1.5").hints.zones;
    assert_eq!(zones(&cluster), ["z1"]);
    cluster.apply(node_in("z9", "n1", "172.30.0.1"));
    assert_eq!(zones(&cluster), ["z9"]);
    cluster.apply(node("n1", "172.30.0.1"));
    assert!(zones(&cluster).is_empty());
}

#[test]
fn svc_18_each_family_has_its_own_frontends_and_node_ports() {
    let mut cluster = Cluster::with_config(config_with_pool());
    let more = json!({
        "type": "LoadBalancer", "ipFamilyPolicy": "RequireDualStack",
        "externalIPs": ["198.51.100.1", "2001:db8:9::1"],
    });
    cluster.apply(service("web", spec(more)));
    for is_v4 in [true, false] {
        let floating_ip = cluster.floating_ip("default/web", is_v4);
        assert_eq!(floating_ip.external.len(), 2);
        assert!(floating_ip.external.iter().all(|external| external.address.is_ipv4() == is_v4));
        assert_eq!(floating_ip.external_vrf.get(), 3);
        assert_eq!(floating_ip.listeners[0].node_port.unwrap().get(), 30016);
    }
}
