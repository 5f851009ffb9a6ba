//! From a Service and its endpoints to listeners with members.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{IpAddr, SocketAddr};

use vrouter_objects::{MemberState, Port, ServiceProtocol, VrfId};

use super::{FloatingIp, Listener, LoadBalancer, Member};
use crate::allocate::{FloatingIps, ListenerAllocation, ListenerKey, MemberAllocation};
use crate::index::Index;
use crate::kube::{Condition, EndpointSet, PodRecord, Readiness, ServicePort, ServiceRecord, TargetPort};
use crate::problem::Findings;
use crate::{Family, NamespacedName};

/// The most members of one floating IP, over all its listeners: a message to a node holds a floating IP as a whole.
pub const MAX_MEMBERS: usize = 32_768;

/// Builds load balancers.
pub struct Builder<'a> {
    /// Where everything is looked up.
    pub index: &'a Index,
    /// Where listeners and members get their ids.
    pub ids: &'a mut FloatingIps,
    /// The network of the members.
    pub pod_vrf: VrfId,
    /// The network of the virtual addresses.
    pub service_vrf: VrfId,
}

/// An endpoint at one port, before it has an id.
struct Candidate {
    condition: Condition,
    pod: Option<NamespacedName>,
}

/// Candidates by address and port: one that occurs twice counts once, with its better condition.
type Candidates = BTreeMap<SocketAddr, Candidate>;

impl Builder<'_> {
    /// The load balancer of a service at these addresses.
    pub fn build(
        &mut self,
        service: &NamespacedName,
        record: &ServiceRecord,
        addresses: &[IpAddr],
        findings: &mut Findings,
    ) -> LoadBalancer {
        let floating_ips = addresses
            .iter()
            .filter_map(|&address| self.floating_ip(service, record, address, findings))
            .collect();
        LoadBalancer { service: service.clone(), vrf: self.service_vrf, floating_ips }
    }

    fn floating_ip(
        &mut self,
        service: &NamespacedName,
        record: &ServiceRecord,
        address: IpAddr,
        findings: &mut Findings,
    ) -> Option<FloatingIp> {
        let keys: Vec<_> = record.ports.iter().map(key).collect();
        self.ids.retain_listeners(address, &keys);
        let mut room = MAX_MEMBERS;
        let mut listeners = Vec::with_capacity(keys.len());
        for port in &record.ports {
            let mut candidates = self.candidates(service, record, port, address.into());
            if candidates.len() > room {
                let message = format!(
                    "{} endpoints at port {}: {room} of them are used, as {service} may have {MAX_MEMBERS} members",
                    candidates.len(),
                    port.port
                );
                findings.add("", message);
                candidates = candidates.into_iter().take(room).collect();
            }
            let listener = self.listener(address, port, candidates, room)?;
            room = room.saturating_sub(listener.members.len());
            listeners.push(listener);
        }
        Some(FloatingIp { id: self.ids.floating_ip(address)?, address, listeners })
    }

    fn listener(
        &mut self,
        address: IpAddr,
        port: &ServicePort,
        candidates: Candidates,
        room: usize,
    ) -> Option<Listener> {
        let any_ready = candidates.values().any(|candidate| candidate.condition == Condition::Ready);
        let ListenerAllocation { id, members: mut known } = self.ids.take_listener(address, key(port))?;
        let mut members = Vec::with_capacity(candidates.len());
        for (endpoint, candidate) in candidates {
            let state = state(candidate.condition, any_ready);
            let (Some(state), Ok(port)) = (state, Port::new(endpoint.port().into())) else { continue };
            let owner = self.index.owner(self.pod_vrf, endpoint.ip());
            let vmi = owner.and_then(|owner| owner.vmi);
            let pod = candidate.pod.or_else(|| owner.map(|owner| owner.pod.clone()));
            let allocation = match known.remove(&endpoint).and_then(|known| known.seen_with(vmi)) {
                Some(allocation) => allocation,
                None => MemberAllocation::new(self.ids.next_member()?, vmi),
            };
            let id = allocation.id;
            let member = Member { id, pod, vrf: self.pod_vrf, endpoint, port, vmi, state };
            members.push((member, allocation));
        }
        if port.protocol == ServiceProtocol::Tcp {
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
        self.ids.put_listener(address, key(port), ListenerAllocation { id, members: allocations });
        let ServicePort { name, protocol, port, target } = port.clone();
        Some(Listener { id, name, protocol, port, target, members })
    }

    /// Who was a member, and is not ready or not listed any more, keeps its TCP connections while its interface lives.
    fn leaver(&self, endpoint: SocketAddr, known: MemberAllocation) -> Option<(Member, MemberAllocation)> {
        let owner = self.index.owner(self.pod_vrf, endpoint.ip())?;
        let same = MemberAllocation::new(known.id, owner.vmi) == known;
        let member = Member {
            id: known.id,
            pod: Some(owner.pod.clone()),
            vrf: self.pod_vrf,
            endpoint,
            port: Port::new(endpoint.port().into()).ok()?,
            vmi: owner.vmi,
            state: MemberState::Draining,
        };
        same.then_some((member, known))
    }

    /// Who may answer at one port of one family: what somebody wrote, or else what the selector finds.
    fn candidates(
        &self,
        service: &NamespacedName,
        record: &ServiceRecord,
        port: &ServicePort,
        family: Family,
    ) -> Candidates {
        let mut candidates = Candidates::new();
        match self.index.written_endpoints(service) {
            Some(sets) => sets.into_iter().for_each(|set| written(set, port, family, &mut candidates)),
            None => self.derived(service, record, port, family, &mut candidates),
        }
        candidates
    }

    /// As the EndpointSlice controller derives them.
    fn derived(
        &self,
        service: &NamespacedName,
        record: &ServiceRecord,
        port: &ServicePort,
        family: Family,
        candidates: &mut Candidates,
    ) {
        for (name, pod) in self.index.pods_selected(service) {
            let number = match &port.target {
                TargetPort::Number(number) => Some(*number),
                TargetPort::Name(target) => pod.named_port(target, port.protocol),
            };
            let addresses = self.index.pod_addresses(self.pod_vrf, name, pod);
            let address = addresses.into_iter().find(|&address| Family::from(address) == family);
            if let (Some(number), Some(address)) = (number, address) {
                let condition =
                    if record.publish_not_ready { Condition::Ready } else { self.condition(name, pod) };
                let endpoint = SocketAddr::new(address, number.get());
                add(candidates, endpoint, Candidate { condition, pod: Some(name.clone()) });
            }
        }
    }

    fn condition(&self, name: &NamespacedName, pod: &PodRecord) -> Condition {
        let serving = match pod.readiness {
            Readiness::Ready => true,
            Readiness::Unready => false,
            Readiness::Unstated => {
                pod.host_network || self.index.attachment(self.pod_vrf, name, pod).is_some()
            }
        };
        match (serving, pod.terminating) {
            (true, false) => Condition::Ready,
            (true, true) => Condition::Serving,
            (false, _) => Condition::Unready,
        }
    }
}

/// The endpoints of a set at the Service's port. Ports belong together by name and protocol, never by number.
fn written(set: &EndpointSet, port: &ServicePort, family: Family, candidates: &mut Candidates) {
    let ports =
        set.ports.iter().filter(|of_set| of_set.name == port.name && of_set.protocol == port.protocol);
    for of_set in ports {
        for endpoint in set.endpoints.iter().filter(|endpoint| Family::from(endpoint.address) == family) {
            let candidate = Candidate { condition: endpoint.condition, pod: endpoint.pod.clone() };
            add(candidates, SocketAddr::new(endpoint.address, of_set.port.get()), candidate);
        }
    }
}

fn add(candidates: &mut Candidates, endpoint: SocketAddr, candidate: Candidate) {
    match candidates.entry(endpoint) {
        Entry::Vacant(entry) => {
            entry.insert(candidate);
        }
        Entry::Occupied(mut entry) => {
            let known = entry.get_mut();
            known.condition = known.condition.min(candidate.condition);
            known.pod = known.pod.take().or(candidate.pod);
        }
    }
}

/// What an endpoint is given; `None`: it is no member, or not any more.
fn state(condition: Condition, any_ready: bool) -> Option<MemberState> {
    match condition {
        Condition::Ready => Some(MemberState::Active),
        // The last resort when nobody is ready.
        Condition::Serving if !any_ready => Some(MemberState::Active),
        Condition::Serving => Some(MemberState::Draining),
        Condition::Unready => None,
    }
}

fn key(port: &ServicePort) -> ListenerKey {
    ListenerKey { protocol: port.protocol, port: port.port }
}
