//! The model: index in, changes of the tables out.

mod addresses;
mod attachments;
mod bids;
mod exposures;
mod nodes;
mod problems;
mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use vrouter_objects::{Object, VmiId, VrfId};

use crate::allocate::{Exposures, FloatingIps, Nodes, State, StateChange};
use crate::claim::Ledger;
use crate::contrail::LoadBalancer;
use crate::index::{Index, Origin};
use crate::kube::{Kind, KubeObject, ObjectRef};
use crate::multimap::Multimap;
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
    /// Who has what each node has only once.
    ledger: Ledger,
    pub(crate) load_balancers: BTreeMap<NamespacedName, LoadBalancer>,
    /// Services by the addresses of their members.
    users: Multimap<IpAddr, NamespacedName>,
    /// Services by the nodes that their members are on or meant for.
    users_of_nodes: Multimap<String, NamespacedName>,
    tables: Tables,
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
}

/// What one round of settling did.
#[derive(Debug)]
pub struct Settlement {
    /// What is different in the tables now.
    pub changes: Vec<Change>,
    /// What of the state changed, and must be saved before the changes may be published; `None`: nothing.
    pub state: Option<StateChange>,
    /// How many units were recomputed.
    pub recomputed: usize,
}

impl Model {
    /// A model that holds nothing yet but goes on from a saved state.
    pub fn new(config: ModelConfig, state: State) -> Result<Self, ModelError> {
        state.check()?;
        let State { nodes, floating_ips, exposures, attachments } = state;
        let mut index = Index::new(attachments);
        index.dirty.nodes.extend(nodes.names().cloned());
        index.dirty.services.extend(floating_ips.services().chain(exposures.services()).cloned());
        let mut tables = Tables::default();
        tables.replace(Unit::Networks, tables::network_objects(&config));
        Ok(Self {
            config,
            index,
            nodes,
            floating_ips,
            exposures,
            ledger: Ledger::default(),
            load_balancers: BTreeMap::new(),
            users: Multimap::default(),
            users_of_nodes: Multimap::default(),
            tables,
            findings: FindingsBook::default(),
            waiting: BTreeSet::new(),
            freed: false,
            unplaced: BTreeSet::new(),
            refused: BTreeMap::new(),
            nodes_changed: false,
        })
    }

    /// What must be saved.
    pub fn state(&self) -> State {
        State {
            nodes: self.nodes.clone(),
            floating_ips: self.floating_ips.clone(),
            exposures: self.exposures.clone(),
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
            && !self.index.attachments.has_changes()
    }

    /// Brings the tables up to date with everything recorded, recomputing what depends on it and nothing else.
    pub fn settle(&mut self) -> Settlement {
        let recomputed =
            self.settle_nodes() + self.settle_pods() + self.settle_addresses() + self.settle_services();
        Settlement { changes: self.tables.take_changes(), state: self.take_state_change(), recomputed }
    }

    /// Whether there is a Node of this name.
    pub fn has_node(&self, name: &str) -> bool {
        self.index.nodes.contains_key(name)
    }

    /// The networks whose layers a node holds: those it has an interface in, and what they reach. Any node is in the
    /// fabric, and may get a pod of the default network at any time.
    pub fn interest(&self, node: &str) -> BTreeSet<VrfId> {
        let attached = self.index.attachments.on_node(node).map(|attached| attached.attachment.vrf);
        attached.chain(self.config.networks().map(|network| network.vrf)).collect()
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
            attachments: self.index.attachments.take_changes(),
        };
        (!change.is_empty()).then_some(change)
    }

    fn settle_pods(&mut self) -> usize {
        let pods = std::mem::take(&mut self.index.dirty.pods);
        for name in &pods {
            let mut findings = Findings::default();
            let placed = match self.index.pods.get(name) {
                Some(pod) => {
                    self.note_refusal(name, pod, &mut findings);
                    tables::binding(&self.config, &self.index, name, pod)
                }
                None => tables::Placed::new(),
            };
            self.findings.replace(reference(Kind::Pod, name), findings);
            self.tables.replace(Unit::Pod(name.clone()), placed);
        }
        pods.len()
    }

    fn settle_addresses(&mut self) -> usize {
        let addresses = std::mem::take(&mut self.index.dirty.addresses);
        for &address in &addresses {
            let placed = tables::host_route(&self.config, &self.index, &self.nodes, address);
            self.tables.replace(Unit::Address(address), placed);
            self.index.dirty.services.extend(self.users.get(&address).cloned());
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
