//! Settling nodes: ids and blocks first, then what follows from them.

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::{Model, node_reference};
use crate::Family;
use crate::allocate::BlockFault;
use crate::index::Index;
use crate::kube::{NodeKind, NodeRecord};
use crate::problem::Findings;
use crate::tables::{self, Placed, Unit};

impl Model {
    pub(super) fn settle_nodes(&mut self) -> usize {
        if self.index.dirty.nodes.is_empty() {
            return 0;
        }
        let mut names = std::mem::take(&mut self.index.dirty.nodes);
        names.append(&mut self.unplaced);
        let before = self.nodes.clone();
        self.retire_gone(&names);
        let present: Vec<(String, NodeRecord)> = names
            .iter()
            .filter_map(|name| Some((name.clone(), self.index.nodes.get(name)?.clone())))
            .collect();
        // Blocks that objects name come before blocks that are picked, so that none is picked from under a node.
        let mut all_findings: Vec<Findings> =
            present.iter().map(|(name, record)| self.give_named_blocks(name, record)).collect();
        for ((name, record), findings) in present.iter().zip(&mut all_findings) {
            self.pick_blocks(name, record, findings);
        }
        for ((name, _), findings) in present.into_iter().zip(all_findings) {
            self.findings.replace(node_reference(&name), findings);
        }
        for name in &names {
            if self.nodes.get(name) != before.get(name) {
                self.index.touch_pods_on(name);
            }
            let placed = match (self.index.nodes.get(name), self.nodes.get(name)) {
                (Some(record), Some(given)) => tables::node_objects(&self.config, name, record, given),
                _ => Placed::new(),
            };
            self.tables.replace(Unit::Node(name.clone()), placed);
        }
        self.state_changed |= self.nodes != before;
        names.len()
    }

    fn retire_gone(&mut self, names: &BTreeSet<String>) {
        for name in names.iter().filter(|name| !self.index.nodes.contains_key(*name)) {
            let index = &self.index;
            self.nodes.retire(name, |block| in_use(index, block));
            self.findings.replace(node_reference(name), Findings::default());
        }
    }

    fn give_named_blocks(&mut self, name: &str, record: &NodeRecord) -> Findings {
        let mut findings = Findings::default();
        if let Err(fault) = self.nodes.admit(name) {
            findings.add("", describe(&fault));
            return findings;
        }
        for family in Family::BOTH {
            let named = record.pod_prefixes.iter().find(|(_, prefix)| Family::from(*prefix) == family);
            if let Some((field, prefix)) = named
                && let Err(fault) = self.nodes.give(name, *prefix, &self.config.pods)
            {
                findings.add(field, format!("{prefix} {}", describe(&fault)));
                self.nodes.release(name, family);
                self.unplaced.insert(name.to_owned());
            }
        }
        findings
    }

    /// A kernel node uses what its object says and cannot be leased more.
    fn pick_blocks(&mut self, name: &str, record: &NodeRecord, findings: &mut Findings) {
        for &whole in &self.config.pods.prefixes {
            let family = Family::from(whole);
            let named = record.pod_prefixes.iter().any(|(_, prefix)| Family::from(*prefix) == family);
            if named {
                continue;
            }
            if record.kind != NodeKind::Vrouter {
                self.nodes.release(name, family);
                continue;
            }
            let length = self.config.block_length(family);
            let index = &self.index;
            let taken = self.nodes.take(name, &self.config.pods, whole, length, |block| in_use(index, block));
            if let Err(fault) = taken {
                findings.add("spec.podCIDRs", format!("no block out of {whole}: {}", describe(&fault)));
                self.unplaced.insert(name.to_owned());
            }
        }
    }
}

/// Whether an address of a block is still a pod's.
fn in_use(index: &Index, block: IpNet) -> bool {
    let attached = index.attachments.iter().flat_map(|attached| &attached.attachment.addresses);
    let stated = index.pods.values().filter(|pod| pod.has_interface()).flat_map(|pod| &pod.stated_addresses);
    attached.chain(stated).any(|address| block.contains(address))
}

fn describe(fault: &BlockFault) -> String {
    match fault {
        BlockFault::Taken(node, block) => format!("overlaps {block} of node {node}"),
        BlockFault::Outside => "is no part of the pod network".to_owned(),
        BlockFault::Exhausted => "all are taken".to_owned(),
        BlockFault::NoIds => "ids are used up".to_owned(),
    }
}
