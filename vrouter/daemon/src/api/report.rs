//! The node as a whole, as the local API shows it.

use std::time::Instant;

use vrouter_forward::PacketCounters;
use vrouter_proto::v1;

use crate::agent::Agent;

/// What does not change while the node runs.
#[derive(Debug, Clone)]
pub struct About {
    /// The controller's address.
    pub controller: String,
    /// Forwarding threads.
    pub workers: usize,
    /// When the process started.
    pub started: Instant,
}

/// How the node is.
pub(super) fn report(agent: &Agent, about: &About) -> v1::NodeReport {
    let link = agent.link().borrow().clone();
    let identity = agent.identity();
    let flows = &agent.shared().flows;
    let state = agent.state();
    let host = state.tables.host();
    v1::NodeReport {
        node: identity.node.clone(),
        version_string: env!("CARGO_PKG_VERSION").to_owned(),
        boot_id: identity.boot_id.clone(),
        controller_connected: link.channel().is_some(),
        controller: about.controller.clone(),
        controller_error: link.error().unwrap_or_default().to_owned(),
        applied_version: state.held.version().0,
        digest: state.held.digest().to_bytes(),
        refusals: state.held.refusals(),
        workers: u32::try_from(about.workers).unwrap_or(u32::MAX),
        epoch: state.epoch.0.into(),
        flows: flows.len() as u64,
        flow_capacity: flows.capacity() as u64,
        packets: Some(packets(&agent.shared().totals())),
        vtep_address: state.vtep().map(|vtep| vtep.address.into()),
        interfaces: u32::try_from(state.attached().count()).unwrap_or(u32::MAX),
        not_ready: state.readiness().err().map(|error| error.to_string()).unwrap_or_default(),
        uptime_ms: u64::try_from(about.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        addresses: each(host.map(|host| host.addresses.as_slice())),
        node_port_addresses: each(host.map(|host| host.node_port_addresses.as_slice())),
        problems: state.problems(),
    }
}

fn each<T: Copy, M: From<T>>(values: Option<&[T]>) -> Vec<M> {
    values.unwrap_or_default().iter().map(|value| (*value).into()).collect()
}

fn packets(counters: &PacketCounters) -> v1::PacketCounters {
    v1::PacketCounters {
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
