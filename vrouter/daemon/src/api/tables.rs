//! The tables, as the local API shows them.

use prost::Message;
use vrouter_forward::frame::PortId;
use vrouter_objects::{Vmi, VmiId, VmiKind, VrfId};
use vrouter_proto::convert::mac_to_bytes;
use vrouter_proto::{CHUNK_BYTES, v1};

use crate::agent::{Agent, State};
use crate::attachment::Attachment;

/// Every attached interface, and the node's own.
pub(super) fn interfaces(agent: &Agent) -> v1::InterfaceTable {
    let state = agent.state();
    let pods = state.attached().map(|attachment| interface(agent, &state, attachment));
    let host = state.tables.interfaces().filter(|(vmi, _)| vmi.kind == VmiKind::Host);
    let host = host.map(|(vmi, port)| host_interface(agent, &state, vmi, port));
    v1::InterfaceTable { interfaces: pods.chain(host).collect() }
}

fn interface(agent: &Agent, state: &State, attachment: &Attachment) -> v1::Interface {
    v1::Interface {
        vmi: attachment.vmi.get(),
        name: attachment.pod.to_string(),
        kind: v1::InterfaceKind::Pod.into(),
        vrf: attachment.vrf.get(),
        mac: mac_to_bytes(attachment.mac),
        addresses: attachment.addresses.iter().map(|address| (*address).into()).collect(),
        mtu: attachment.mtu.into(),
        device: attachment.interface.name.clone(),
        up: state.is_in_tables(attachment.vmi),
        container_id: attachment.interface.container_id.clone(),
        link_local: attachment.link_local_addresses().map(Into::into).collect(),
        ..counted(agent, state, attachment.vmi, attachment.vrf, attachment.port)
    }
}

/// It has the node's addresses, and its device is called as it is.
fn host_interface(agent: &Agent, state: &State, vmi: &Vmi, port: PortId) -> v1::Interface {
    let addresses = state.tables.host().map(|host| host.addresses.as_slice()).unwrap_or_default();
    v1::Interface {
        vmi: vmi.id.get(),
        name: vmi.name.clone(),
        kind: v1::InterfaceKind::Host.into(),
        vrf: vmi.vrf.get(),
        mac: mac_to_bytes(vmi.mac),
        addresses: addresses.iter().map(|address| (*address).into()).collect(),
        mtu: vmi.mtu.into(),
        device: vmi.name.clone(),
        up: true,
        ..counted(agent, state, vmi.id, vmi.vrf, port)
    }
}

/// What is counted of an interface, and its network's name.
fn counted(agent: &Agent, state: &State, vmi: VmiId, vrf: VrfId, port: PortId) -> v1::Interface {
    let counters = agent.shared().port(port);
    v1::Interface {
        network: state.network(vrf).map(|network| network.name.clone()).unwrap_or_default(),
        rx_packets: counters.rx_packets,
        rx_bytes: counters.rx_bytes,
        tx_packets: counters.tx_packets,
        tx_bytes: counters.tx_bytes,
        drops: counters.drops,
        flows: agent.shared().flows.share_of(Some(vmi)).connections,
        ..Default::default()
    }
}

/// Every network.
pub(super) fn routing_instances(agent: &Agent) -> v1::RoutingInstanceTable {
    let routing_instances = agent.state().tables.routing_instances().map(Into::into).collect();
    v1::RoutingInstanceTable { routing_instances }
}

/// Every route in force.
pub(super) fn routes(agent: &Agent) -> Vec<v1::RouteTable> {
    let routes = agent.state().tables.routes().map(|route| (&route).into()).collect();
    pieces(routes).into_iter().map(|routes| v1::RouteTable { routes }).collect()
}

/// Every service address.
pub(super) fn floating_ips(agent: &Agent) -> Vec<v1::FloatingIpTable> {
    let floating_ips = agent.state().tables.floating_ips().map(Into::into).collect();
    pieces(floating_ips).into_iter().map(|floating_ips| v1::FloatingIpTable { floating_ips }).collect()
}

/// Cuts a table into pieces that are each well below what a message may be.
pub(super) fn pieces<T: Message>(rows: Vec<T>) -> Vec<Vec<T>> {
    let mut pieces = Vec::new();
    let (mut piece, mut bytes) = (Vec::new(), 0);
    for row in rows {
        let more = row.encoded_len();
        if bytes + more > CHUNK_BYTES && !piece.is_empty() {
            pieces.push(std::mem::take(&mut piece));
            bytes = 0;
        }
        bytes += more;
        piece.push(row);
    }
    pieces.push(piece);
    pieces
}

/// Every node.
pub(super) fn virtual_routers(agent: &Agent) -> v1::VirtualRouterTable {
    let virtual_routers = agent.state().tables.virtual_routers().map(Into::into).collect();
    v1::VirtualRouterTable { virtual_routers }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_table_comes_in_pieces_and_whole() {
        let rows: Vec<_> = (0..50).map(|number: u8| vec![number; 100 << 10]).collect();
        let pieces = pieces(rows.clone());
        assert_eq!(pieces.iter().map(Vec::len).collect::<Vec<_>>(), [10, 10, 10, 10, 10]);
        assert_eq!(pieces.concat(), rows);
        let too_large = super::pieces(vec![vec![0u8; 2 << 20]; 2]);
        assert_eq!(too_large.len(), 2, "one row is never cut");
    }
}
