//! The node as a whole, or the controller.

use ipnet::IpNet;
use serde::Serialize;
use vrouter_objects::ObjectKey;
use vrouter_proto::{Digest, v1};

use crate::client::{Client, Report};
use crate::error::CliError;
use crate::names::address;
use crate::output::{Format, document, duration, fact, lines, print};

#[derive(Serialize)]
struct Node {
    node: String,
    version: String,
    boot_id: String,
    uptime_ms: u64,
    controller: String,
    controller_connected: bool,
    controller_error: String,
    applied_version: u64,
    digest: String,
    refusals: Vec<Refusal>,
    vtep_address: String,
    addresses: Vec<String>,
    node_port_addresses: Vec<String>,
    not_ready: String,
    problems: Vec<String>,
    interfaces: u32,
    workers: u32,
    epoch: u64,
    flows: u64,
    flow_capacity: u64,
    packets: Packets,
}

#[derive(Serialize)]
struct Refusal {
    object: String,
    reason: String,
}

#[derive(Serialize)]
struct Packets {
    received: u64,
    forwarded: u64,
    consumed: u64,
    dropped: u64,
    held: u64,
    originated: u64,
    super_frames_received: u64,
    super_frames_sent: u64,
    segments_cut: u64,
    frames_merged: u64,
}

#[derive(Serialize)]
struct Controller {
    version: u64,
    nodes: Vec<ControlledNode>,
    problems: Vec<Problem>,
}

#[derive(Serialize)]
struct ControlledNode {
    name: String,
    connected: bool,
    sent_version: u64,
    applied_version: u64,
    digest: String,
    expected_digest: String,
    refusals: Vec<Refusal>,
}

#[derive(Serialize)]
struct Problem {
    source: String,
    object: String,
    field: String,
    message: String,
}

/// Shows how the node is, or the controller.
pub async fn show(client: &mut Client, format: Format) -> Result<(), CliError> {
    match client.status().await? {
        Report::Node(report) => {
            let node = node(*report);
            match format {
                Format::Table => print(&lines(&node.facts())),
                Format::Json | Format::Yaml => document(format, &node),
            }
        }
        Report::Controller(status) => {
            let controller = controller(status);
            match format {
                Format::Table => print(&lines(&controller.facts())),
                Format::Json | Format::Yaml => document(format, &controller),
            }
        }
    }
}

type Facts = Vec<(String, String)>;

impl Node {
    fn facts(&self) -> Facts {
        let connection = match (self.controller_connected, self.controller_error.as_str()) {
            (true, _) => "connected".to_owned(),
            (false, "") => "connecting".to_owned(),
            (false, error) => format!("not connected: {error}"),
        };
        let packets = &self.packets;
        let mut facts = vec![
            fact("node", format!("{}, vrouter {}, up {}", self.node, self.version, duration(self.uptime_ms))),
            fact("controller", format!("{}, {connection}", self.controller)),
            fact("tables", format!("version {}, digest {}", self.applied_version, self.digest)),
            fact("tunnels end at", &self.vtep_address),
            fact("node addresses", list(&self.addresses, "none known")),
            fact("node ports at", list(&self.node_port_addresses, "all of them")),
            fact("interfaces", self.interfaces),
            fact("flows", format!("{} of {}", self.flows, self.flow_capacity)),
            fact("workers", format!("{}, epoch {}", self.workers, self.epoch)),
            fact(
                "packets",
                format!(
                    "{} received = {} forwarded + {} consumed + {} dropped + {} held",
                    packets.received, packets.forwarded, packets.consumed, packets.dropped, packets.held
                ),
            ),
            fact("own packets", packets.originated),
            fact(
                "super-frames",
                format!(
                    "{} received, {} sent whole",
                    packets.super_frames_received, packets.super_frames_sent
                ),
            ),
            fact(
                "segmentation",
                format!("{} segments cut, {} frames merged", packets.segments_cut, packets.frames_merged),
            ),
        ];
        facts.extend((!self.not_ready.is_empty()).then(|| fact("not ready", &self.not_ready)));
        facts.extend(self.problems.iter().map(|problem| fact("problem", problem)));
        facts.extend(refusals(&self.refusals));
        facts
    }
}

impl Controller {
    fn facts(&self) -> Facts {
        let mut facts = vec![fact("version", self.version)];
        for node in &self.nodes {
            let connection = if node.connected { "connected" } else { "not connected" };
            let drift = if node.digest == node.expected_digest { "" } else { ", digest differs" };
            let state =
                format!("{connection}, version {} of {}{drift}", node.applied_version, node.sent_version);
            facts.push(fact(format!("node {}", node.name), state));
            facts.extend(refusals(&node.refusals));
        }
        for problem in &self.problems {
            let place = [&problem.source, &problem.object, &problem.field];
            let place: Vec<_> = place.into_iter().filter(|part| !part.is_empty()).cloned().collect();
            facts.push(fact("problem", format!("{}: {}", place.join(": "), problem.message)));
        }
        facts
    }
}

fn refusals(refusals: &[Refusal]) -> impl Iterator<Item = (String, String)> {
    refusals.iter().map(|refusal| fact("refused", format!("{}: {}", refusal.object, refusal.reason)))
}

fn list(items: &[String], none: &str) -> String {
    if items.is_empty() { none.to_owned() } else { items.join(", ") }
}

fn prefix(message: &v1::Prefix) -> String {
    IpNet::try_from(message).map_or_else(|error| error.to_string(), |prefix| prefix.to_string())
}

fn digest(bytes: &[u8]) -> String {
    Digest::from_bytes(bytes).unwrap_or_default().to_string()
}

fn refusal(refusal: v1::Refusal) -> Refusal {
    let object = refusal.object.map(ObjectKey::try_from);
    let object =
        object.map_or_else(String::new, |key| key.map_or_else(|e| e.to_string(), |key| key.to_string()));
    Refusal { object, reason: refusal.reason }
}

fn node(report: v1::NodeReport) -> Node {
    Node {
        node: report.node,
        version: report.version_string,
        boot_id: report.boot_id,
        uptime_ms: report.uptime_ms,
        controller: report.controller,
        controller_connected: report.controller_connected,
        controller_error: report.controller_error,
        applied_version: report.applied_version,
        digest: digest(&report.digest),
        refusals: report.refusals.into_iter().map(refusal).collect(),
        vtep_address: address(report.vtep_address.as_ref()),
        addresses: report.addresses.iter().map(|own| address(Some(own))).collect(),
        node_port_addresses: report.node_port_addresses.iter().map(prefix).collect(),
        not_ready: report.not_ready,
        problems: report.problems,
        interfaces: report.interfaces,
        workers: report.workers,
        epoch: report.epoch,
        flows: report.flows,
        flow_capacity: report.flow_capacity,
        packets: packets(&report.packets.unwrap_or_default()),
    }
}

fn packets(counters: &v1::PacketCounters) -> Packets {
    Packets {
        received: counters.received,
        forwarded: counters.forwarded,
        consumed: counters.consumed,
        dropped: counters.dropped,
        held: counters.held,
        originated: counters.originated,
        super_frames_received: counters.super_frames_received,
        super_frames_sent: counters.super_frames_sent,
        segments_cut: counters.segments_cut,
        frames_merged: counters.frames_merged,
    }
}

fn controller(status: v1::ControllerStatus) -> Controller {
    let nodes = status.nodes.into_iter().map(|node| ControlledNode {
        name: node.name,
        connected: node.connected,
        sent_version: node.sent_version,
        applied_version: node.applied_version,
        digest: digest(&node.digest),
        expected_digest: digest(&node.expected_digest),
        refusals: node.refusals.into_iter().map(refusal).collect(),
    });
    let problems = status.problems.into_iter().map(|problem| Problem {
        source: problem.source,
        object: problem.object,
        field: problem.field,
        message: problem.message,
    });
    Controller { version: status.version, nodes: nodes.collect(), problems: problems.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_and_refusals_are_told() {
        let key = v1::ObjectKey { kind: Some(v1::object_key::Kind::FloatingIp(7)) };
        let refused = v1::Refusal { object: Some(key), reason: "taken".to_owned() };
        let problems = vec!["the host path: no nft".to_owned()];
        let report = v1::NodeReport { problems, refusals: vec![refused], ..Default::default() };
        let facts = node(report).facts();
        let told = [fact("problem", "the host path: no nft"), fact("refused", "floating ip 7: taken")];
        assert!(facts.ends_with(&told), "{facts:?}");
    }
}
