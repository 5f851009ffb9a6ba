//! What load balancers outside the cluster ask each node for: whether it has endpoints of a service of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

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
    /// What it is asked for, at which port of which family.
    pub checks: BTreeMap<(Family, Port), HealthCheck>,
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

    /// As they are on this node.
    fn on(&self, own: Option<RouterId>) -> BTreeMap<(Family, Port), HealthCheck> {
        let check = |wanted: &Wanted| {
            let local_endpoints = wanted.ready.iter().filter(|(router, _)| Some(*router) == own).count();
            HealthCheck { service: wanted.service.clone(), local_endpoints }
        };
        // Of two that claim one port, the older has it.
        self.wanted.values().rev().map(|wanted| (wanted.at, check(wanted))).collect()
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
            checks: state.health_checks.on(own),
        }
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
        let at = (Family::V4, Port::new(32_000).unwrap());
        for (own, expected) in [(Some(router(1)), 2), (Some(router(2)), 1), (Some(router(3)), 0), (None, 0)] {
            assert_eq!(checks.on(own)[&at].local_endpoints, expected, "{own:?}");
        }
        fip.health_check_port = None;
        checks.put(&fip);
        assert!(checks.on(None).is_empty());
    }
}
