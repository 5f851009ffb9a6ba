//! The model: index in, changes of the tables out.

mod addresses;
mod attachments;
mod bids;
mod exposures;
mod interest;
mod networks;
mod nodes;
mod pod_addresses;
mod policies;
mod problems;
mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use vrouter_objects::{Object, PolicyId, VmiId};

use crate::allocate::{Exposures, FloatingIps, NetworkIds, Nodes, State, StateChange};
use crate::claim::Ledger;
use crate::contrail::LoadBalancer;
use crate::index::{Index, Origin};
use crate::interest::{Interest, InterestChange};
use crate::kube::{Kind, KubeObject, ObjectRef};
use crate::multimap::Multimap;
use crate::network::NetworkSet;
use crate::policy::{PeerSets, Register};
use crate::problem::{Findings, FindingsBook};
use crate::tables::{self, Change, Layer, Tables, Unit};
use crate::{ModelConfig, ModelError, NamespacedName, Problem};

/// The cluster, mirrored. There is one writer; what it hands out are changes.
#[derive(Debug)]
pub struct Model {
    pub(crate) config: ModelConfig,
    pub(crate) index: Index,
    pub(crate) nodes: Nodes,
    floating_ips: FloatingIps,
    exposures: Exposures,
    pub(crate) policy_ids: Register<ObjectRef, PolicyId>,
    pub(crate) peer_sets: PeerSets,
    /// Who has what each node has only once.
    ledger: Ledger,
    pub(crate) load_balancers: BTreeMap<NamespacedName, LoadBalancer>,
    /// Services by the addresses of their members.
    users: Multimap<IpAddr, NamespacedName>,
    /// Services by the nodes that their members are on or meant for.
    users_of_nodes: Multimap<String, NamespacedName>,
    pub(crate) tables: Tables,
    interest: Interest,
    /// What came to light beyond single objects.
    findings: FindingsBook<ObjectRef>,
    /// Services for which something was to be picked and nothing was free.
    waiting: BTreeSet<NamespacedName>,
    /// Whether something that can be picked has become free since those were last looked at.
    freed: bool,
    /// Nodes that want a block and have none: they try again whenever one may have become free.
    unplaced: BTreeSet<String>,
    /// Attachments that were reported and cannot be right.
    refused: BTreeMap<(String, VmiId), Problem>,
    nodes_changed: bool,
    network_ids: NetworkIds,
    network_ids_changed: bool,
    /// What is wrong with networks and with what asks for them, as far as it is no pod or service.
    network_findings: FindingsBook<ObjectRef>,
    /// Pods for which an address was to be picked and none was free.
    waiting_pods: BTreeSet<NamespacedName>,
}

/// What one round of settling did.
#[derive(Debug)]
pub struct Settlement {
    /// What is different in the tables now.
    pub changes: Vec<Change>,
    /// Which nodes hold which layers from now on, and which no more.
    pub interest: Vec<InterestChange>,
    /// What of the state changed, and must be saved before the changes may be published; `None`: nothing.
    pub state: Option<StateChange>,
    /// How many units were recomputed.
    pub recomputed: usize,
}

impl Model {
    /// A model that holds nothing yet but goes on from a saved state.
    pub fn new(config: ModelConfig, state: State) -> Result<Self, ModelError> {
        state.check()?;
        let State {
            nodes,
            floating_ips,
            exposures,
            policies,
            peer_sets,
            networks,
            pod_addresses,
            attachments,
        } = state;
        let mut tables = Tables::default();
        let set = NetworkSet::new(&config, &networks);
        for network in config.networks() {
            tables.replace(Unit::Network(network.vrf), tables::network_objects(&config, &set, network));
        }
        let mut index = Index::new(attachments, set, pod_addresses);
        index.dirty.nodes.extend(nodes.names().cloned());
        index.dirty.services.extend(floating_ips.services().chain(exposures.services()).cloned());
        index.dirty.policies.extend(policies.iter().map(|(reference, _)| reference.clone()));
        let interest = Interest::new(index.attachments.iter());
        Ok(Self {
            config,
            index,
            nodes,
            floating_ips,
            exposures,
            policy_ids: policies,
            peer_sets: PeerSets::new(peer_sets),
            ledger: Ledger::default(),
            load_balancers: BTreeMap::new(),
            users: Multimap::default(),
            users_of_nodes: Multimap::default(),
            tables,
            interest,
            findings: FindingsBook::default(),
            waiting: BTreeSet::new(),
            freed: false,
            unplaced: BTreeSet::new(),
            refused: BTreeMap::new(),
            nodes_changed: false,
            network_ids: networks,
            network_ids_changed: false,
            network_findings: FindingsBook::default(),
            waiting_pods: BTreeSet::new(),
        })
    }

    /// What must be saved.
    pub fn state(&self) -> State {
        State {
            nodes: self.nodes.clone(),
            floating_ips: self.floating_ips.clone(),
            exposures: self.exposures.clone(),
            policies: self.policy_ids.clone(),
            peer_sets: self.peer_sets.ids().clone(),
            networks: self.network_ids.clone(),
            pod_addresses: self.index.picked.clone(),
            attachments: self.index.attachments.clone(),
        }
    }

    /// Records an object in place of the one of its name.
    pub fn apply(&mut self, object: &KubeObject, origin: Origin) {
        self.index.apply(object, origin);
    }

    /// Forgets an object.
    pub fn delete(&mut self, reference: &ObjectRef) {
        self.index.delete(reference);
    }

    /// Makes these the only objects of a kind.
    pub fn reset(&mut self, kind: Kind, objects: &[(Arc<KubeObject>, Origin)]) {
        self.index.reset(kind, objects);
    }

    /// Whether something was recorded that the tables do not show yet.
    pub fn is_settled(&self) -> bool {
        self.index.dirty.is_empty()
            && !self.tables.has_changes()
            && !self.nodes_changed
            && !self.network_ids_changed
            && !self.index.picked.has_changes()
            && !self.index.attachments.has_changes()
            && !self.interest.has_changes()
            && !self.peer_sets.has_changes()
    }

    /// Brings the tables up to date with everything recorded, recomputing what depends on it and nothing else.
    pub fn settle(&mut self) -> Settlement {
        let recomputed = self.settle_networks()
            + self.settle_nodes()
            + self.settle_policies()
            + self.settle_pods()
            + self.settle_addresses()
            + self.settle_services()
            + self.settle_peer_sets();
        let (changes, state) = (self.tables.take_changes(), self.take_state_change());
        let interest = self.settle_interest(&changes, state.as_ref());
        Settlement { changes, interest, state, recomputed }
    }

    /// Whether there is a Node of this name.
    pub fn has_node(&self, name: &str) -> bool {
        self.index.nodes.contains_key(name)
    }

    /// All tables as they are now.
    pub fn tables(&self) -> impl Iterator<Item = (&Layer, &Arc<Object>)> {
        self.tables.iter()
    }

    fn take_state_change(&mut self) -> Option<StateChange> {
        let change = StateChange {
            nodes: std::mem::take(&mut self.nodes_changed).then(|| self.nodes.clone()),
            floating_ips: self.floating_ips.take_changes(),
            exposures: self.exposures.take_changes(),
            policies: self.policy_ids.take_changes(),
            peer_sets: self.peer_sets.ids_mut().take_changes(),
            networks: std::mem::take(&mut self.network_ids_changed).then(|| self.network_ids.clone()),
            pod_addresses: self.index.picked.take_changes(),
            attachments: self.index.attachments.take_changes(),
        };
        (!change.is_empty()).then_some(change)
    }

    fn settle_pods(&mut self) -> usize {
        let mut count = 0;
        // What becomes free may be what another pod asks for: that is another round.
        while !self.index.dirty.pods.is_empty() {
            let mut pods = std::mem::take(&mut self.index.dirty.pods);
            self.settle_pod_addresses(&mut pods);
            pods.iter().for_each(|name| self.settle_pod(name));
            count += pods.len();
            self.index.dirty.peers.extend(pods);
        }
        count
    }

    fn settle_pod(&mut self, name: &NamespacedName) {
        let mut findings = Findings::default();
        let placed = match self.index.pods.get_key_value(name) {
            Some((name, pod)) => {
                self.note_refusal(name, pod, &mut findings);
                self.note_stale_interface(name, pod, &mut findings);
                let selecting = self.policies_of(name, pod);
                tables::binding(&self.config, &self.index, (name, pod), selecting)
            }
            None => tables::Placed::new(),
        };
        self.findings.replace(reference(Kind::Pod, name), findings);
        self.tables.replace(Unit::Pod(name.clone()), placed);
    }

    fn settle_addresses(&mut self) -> usize {
        let addresses = std::mem::take(&mut self.index.dirty.addresses);
        for &address in &addresses {
            let placed = tables::host_routes(&self.config, &self.index, &self.nodes, address);
            self.tables.replace(Unit::Address(address), placed);
            self.index.dirty.services.extend(self.users.get(&address).cloned());
            let claimants: Vec<_> = self.index.claimants(address).cloned().collect();
            self.index.dirty.peers.extend(claimants);
        }
        addresses.len()
    }
}

/// Names an object of the index.
pub(crate) fn reference(kind: Kind, name: &NamespacedName) -> ObjectRef {
    ObjectRef { kind, namespace: name.namespace.clone(), name: name.name.clone() }
}

/// Names a node.
pub(crate) fn node_reference(name: &str) -> ObjectRef {
    ObjectRef { kind: Kind::Node, namespace: String::new(), name: name.to_owned() }
}
