//! What comes from outside the cluster and what goes there: node ports, a load balancer's address, and the world.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, anyhow};

use super::outcome::{Outcome, heading};
use super::service::{ask_from, client_pod, curl, failures, netns};
use crate::cluster;
use crate::lab;
use crate::load::Tally;
use crate::name::LabName;
use crate::object::Name;
use crate::outside::Outsider;

const NODE_PORT: u16 = 32155;
const BALANCED: u16 = 80;

/// From the client outside to pods: each sees the client's own address.
pub fn reach(lab: &LabName, outcome: &mut Outcome) -> Result<()> {
    node_ports(lab, outcome)?;
    load_balancer(lab, outcome)?;
    world(lab, outcome)
}

fn node_ports(lab: &LabName, outcome: &mut Outcome) -> Result<()> {
    heading("From outside: number-crunch-service on node port 32155 of every node");
    let client = lab.netns(&Outsider::Client.part());
    let mut whole = Tally::default();
    for node in lab::load(lab)?.nodes {
        for address in [IpAddr::from(node.ipv4), node.ipv6.into()] {
            let target = SocketAddr::new(address, NODE_PORT);
            println!("    $ lab client -- curl http://{target}/square-root/4");
            println!("    {}", curl(&client, &format!("http://{target}/square-root/4"))?.trim());
            add(&mut whole, ask_from(&client, target, &["--fresh", "--clients", "8", "--requests", "200"])?);
        }
    }
    let ok = whole.failed == 0 && whole.members.len() == 2;
    outcome.check("every node answers at the node port", ok, failures(&whole));
    seen(outcome, "through node ports pods see the client itself", &whole);
    Ok(())
}

fn load_balancer(lab: &LabName, outcome: &mut Outcome) -> Result<()> {
    heading("From outside: nginx-load-balancer at an address that every node takes traffic for");
    let state = lab::load(lab)?;
    let node = state.nodes.first().ok_or_else(|| anyhow!("no node"))?;
    let frontends = cluster::frontends(lab, &node.name)?;
    let service = Name::new("default", "nginx-load-balancer");
    let addresses = frontends.get(&service).map(|it| it.ingress.clone()).unwrap_or_default();
    let client = lab.netns(&Outsider::Client.part());
    let mut whole = Tally::default();
    for address in &addresses {
        let target = SocketAddr::new(*address, BALANCED);
        println!("    $ lab client -- curl http://{target}/");
        println!("    {}", curl(&client, &format!("http://{target}/"))?.trim());
        add(&mut whole, ask_from(&client, target, &["--fresh", "--clients", "8", "--requests", "400"])?);
    }
    let ok = addresses.len() == 2 && whole.failed == 0 && whole.members.len() == 2;
    outcome.check("the load balancer's addresses answer", ok, failures(&whole));
    seen(outcome, "through the load balancer pods see the client itself", &whole);
    Ok(())
}

fn world(lab: &LabName, outcome: &mut Outcome) -> Result<()> {
    heading("From a pod to the world beyond");
    let state = lab::load(lab)?;
    let pod = state.pod(&client_pod()).ok_or_else(|| anyhow!("no client pod"))?;
    let node = state.node(&pod.node).with_context(|| format!("no node {}", pod.node))?;
    let mut whole = Tally::default();
    for address in Outsider::Internet.addresses() {
        let target = SocketAddr::new(address, BALANCED);
        println!("    $ lab exec default/client -- curl http://{target}/");
        println!("    {}", curl(&netns(lab, &client_pod())?, &format!("http://{target}/"))?.trim());
        let options = ["--fresh", "--clients", "4", "--requests", "100"];
        add(&mut whole, ask_from(&netns(lab, &client_pod())?, target, &options)?);
    }
    let own = [node.ipv4.to_string(), node.ipv6.to_string()];
    let ok = whole.failed == 0
        && whole.clients.len() == 2
        && own.iter().all(|own| whole.clients.contains_key(own));
    outcome.check("the world sees a pod at its node's address", ok, clients(&whole));
    Ok(())
}

fn seen(outcome: &mut Outcome, name: &'static str, tally: &Tally) {
    let own = Outsider::Client.addresses().map(|address| address.to_string());
    let ok = tally.clients.len() == own.len() && own.iter().all(|own| tally.clients.contains_key(own));
    outcome.check(name, ok, clients(tally));
}

fn clients(tally: &Tally) -> String {
    tally.clients.iter().map(|(client, count)| format!("{client} {count}")).collect::<Vec<_>>().join(", ")
}

fn add(whole: &mut Tally, part: Tally) {
    whole.requests += part.requests;
    whole.failed += part.failed;
    whole.errors.extend(part.errors);
    for (sum, counts) in [(&mut whole.members, part.members), (&mut whole.clients, part.clients)] {
        for (name, count) in counts {
            *sum.entry(name).or_default() += count;
        }
    }
}
