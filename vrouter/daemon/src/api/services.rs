//! Services with what their members were given here, as the local API shows them.

use std::collections::HashMap;

use vrouter_forward::flow::Direction;
use vrouter_objects::{FloatingIp, MemberId};
use vrouter_proto::v1;

use super::tables::pieces;
use crate::agent::{Agent, State};

/// Every service.
pub(super) fn services(agent: &Agent) -> Vec<v1::ServiceTable> {
    let connections = connections(agent);
    let state = agent.state();
    let services = state.tables.floating_ips().map(|service| held(service, &state, &connections)).collect();
    pieces(services).into_iter().map(|services| v1::ServiceTable { services }).collect()
}

fn held(service: &FloatingIp, state: &State, connections: &HashMap<MemberId, u32>) -> v1::HeldService {
    let members = service.listeners.iter().flat_map(|listener| &listener.members);
    let members = members.map(|member| v1::MemberUse {
        member: member.id.get(),
        hits: state.tables.hits(member.id),
        flows: connections.get(&member.id).copied().unwrap_or_default(),
    });
    v1::HeldService { floating_ip: Some(service.into()), members: members.collect() }
}

/// How many connections of the flow table each member has.
fn connections(agent: &Agent) -> HashMap<MemberId, u32> {
    let mut connections = HashMap::new();
    // They are counted as they pass; none is kept.
    agent.shared().flows.records(agent.plane().now(), usize::MAX, |flow| {
        if let (Direction::Initiator, Some((_, member))) = (flow.direction, flow.service) {
            *connections.entry(member).or_default() += 1;
        }
        false
    });
    connections
}

#[cfg(test)]
mod tests {
    use vrouter_objects::{
        FloatingIpId, Listener, ListenerId, Member, Object, Port, ServiceProtocol, TrafficPolicy,
    };

    use super::*;
    use crate::testing::{TestNode, basics, ip, vrf};

    fn listener(port: u16, members: impl IntoIterator<Item = u32>) -> Listener {
        let member = |id| {
            let address = std::net::Ipv4Addr::from(0x0af4_0000 + id);
            Member::new(MemberId::new(id).unwrap(), vrf(), address.into(), Port::new(8080).unwrap())
        };
        Listener {
            id: ListenerId::new(port.into()).unwrap(),
            name: format!("p{port}"),
            protocol: ServiceProtocol::Tcp,
            port: Port::new(port.into()).unwrap(),
            node_port: None,
            members: members.into_iter().map(member).collect(),
        }
    }

    #[test]
    fn a_service_is_told_whole_with_each_of_its_members() {
        let node = TestNode::new();
        let id = FloatingIpId::new(7).unwrap();
        let service = FloatingIp {
            listeners: vec![listener(80, [5, 9]), listener(81, []), listener(82, [6])],
            internal_policy: TrafficPolicy::Local,
            ..FloatingIp::new(id, "default/web", vrf(), ip("10.96.0.7"), vrf())
        };
        let mut objects = basics();
        objects.push(Object::FloatingIp(service.clone()));
        node.apply(1, &objects).unwrap();

        let held: Vec<_> = services(&node.agent).into_iter().flat_map(|table| table.services).collect();
        let unused = |member| v1::MemberUse { member, hits: 0, flows: 0 };
        let expected =
            v1::HeldService { floating_ip: Some((&service).into()), members: [5, 9, 6].map(unused).into() };
        assert_eq!(held, [expected]);
    }
}
