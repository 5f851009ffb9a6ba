//! From a Service and its endpoints to listeners with members.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use vrouter_objects::{MemberState, Port, RouterId, ServiceProtocol, TopologyHints, VrfId};

use super::candidates::{Candidate, Candidates, Search};
use super::{Exposed, FloatingIp, Listener, LoadBalancer, Member};
use crate::allocate::{FloatingIps, ListenerAllocation, MemberAllocation, Nodes};
use crate::config::ModelConfig;
use crate::index::Index;
use crate::kube::{Condition, Frontend, Hints, ServicePort, ServiceRecord};
use crate::problem::Findings;
use crate::{Family, NamespacedName};

/// The most members of one floating IP, over all its listeners: a message to a node holds a floating IP as a whole.
pub const MAX_MEMBERS: usize = 16_384;

/// Builds the load balancer of one service.
pub struct Builder<'a> {
    /// The networks.
    pub config: &'a ModelConfig,
    /// Where everything is looked up.
    pub index: &'a Index,
    /// The nodes' ids.
    pub nodes: &'a Nodes,
    /// Where listeners and members get their ids.
    pub ids: &'a mut FloatingIps,
    /// The service, and what its object says.
    pub service: (&'a NamespacedName, &'a ServiceRecord),
    /// How it is served.
    pub frontend: &'a Frontend,
    /// What it has beyond its cluster addresses.
    pub exposed: Exposed,
    /// What is wrong.
    pub findings: &'a mut Findings,
}

/// A member with what is kept of it.
type Kept = (Member, MemberAllocation);

impl Builder<'_> {
    /// The load balancer at these cluster addresses.
    pub fn build(&mut self, addresses: &[IpAddr]) -> LoadBalancer {
        let mut nodes = BTreeSet::new();
        let mut floating_ips = Vec::with_capacity(addresses.len());
        for &address in addresses {
            floating_ips.extend(self.floating_ip(address, &mut nodes));
        }
        LoadBalancer {
            service: self.service.0.clone(),
            kind: self.frontend.kind,
            floating_ips,
            policies: self.frontend.policies.clone(),
            source_ranges: self.frontend.exposure.source_ranges.clone(),
            health_check: self.exposed.health_check,
            nodes,
        }
    }

    fn floating_ip(&mut self, address: IpAddr, nodes: &mut BTreeSet<String>) -> Option<FloatingIp> {
        let (service, record) = self.service;
        let (index, pod_vrf, frontend) = (self.index, self.config.pods.vrf, self.frontend);
        let search = Search { index, pod_vrf, service, record, frontend };
        let keys: Vec<_> = record.ports.iter().map(ServicePort::key).collect();
        self.ids.retain_listeners(address, &keys);
        let mut room = MAX_MEMBERS;
        let mut listeners = Vec::with_capacity(keys.len());
        for port in &record.ports {
            let mut candidates = search.candidates(port, address.into());
            if candidates.len() > room {
                let message = format!(
                    "{} endpoints at port {}: {room} of them are used, as {service} may have {MAX_MEMBERS} members",
                    candidates.len(),
                    port.port
                );
                self.findings.add("", message);
                candidates = candidates.into_iter().take(room).collect();
            }
            for candidate in candidates.values() {
                let named = candidate.node.iter().chain(&candidate.hints.nodes);
                nodes.extend(named.cloned());
            }
            let listener = self.listener(address, port, candidates, room)?;
            room = room.saturating_sub(listener.members.len());
            listeners.push(listener);
        }
        let is_of_family = |other: IpAddr| Family::from(other) == Family::from(address);
        let external = self.exposed.external.iter().copied();
        let external = external.filter(|external| is_of_family(external.address)).collect();
        Some(FloatingIp { id: self.ids.floating_ip(address)?, address, external, listeners })
    }

    fn listener(
        &mut self,
        address: IpAddr,
        port: &ServicePort,
        candidates: Candidates,
        room: usize,
    ) -> Option<Listener> {
        let key = port.key();
        let ListenerAllocation { id, members: mut known } = self.ids.take_listener(address, key)?;
        let mut members: Vec<Kept> = Vec::with_capacity(candidates.len());
        for (endpoint, candidate) in candidates {
            let was_member = known.contains_key(&endpoint);
            let Some(state) = self.state(candidate.condition, endpoint, key.protocol, was_member) else {
                continue;
            };
            members.push(self.member(endpoint, candidate, state, known.remove(&endpoint))?);
        }
        if key.protocol == ServiceProtocol::Tcp {
            members.extend(known.into_iter().filter_map(|(endpoint, known)| self.leaver(endpoint, known)));
        }
        members.truncate(room);
        members.sort_by_key(|(member, _)| member.id);
        let (members, allocations): (Vec<_>, BTreeMap<_, _>) = members
            .into_iter()
            .map(|(member, allocation)| {
                let endpoint = member.endpoint;
                (member, (endpoint, allocation))
            })
            .unzip();
        self.ids.put_listener(address, key, ListenerAllocation { id, members: allocations });
        let node_port = self.exposed.node_ports.get(&(address.into(), key)).copied();
        let ServicePort { name, protocol, port, target, .. } = port.clone();
        Some(Listener { id, name, protocol, port, node_port, target, members })
    }

    /// `None` once ids are used up.
    fn member(
        &mut self,
        endpoint: SocketAddr,
        candidate: Candidate,
        state: MemberState,
        known: Option<MemberAllocation>,
    ) -> Option<Kept> {
        let port = Port::new(endpoint.port().into()).ok()?;
        let owner = self.index.owner(self.config.pods.vrf, endpoint.ip());
        let vmi = owner.and_then(|owner| owner.vmi);
        let pod = candidate.pod.or_else(|| owner.map(|owner| owner.pod.clone()));
        let router = match (&candidate.node, owner) {
            (Some(node), _) => self.router(node),
            (None, Some(owner)) => self.router(owner.node),
            (None, None) => pod.as_ref().and_then(|pod| self.router_of_pod(pod, endpoint.ip())),
        };
        let hints = self.hints(&candidate.hints, state);
        let allocation = match known.and_then(|known| known.seen_with(vmi)) {
            Some(allocation) => allocation,
            None => MemberAllocation::new(self.ids.next_member()?, vmi),
        };
        let (id, vrf) = (allocation.id, self.network_of(endpoint.ip()));
        Some((Member { id, pod, vrf, endpoint, port, vmi, router, state, hints }, allocation))
    }

    /// What an endpoint is given; `None`: it is no member, or not any more.
    fn state(
        &self,
        condition: Condition,
        endpoint: SocketAddr,
        protocol: ServiceProtocol,
        was_member: bool,
    ) -> Option<MemberState> {
        // Whether a host-network pod or an outside member lives, no interface tells: it does while it is listed.
        let is_outside = self.network_of(endpoint.ip()) == self.config.fabric.vrf;
        let keeps_flows = was_member && is_outside && protocol == ServiceProtocol::Tcp;
        match condition {
            Condition::Ready => Some(MemberState::Ready),
            Condition::Serving => Some(MemberState::Serving),
            Condition::Unready => keeps_flows.then_some(MemberState::Leaving),
        }
    }

    /// Who was a member, and is not ready or not listed any more, keeps its TCP connections while its interface lives.
    fn leaver(&self, endpoint: SocketAddr, known: MemberAllocation) -> Option<Kept> {
        let owner = self.index.owner(self.config.pods.vrf, endpoint.ip())?;
        let same = MemberAllocation::new(known.id, owner.vmi) == known;
        let member = Member {
            id: known.id,
            pod: Some(owner.pod.clone()),
            vrf: self.network_of(endpoint.ip()),
            endpoint,
            port: Port::new(endpoint.port().into()).ok()?,
            vmi: owner.vmi,
            router: self.router(owner.node),
            state: MemberState::Leaving,
            hints: TopologyHints::default(),
        };
        same.then_some((member, known))
    }

    /// What is no pod's address is a node's, or beyond them.
    fn network_of(&self, address: IpAddr) -> VrfId {
        let network =
            if self.config.pods.contains(address) { &self.config.pods } else { &self.config.fabric };
        network.vrf
    }

    fn router(&self, node: &str) -> Option<RouterId> {
        self.nodes.get(node).map(|given| given.router)
    }

    /// The node of a pod without an interface of its own.
    fn router_of_pod(&self, pod: &NamespacedName, address: IpAddr) -> Option<RouterId> {
        let record = self.index.pods.get(pod).filter(|record| record.stated_addresses.contains(&address))?;
        self.router(record.node.as_deref()?)
    }

    /// Hints count for those that are ready, and for no others.
    fn hints(&self, hints: &Hints, state: MemberState) -> TopologyHints {
        if state != MemberState::Ready {
            return TopologyHints::default();
        }
        TopologyHints {
            zones: hints.zones.clone(),
            routers: hints.nodes.iter().filter_map(|node| self.router(node)).collect(),
        }
    }
}
