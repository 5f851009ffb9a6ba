//! The tables, as the local API shows them.

use vrouter_objects::VmiKind;
use vrouter_proto::convert::mac_to_bytes;
use vrouter_proto::v1;

use crate::agent::{Agent, State};
use crate::attachment::Attachment;

/// Every attached interface.
pub(super) fn interfaces(agent: &Agent) -> v1::InterfaceTable {
    let state = agent.state();
    let interfaces = state.attached().map(|attachment| interface(agent, &state, attachment)).collect();
    v1::InterfaceTable { interfaces }
}

fn interface(agent: &Agent, state: &State, attachment: &Attachment) -> v1::Interface {
    let counters = agent.shared().port(attachment.port);
    let share = agent.shared().flows.share_of(Some(attachment.vmi));
    let network = state.network(attachment.vrf).map(|network| network.name.clone());
    v1::Interface {
        vmi: attachment.vmi.get(),
        name: attachment.pod.to_string(),
        kind: kind(VmiKind::Pod).to_owned(),
        vrf: attachment.vrf.get(),
        network: network.unwrap_or_default(),
        mac: mac_to_bytes(attachment.mac),
        addresses: attachment.addresses.iter().map(|address| (*address).into()).collect(),
        mtu: attachment.mtu.into(),
        device: attachment.interface.name.clone(),
        up: state.is_in_tables(attachment.vmi),
        rx_packets: counters.rx_packets,
        rx_bytes: counters.rx_bytes,
        tx_packets: counters.tx_packets,
        tx_bytes: counters.tx_bytes,
        drops: counters.drops,
        flows: share.connections,
        container_id: attachment.interface.container_id.clone(),
    }
}

fn kind(kind: VmiKind) -> &'static str {
    match kind {
        VmiKind::Pod => "pod",
        VmiKind::Host => "host",
    }
}

/// Every network.
pub(super) fn routing_instances(agent: &Agent) -> v1::RoutingInstanceTable {
    let routing_instances = agent.state().tables.routing_instances().map(Into::into).collect();
    v1::RoutingInstanceTable { routing_instances }
}

/// Every route in force.
pub(super) fn routes(agent: &Agent) -> v1::RouteTable {
    let routes = agent.state().tables.routes().map(|route| (&route).into()).collect();
    v1::RouteTable { routes }
}

/// Every service address.
pub(super) fn floating_ips(agent: &Agent) -> v1::FloatingIpTable {
    let floating_ips = agent.state().tables.floating_ips().map(Into::into).collect();
    v1::FloatingIpTable { floating_ips }
}

/// Every node.
pub(super) fn virtual_routers(agent: &Agent) -> v1::VirtualRouterTable {
    let virtual_routers = agent.state().tables.virtual_routers().map(Into::into).collect();
    v1::VirtualRouterTable { virtual_routers }
}
