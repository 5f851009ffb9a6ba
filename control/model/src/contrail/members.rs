//! From a Service and its endpoints to listeners with members.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use vrouter_objects::{MemberState, Port, RouterId, ServiceProtocol, TopologyHints, VrfId};

use super::candidates::{Candidate, Candidates, Foreign, Search};
use super::{Exposed, FloatingIp, Listener, LoadBalancer, Member};
use crate::allocate::{FloatingIps, ListenerAllocation, MemberAllocation, Nodes, SpacedAddress};
use crate::config::ModelConfig;
use crate::index::{Index, Owner};
use crate::kube::{Condition, Frontend, Hints, ServicePort, ServiceRecord};
use crate::network::ServiceNetworks;
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
    /// Its networks.
    pub networks: ServiceNetworks,
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
    pub fn build(&mut self, addresses: &[SpacedAddress]) -> LoadBalancer {
        let (mut nodes, mut foreign) = (BTreeSet::new(), Foreign::new());
        let mut floating_ips = Vec::with_capacity(addresses.len());
        for &address in addresses {
            floating_ips.extend(self.floating_ip(address, &mut nodes, &mut foreign));
        }
        self.note_foreign(&foreign);
        LoadBalancer {
            service: self.service.0.clone(),
            kind: self.frontend.kind,
            networks: self.networks,
            floating_ips,
            policies: self.frontend.policies.clone(),
            source_ranges: self.frontend.exposure.source_ranges.clone(),
            health_check: self.exposed.health_check,
            nodes,
            foreign: foreign.into_keys().collect(),
        }
    }

    fn floating_ip(
        &mut self,
        spaced: SpacedAddress,
        nodes: &mut BTreeSet<String>,
        foreign: &mut Foreign,
    ) -> Option<FloatingIp> {
        let (service, record) = self.service;
        let (index, config, networks, frontend) = (self.index, self.config, self.networks, self.frontend);
        let search = Search { index, config, networks, service, record, frontend };
        let address = spaced.address;
        let keys: Vec<_> = record.ports.iter().map(ServicePort::key).collect();
        self.ids.retain_listeners(spaced, &keys);
        let mut room = MAX_MEMBERS;
        let mut listeners = Vec::with_capacity(keys.len());
        for port in &record.ports {
            let mut candidates = search.candidates(port, address.into(), foreign);
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
            let listener = self.listener(spaced, port, candidates, room)?;
            room = room.saturating_sub(listener.members.len());
            listeners.push(listener);
        }
        let is_of_family = |other: IpAddr| Family::from(other) == Family::from(address);
        let external = self.exposed.external.iter().copied();
        let external = external.filter(|external| is_of_family(external.address)).collect();
        Some(FloatingIp { id: self.ids.floating_ip(spaced)?, address, external, listeners })
    }

    fn note_foreign(&mut self, foreign: &Foreign) {
        let Some(first) = foreign.values().next() else { return };
        let network = self.index.networks.name(self.networks.pods);
        let network = network.map(NamespacedName::to_string).unwrap_or_default();
        let others = match foreign.len() - 1 {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        let message =
            format!("{first}{others}: no member, as it is not in network {network}, where members are");
        self.findings.add("", message);
    }

    fn listener(
        &mut self,
        spaced: SpacedAddress,
        port: &ServicePort,
        candidates: Candidates,
        room: usize,
    ) -> Option<Listener> {
        let key = port.key();
        let ListenerAllocation { id, members: mut known } = self.ids.take_listener(spaced, key)?;
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
        self.ids.put_listener(spaced, key, ListenerAllocation { id, members: allocations });
        let node_port = self.exposed.node_ports.get(&(spaced.address.into(), key)).copied();
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
        let owner = self.owner(endpoint.ip());
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
        let owner = self.owner(endpoint.ip())?;
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

    /// Whose an address of the members' network is.
    fn owner(&self, address: IpAddr) -> Option<Owner<'_>> {
        let owner = self.index.owner(self.index.networks.space(self.networks.pods), address);
        owner.filter(|owner| owner.vrf == self.networks.pods)
    }

    /// What is no address of the members' network is a node's, or beyond them.
    fn network_of(&self, address: IpAddr) -> VrfId {
        let pods = self.index.networks.get(self.networks.pods);
        let is_pods = pods.is_some_and(|pods| pods.contains(address)) || self.owner(address).is_some();
        if is_pods { self.networks.pods } else { self.config.fabric.vrf }
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
