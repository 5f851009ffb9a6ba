//! Link-local addresses: how a node reaches its own pods, whatever network they are in, and nobody else does. Two tenants
//! have the same addresses on the same nodes; pods of the cluster's own network are beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ipnet::IpNet;
use serde_json::{Value, json};
use vrouter_tests::attempt::{Asked, Asker, Attempt, Manner, Verdict};
use vrouter_tests::lab::{Family, Lab, Place, Programs, Shape};
use vrouter_tests::manifest::server_pod;
use vrouter_tests::report::{Load, Outcome, Replies, Reply};

use crate::attempts::carry_out;
use crate::away::Away;
use crate::example::Example;
use crate::group::{Group, cases};
use crate::load::{Loads, Protocol, all_answered, ask_seen_as, each, expect, members};
use crate::way::Way;

pub const GROUP: Group = Group {
    name: "link_local",
    shape: Shape { nodes: 2, kernel_nodes: 0 },
    objects,
    cases: cases![
        every_pod_has_one_of_each_family,
        the_controller_knows_them,
        a_node_reaches_its_pods_of_every_network,
        a_node_reaches_its_pods_whatever_policies_say,
        pods_do_not_reach_them,
        other_nodes_and_clients_do_not_reach_them,
        what_is_nobodys_is_refused,
        they_and_connections_outlive_a_kill,
        a_pod_that_is_gone_is_not_reached,
    ],
};

const NODES: [&str; 2] = ["n1", "n2"];
/// Where they come from.
const PREFIXES: [&str; 2] = ["169.254.64.0/18", "fd00:169:254::/112"];
const TENANTS: [&str; 2] = ["red", "blue"];
/// They answer.
const SERVERS: [&str; 5] =
    ["red/red-web-1", "red/red-web-2", "blue/blue-web-1", "blue/blue-web-2", "default/plain"];
const CLIENTS: [&str; 3] = ["red/red-client", "blue/blue-client", "town/client"];
const HTTP: u16 = 80;
const DNS: u16 = 53;
const SERVED: [(&str, u16); 2] = [("TCP", HTTP), ("UDP", DNS)];

fn objects(_: &Programs) -> Vec<Value> {
    let tenants = Example::read("tenants/overlapping.yaml").and_then(|example| example.objects());
    let mut objects = tenants.expect("it comes with the project");
    objects.push(server_pod("plain", NODES[0], &SERVED));
    objects
}

/// The port on which the servers speak a protocol.
fn port(protocol: Protocol) -> u16 {
    match protocol {
        Protocol::Tcp => HTTP,
        Protocol::Udp => DNS,
    }
}

/// By which its node reaches a pod.
fn link_local(lab: &Lab, pod: &str, family: Family) -> Result<IpAddr> {
    let addresses = lab.interface(pod)?.link_local;
    family.pick(&addresses).with_context(|| format!("{pod}: no {family:?} address among {addresses:?}"))
}

/// What a node's pods have, by their names.
fn of_node(lab: &Lab, node: &str) -> Result<BTreeMap<String, Vec<IpAddr>>> {
    let interfaces = lab.interfaces(node)?.into_iter().filter(|interface| interface.name.contains('/'));
    Ok(interfaces.map(|interface| (interface.name, interface.link_local)).collect())
}

/// The router as a pod knows it: in its name the node speaks to the pod.
fn gateway(lab: &Lab, pod: &str, family: Family) -> Result<IpAddr> {
    let family = if family == Family::V4 { "-4" } else { "-6" };
    let words = ["ip", "-j", family, "route", "show", "default"];
    let routes: Value = lab.exec(Place::Pod(pod), &words)?.success()?.json()?;
    let gateway = routes.pointer("/0/gateway").and_then(Value::as_str);
    Ok(gateway.with_context(|| format!("{pod}: no gateway: {routes}"))?.parse()?)
}

fn every_pod_has_one_of_each_family(lab: &Lab) -> Result<()> {
    let prefixes = PREFIXES.map(|prefix| prefix.parse::<IpNet>().expect("it is one"));
    let mut pods = 0;
    for node in NODES {
        let mut holders = BTreeMap::new();
        for (pod, addresses) in of_node(lab, node)? {
            pods += 1;
            let is_in = |(prefix, address): (&IpNet, &IpAddr)| prefix.contains(address);
            let are_right = addresses.len() == prefixes.len() && prefixes.iter().zip(&addresses).all(is_in);
            ensure!(are_right, "{pod}: {addresses:?}");
            for address in addresses {
                let holder = holders.insert(address, pod.clone());
                ensure!(holder.is_none(), "{address} is both {pod}'s and {holder:?}'s");
            }
        }
    }
    ensure!(pods == lab.status()?.pods.len(), "{pods} pods have some");
    Ok(())
}

/// As addresses of interfaces in a network of their own.
fn the_controller_knows_them(lab: &Lab) -> Result<()> {
    let mut given = BTreeSet::new();
    for node in NODES {
        for (pod, addresses) in of_node(lab, node)? {
            given.extend(addresses.into_iter().map(|address| (format!("{pod}-eth0"), address.to_string())));
        }
    }
    let instance_ips: Vec<Value> = lab.vrctl("controller", &["get", "iip"])?;
    let known: BTreeSet<_> = instance_ips.iter().filter_map(known).collect();
    ensure!(known == given, "the nodes gave {given:?}, and the controller knows {known:?}");
    Ok(())
}

/// The interface and its address, if that is a link-local one.
fn known(instance_ip: &Value) -> Option<(String, String)> {
    let text = |path: &str| instance_ip.pointer(path)?.as_str();
    let network = "/spec/virtualNetworkReference";
    let network = (text(&format!("{network}/namespace"))?, text(&format!("{network}/name"))?);
    let interface = "/spec/virtualMachineInterfaceReferences/0";
    let interface = (text(&format!("{interface}/namespace"))?, text(&format!("{interface}/name"))?);
    let address = text("/spec/instanceIPAddress")?.to_owned();
    (network == ("default", "link-local")).then(|| (format!("{}/{}", interface.0, interface.1), address))
}

fn a_node_reaches_its_pods_of_every_network(lab: &Lab) -> Result<()> {
    for pod in SERVERS {
        reaches(lab, pod)?;
    }
    Ok(())
}

/// Its node reaches a pod, no other pod answers, and the pod sees its gateway.
fn reaches(lab: &Lab, pod: &str) -> Result<()> {
    let node = lab.pod(pod)?.node;
    let from = Place::Node(&node);
    each(|family, protocol| {
        let target = SocketAddr::new(link_local(lab, pod, family)?, port(protocol));
        let tally = ask_seen_as(lab, from, protocol, target, gateway(lab, pod, family)?)?;
        let is_its = |name: &str| pod.ends_with(&format!("/{name}"));
        ensure!(members(&tally).into_iter().all(is_its), "{pod} at {target}: {tally:?}");
        Ok(())
    })?;
    for family in Family::BOTH {
        let address = link_local(lab, pod, family)?.to_string();
        // One goes in fragments.
        for size in ["56", "3000"] {
            let words = ["ping", "-n", "-c", "2", "-i", "0.05", "-W", "2", "-s", size, &address];
            lab.exec(from, &words)?.success()?;
        }
    }
    Ok(())
}

/// It probes them, as kubelet does. Others are kept out, so policies are in force.
fn a_node_reaches_its_pods_whatever_policies_say(lab: &Lab) -> Result<()> {
    let nothing = |namespace| {
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "nothing", "namespace": namespace},
            "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
        })
    };
    let namespaces = [TENANTS[0], TENANTS[1], "default"];
    lab.apply(&namespaces.map(nothing))?;
    let outcome = SERVERS.into_iter().try_for_each(|pod| reaches(lab, pod)).and_then(|()| {
        let ask = |(tenant, manner)| Attempt {
            from: Asker::Pod(format!("{tenant}/{tenant}-client")),
            to: Asked::Pod(format!("{tenant}/{tenant}-web-1")),
            manner,
            verdict: Verdict::Denied,
        };
        let manners = [Manner::Tcp(HTTP), Manner::Udp(DNS)];
        let attempts = TENANTS.iter().flat_map(|tenant| manners.map(|manner| ask((tenant, manner))));
        carry_out(lab, &attempts.collect::<Vec<_>>())
    });
    for namespace in namespaces {
        lab.delete("NetworkPolicy", &format!("{namespace}/nothing"))?;
    }
    outcome
}

/// What came of asking at an address.
#[derive(Debug)]
struct Answers {
    address: IpAddr,
    tcp: Replies,
    udp: Replies,
}

impl Answers {
    fn are_none(&self) -> bool {
        let is_answered = |reply: &Reply| matches!(reply, Reply::Answered { .. });
        !self.tcp.iter().chain(&self.udp).any(is_answered)
    }
}

/// Asks once by each protocol at each of these addresses.
fn survey(lab: &Lab, from: Place, addresses: &[IpAddr]) -> Result<Vec<Answers>> {
    let line = |address: &IpAddr| {
        Protocol::BOTH.map(|protocol| {
            let target = SocketAddr::new(*address, port(protocol));
            let patience = match protocol {
                // Linux does not hear an ICMP error that comes before it is done with sending, and sends again.
                Protocol::Tcp => 5000,
                Protocol::Udp => 500,
            };
            format!("{target} --protocol {} --count 1 --patience {patience}\n", protocol.word())
        })
    };
    let lines: Vec<_> = addresses.iter().flat_map(line).collect();
    let found: Vec<Replies> = lab.probe_with(from, &["survey"], &lines.concat())?;
    ensure!(found.len() == lines.len(), "{from:?}: {} of {} answers", found.len(), lines.len());
    let mut found = found.into_iter();
    let answers = addresses
        .iter()
        .map_while(|address| Some(Answers { address: *address, tcp: found.next()?, udp: found.next()? }));
    Ok(answers.collect())
}

/// Nobody answers, not even a ping, and whoever wants to connect is told.
fn reaches_nobody(lab: &Lab, from: Place, addresses: &[IpAddr]) -> Result<()> {
    for answers in survey(lab, from, addresses)? {
        let is_told = !answers.tcp.contains(&Reply::Silent);
        ensure!(answers.are_none() && is_told, "from {from:?}: {answers:?}");
    }
    for address in addresses {
        let words = ["ping", "-n", "-c", "1", "-W", "1", &address.to_string()];
        ensure!(lab.exec(from, &words)?.code != Some(0), "{address} answers {from:?}");
    }
    Ok(())
}

/// Neither those of their own node, nor another's, nor their own.
fn pods_do_not_reach_them(lab: &Lab) -> Result<()> {
    let mut addresses = Vec::new();
    for node in NODES {
        addresses.extend(of_node(lab, node)?.into_values().flatten());
    }
    addresses.sort_unstable();
    addresses.dedup();
    for pod in CLIENTS.iter().chain(&SERVERS) {
        reaches_nobody(lab, Place::Pod(pod), &addresses)?;
    }
    Ok(())
}

/// Who sends them to the node whose they are gets nowhere. Without such a way, they are another node's own.
fn other_nodes_and_clients_do_not_reach_them(lab: &Lab) -> Result<()> {
    for (node, other) in [(NODES[0], NODES[1]), (NODES[1], NODES[0])] {
        let addresses: Vec<_> = of_node(lab, node)?.into_values().flatten().collect();
        for from in [Place::SecondClient, Place::Node(other)] {
            let way = |address: &IpAddr| Way::of(lab, from, *address, node);
            let _ways = addresses.iter().map(way).collect::<Result<Vec<_>>>()?;
            reaches_nobody(lab, from, &addresses)?;
        }
        let own = of_node(lab, other)?;
        for answers in survey(lab, Place::Node(other), &addresses)? {
            for reply in answers.tcp.iter().chain(&answers.udp) {
                let Reply::Answered { pod, .. } = reply else { continue };
                let is_it = |(name, has): (&String, &Vec<IpAddr>)| {
                    has.contains(&answers.address) && name.ends_with(&format!("/{pod}"))
                };
                ensure!(own.iter().any(is_it), "{other}, which has {own:?}: {answers:?}");
            }
        }
    }
    Ok(())
}

/// Somebody could take a hanging connection for a slow pod.
fn what_is_nobodys_is_refused(lab: &Lab) -> Result<()> {
    for address in ["169.254.127.200", "fd00:169:254::fff0"] {
        for protocol in Protocol::BOTH {
            let target = SocketAddr::new(address.parse()?, port(protocol));
            expect(lab, Place::Node(NODES[0]), protocol, target, Outcome::Refused)?;
        }
    }
    Ok(())
}

fn they_and_connections_outlive_a_kill(lab: &Lab) -> Result<()> {
    let node = lab.pod(SERVERS[0])?.node;
    let before = of_node(lab, &node)?;
    let servers: Vec<_> = SERVERS.into_iter().filter(|pod| before.contains_key(*pod)).collect();
    for is_controller_away in [false, true] {
        let mut connections = Loads::of(lab);
        for pod in &servers {
            for family in Family::BOTH {
                let target = SocketAddr::new(link_local(lab, pod, family)?, HTTP);
                connections = connections.add(Place::Node(&node), target, &["load", "--kept", "4"])?;
            }
        }
        thread::sleep(Duration::from_millis(500));
        let controller = is_controller_away.then(|| Away::begin(lab, "controller", Lab::kill)).transpose()?;
        Away::begin(lab, &node, Lab::kill)?.back()?;
        let after = of_node(lab, &node)?;
        ensure!(after == before, "{node} had {before:?}, and has {after:?}");
        // Longer than the next retransmission.
        thread::sleep(Duration::from_secs(2));
        for (what, Load { kept, moved, closed, .. }) in connections.finish::<Load>()? {
            all_answered(&what, &kept)?;
            ensure!(moved == 0 && closed == 0, "{what}: {moved} moved, {closed} closed");
        }
        servers.iter().try_for_each(|pod| reaches(lab, pod))?;
        controller.map(Away::back).transpose()?;
        ensure!(of_node(lab, &node)? == before, "{node} had {before:?} before the controller was back");
    }
    Ok(())
}

/// Refused, and not somebody else's at once.
fn a_pod_that_is_gone_is_not_reached(lab: &Lab) -> Result<()> {
    let mut visitor = server_pod("visitor", NODES[0], &SERVED);
    visitor["metadata"]["namespace"] = json!(TENANTS[0]);
    let visitor = [visitor];
    let name = "red/visitor";
    let visit = || {
        lab.apply(&visitor)?;
        let addresses = reaches(lab, name).and_then(|()| Ok(lab.interface(name)?.link_local));
        lab.delete("Pod", name)?;
        addresses
    };
    let addresses = visit()?;
    for address in &addresses {
        for protocol in Protocol::BOTH {
            let target = SocketAddr::new(*address, port(protocol));
            expect(lab, Place::Node(NODES[0]), protocol, target, Outcome::Refused)?;
        }
    }
    let others = visit()?;
    ensure!(others.iter().all(|other| !addresses.contains(other)), "{others:?} after {addresses:?}");
    Ok(())
}
