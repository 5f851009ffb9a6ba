//! What is asked of both worlds: who sends what whereto.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{Service, ServicePort};
use vrouter_tests::lab::Family;

use crate::frontends::{Aim, Frontends, cluster_ips, mentioned_ips, number};
use crate::objects::{Objects, service_of};
use crate::packet::{Probe, Protocol};
use crate::place::{Client, NodePortAddresses, OTHERS, OWN, PODS, family_of, outsider};
use crate::random::Random;
use crate::world::Asked;

/// Questions about one service in one family, where it is.
const SERVED: usize = 12;
/// And where it is not.
const NOT_SERVED: usize = 3;
/// A port that no service has.
const NO_PORT: u16 = 7;
const SSH: u16 = 22;
const FIRST_PORT: u16 = 1024;
/// Packets from one address where it matters that all go the same way.
const REPETITIONS: usize = 2;

/// One kind of packet, to be sent many times from different ports or addresses.
#[derive(Debug, Clone)]
pub struct Question {
    /// The Service that is there, if one is.
    pub service: Option<String>,
    /// Who sends.
    pub client: Client,
    /// By which protocol.
    pub protocol: Protocol,
    /// Whereto.
    pub destination: SocketAddr,
    /// What is there.
    pub aim: Aim,
    /// Whether source ranges keep the client from it.
    pub is_barred: bool,
    /// Whether the service keeps its clients at their members.
    pub is_sticky: bool,
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, protocol, destination, aim, .. } = self;
        let service = self.service.as_deref().unwrap_or("no service");
        write!(f, "{client:?} to {destination} by {protocol:?} ({aim:?}, {service})")
    }
}

/// The questions about these objects.
pub fn questions(objects: &Objects, node_ports: NodePortAddresses, random: &mut Random) -> Vec<Question> {
    let frontends = Frontends::of(objects, node_ports);
    let mut questions = Vec::new();
    for service in &objects.services {
        for family in Family::BOTH {
            let clients = clients(objects, service, family, random);
            let possible = about(service, family, &clients, &frontends);
            let (served, others): (Vec<_>, Vec<_>) =
                possible.into_iter().partition(|question| question.service.is_some());
            questions.extend(random.sample(&served, SERVED));
            questions.extend(random.sample(&others, NOT_SERVED));
        }
    }
    questions.extend(Family::BOTH.into_iter().flat_map(|family| beside_services(family, &frontends)));
    questions
}

/// One of each kind; where a pod of the node is an endpoint, it is one of the clients.
fn clients(objects: &Objects, service: &Service, family: Family, random: &mut Random) -> Vec<Client> {
    let slices = objects.slices.iter().filter(|slice| service_of(slice) == service.metadata.name.as_deref());
    let endpoints = slices.flat_map(|slice| slice.endpoints.iter().flatten());
    let addresses: BTreeSet<&String> = endpoints.flat_map(|endpoint| &endpoint.addresses).collect();
    let is_endpoint = |pod: &u8| addresses.contains(&OWN.pod(family, *pod).to_string());
    let mut pods: Vec<u8> = (1..=PODS).filter(is_endpoint).collect();
    if pods.is_empty() {
        pods.extend(1..=PODS);
    }
    let pod = random.pick(&pods);
    vec![Client::Caller, Client::Pod(pod), Client::Node, Client::Guest, Client::Stranger]
}

fn about(service: &Service, family: Family, clients: &[Client], frontends: &Frontends) -> Vec<Question> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let destinations: BTreeSet<_> = ports.flat_map(|port| destinations(service, port, family)).collect();
    let mut questions = Vec::new();
    for (protocol, destination) in destinations {
        let question = |client| question(client, protocol, destination, frontends);
        questions.extend(clients.iter().copied().map(question));
    }
    questions.retain(comes_to_this_node);
    questions
}

fn question(client: Client, protocol: Protocol, destination: SocketAddr, frontends: &Frontends) -> Question {
    let source = client.address(family_of(destination.ip()), 0);
    let server = frontends.server(protocol, destination);
    Question {
        service: server.map(|server| server.service.clone()),
        client,
        protocol,
        destination,
        aim: frontends.aim(protocol, destination),
        is_barred: frontends.is_barred(source, protocol, destination),
        is_sticky: server.is_some_and(|server| server.is_sticky),
    }
}

/// Where a port of a service is, and where it only might be.
fn destinations(service: &Service, port: &ServicePort, family: Family) -> BTreeSet<(Protocol, SocketAddr)> {
    let (protocol, own) = (Protocol::named(port.protocol.as_deref()), number(port.port));
    let is_of_family = |address: &IpAddr| family_of(*address) == family;
    let cluster = service.spec.iter().flat_map(cluster_ips);
    let addresses = cluster.chain(mentioned_ips(service)).filter(is_of_family);
    let mut found = BTreeSet::new();
    for address in addresses {
        let others = Protocol::ALL.into_iter().filter(|other| *other != protocol);
        found.insert((protocol, SocketAddr::new(address, own)));
        found.insert((protocol, SocketAddr::new(address, NO_PORT)));
        found.extend(others.map(|other| (other, SocketAddr::new(address, own))));
        found.extend(port.node_port.map(|port| (protocol, SocketAddr::new(address, number(port)))));
    }
    let nodes = OWN.addresses(family).into_iter().chain([OTHERS[0].address(family)]);
    if let Some(node_port) = port.node_port.map(number) {
        found.extend(nodes.clone().map(|address| (protocol, SocketAddr::new(address, node_port))));
    }
    found
}

/// Packets that concern no service.
fn beside_services(family: Family, frontends: &Frontends) -> Vec<Question> {
    let destinations = [
        (OWN.address(family), SSH),
        (OWN.addresses(family)[1], SSH),
        (OTHERS[0].address(family), SSH),
        (OWN.pod(family, 2), SSH),
        (OTHERS[0].pod(family, 1), SSH),
        (outsider(family, 100), SSH),
    ];
    let clients = [Client::Caller, Client::Pod(1), Client::Node, Client::Guest];
    let mut questions = Vec::new();
    for (address, port) in destinations {
        for protocol in Protocol::ALL {
            let destination = SocketAddr::new(address, port);
            questions.extend(clients.map(|client| question(client, protocol, destination, frontends)));
        }
    }
    questions.retain(comes_to_this_node);
    questions
}

/// Whether such a packet meets the node at all, and its services: a process's packets to other nodes and beyond leave it
/// as they are, and strangers send those elsewhere.
fn comes_to_this_node(question: &Question) -> bool {
    let goes_elsewhere = matches!(question.aim, Aim::OthersNodePort | Aim::OtherNode | Aim::Beyond);
    question.client.pod().is_some() || !goes_elsewhere
}

/// Source ports and addresses that were not used yet.
#[derive(Debug, Default)]
pub struct Sources {
    ports: BTreeMap<Client, u16>,
    addresses: BTreeMap<Client, u16>,
}

impl Sources {
    /// These questions, with so many packets for each.
    pub fn asked<'a>(&mut self, questions: &'a [Question], count: usize) -> Vec<Asked<'a>> {
        let asked = |question| Asked { question, probes: self.probes(question, count) };
        questions.iter().map(asked).collect()
    }

    /// So many packets that ask a question. No two of one run have the same source.
    fn probes(&mut self, question: &Question, count: usize) -> Vec<Probe> {
        let Question { client, protocol, destination, is_sticky, .. } = *question;
        let family = family_of(destination.ip());
        let mut address = client.address(family, 0);
        let mut probes = Vec::with_capacity(count);
        for number in 0..count {
            if is_sticky && number % REPETITIONS == 0 {
                let which = self.addresses.entry(client).or_default();
                *which += 1;
                address = client.address(family, *which);
            }
            let port = self.ports.entry(client).or_insert(FIRST_PORT);
            *port += 1;
            let source = SocketAddr::new(address, *port);
            probes.push(Probe { client, protocol, source, destination });
        }
        probes
    }
}
