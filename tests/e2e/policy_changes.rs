//! Policies, labels and namespaces that change under load: what is forbidden stops at the next packet, established or not,
//! and nobody else loses anything.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use vrouter_tests::lab::{Family, Lab, Place, Programs, Shape};
use vrouter_tests::manifest::{
    ECHO, Endpoints, ServicePort, echo_pod, idle_pod, namespace, of_app, server_pod, service, with_addresses,
    with_labels, with_spec,
};
use vrouter_tests::report::{Capture, Datagrams, Outcome, Wrk};
use vrouter_tests::wire::ends;

use crate::away::Away;
use crate::group::{Group, cases};
use crate::load::{Loads, Protocol, ask_from, each, expect, node_port};

pub const GROUP: Group = Group {
    name: "policy_changes",
    shape: Shape { nodes: 2, kernel_nodes: 0 },
    objects,
    cases: cases![
        np_16_a_policy_comes_changes_and_goes,
        egress_ends_at_the_sender,
        pods_are_relabelled,
        a_namespace_is_relabelled,
        a_pod_is_closed_from_its_first_packet,
        frag_4_fragments_go_by_their_first_one,
        np_14_probes_of_the_own_node_alone,
        np_18_node_ports_of_either_node_are_alike,
        a_restart_opens_nothing,
    ],
};

const WEB: u16 = 8080;
/// On the first node, like whom it competes with; the servers are on the second.
const FRIEND: Place = Place::Pod("friend");
const FOE: &str = "foe";
/// Likewise a friend, on the servers' node.
const NEIGHBOUR: Place = Place::Pod("neighbour");
const GUEST: &str = "guests/guest";
/// Longer than a datagram is on the way.
const MOMENT: Duration = Duration::from_millis(500);
const SERVERS: [&str; 2] = ["echo", "web"];

fn objects(programs: &Programs) -> Vec<Value> {
    let server = |name: &str, pod| with_labels(pod, json!({"app": name, "part": "server"}));
    let ports = [ServicePort { protocol: "TCP", port: WEB, target: 80 }];
    let mut guest = idle_pod("guest", "n1");
    guest["metadata"]["namespace"] = json!("guests");
    vec![
        server("echo", echo_pod("echo", "n2", programs.probe())),
        server("web", server_pod("web", "n2", &[("TCP", 80), ("UDP", 53)])),
        with_spec(service("web", Endpoints::OfApp("web"), &ports), json!({"type": "NodePort"})),
        with_spec(
            service("echo", Endpoints::OfApp("echo"), &[ServicePort { target: ECHO, ..ports[0] }]),
            json!({"type": "NodePort"}),
        ),
        idle_pod("friend", "n1"),
        of_app("friend", idle_pod("neighbour", "n2")),
        idle_pod(FOE, "n1"),
        namespace("guests"),
        guest,
    ]
}

/// A policy that is in force for as long as this lives.
struct Policy<'a>(&'a Lab);

impl<'a> Policy<'a> {
    const NAME: &'static str = "under-test";

    fn apply(lab: &'a Lab, spec: Value) -> Result<Self> {
        let policy = Self(lab);
        policy.change(spec)?;
        Ok(policy)
    }

    /// The servers' pods are for pods with one of these labels `app`.
    fn for_apps(lab: &'a Lab, apps: &[&str]) -> Result<Self> {
        Self::apply(lab, for_apps(apps))
    }

    fn change(&self, spec: Value) -> Result<()> {
        self.0.apply(&[json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": Self::NAME, "namespace": "default"},
            "spec": spec,
        })])
    }

    fn delete(self) -> Result<()> {
        let name = format!("default/{}", Self::NAME);
        let deleted = self.0.delete("NetworkPolicy", &name);
        std::mem::forget(self);
        deleted
    }
}

impl Drop for Policy<'_> {
    fn drop(&mut self) {
        // A later case would fail and tell.
        let _ = self.0.delete("NetworkPolicy", &format!("default/{}", Self::NAME));
    }
}

fn for_apps(apps: &[&str]) -> Value {
    let selector = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": apps}]});
    json!({
        "podSelector": {"matchLabels": {"part": "server"}},
        "ingress": [{"from": [{"podSelector": selector}]}],
    })
}

/// Loads that no change may touch.
struct Friends<'a> {
    requests: Loads<'a>,
    datagrams: Loads<'a>,
}

impl<'a> Friends<'a> {
    fn begin(lab: &'a Lab) -> Result<Self> {
        let pod =
            |pod, family, port| Ok::<_, anyhow::Error>(SocketAddr::new(lab.pod_address(pod, family)?, port));
        let (kept, fresh) = (["wrk", "--manner", "keep-alive"], ["wrk", "--manner", "connect"]);
        let datagrams = ["datagrams", "--pause", "2"];
        Ok(Self {
            requests: Loads::of(lab)
                .add(FRIEND, lab.service_address("web", Family::V4, WEB)?, &kept)?
                .add(FRIEND, lab.service_address("web", Family::V6, WEB)?, &fresh)?
                .add(NEIGHBOUR, pod("web", Family::V6, 80)?, &kept)?,
            datagrams: Loads::of(lab).add(FRIEND, pod("echo", Family::V4, ECHO)?, &datagrams)?.add(
                NEIGHBOUR,
                pod("echo", Family::V6, ECHO)?,
                &datagrams,
            )?,
        })
    }

    fn end_unharmed(self) -> Result<()> {
        for (what, report) in self.requests.finish::<Wrk>()? {
            let unharmed = Wrk { requests: report.requests, ..Wrk::default() };
            ensure!(report == unharmed && report.requests > 100, "{what}: {report:?}");
        }
        for (what, report) in self.datagrams.finish::<Datagrams>()? {
            let all = Datagrams { sent: report.sent, answered: report.sent, ..Datagrams::default() };
            ensure!(report == all && report.sent > 100, "{what}: {report:?}");
        }
        Ok(())
    }
}

/// Somebody who never stops sending: datagrams from one socket for each family, and requests on connections that are kept.
fn persistent<'a>(lab: &'a Lab, pod: &'static str) -> Result<(Loads<'a>, Loads<'a>)> {
    let from = Place::Pod(pod);
    let mut datagrams = Loads::of(lab);
    let mut requests = Loads::of(lab);
    for family in Family::BOTH {
        let echo = SocketAddr::new(lab.pod_address("echo", family)?, ECHO);
        datagrams = datagrams.add(from, echo, &["datagrams", "--pause", "2"])?;
        let web = lab.service_address("web", family, WEB)?;
        requests = requests.add(from, web, &["load", "--kept", "4"])?;
    }
    Ok((datagrams, requests))
}

/// How many packets from a pod the servers' pods get in a moment.
fn heard(lab: &Lab, from: &str) -> Result<usize> {
    let own = lab.pod(from)?.ips;
    let captures = SERVERS.map(|server| lab.start_probe(Place::Pod(server), &["capture", "eth0"]));
    thread::sleep(MOMENT);
    let mut heard = 0;
    for capture in captures {
        let capture: Capture = capture?.finish(Duration::from_secs(10))?;
        let frames = capture.read()?;
        heard +=
            frames.iter().filter_map(|frame| ends(frame)).filter(|(source, _)| own.contains(source)).count();
    }
    Ok(heard)
}

fn is_heard(lab: &Lab, from: &str, when: &str) -> Result<()> {
    ensure!(heard(lab, from)? > 0, "{when}: nothing of {from} arrives");
    Ok(())
}

fn is_not_heard(lab: &Lab, from: &str, when: &str) -> Result<()> {
    let heard = heard(lab, from)?;
    ensure!(heard == 0, "{when}: {heard} packets of {from} arrive");
    Ok(())
}

/// Does something while friends load the servers, who must not notice, and a pod never stops sending.
fn under_load(lab: &Lab, pod: &'static str, act: impl FnOnce() -> Result<()>) -> Result<()> {
    let friends = Friends::begin(lab)?;
    let (datagrams, requests) = persistent(lab, pod)?;
    is_heard(lab, pod, "before anything changes")?;
    act()?;
    friends.end_unharmed()?;
    for (what, report) in datagrams.finish::<Datagrams>()? {
        ensure!(report.damaged == 0 && report.repeated == 0, "{what}: {report:?}");
        ensure!(report.refused == 0, "what policy drops is told somebody: {what}: {report:?}");
        ensure!(report.lost() > 50 && report.answered > 50, "{what}: {report:?}");
    }
    requests.finish::<Value>().map(drop)
}

fn np_16_a_policy_comes_changes_and_goes(lab: &Lab) -> Result<()> {
    under_load(lab, FOE, || {
        let policy = Policy::for_apps(lab, &["friend"])?;
        is_not_heard(lab, FOE, "with a policy for friends")?;
        policy.change(for_apps(&["friend", FOE]))?;
        is_heard(lab, FOE, "with a policy for both")?;
        policy.change(for_apps(&["friend"]))?;
        is_not_heard(lab, FOE, "with a policy for friends again")?;
        policy.delete()?;
        is_heard(lab, FOE, "without a policy")
    })
}

/// Not a packet leaves the sender's node.
fn egress_ends_at_the_sender(lab: &Lab) -> Result<()> {
    under_load(lab, FOE, || {
        let before = lab.drops("n1")?.of("policy-egress");
        let nowhere = json!({"podSelector": {"matchLabels": {"app": FOE}}, "policyTypes": ["Egress"]});
        let policy = Policy::apply(lab, nowhere)?;
        is_not_heard(lab, FOE, "with a policy that lets nothing out")?;
        ensure!(lab.drops("n1")?.of("policy-egress") > before, "no drop is counted at the sender's node");
        ensure!(lab.drops("n2")?.of("policy-egress") == 0, "drops are counted at the other node");
        policy.delete()?;
        is_heard(lab, FOE, "without a policy")
    })
}

fn pods_are_relabelled(lab: &Lab) -> Result<()> {
    let _policy = Policy::for_apps(lab, &["friend", FOE])?;
    let labelled = |app| lab.apply(&[of_app(app, idle_pod(FOE, "n1"))]);
    let echo_is = |part: &str| {
        let echo = echo_pod("echo", "n2", lab.programs().probe());
        lab.apply(&[with_labels(echo, json!({"app": "echo", "part": part}))])
    };
    let outcome = under_load(lab, FOE, || {
        labelled("stranger")?;
        is_not_heard(lab, FOE, "as a stranger")?;
        labelled("friend")?;
        is_heard(lab, FOE, "as a friend")?;
        labelled("stranger")?;
        is_not_heard(lab, FOE, "as a stranger again")?;
        // A server that the policy no longer selects is open.
        echo_is("other")?;
        is_heard(lab, FOE, "as a stranger to a server without a policy")?;
        echo_is("server")?;
        is_not_heard(lab, FOE, "as a stranger to a server with a policy")
    });
    echo_is("server")?;
    labelled(FOE)?;
    outcome
}

fn a_namespace_is_relabelled(lab: &Lab) -> Result<()> {
    let mut spec = for_apps(&["friend"]);
    let friends = spec["ingress"][0]["from"][0].take();
    let welcome = json!({"namespaceSelector": {"matchLabels": {"welcome": "yes"}}});
    spec["ingress"][0]["from"] = json!([friends, welcome]);
    let labelled = |labels: Value| {
        let mut guests = namespace("guests");
        guests["metadata"]["labels"] = labels;
        lab.apply(&[guests])
    };
    let outcome = under_load(lab, GUEST, || {
        let policy = Policy::apply(lab, spec)?;
        is_not_heard(lab, GUEST, "without a label of its namespace")?;
        labelled(json!({"welcome": "yes"}))?;
        is_heard(lab, GUEST, "with the label")?;
        labelled(json!({"welcome": "no"}))?;
        is_not_heard(lab, GUEST, "with another value of the label")?;
        policy.delete()?;
        is_heard(lab, GUEST, "without a policy")
    });
    labelled(json!({}))?;
    outcome
}

/// Somebody knocks at an address before there is anybody, and when somebody comes.
fn a_pod_is_closed_from_its_first_packet(lab: &Lab) -> Result<()> {
    let _policy = Policy::for_apps(lab, &["friend"])?;
    let addresses = ["10.244.200.7", "fd00:10:244:c8::7"];
    let mut knocking = Loads::of(lab);
    for address in addresses {
        let target = SocketAddr::new(address.parse()?, ECHO);
        knocking = knocking.add(Place::Pod(FOE), target, &["datagrams", "--pause", "1"])?;
    }
    let pod = with_addresses(echo_pod("late", "n2", lab.programs().probe()), &addresses.join(","));
    lab.apply(&[with_labels(pod, json!({"part": "server"}))])?;
    let friends = addresses.map(|address| -> Result<Datagrams> {
        let target = SocketAddr::new(address.parse()?, ECHO).to_string();
        lab.probe(FRIEND, &["datagrams", &target, "--count", "20"])
    });
    let reports = knocking.finish::<Datagrams>()?;
    lab.delete("pod", "default/late")?;
    for (what, report) in reports {
        ensure!(report.answered == 0 && report.sent > 100, "{what}: {report:?}");
    }
    for report in friends {
        let report = report?;
        ensure!(report.lost() == 0, "a friend: {report:?}");
    }
    Ok(())
}

fn frag_4_fragments_go_by_their_first_one(lab: &Lab) -> Result<()> {
    let mut spec = for_apps(&["friend"]);
    for (port, passes) in [(ECHO, true), (ECHO + 1, false)] {
        spec["ingress"][0]["ports"] = json!([{"port": port, "protocol": "UDP"}]);
        let _policy = Policy::apply(lab, spec.clone())?;
        for family in Family::BOTH {
            let target = SocketAddr::new(lab.pod_address("echo", family)?, ECHO).to_string();
            for order in ["forward", "backward", "inward"] {
                let report: Datagrams = lab.probe(FRIEND, &["fragments", &target, "--order", order])?;
                let wanted = Datagrams { sent: 1, answered: passes.into(), ..Datagrams::default() };
                ensure!(report == wanted, "to {target}, {order}, with {port} allowed: {report:?}");
            }
        }
    }
    Ok(())
}

fn np_14_probes_of_the_own_node_alone(lab: &Lab) -> Result<()> {
    let _policy = Policy::for_apps(lab, &["nobody"])?;
    each(|family, protocol| {
        let port = if protocol == Protocol::Tcp { 80 } else { 53 };
        let target = SocketAddr::new(lab.pod_address("web", family)?, port);
        ask_from(lab, Place::Node("n2"), protocol, target, 10)?;
        expect(lab, Place::Node("n1"), protocol, target, Outcome::Silent)?;
        expect(lab, FRIEND, protocol, target, Outcome::Silent)?;
        // A pod reaches itself, and its own node.
        ask_from(lab, Place::Pod("web"), protocol, target, 3).map(drop)
    })
}

/// The translation comes first at either, so the same pods are judged.
fn np_18_node_ports_of_either_node_are_alike(lab: &Lab) -> Result<()> {
    let spec = json!({
        "podSelector": {"matchLabels": {"app": "friend"}},
        "policyTypes": ["Egress"],
        "egress": [{"to": [{"podSelector": {"matchLabels": {"app": "web"}}}], "ports": [{"port": 80}]}],
    });
    let _policy = Policy::apply(lab, spec)?;
    for family in Family::BOTH {
        for from in [FRIEND, NEIGHBOUR] {
            for node in ["n1", "n2"] {
                let at = |service| node_port(lab, (service, WEB), node, family, Protocol::Tcp);
                ask_from(lab, from, Protocol::Tcp, at("web")?, 5)?;
                expect(lab, from, Protocol::Tcp, at("echo")?, Outcome::Silent)
                    .with_context(|| format!("at {node}"))?;
            }
        }
    }
    Ok(())
}

/// However short a time before that the policy was changed, and whether there is a controller to ask or not.
fn a_restart_opens_nothing(lab: &Lab) -> Result<()> {
    let echo = SocketAddr::new(lab.pod_address("echo", Family::V4)?, ECHO);
    let web = lab.service_address("web", Family::V4, WEB)?;
    let policy = Policy::for_apps(lab, &[FOE])?;
    for is_controller_away in [true, false] {
        // What came before has come to rest.
        thread::sleep(4 * MOMENT);
        policy.change(for_apps(&["friend", FOE]))?;
        policy.change(for_apps(&["friend"]))?;
        let controller = is_controller_away.then(|| Away::begin(lab, "controller", Lab::kill)).transpose()?;
        let node = Away::begin(lab, "n2", Lab::kill)?;
        let knocking = Loads::of(lab).add(Place::Pod(FOE), echo, &["datagrams", "--pause", "1"])?;
        node.back()?;
        ask_from(lab, FRIEND, Protocol::Tcp, web, 10)?;
        controller.map(Away::back).transpose()?;
        ask_from(lab, FRIEND, Protocol::Tcp, web, 10)?;
        for (what, report) in knocking.finish::<Datagrams>()? {
            ensure!(report.answered == 0 && report.sent > 5, "{what}: {report:?}");
        }
    }
    Ok(())
}
