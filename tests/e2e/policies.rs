//! Which members a client gets: traffic policies, topology, affinity.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use vrouter_tests::lab::{Family, Lab, Place, Programs, Shape};
use vrouter_tests::manifest::{Endpoints, ServicePort, idle_pod, of_app, server_pod, service, with_spec};
use vrouter_tests::report::Outcome;

use crate::group::{Group, cases};
use crate::load::{Protocol, ask_from, ask_seen_as, each, expect, members, node_port};
use crate::way::Way;

pub const GROUP: Group = Group {
    name: "policies",
    shape: Shape { nodes: 3, kernel_nodes: 0 },
    objects,
    cases: cases![
        external_policy_local_stays_on_the_node,
        tpol_2_external_policy_local_means_nothing_inside,
        tpol_5_nobody_at_all_is_said_nobody_here_is_not,
        stale_7_a_member_comes_to_the_node,
        the_health_check_port_tells_of_own_members,
        internal_policy_local_stays_on_the_node,
        affinity_holds_across_frontends,
        aff_5_without_affinity_one_client_is_spread,
        close_members_are_preferred,
    ],
};

/// Of these the third has no members.
const NODES: [&str; 3] = ["n1", "n2", "n3"];
const WITH_MEMBERS: [(&str, &str); 2] = [("n1", "web-1"), ("n2", "web-2")];
const PORT: u16 = 8080;

fn objects(_: &Programs) -> Vec<Value> {
    let ports = ["TCP", "UDP"].map(|protocol| ServicePort { protocol, port: PORT, target: 80 });
    let both = [("TCP", 80), ("UDP", 80)];
    let of_web = |name, spec| with_spec(service(name, Endpoints::OfApp("web"), &ports), spec);
    vec![
        of_app("web", server_pod("web-1", "n1", &both)),
        of_app("web", server_pod("web-2", "n2", &both)),
        idle_pod("near", "n1"),
        idle_pod("away", "n3"),
        of_web("external-local", json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"})),
        of_web("internal-local", json!({"internalTrafficPolicy": "Local"})),
        of_web("sticky", json!({"type": "LoadBalancer", "sessionAffinity": "ClientIP"})),
        of_web("loose", json!({"type": "NodePort"})),
        of_web("close", json!({"trafficDistribution": "PreferClose"})),
        with_spec(
            service("nobody-local", Endpoints::OfApp("nobody"), &ports),
            json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}),
        ),
    ]
}

fn external_policy_local_stays_on_the_node(lab: &Lab) -> Result<()> {
    each(|family, protocol| {
        let balanced = lab.ingress("external-local", family, PORT)?;
        let (client, second) =
            (lab.address(Place::Client, family)?, lab.address(Place::SecondClient, family)?);
        for (node, member) in WITH_MEMBERS {
            let target = node_port(lab, ("external-local", PORT), node, family, protocol)?;
            let tally = ask_seen_as(lab, Place::Client, protocol, target, client)?;
            ensure!(members(&tally) == [member], "at {node}: {tally:?}");
            let _way = Way::by(lab, balanced.ip(), node)?;
            let tally = ask_seen_as(lab, Place::SecondClient, protocol, balanced, second)?;
            ensure!(members(&tally) == [member], "by way of {node}: {tally:?}");
        }
        let target = node_port(lab, ("external-local", PORT), "n3", family, protocol)?;
        expect(lab, Place::Client, protocol, target, Outcome::Silent)?;
        let _way = Way::by(lab, balanced.ip(), "n3")?;
        expect(lab, Place::SecondClient, protocol, balanced, Outcome::Silent)
    })
}

/// Pods and nodes get every member, by whichever frontend.
fn tpol_2_external_policy_local_means_nothing_inside(lab: &Lab) -> Result<()> {
    each(|family, protocol| {
        let targets = [
            lab.service_address("external-local", family, PORT)?,
            lab.ingress("external-local", family, PORT)?,
            node_port(lab, ("external-local", PORT), "n3", family, protocol)?,
        ];
        for from in [Place::Pod("away"), Place::Node("n3")] {
            for target in targets {
                let tally = ask_from(lab, from, protocol, target, 40)?;
                ensure!(members(&tally) == ["web-1", "web-2"], "{from:?} to {target}: {tally:?}");
            }
        }
        Ok(())
    })
}

fn tpol_5_nobody_at_all_is_said_nobody_here_is_not(lab: &Lab) -> Result<()> {
    each(|family, protocol| {
        let nobody = node_port(lab, ("nobody-local", PORT), "n1", family, protocol)?;
        expect(lab, Place::Client, protocol, nobody, Outcome::Refused)?;
        let elsewhere = node_port(lab, ("external-local", PORT), "n3", family, protocol)?;
        expect(lab, Place::Client, protocol, elsewhere, Outcome::Silent)
    })
}

/// What counts is the node's own set: that of the cluster never was empty.
fn stale_7_a_member_comes_to_the_node(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        let target = node_port(lab, ("external-local", PORT), "n3", family, Protocol::Udp)?;
        let words = ["steady", &target.to_string(), "--pause", "5", "--patience", "50"];
        let steady = lab.start_probe(Place::Client, &words)?;
        lab.apply(&[of_app("web", server_pod("web-3", "n3", &[("TCP", 80), ("UDP", 80)]))])?;
        std::thread::sleep(std::time::Duration::from_millis(300));
        let report: vrouter_tests::report::Steady = steady.finish(std::time::Duration::from_secs(10))?;
        lab.delete("pod", "default/web-3")?;
        ensure!(report.members.keys().eq(["web-3"]), "one socket's questions: {report:?}");
    }
    Ok(())
}

fn the_health_check_port_tells_of_own_members(lab: &Lab) -> Result<()> {
    let port =
        lab.service("external-local")?.health_check_node_port.context("no health check port")?.try_into()?;
    for family in Family::BOTH {
        for node in NODES {
            let url =
                format!("http://{}/healthz", SocketAddr::new(lab.address(Place::Node(node), family)?, port));
            let words = ["curl", "-s", "-g", "--max-time", "5", "-w", " %{http_code}", &url];
            let said = lab.exec(Place::Client, &words)?.success()?.stdout;
            let Some((body, code)) = said.rsplit_once(' ') else { bail!("{url}: {said}") };
            let body: Value = serde_json::from_str(body).with_context(|| said.clone())?;
            let own = WITH_MEMBERS.iter().filter(|(with, _)| *with == node).count();
            ensure!(code == if own > 0 { "200" } else { "503" }, "{url}: {said}");
            ensure!(body["localEndpoints"] == own, "{url}: {said}");
            ensure!(
                body["service"] == json!({"namespace": "default", "name": "external-local"}),
                "{url}: {said}"
            );
        }
    }
    Ok(())
}

fn internal_policy_local_stays_on_the_node(lab: &Lab) -> Result<()> {
    each(|family, protocol| {
        let target = lab.service_address("internal-local", family, PORT)?;
        for from in [Place::Pod("near"), Place::Node("n1")] {
            let tally = ask_from(lab, from, protocol, target, 20)?;
            ensure!(members(&tally) == ["web-1"], "{from:?}: {tally:?}");
        }
        for from in [Place::Pod("away"), Place::Node("n3")] {
            expect(lab, from, protocol, target, Outcome::Silent)?;
        }
        Ok(())
    })
}

/// One client has one member at a node, by whichever frontend of the port it comes.
fn affinity_holds_across_frontends(lab: &Lab) -> Result<()> {
    each(|family, protocol| {
        let balanced = lab.ingress("sticky", family, PORT)?;
        let _way = Way::by(lab, balanced.ip(), "n3")?;
        let at_node = node_port(lab, ("sticky", PORT), "n3", family, protocol)?;
        let first = ask_from(lab, Place::SecondClient, protocol, at_node, 40)?;
        let second = ask_from(lab, Place::SecondClient, protocol, balanced, 40)?;
        ensure!(
            first.members.len() == 1 && members(&first) == members(&second),
            "{first:?}, then {second:?}"
        );
        let inside = lab.service_address("sticky", family, PORT)?;
        let tally = ask_from(lab, Place::Pod("away"), protocol, inside, 40)?;
        ensure!(tally.members.len() == 1, "a pod: {tally:?}");
        Ok(())
    })
}

fn aff_5_without_affinity_one_client_is_spread(lab: &Lab) -> Result<()> {
    each(|family, protocol| {
        let tally = ask_from(
            lab,
            Place::Client,
            protocol,
            node_port(lab, ("loose", PORT), "n3", family, protocol)?,
            100,
        )?;
        ensure!(tally.members.values().all(|share| *share > 20) && tally.members.len() == 2, "{tally:?}");
        Ok(())
    })
}

/// The nodes' zones, for as long as this lives.
struct Zones<'a>(&'a Lab);

impl<'a> Zones<'a> {
    fn begin(lab: &'a Lab) -> Result<Self> {
        let zones = Self(lab);
        zones.label([("n1", json!("a")), ("n2", json!("b")), ("n3", json!("b"))])?;
        Ok(zones)
    }

    fn label(&self, zones: [(&str, Value); 3]) -> Result<()> {
        let node = |(node, zone): (&str, Value)| {
            let labels = match zone {
                Value::Null => json!({}),
                zone => json!({"topology.kubernetes.io/zone": zone}),
            };
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": labels}, "spec": {}})
        };
        self.0.apply(&zones.map(node))
    }
}

impl Drop for Zones<'_> {
    fn drop(&mut self) {
        // A later case would fail and tell.
        let _ = self.label(NODES.map(|node| (node, Value::Null)));
    }
}

fn close_members_are_preferred(lab: &Lab) -> Result<()> {
    let _zones = Zones::begin(lab)?;
    each(|family, protocol| {
        let target = lab.service_address("close", family, PORT)?;
        for (from, wanted) in
            [(Place::Pod("near"), "web-1"), (Place::Pod("away"), "web-2"), (Place::Node("n3"), "web-2")]
        {
            let tally = ask_from(lab, from, protocol, target, 20)?;
            ensure!(members(&tally) == [wanted], "{from:?}: {tally:?}");
        }
        Ok(())
    })
}
