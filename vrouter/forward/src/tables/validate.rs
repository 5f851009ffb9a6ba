//! What an object must be like to be held. References to nodes and interfaces may dangle: those come and go,
//! and a packet that meets one is a counted drop.

use std::collections::BTreeSet;

use vrouter_objects::{FloatingIp, NextHop, Object, ObjectKey, RoutingInstance, VirtualRouter};

use super::frontends::Place;
use super::{TableError, Tables};

impl Tables {
    pub(super) fn validate(&self, object: &Object) -> Result<(), TableError> {
        match object {
            Object::VirtualRouter(router) => self.validate_router(router),
            Object::RoutingInstance(instance) => self.validate_instance(instance),
            Object::Route(route) => {
                self.require_vrf(route.key.vrf)?;
                validate_next_hop(&route.next_hop)
            }
            Object::FloatingIp(fip) => self.validate_fip(fip),
            Object::AddressLease(lease) => self.require_vrf(lease.vrf),
            Object::Policy(_) | Object::PeerSet(_) | Object::PeerAddress(_) => Ok(()),
            // A network that comes later: an interface elsewhere is cut off meanwhile.
            Object::PodBinding(_) => Ok(()),
        }
    }

    fn require_vrf(&self, vrf: vrouter_objects::VrfId) -> Result<(), TableError> {
        self.working.vrf(vrf).map(|_| ()).ok_or(TableError::UnknownVrf(vrf))
    }

    fn validate_router(&self, router: &VirtualRouter) -> Result<(), TableError> {
        match self.working.router_at(router.address.into()) {
            Some(holder) if holder != router.id => {
                let holder = ObjectKey::VirtualRouter(holder);
                Err(TableError::Taken { address: router.address, holder })
            }
            _ => Ok(()),
        }
    }

    fn validate_instance(&self, instance: &RoutingInstance) -> Result<(), TableError> {
        if let Some(holder) = self.working.vrf_of_vni(instance.vni).filter(|vrf| *vrf != instance.id) {
            return Err(TableError::VniTaken { vni: instance.vni, holder });
        }
        match instance.subnets.iter().find(|subnet| !subnet.prefix.contains(&subnet.gateway)) {
            Some(subnet) => {
                Err(TableError::GatewayOutside { gateway: subnet.gateway, subnet: subnet.prefix })
            }
            None => Ok(()),
        }
    }

    fn validate_fip(&self, fip: &FloatingIp) -> Result<(), TableError> {
        self.require_vrf(fip.vrf)?;
        self.require_vrf(fip.external_vrf)?;
        if let Some((place, holder)) = self.working.in_the_way_of(fip) {
            let holder = ObjectKey::FloatingIp(holder);
            return Err(match place {
                Place::Address(address, (protocol, port)) => {
                    TableError::FrontendTaken { protocol, port, address: address.into(), holder }
                }
                Place::Nodes(_, (protocol, port)) => TableError::NodePortTaken { protocol, port, holder },
            });
        }
        let (mut ports, mut node_ports) = (BTreeSet::new(), BTreeSet::new());
        for listener in &fip.listeners {
            let mapped_twice = |port| TableError::PortMappedTwice { protocol: listener.protocol, port };
            if !ports.insert((listener.protocol, listener.port)) {
                return Err(mapped_twice(listener.port));
            }
            if let Some(node_port) = listener.node_port
                && !node_ports.insert((listener.protocol, node_port))
            {
                return Err(mapped_twice(node_port));
            }
            if !listener.members.is_sorted_by(|one, next| one.id < next.id) {
                return Err(TableError::MembersUnordered(listener.id));
            }
            let foreign =
                listener.members.iter().find(|member| member.address.is_ipv4() != fip.address.is_ipv4());
            if let Some(member) = foreign {
                let (member, address) = (member.id, member.address);
                return Err(TableError::MemberFamily { listener: listener.id, member, address });
            }
        }
        Ok(())
    }
}

fn validate_next_hop(next_hop: &NextHop) -> Result<(), TableError> {
    let NextHop::Composite(parts) = next_hop else { return Ok(()) };
    let usable = |part: &NextHop| matches!(part, NextHop::Interface(_) | NextHop::Tunnel(_));
    if parts.is_empty() || !parts.iter().all(usable) { Err(TableError::CompositeParts) } else { Ok(()) }
}
