//! Cases worked out by hand. Each is asked of the text's reading, which is thereby checked, and of the data path, in both
//! families.

mod documented;
mod known;

use std::net::IpAddr;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use libtest_mimic::Trial;
use serde::Deserialize;
use serde_json::Value;
use vrouter_tests::lab::Family;

use crate::fleet::NODES;
use crate::objects::node_address;
use crate::play::play;
use crate::reach::{Origin, Probe, Reach, Target, Transport};
use crate::script::{Script, Step};
use crate::text::Verdict;
use crate::wire::Shape;
use crate::world::{
    Isolation, Labels, Name, NamedPort, Namespace, Node, Phase, Pod, Protocol, Service, Status, World,
};

/// A small world, and what is known of packets in it.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// What it shows.
    pub name: &'static str,
    /// Who is there, in YAML: [`Cast`].
    pub cast: &'static str,
    /// NetworkPolicies and ClusterNetworkPolicies, in YAML.
    pub policies: &'static str,
    /// Packets `FROM -> TO PROTOCOL PORT`, and what becomes of them. A pod is `namespace/name`, a service
    /// `service:namespace/name`, its node port `node-port:namespace/name@n2`, a node `n1`, and one outside an address.
    pub packets: &'static [(&'static str, Verdict)],
}

/// Who is there.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cast {
    /// Labels of declared namespaces.
    #[serde(default)]
    namespaces: std::collections::BTreeMap<String, Labels>,
    /// Pods by `namespace/name`.
    #[serde(default)]
    pods: std::collections::BTreeMap<String, CastPod>,
    /// Services by `namespace/name`.
    #[serde(default)]
    services: std::collections::BTreeMap<String, CastService>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CastPod {
    node: usize,
    #[serde(default)]
    labels: Labels,
    /// Such as `TCP 80`, by name.
    #[serde(default)]
    ports: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    on_host: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CastService {
    /// Such as `TCP 80`.
    port: String,
    /// Pods with their ports.
    endpoints: std::collections::BTreeMap<String, u16>,
}

/// All cases.
pub fn trials() -> Vec<Trial> {
    let cases = documented::CASES.iter().chain(known::CASES);
    let both = |case: &Case| {
        let case = *case;
        [
            crate::trial(format!("text_of::{}", case.name), move || case.against_text()),
            crate::trial(format!("path_of::{}", case.name), move || case.against_path()),
        ]
    };
    cases.flat_map(both).collect()
}

impl Case {
    fn against_text(&self) -> Result<()> {
        let world = self.world()?;
        for (probe, text, expected) in self.probes()? {
            let Reach::Links(links) = probe.reach(&world) else { bail!("{text}: {:?}", probe.reach(&world)) };
            for link in links {
                let verdict = link.verdict(&world);
                ensure!(
                    verdict == Some(expected),
                    "{text}, {:?}: {verdict:?}, not {expected:?}",
                    probe.family
                );
            }
        }
        Ok(())
    }

    fn against_path(&self) -> Result<()> {
        let steps = self.probes()?.into_iter().map(|(probe, ..)| Step::Begin(probe)).collect();
        let script = Script { world: self.world()?, steps };
        if let Err(disagreement) = play(&script)? {
            bail!("{}\n{script}\n{}", disagreement.summary, disagreement.details);
        }
        Ok(())
    }

    fn probes(&self) -> Result<Vec<(Probe, &'static str, Verdict)>> {
        let mut probes = Vec::new();
        for (text, verdict) in self.packets {
            for family in Family::BOTH {
                let id = u16::try_from(probes.len())?;
                // Whoever is outside has an address of one family.
                if let Some(probe) = read_packet(text, family, id).context(*text)? {
                    probes.push((probe, *text, *verdict));
                }
            }
        }
        Ok(probes)
    }

    fn world(&self) -> Result<World> {
        let cast: Cast = serde_yaml_ng::from_str(self.cast)?;
        let mut world = World::default();
        world.nodes.extend((1..=NODES).map(|number| (number, Node::default())));
        let declared = |(name, labels)| (name, Namespace { labels, isolation: Isolation::Shared });
        world.namespaces.extend(cast.namespaces.into_iter().map(declared));
        for (number, (name, pod)) in cast.pods.into_iter().enumerate() {
            world.pods.insert(read_name(&name)?, pod.read(number)?);
        }
        for (number, (name, service)) in cast.services.into_iter().enumerate() {
            world.services.insert(read_name(&name)?, service.read(number)?);
        }
        for document in serde_yaml_ng::Deserializer::from_str(self.policies) {
            let object = Value::deserialize(document)?;
            let name = object["metadata"]["name"].as_str().context("metadata.name")?.to_owned();
            if object["kind"] == "NetworkPolicy" {
                let policy: NetworkPolicy = serde_json::from_value(object)?;
                let namespace = policy.metadata.namespace.clone().context("metadata.namespace")?;
                world.policies.insert(Name { namespace, name }, policy);
            } else {
                world.cluster_policies.insert(name, serde_json::from_value(object["spec"].clone())?);
            }
        }
        Ok(world)
    }
}

impl CastPod {
    fn read(self, number: usize) -> Result<Pod> {
        let mut ports = Vec::new();
        for (name, text) in &self.ports {
            let (protocol, number) = read_port(text)?;
            // A name may be given once for each protocol: what comes behind a dot is not part of it.
            let name = name.split('.').next().unwrap_or(name).to_owned();
            ports.push(NamedPort { name, protocol, number });
        }
        let host = 10 + u8::try_from(number)?;
        let node = u8::try_from(self.node)?;
        let addresses = match self.on_host {
            Some(_) => Family::BOTH.map(|family| node_address(self.node, family)).to_vec(),
            None => vec![
                IpAddr::from([10, 244, node, host]),
                IpAddr::from([0xfd00, 0x10, 0x244, node.into(), 0, 0, 0, host.into()]),
            ],
        };
        let phase = if self.on_host.is_some() { Phase::OnHost } else { Phase::Running };
        Ok(Pod { node: self.node, labels: self.labels, ports, addresses, phase, status: Status::Stated })
    }
}

impl CastService {
    fn read(self, number: usize) -> Result<Service> {
        let (protocol, port) = read_port(&self.port)?;
        let host = 10 + u8::try_from(number)?;
        let addresses = vec![
            IpAddr::from([10, 96, 1, host]),
            IpAddr::from([0xfd00, 0x10, 0x96, 0, 0, 0, 1, host.into()]),
        ];
        let endpoints = self.endpoints.iter().map(|(name, port)| Ok((read_name(name)?, *port)));
        let endpoints = endpoints.collect::<Result<_>>()?;
        Ok(Service { addresses, protocol, port, node_port: 30_000 + u16::from(host), endpoints })
    }
}

fn read_name(text: &str) -> Result<Name> {
    let (namespace, name) = text.split_once('/').with_context(|| format!("{text}: no namespace"))?;
    Ok(Name::new(namespace, name))
}

fn read_port(text: &str) -> Result<(Protocol, u16)> {
    let (protocol, port) = text.split_once(' ').with_context(|| format!("{text}: no port"))?;
    Ok((read_protocol(protocol)?, port.parse()?))
}

fn read_protocol(text: &str) -> Result<Protocol> {
    let found = Protocol::ALL.into_iter().find(|it| it.name() == text);
    found.with_context(|| format!("{text}: no protocol"))
}

fn read_node(text: &str) -> Option<usize> {
    text.strip_prefix('n')?.parse().ok()
}

/// Reads `FROM -> TO PROTOCOL PORT`, or `FROM -> TO PING`; `None`: there is no such packet in this family.
fn read_packet(text: &str, family: Family, id: u16) -> Result<Option<Probe>> {
    let (from, rest) = text.split_once(" -> ").context("no arrow")?;
    let mut words = rest.split(' ');
    let to = words.next().context("no destination")?;
    let transport = match words.next() {
        None | Some("PING") => Transport::Echo,
        Some(protocol) => Transport::Ports(read_protocol(protocol)?),
    };
    let port: u16 = words.next().map_or(Ok(0), str::parse)?;
    let outside = [from, to].into_iter().filter_map(|word| word.parse::<IpAddr>().ok()).next();
    if outside.is_some_and(|address| crate::world::family_of(address) != family) {
        return Ok(None);
    }
    let from = match (read_node(from), from.parse()) {
        (Some(node), _) => Origin::Node(node),
        (None, Ok(address)) => Origin::Outside { address, entry: 2 },
        (None, Err(_)) => Origin::Pod(read_name(from)?),
    };
    let to = match (read_node(to), to.parse()) {
        (Some(node), _) => Target::Node(node, port),
        (None, Ok(address)) => Target::Outside(address, port),
        (None, Err(_)) => match to.split_once(':') {
            Some(("service", name)) => Target::Cluster(read_name(name)?),
            Some(("node-port", name)) => {
                let (name, node) = name.split_once('@').context("no node")?;
                Target::NodePort(read_name(name)?, read_node(node).context("no node")?)
            }
            _ => Target::Pod(read_name(to)?, port),
        },
    };
    Ok(Some(Probe { id, from, to, family, transport, shape: Shape::Whole }))
}
