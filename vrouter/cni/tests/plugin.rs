//! The plugin as a container runtime calls it, against a vRouter that does as the test says. Needs root: interfaces are
//! made inside network namespaces of the test's own.

mod support;

use serde_json::{Value, json};
use support::{Call, FakeNode, Netns};
use tonic::Status;

const CONFIGURATION: &str = r#"{"cniVersion":"1.1.0","name":"pods","type":"vrouter-cni"}"#;

fn codes(answer: &Value) -> (&Value, &Value) {
    (&answer["cniVersion"], &answer["code"])
}

#[test]
fn versions_need_no_vrouter() {
    let answer = Call::new("VERSION").configuration(r#"{"cniVersion":"0.4.0"}"#).succeeds();
    assert_eq!(
        answer,
        json!({"cniVersion": "0.4.0", "supportedVersions": ["0.3.1", "0.4.0", "1.0.0", "1.1.0"]})
    );
}

#[test]
fn every_failure_has_its_code() {
    let attach = || Call::new("ADD").container("c1").netns("/run/netns/none");
    for (call, version, code) in [
        (Call::new("").configuration(CONFIGURATION), "1.1.0", 4),
        (Call::new("ADD").configuration(CONFIGURATION), "1.1.0", 4),
        (attach().configuration("{"), "1.1.0", 6),
        (attach().configuration(r#"{"cniVersion":"1.0.0"}"#), "1.1.0", 7),
        (attach().configuration(r#"{"cniVersion":"9.9.9","name":"pods"}"#), "1.1.0", 1),
        (attach().configuration(r#"{"cniVersion":"0.4.0","name":"pods","socket":"/nowhere"}"#), "0.4.0", 11),
        (
            Call::new("STATUS").configuration(r#"{"cniVersion":"1.1.0","name":"pods","socket":"/nowhere"}"#),
            "1.1.0",
            51,
        ),
        (
            Call::new("STATUS").configuration(r#"{"cniVersion":"1.0.0","name":"pods","socket":"/nowhere"}"#),
            "1.0.0",
            1,
        ),
        (Call::new("GC").configuration(CONFIGURATION), "1.1.0", 7),
    ] {
        let description = format!("{call:?}");
        let answer = call.fails();
        assert_eq!(codes(&answer), (&json!(version), &json!(code)), "{description}: {answer}");
        assert!(answer["msg"].is_string() && answer["details"].is_string(), "{answer}");
    }
}

#[test]
fn a_node_that_cannot_attach_is_not_available() {
    let node = FakeNode::start();
    node.with(|state| state.not_ready = "no addresses are leased to this node yet".to_owned());
    let answer = Call::new("STATUS").node(&node).fails();
    assert_eq!(answer["code"], 50);
    assert!(answer["details"].as_str().unwrap().contains("no addresses are leased"), "{answer}");
    node.with(|state| state.not_ready.clear());
    Call::new("STATUS").node(&node).succeeds();
}

#[test]
fn cni_7_addresses_are_usable_on_return_and_neighbours_permanent() {
    let netns = Netns::new("add");
    let node = FakeNode::start();
    netns.run("ip tuntap add eth0 mode tap");
    let answer = Call::new("ADD").container("c1").netns(&netns.path).node(&node).succeeds();
    assert_eq!(
        answer["ips"][0],
        json!({"address": "10.244.0.2/32", "gateway": "10.244.0.1", "interface": 0})
    );
    assert_eq!(answer["interfaces"][0]["sandbox"], netns.path.as_str());

    let addresses = netns.run("ip -o address show");
    assert!(addresses.contains("10.244.0.2/32") && addresses.contains("127.0.0.1/8"), "{addresses}");
    let v6 = addresses.lines().find(|line| line.contains("fd00:10:244::2/128")).unwrap();
    assert!(v6.contains("nodad") && !v6.contains("tentative"), "{v6}");
    let neighbours = netns.run("ip neighbour") + &netns.run("ip -6 neighbour");
    for gateway in ["10.244.0.1", "fd00:10:244::1"] {
        assert!(
            neighbours.contains(&format!("{gateway} dev eth0 lladdr 00:00:5e:00:01:00 PERMANENT")),
            "{neighbours}"
        );
    }
    let routes = netns.run("ip route") + &netns.run("ip -6 route");
    assert!(routes.contains("default via 10.244.0.1 dev eth0"), "{routes}");
    assert!(routes.contains("default via fd00:10:244::1 dev eth0"), "{routes}");
    assert!(netns.run("ip link show eth0").contains("mtu 1450"));

    // Runtimes ask again.
    let again = Call::new("ADD").container("c1").netns(&netns.path).node(&node).succeeds();
    assert_eq!(again, answer);
}

#[test]
fn an_interface_that_cannot_be_configured_is_detached_again() {
    let netns = Netns::new("undo");
    let node = FakeNode::start();
    // The vRouter says that it made eth0, but there is none.
    let answer = Call::new("ADD").container("c1").netns(&netns.path).node(&node).fails();
    assert_eq!(answer["code"], 102, "{answer}");
    node.with(|state| assert_eq!((state.attached.len(), state.detached.len()), (1, 1)));
}

#[test]
fn refusals_say_why_and_exhaustion_may_pass() {
    let node = FakeNode::start();
    let attach = || Call::new("ADD").container("c1").netns("/run/netns/none").node(&node);
    node.with(|state| state.refusal = Some(Status::failed_precondition("pod default/web is refused: taken")));
    let answer = attach().fails();
    assert_eq!((&answer["code"], &answer["msg"]), (&json!(100), &json!("refused by the vrouter")));
    assert_eq!(answer["details"], "the vrouter refused: pod default/web is refused: taken");
    node.with(|state| state.refusal = Some(Status::resource_exhausted("all addresses are in use")));
    assert_eq!(attach().fails()["code"], 11);
}

#[test]
fn check_sees_what_was_changed() {
    let netns = Netns::new("check");
    let node = FakeNode::start();
    netns.run("ip tuntap add eth0 mode tap");
    netns.run("ip link set eth0 address 02:50:00:00:00:01");
    let added = Call::new("ADD").container("c1").netns(&netns.path).node(&node).succeeds();
    let check = || Call::new("CHECK").container("c1").netns(&netns.path).node(&node);
    assert_eq!(check().fails()["code"], 7, "without prevResult there is nothing to compare with");
    check().previous(&added).succeeds();

    let mut other = added.clone();
    other["ips"][0]["address"] = "10.244.0.9/32".into();
    assert!(check().previous(&other).fails()["details"].as_str().unwrap().contains("10.244.0.2"));
    netns.run("ip route del default");
    assert!(check().previous(&added).fails()["details"].as_str().unwrap().contains("default route"));
    netns.run("ip address del 10.244.0.2/32 dev eth0");
    assert!(check().previous(&added).fails()["details"].as_str().unwrap().contains("10.244.0.2"));
    netns.run("ip link set eth0 down");
    assert!(check().previous(&added).fails()["details"].as_str().unwrap().contains("is down"));
}

#[test]
fn pods_of_two_networks_may_have_the_same_addresses() {
    let node = FakeNode::start();
    let pods = ["same-1", "same-2"].map(Netns::new);
    let call = |command, number: usize| {
        Call::new(command).container(&format!("c{number}")).netns(&pods[number].path).node(&node)
    };
    let added = [0, 1].map(|number| {
        pods[number].run("ip tuntap add eth0 mode tap");
        pods[number].run("ip link set eth0 address 02:50:00:00:00:01");
        call("ADD", number).succeeds()
    });
    assert_eq!(added[0]["ips"], added[1]["ips"]);
    (0..2).for_each(|number| drop(call("CHECK", number).previous(&added[number]).succeeds()));
    call("DEL", 0).succeeds();
    call("CHECK", 1).previous(&added[1]).succeeds();
}

#[test]
fn a_pod_whose_network_is_not_known_yet_may_be_tried_again() {
    let node = FakeNode::start();
    let why = "pod default/web belongs to vrf 7, which is not known here yet";
    node.with(|state| state.refusal = Some(Status::unavailable(why)));
    let answer = Call::new("ADD").container("c1").netns("/run/netns/none").node(&node).fails();
    assert_eq!(answer["code"], 11);
    assert!(answer["details"].as_str().unwrap().contains(why), "{answer}");
}

#[test]
fn cni_4_del_is_idempotent_with_and_without_a_namespace_or_a_vrouter() {
    let netns = Netns::new("del");
    let node = FakeNode::start();
    let del = || Call::new("DEL").container("c1");
    del().node(&node).netns(&netns.path).succeeds();
    del().node(&node).netns("/run/netns/gone").succeeds();
    del().node(&node).succeeds();
    node.with(|state| assert_eq!(state.detached.len(), 3));

    let nobody = r#"{"cniVersion":"1.1.0","name":"pods","socket":"/nowhere"}"#;
    netns.run("ip tuntap add eth0 mode tap");
    del().configuration(nobody).netns(&netns.path).succeeds();
    assert!(!netns.run("ip link").contains("eth0"), "without a vrouter the interface goes all the same");
    del().configuration(nobody).netns(&netns.path).succeeds();
    del().configuration(nobody).netns("/run/netns/gone").succeeds();
    // As after the machine was booted: the file is there, and nothing is bound to it.
    let stale = tempfile::NamedTempFile::new().unwrap();
    del().configuration(nobody).netns(stale.path().to_str().unwrap()).succeeds();
    del().configuration(nobody).succeeds();
}

#[test]
fn garbage_collection_passes_on_what_is_valid_and_of_which_network() {
    let node = FakeNode::start();
    let valid = json!([{"containerID": "c1", "ifname": "eth0"}]);
    Call::new("GC").valid(&valid).node(&node).succeeds();
    node.with(|state| {
        assert_eq!(state.valid, [("c1".to_owned(), "eth0".to_owned())]);
        assert_eq!(state.networks, ["pods"]);
    });
}
