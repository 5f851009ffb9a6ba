//! Who may answer for a service: what somebody wrote, or else what its selector finds.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::SocketAddr;

use vrouter_objects::VrfId;

use crate::index::Index;
use crate::kube::{
    Condition, Distribution, EndpointSet, Frontend, Hints, PodRecord, Readiness, ServicePort, ServiceRecord,
    TargetPort,
};
use crate::{Family, NamespacedName};

/// An endpoint at one port, before it has an id.
pub struct Candidate {
    /// What it may be given.
    pub condition: Condition,
    /// The pod behind it, where one is known.
    pub pod: Option<NamespacedName>,
    /// The name of the node it is on, where one is known.
    pub node: Option<String>,
    /// For whom it is meant.
    pub hints: Hints,
}

/// Candidates by address and port: one that occurs twice counts once, with its better condition.
pub type Candidates = BTreeMap<SocketAddr, Candidate>;

/// A service whose endpoints are looked for.
#[derive(Clone, Copy)]
pub struct Search<'a> {
    /// Where everything is looked up.
    pub index: &'a Index,
    /// The network that pods are in.
    pub pod_vrf: VrfId,
    /// The service.
    pub service: &'a NamespacedName,
    /// What its object says.
    pub record: &'a ServiceRecord,
    /// How it is served.
    pub frontend: &'a Frontend,
}

impl Search<'_> {
    /// Who may answer at one port of one family.
    pub fn candidates(&self, port: &ServicePort, family: Family) -> Candidates {
        let mut candidates = Candidates::new();
        match self.index.written_endpoints(self.service) {
            Some(sets) => sets.into_iter().for_each(|set| written(set, port, family, &mut candidates)),
            None => self.derived(port, family, &mut candidates),
        }
        candidates
    }

    /// As the EndpointSlice controller derives them.
    fn derived(&self, port: &ServicePort, family: Family, candidates: &mut Candidates) {
        for (name, pod) in self.index.pods_selected(self.service) {
            let number = match &port.target {
                TargetPort::Number(number) => Some(*number),
                TargetPort::Name(target) => pod.named_port(target, port.protocol),
            };
            let addresses = self.index.pod_addresses(self.pod_vrf, name, pod);
            let address = addresses.into_iter().find(|&address| Family::from(address) == family);
            if let (Some(number), Some(address)) = (number, address) {
                let condition = self.condition(name, pod);
                let node = pod.node.clone();
                let hints = match condition {
                    Condition::Ready => self.hints(node.as_deref()),
                    Condition::Serving | Condition::Unready => Hints::default(),
                };
                let candidate = Candidate { condition, pod: Some(name.clone()), node, hints };
                add(candidates, SocketAddr::new(address, number.get()), candidate);
            }
        }
    }

    fn condition(&self, name: &NamespacedName, pod: &PodRecord) -> Condition {
        if self.record.publish_not_ready {
            return Condition::Ready;
        }
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

    /// As `trafficDistribution` has them: nobody else is named than who is nearest.
    fn hints(&self, node: Option<&str>) -> Hints {
        let node = node.and_then(|node| self.index.nodes.get_key_value(node));
        let zone = || node.map(|(_, record)| record.zone.clone()).filter(|zone| !zone.is_empty());
        match self.frontend.policies.distribution {
            Distribution::Everywhere => Hints::default(),
            Distribution::SameZone => Hints { zones: zone().into_iter().collect(), nodes: Vec::new() },
            Distribution::SameNode => Hints {
                zones: zone().into_iter().collect(),
                nodes: node.map(|(name, _)| name.clone()).into_iter().collect(),
            },
        }
    }
}

/// The endpoints of a set at the Service's port. Ports belong together by name and protocol, never by number.
fn written(set: &EndpointSet, port: &ServicePort, family: Family, candidates: &mut Candidates) {
    let ports =
        set.ports.iter().filter(|of_set| of_set.name == port.name && of_set.protocol == port.protocol);
    for of_set in ports {
        for endpoint in set.endpoints.iter().filter(|endpoint| Family::from(endpoint.address) == family) {
            let candidate = Candidate {
                condition: endpoint.condition,
                pod: endpoint.pod.clone(),
                node: endpoint.node.clone(),
                hints: endpoint.hints.clone(),
            };
            add(candidates, SocketAddr::new(endpoint.address, of_set.port.get()), candidate);
        }
    }
}

fn add(candidates: &mut Candidates, endpoint: SocketAddr, candidate: Candidate) {
    match candidates.entry(endpoint) {
        Entry::Vacant(entry) => {
            entry.insert(candidate);
        }
        Entry::Occupied(mut entry) => entry.get_mut().merge(candidate),
    }
}

impl Candidate {
    /// The same endpoint is listed again: the better condition counts, and with it who it is meant for.
    fn merge(&mut self, other: Self) {
        if other.condition < self.condition {
            (self.condition, self.hints) = (other.condition, other.hints);
        }
        self.pod = self.pod.take().or(other.pod);
        self.node = self.node.take().or(other.node);
    }
}
