//! Flows, as the local API shows them.

use std::net::IpAddr;

use tonic::Status;
use vrouter_forward::flow::{ConnectionState, Direction, FlowRecord, Origin};
use vrouter_objects::{IpProtocol, VmiId, VrfId};
use vrouter_proto::v1;

use super::opinions::opinions;
use crate::agent::Agent;

/// How many flows are sent unasked.
const DEFAULT_LIMIT: usize = 10_000;
/// Flows in one message.
const CHUNK: usize = 1000;

/// Which flows are wanted. What is `None` matches everything.
#[derive(Debug, Default)]
pub(super) struct Filter {
    address: Option<IpAddr>,
    port: Option<u16>,
    protocol: Option<IpProtocol>,
    vrf: Option<VrfId>,
    vmi: Option<VmiId>,
}

impl Filter {
    /// Reads a request's filter.
    pub(super) fn read(request: &v1::FlowRequest) -> Result<Self, Status> {
        let wrong = |field: &str| Status::invalid_argument(format!("{field}: is out of range"));
        let address = request.address.as_ref().map(IpAddr::try_from).transpose();
        let port = u16::try_from(request.port).map_err(|_| wrong("port"))?;
        let protocol = u8::try_from(request.protocol).map_err(|_| wrong("protocol"))?;
        Ok(Self {
            address: address.map_err(|error| Status::invalid_argument(format!("address: {error}")))?,
            port: Some(port).filter(|port| *port != 0),
            protocol: Some(IpProtocol(protocol)).filter(|_| protocol != 0),
            vrf: VrfId::new(request.vrf).ok(),
            vmi: VmiId::new(request.vmi).ok(),
        })
    }

    /// Whether this flow is wanted. Addresses and ports match either end, translated or not.
    fn matches(&self, flow: &FlowRecord) -> bool {
        let key = &flow.key;
        let addresses = [key.source, key.destination, flow.translated_source, flow.translated_destination]
            .map(IpAddr::from);
        let ports = [
            key.source_port,
            key.destination_port,
            flow.translated_source_port,
            flow.translated_destination_port,
        ];
        self.address.is_none_or(|wanted| addresses.contains(&wanted))
            && self.port.is_none_or(|wanted| ports.contains(&wanted))
            && self.protocol.is_none_or(|wanted| key.protocol == wanted)
            && self.vrf.is_none_or(|wanted| key.vrf == wanted || flow.egress_vrf == Some(wanted))
            && self.vmi.is_none_or(|wanted| flow.owner == Some(wanted))
    }
}

/// The flows that match, in messages of bounded size.
pub(super) fn flows(agent: &Agent, filter: &Filter, limit: usize) -> Vec<v1::FlowTable> {
    let limit = if limit == 0 { DEFAULT_LIMIT } else { limit };
    let now = agent.plane().now();
    let snapshot = agent.state().snapshot.clone();
    let mut records = agent.shared().flows.records(now, limit.saturating_add(1), |flow| filter.matches(flow));
    let truncated = records.len() > limit;
    records.truncate(limit);
    let row = |record: &FlowRecord| {
        let said = snapshot.as_ref().and_then(|snapshot| agent.shared().opinions(snapshot, record));
        v1::Flow { opinions: said.map(opinions), ..flow(record) }
    };
    let mut tables: Vec<_> = records
        .chunks(CHUNK)
        .map(|records| v1::FlowTable { flows: records.iter().map(row).collect(), truncated: false })
        .collect();
    if let Some(last) = tables.last_mut() {
        last.truncated = truncated;
    }
    tables
}

fn flow(record: &FlowRecord) -> v1::Flow {
    let key = &record.key;
    let address = |address| Some(IpAddr::from(address).into());
    v1::Flow {
        index: record.index,
        reverse_index: record.reverse,
        vrf: key.vrf.get(),
        source: address(key.source),
        destination: address(key.destination),
        source_port: key.source_port.into(),
        destination_port: key.destination_port.into(),
        protocol: key.protocol.0.into(),
        direction: direction(record.direction).into(),
        translated_source: address(record.translated_source),
        translated_destination: address(record.translated_destination),
        translated_source_port: record.translated_source_port.into(),
        translated_destination_port: record.translated_destination_port.into(),
        next_hop: Some((&record.next_hop).into()),
        state: state(record.state.connection).into(),
        packets: record.packets,
        bytes: record.bytes,
        idle_ms: u32::try_from(record.state.idle).unwrap_or(u32::MAX),
        timeout_ms: record.state.timeout,
        floating_ip: record.service.map_or(0, |(floating_ip, _)| floating_ip.get()),
        member: record.service.map_or(0, |(_, member)| member.get()),
        vmi: record.owner.map_or(0, VmiId::get),
        egress_vrf: record.egress_vrf.map_or(0, VrfId::get),
        origin: origin(key.origin),
        opinions: None,
    }
}

fn origin(origin: Origin) -> Option<v1::flow::Origin> {
    match origin {
        Origin::Cluster => None,
        Origin::Host => Some(v1::flow::Origin::FromHost(v1::Empty {})),
        Origin::Router(router) => Some(v1::flow::Origin::FromRouter(router.get())),
    }
}

fn direction(direction: Direction) -> v1::FlowDirection {
    match direction {
        Direction::Initiator => v1::FlowDirection::Forward,
        Direction::Responder => v1::FlowDirection::Reverse,
    }
}

fn state(state: ConnectionState) -> v1::ConnectionState {
    match state {
        ConnectionState::Unreplied => v1::ConnectionState::Unreplied,
        ConnectionState::Handshake => v1::ConnectionState::Handshake,
        ConnectionState::Established => v1::ConnectionState::Established,
        ConnectionState::Closing => v1::ConnectionState::Closing,
        ConnectionState::Closed => v1::ConnectionState::Closed,
    }
}
