//! What load balancers outside the cluster ask each node for: whether it has endpoints of a service of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use vrouter_objects::{FloatingIp, FloatingIpId, MemberState, Port, RouterId, Version};

use super::{Agent, State};
use crate::host_path::Family;

/// What is to be said of a service at its health check's port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// The Service, `namespace/name`.
    pub service: String,
    /// How many endpoints of it are on this node and ready.
    pub local_endpoints: usize,
}

/// What a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Whether it forwards by tables that a controller has sent, its own stack included where that takes part.
    pub is_healthy: bool,
    /// The version of those tables.
    pub version: Version,
    /// What it is asked for, and where.
    pub checks: BTreeMap<SocketAddr, HealthCheck>,
}

/// The health checks of all services.
#[derive(Debug, Default)]
pub(super) struct HealthChecks {
    wanted: BTreeMap<FloatingIpId, Wanted>,
    /// What keeps some of them from being answered.
    problems: Vec<String>,
}

#[derive(Debug)]
struct Wanted {
    at: (Family, Port),
    service: String,
    /// The endpoints that take new connections, wherever they are. One with several ports counts once.
    ready: BTreeSet<(RouterId, IpAddr)>,
}

impl HealthChecks {
    /// A service comes or changes.
    pub(super) fn put(&mut self, fip: &FloatingIp) {
        let Some(port) = fip.health_check_port else { return self.remove(fip.id) };
        let members = fip.listeners.iter().flat_map(|listener| &listener.members);
        let ready = members.filter(|member| member.state == MemberState::Ready);
        let ready = ready.filter_map(|member| Some((member.router?, member.address))).collect();
        let at = (Family::of(fip.address), port);
        self.wanted.insert(fip.id, Wanted { at, service: fip.name.clone(), ready });
    }

    /// A service goes.
    pub(super) fn remove(&mut self, id: FloatingIpId) {
        self.wanted.remove(&id);
    }

    pub(super) fn problems(&self) -> impl Iterator<Item = String> {
        self.problems.iter().cloned()
    }

    /// As they are on this node, which is asked at these addresses.
    fn on(&self, own: Option<RouterId>, asked_at: &[IpAddr]) -> BTreeMap<SocketAddr, HealthCheck> {
        let mut checks = BTreeMap::new();
        // Of two that claim one port, the older has it.
        for Wanted { at: (family, port), service, ready } in self.wanted.values().rev() {
            let local_endpoints = ready.iter().filter(|(router, _)| Some(*router) == own).count();
            for address in asked_at.iter().filter(|address| Family::of(**address) == *family) {
                let check = HealthCheck { service: service.clone(), local_endpoints };
                checks.insert(SocketAddr::new(*address, port.get()), check);
            }
        }
        checks
    }
}

impl Agent {
    /// What this node says of itself. May block.
    pub fn health(&self) -> Health {
        let state = self.state();
        let own = state.own_router.as_ref().map(|router| router.id);
        Health {
            is_healthy: self.is_healthy(&state),
            version: state.held.version(),
            checks: state.health_checks.on(own, &self.asked_at(&state)),
        }
    }

    /// Where health checks are answered: as with node ports at all addresses, unless some were chosen.
    fn asked_at(&self, state: &State) -> Vec<IpAddr> {
        let settings = self.identity.host.as_ref();
        if settings.is_none_or(|settings| settings.node_port_addresses.is_empty()) {
            return vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        }
        let Some(host) = state.tables.host() else { return Vec::new() };
        host.addresses.iter().copied().filter(|own| host.serves_node_ports_at(*own)).collect()
    }

    fn is_healthy(&self, state: &State) -> bool {
        state.held.version() > Version(0) && (self.identity.host.is_none() || state.is_host_served())
    }

    /// Some of it cannot be said, for these reasons. May block.
    pub fn set_health_problems(&self, problems: Vec<String>) {
        self.state().health_checks.problems = problems;
    }
}

#[cfg(test)]
mod tests {
    use vrouter_objects::{Listener, ListenerId, Member, MemberId, ServiceProtocol, VrfId};

    use super::*;

    fn router(id: u32) -> RouterId {
        RouterId::new(id).unwrap()
    }

    #[test]
    fn ready_endpoints_of_this_node_are_counted_once_each() {
        let vrf = VrfId::new(2).unwrap();
        let id = FloatingIpId::new(1).unwrap();
        let mut fip = FloatingIp::new(id, "default/web", vrf, IpAddr::from([10, 96, 0, 1]), vrf);
        fip.health_check_port = Some(Port::new(32_000).unwrap());
        let member = |number: u8, on, state| {
            let id = MemberId::new(number.into()).unwrap();
            let address = IpAddr::from([10, 244, 0, number]);
            let member = Member::new(id, vrf, address, Port::new(80).unwrap());
            Member { router: Some(router(on)), state, ..member }
        };
        for port in [80, 443] {
            fip.listeners.push(Listener {
                id: ListenerId::new(port).unwrap(),
                name: String::new(),
                protocol: ServiceProtocol::Tcp,
                port: Port::new(port.into()).unwrap(),
                node_port: None,
                members: vec![
                    member(1, 1, MemberState::Ready),
                    member(2, 1, MemberState::Serving),
                    member(3, 2, MemberState::Ready),
                    member(4, 1, MemberState::Ready),
                ],
            });
        }
        let mut checks = HealthChecks::default();
        checks.put(&fip);
        let asked_at = ["10.0.0.1", "10.0.0.2", "fd00::1"].map(|address| address.parse().unwrap());
        let at = SocketAddr::new(asked_at[1], 32_000);
        for (own, expected) in [(Some(router(1)), 2), (Some(router(2)), 1), (Some(router(3)), 0), (None, 0)] {
            let checks = checks.on(own, &asked_at);
            assert_eq!((checks.len(), checks[&at].local_endpoints), (2, expected), "{own:?}");
        }
        fip.health_check_port = None;
        checks.put(&fip);
        assert!(checks.on(None, &asked_at).is_empty());
    }
}
