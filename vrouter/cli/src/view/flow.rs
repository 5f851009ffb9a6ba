//! Flows.

use serde::Serialize;
use vrouter_objects::{IpProtocol, RouterId};
use vrouter_proto::v1;

use super::opinion::{Opinion, Opinions};
use crate::arguments::FlowFilter;
use crate::client::Client;
use crate::error::CliError;
use crate::names::{Names, address, endpoint};
use crate::output::{Format, Row, bytes, document, duration, print, table};

#[derive(Serialize)]
struct Flows {
    flows: Vec<Flow>,
    truncated: bool,
}

#[derive(Serialize)]
struct Flow {
    index: u32,
    reverse_index: u32,
    direction: &'static str,
    vrf: u32,
    network: String,
    protocol: String,
    source: String,
    source_port: u32,
    destination: String,
    destination_port: u32,
    translated_source: String,
    translated_source_port: u32,
    translated_destination: String,
    translated_destination_port: u32,
    egress_vrf: u32,
    origin: String,
    next_hop: String,
    state: &'static str,
    packets: u64,
    bytes: u64,
    idle_ms: u32,
    timeout_ms: u32,
    service: String,
    member: String,
    vmi: u32,
    interface: String,
    /// What policy says of the connection by the tables as they are now.
    policy: Option<Opinions>,
    #[serde(skip)]
    from: String,
    #[serde(skip)]
    to: String,
    #[serde(skip)]
    leaves_as: String,
}

impl Flow {
    fn new(flow: v1::Flow, names: &Names) -> Self {
        let from = endpoint(flow.source.as_ref(), flow.source_port);
        let to = endpoint(flow.destination.as_ref(), flow.destination_port);
        let new_from = endpoint(flow.translated_source.as_ref(), flow.translated_source_port);
        let new_to = endpoint(flow.translated_destination.as_ref(), flow.translated_destination_port);
        let leaves_as = match (new_from == from, new_to == to) {
            (true, true) => String::new(),
            (true, false) => format!("to {new_to}"),
            (false, true) => format!("from {new_from}"),
            (false, false) => format!("from {new_from} to {new_to}"),
        };
        Self {
            index: flow.index,
            reverse_index: flow.reverse_index,
            direction: direction(flow.direction()),
            vrf: flow.vrf,
            network: names.network(flow.vrf),
            protocol: u8::try_from(flow.protocol)
                .map_or_else(|_| flow.protocol.to_string(), |p| IpProtocol(p).to_string()),
            source: address(flow.source.as_ref()),
            source_port: flow.source_port,
            destination: address(flow.destination.as_ref()),
            destination_port: flow.destination_port,
            translated_source: address(flow.translated_source.as_ref()),
            translated_source_port: flow.translated_source_port,
            translated_destination: address(flow.translated_destination.as_ref()),
            translated_destination_port: flow.translated_destination_port,
            egress_vrf: flow.egress_vrf,
            origin: origin(flow.origin.as_ref(), names),
            next_hop: names.next_hop(flow.next_hop.as_ref()),
            state: state(flow.state()),
            packets: flow.packets,
            bytes: flow.bytes,
            idle_ms: flow.idle_ms,
            timeout_ms: flow.timeout_ms,
            service: names.service(flow.floating_ip),
            member: names.member(flow.member),
            vmi: flow.vmi,
            interface: names.interface(flow.vmi),
            policy: flow.opinions.as_ref().map(Opinions::read),
            from,
            to,
            leaves_as,
        }
    }
}

fn direction(direction: v1::FlowDirection) -> &'static str {
    match direction {
        v1::FlowDirection::Forward => "forward",
        v1::FlowDirection::Reverse => "reverse",
        v1::FlowDirection::Unspecified => "unknown",
    }
}

/// Where it came in from outside the cluster; nothing where it did not.
fn origin(origin: Option<&v1::flow::Origin>, names: &Names) -> String {
    match origin {
        None => String::new(),
        Some(v1::flow::Origin::FromHost(_)) => "vhost0".to_owned(),
        Some(v1::flow::Origin::FromRouter(router)) => names.router(RouterId::new(*router).ok()),
    }
}

fn state(state: v1::ConnectionState) -> &'static str {
    match state {
        v1::ConnectionState::Unreplied => "unreplied",
        v1::ConnectionState::Handshake => "handshake",
        v1::ConnectionState::Established => "established",
        v1::ConnectionState::Closing => "closing",
        v1::ConnectionState::Closed => "closed",
        v1::ConnectionState::Unspecified => "unknown",
    }
}

impl Row for Flow {
    const HEADINGS: &'static [&'static str] = &[
        "INDEX",
        "PROTO",
        "ORIGIN",
        "SOURCE",
        "DESTINATION",
        "LEAVES",
        "VRF",
        "NEXT HOP",
        "SERVICE",
        "MEMBER",
        "EGRESS",
        "INGRESS",
        "STATE",
        "PACKETS",
        "BYTES",
        "IDLE",
    ];

    fn cells(&self) -> Vec<String> {
        let vrf = match self.egress_vrf {
            other if other != 0 && other != self.vrf => format!("{} > {other}", self.vrf),
            _ => self.vrf.to_string(),
        };
        let opinion = |end: fn(&Opinions) -> &Opinion| {
            self.policy.as_ref().map_or_else(|| "-".to_owned(), |opinions| end(opinions).to_string())
        };
        vec![
            format!("{} <=> {}", self.index, self.reverse_index),
            self.protocol.clone(),
            self.origin.clone(),
            self.from.clone(),
            self.to.clone(),
            self.leaves_as.clone(),
            vrf,
            self.next_hop.clone(),
            self.service.clone(),
            self.member.clone(),
            opinion(|opinions| &opinions.egress),
            opinion(|opinions| &opinions.ingress),
            self.state.to_owned(),
            self.packets.to_string(),
            bytes(self.bytes),
            format!("{} of {}", duration(self.idle_ms.into()), duration(self.timeout_ms.into())),
        ]
    }
}

/// Shows the flows that match.
pub async fn show(client: &mut Client, format: Format, filter: &FlowFilter) -> Result<(), CliError> {
    let names = Names::of_everything(client).await?;
    let request = v1::FlowRequest {
        address: filter.address.map(Into::into),
        port: filter.port.unwrap_or_default().into(),
        protocol: filter.proto.map_or(0, |protocol| protocol.0.0.into()),
        vrf: filter.vrf.as_deref().map_or(Ok(0), |vrf| names.find_network(vrf))?,
        vmi: filter.vmi.as_deref().map_or(Ok(0), |vmi| names.find_interface(vmi))?,
        limit: filter.limit,
    };
    let mut stream = client.flows(request).await?;
    let mut all = Flows { flows: Vec::new(), truncated: false };
    while let Some(part) = stream.message().await? {
        all.flows.extend(part.flows.into_iter().map(|flow| Flow::new(flow, &names)));
        all.truncated |= part.truncated;
    }
    match format {
        Format::Table => {
            let note = if all.truncated { "\n\nThere are more: see --limit." } else { "" };
            print(&format!("{}{note}", table(&all.flows)))
        }
        Format::Json | Format::Yaml => document(format, &all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_differently_is_said() {
        let ip = |last| Some(v1::Address { octets: vec![10, 0, 0, last] });
        let flow = |translated_source, translated_destination| {
            let message = v1::Flow {
                source: ip(1),
                destination: ip(2),
                translated_source,
                translated_destination,
                ..Default::default()
            };
            Flow::new(message, &Names::default()).leaves_as
        };
        assert_eq!(flow(ip(1), ip(2)), "");
        assert_eq!(flow(ip(1), ip(3)), "to 10.0.0.3:0");
        assert_eq!(flow(ip(4), ip(2)), "from 10.0.0.4:0");
        assert_eq!(flow(ip(4), ip(3)), "from 10.0.0.4:0 to 10.0.0.3:0");
    }
}
