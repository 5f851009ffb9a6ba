//! Who may answer for a service: what somebody wrote, or else what its selector finds.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{IpAddr, SocketAddr};

use crate::config::{AddressUse, ModelConfig};
use crate::index::Index;
use crate::kube::{
    Condition, Distribution, EndpointSet, Frontend, Hints, PodRecord, Readiness, ServicePort, ServiceRecord,
    TargetPort,
};
use crate::network::ServiceNetworks;
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

/// An endpoint that was found, perhaps again.
type Found = (SocketAddr, Candidate);

/// Endpoints in other networks, with what people call them.
pub type Foreign = BTreeMap<IpAddr, String>;

/// A service whose endpoints are looked for.
#[derive(Clone, Copy)]
pub struct Search<'a> {
    /// Where everything is looked up.
    pub index: &'a Index,
    /// The cluster's own networks.
    pub config: &'a ModelConfig,
    /// The service's networks.
    pub networks: ServiceNetworks,
    /// The service.
    pub service: &'a NamespacedName,
    /// What its object says.
    pub record: &'a ServiceRecord,
    /// How it is served.
    pub frontend: &'a Frontend,
}

impl Search<'_> {
    /// Who may answer at one port of one family. Endpoints in other networks may not: these are noted.
    pub fn candidates(&self, port: &ServicePort, family: Family, foreign: &mut Foreign) -> Candidates {
        let mut candidates = Candidates::new();
        let found: Box<dyn Iterator<Item = Found>> = match self.index.written_endpoints(self.service) {
            Some(sets) => Box::new(sets.into_iter().flat_map(move |set| written(set, port, family))),
            None => Box::new(self.derived(port, family)),
        };
        for (endpoint, candidate) in found {
            if self.is_foreign(endpoint.ip(), candidate.pod.as_ref()) {
                let name = candidate.pod.map_or_else(|| endpoint.ip().to_string(), |pod| pod.to_string());
                foreign.insert(endpoint.ip(), name);
            } else {
                add(&mut candidates, endpoint, candidate);
            }
        }
        candidates
    }

    /// Whether an endpoint is in another network of pods than the service's members are to be.
    fn is_foreign(&self, address: IpAddr, pod: Option<&NamespacedName>) -> bool {
        let pods = self.networks.pods;
        let known = pod.and_then(|name| self.index.pods.get_key_value(name));
        if let Some((name, pod)) = known.filter(|(_, pod)| pod.has_interface()) {
            return self.index.place(name, pod).is_none_or(|place| place.vrf != pods);
        }
        let owner = self.index.owner(self.index.networks.space(pods), address);
        let is_in = self.index.networks.get(pods).is_some_and(|network| network.contains(address));
        match owner {
            Some(owner) => owner.vrf != pods,
            // What the cluster's own network has, nobody else's service finds beyond its own; and a link-local address is
            // another pod's on each node.
            None => !is_in && matches!(self.config.use_of(address), AddressUse::Pods | AddressUse::LinkLocal),
        }
    }

    /// As the EndpointSlice controller derives them.
    fn derived<'b>(&'b self, port: &'b ServicePort, family: Family) -> impl Iterator<Item = Found> + 'b {
        self.index.pods_selected(self.service).filter_map(move |(name, pod)| {
            let number = match &port.target {
                TargetPort::Number(number) => Some(*number),
                TargetPort::Name(target) => pod.named_port(target, port.protocol),
            };
            let addresses = self.index.reachable_addresses(name, pod);
            let address = addresses.into_iter().find(|&address| Family::from(address) == family);
            let endpoint = SocketAddr::new(address?, number?.get());
            let condition = self.condition(name, pod);
            let node = pod.node.clone();
            let hints = match condition {
                Condition::Ready => self.hints(node.as_deref()),
                Condition::Serving | Condition::Unready => Hints::default(),
            };
            Some((endpoint, Candidate { condition, pod: Some(name.clone()), node, hints }))
        })
    }

    fn condition(&self, name: &NamespacedName, pod: &PodRecord) -> Condition {
        if self.record.publish_not_ready {
            return Condition::Ready;
        }
        let serving = match pod.readiness {
            Readiness::Ready => true,
            Readiness::Unready => false,
            Readiness::Unstated => pod.host_network || self.index.attachment(name, pod).is_some(),
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
fn written<'a>(
    set: &'a EndpointSet,
    port: &'a ServicePort,
    family: Family,
) -> impl Iterator<Item = Found> + 'a {
    let ports =
        set.ports.iter().filter(|of_set| of_set.name == port.name && of_set.protocol == port.protocol);
    ports.flat_map(move |of_set| {
        let of_family = set.endpoints.iter().filter(move |endpoint| Family::from(endpoint.address) == family);
        of_family.map(move |endpoint| {
            let candidate = Candidate {
                condition: endpoint.condition,
                pod: endpoint.pod.clone(),
                node: endpoint.node.clone(),
                hints: endpoint.hints.clone(),
            };
            (SocketAddr::new(endpoint.address, of_set.port.get()), candidate)
        })
    })
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
