//! Settling nodes: ids and blocks first, then what follows from them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::{Model, node_reference};
use crate::Family;
use crate::allocate::BlockFault;
use crate::config::AddressUse;
use crate::index::Index;
use crate::kube::{BACKEND_DATA, NodeKind, NodeRecord};
use crate::problem::Findings;
use crate::tables::{self, NodePlace, Placed, Unit};

impl Model {
    pub(super) fn settle_nodes(&mut self) -> usize {
        // A block that nobody uses any more may serve a node that has none.
        let may_be_placed = !self.unplaced.is_empty() && !self.index.dirty.addresses.is_empty();
        if self.index.dirty.nodes.is_empty() && !may_be_placed {
            return 0;
        }
        let touched = std::mem::take(&mut self.index.dirty.nodes);
        let mut names = touched.clone();
        names.append(&mut self.unplaced);
        let before = self.nodes.clone();
        let index = &self.index;
        self.nodes.free_unused(|block| in_use(index, block));
        self.retire_gone(&names);
        let present: Vec<(String, NodeRecord)> = names
            .iter()
            .filter_map(|name| Some((name.clone(), self.index.nodes.get(name)?.clone())))
            .collect();
        let mut all_findings: Vec<Findings> =
            present.iter().map(|(name, record)| self.admit(name, record)).collect();
        present.iter().for_each(|(name, record)| self.release_unwanted_blocks(name, record));
        // Blocks that objects name come before blocks that are picked, so that none is picked from under a node.
        // Who is in the way is known once all that can be given is.
        for (name, record) in &present {
            self.give_named_blocks(name, record, &mut Findings::default());
        }
        for ((name, record), findings) in present.iter().zip(&mut all_findings) {
            self.give_named_blocks(name, record, findings);
        }
        for ((name, record), findings) in present.iter().zip(&mut all_findings) {
            self.pick_blocks(name, record, findings);
        }
        for ((name, _), findings) in present.into_iter().zip(all_findings) {
            self.findings.replace(node_reference(&name), findings);
        }
        for name in &names {
            let is_given_others = self.nodes.get(name) != before.get(name);
            if is_given_others {
                self.index.touch_pods_on(name);
            }
            if is_given_others || touched.contains(name) {
                // Who has members there may know the node by its id, or its zone.
                self.index.dirty.services.extend(self.users_of_nodes.get(name).cloned());
            }
            let placed = match (self.index.nodes.get(name), self.nodes.get(name)) {
                (Some(record), Some(given)) => {
                    let place = NodePlace {
                        name,
                        record,
                        vtep: self.index.vtep(name),
                        addresses: self.index.own_addresses(name),
                        given,
                    };
                    tables::node_objects(&self.config, &place)
                }
                _ => Placed::new(),
            };
            self.tables.replace(Unit::Node(name.clone()), placed);
        }
        self.nodes_changed |= self.nodes != before;
        names.len()
    }

    fn retire_gone(&mut self, names: &BTreeSet<String>) {
        for name in names.iter().filter(|name| !self.index.nodes.contains_key(*name)) {
            let index = &self.index;
            self.nodes.retire(name, |block| in_use(index, block));
            self.findings.replace(node_reference(name), Findings::default());
        }
    }

    fn admit(&mut self, name: &str, record: &NodeRecord) -> Findings {
        let mut findings = Findings::default();
        if let Err(fault) = self.nodes.admit(name) {
            findings.add("", describe(&fault));
        }
        self.note_other_underlay(name, record, &mut findings);
        self.note_taken_addresses(name, record, &mut findings);
        findings
    }

    /// What keeps tunnels of this cluster from working with the node.
    fn note_other_underlay(&self, name: &str, record: &NodeRecord, findings: &mut Findings) {
        let pods = self.config.pods.vni.get();
        match record.kind {
            NodeKind::Kernel { vni: Some(vni), .. } if vni != pods => findings.add(
                format!("metadata.annotations[{BACKEND_DATA}]"),
                format!("VNI {vni} is not the pod network's, which is {pods}: neither understands the other"),
            ),
            NodeKind::Unknown => return,
            _ => {}
        }
        if record.vteps.iter().any(|&address| self.index.node_at(address) != Some(name)) {
            // That it is another's, or no node's, says enough.
            return;
        }
        if let (Some(address), Some(underlay), None) =
            (record.vteps.first(), self.index.underlay, self.index.vtep(name))
        {
            let message = format!(
                "{address} is not {underlay}, as the tunnels of this cluster are: none reaches this node"
            );
            findings.add("status.addresses", message);
        }
    }

    /// Each address is one node's, and none is a pod's by which its node reaches it.
    fn note_taken_addresses(&self, name: &str, record: &NodeRecord, findings: &mut Findings) {
        for (address, field) in &record.all_addresses {
            if self.config.use_of(*address) == AddressUse::LinkLocal {
                findings
                    .add(field, format!("{address} is an address of the link-local network: no node has it"));
            } else if let Some(other) = self.index.node_at(*address).filter(|other| *other != name) {
                findings.add(field, format!("{address} is node {other}'s already"));
            }
        }
    }

    /// A block stays if the node's object names it, or names none of its family and the node can be leased one.
    fn release_unwanted_blocks(&mut self, name: &str, record: &NodeRecord) {
        let held = self.nodes.get(name).map(|given| given.blocks.clone()).unwrap_or_default();
        for block in held.iter().map(|block| block.prefix) {
            let wanted = match named(record, block.into()) {
                Some((_, named)) => *named == block,
                None => record.kind == NodeKind::Vrouter,
            };
            let inside = self.config.pods.prefixes().any(|whole| whole.contains(&block));
            if !wanted || !inside {
                let index = &self.index;
                self.nodes.release(name, block.into(), |block| in_use(index, block));
            }
        }
    }

    fn give_named_blocks(&mut self, name: &str, record: &NodeRecord, findings: &mut Findings) {
        for family in Family::BOTH {
            let Some((field, prefix)) = named(record, family) else { continue };
            let index = &self.index;
            let given = self.nodes.give(name, *prefix, &self.config.pods, |block| in_use(index, block));
            if let Err(fault) = given {
                findings.add(field, format!("{prefix} {}", describe(&fault)));
                self.unplaced.insert(name.to_owned());
            }
        }
    }

    /// A kernel node uses what its object says and cannot be leased more.
    fn pick_blocks(&mut self, name: &str, record: &NodeRecord, findings: &mut Findings) {
        for whole in self.config.pods.prefixes().collect::<Vec<_>>() {
            let family = Family::from(whole);
            if record.kind != NodeKind::Vrouter || named(record, family).is_some() {
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

/// The block of a family that a node's object names, with its field.
fn named(record: &NodeRecord, family: Family) -> Option<&(String, IpNet)> {
    record.pod_prefixes.iter().find(|(_, prefix)| Family::from(*prefix) == family)
}

/// Whether an address of a block is still a pod's. In custom networks it may be anybody's.
fn in_use(index: &Index, block: IpNet) -> bool {
    let Ok(cluster) = index.networks.of_cluster() else { return false };
    let is_in = |addresses: &[IpAddr]| addresses.iter().any(|address| block.contains(address));
    let is_of_cluster = |vrf| index.networks.space(vrf) == cluster.space;
    let mut attached = index.attachments.iter().map(|attached| &attached.attachment);
    let mut pods = index.pods.iter();
    attached.any(|attachment| is_in(&attachment.addresses) && is_of_cluster(attachment.vrf))
        || pods.any(|(name, pod)| {
            is_in(&pod.stated_addresses)
                && index.place(name, pod).is_some_and(|place| is_of_cluster(place.vrf))
        })
}

fn describe(fault: &BlockFault) -> String {
    match fault {
        BlockFault::Taken(node, block) => format!("overlaps {block} of node {node}"),
        BlockFault::InUse(node, block) => {
            format!("overlaps {block}, where pods of node {node} still have addresses")
        }
        BlockFault::Outside => "is no part of the pod network".to_owned(),
        BlockFault::Exhausted => "all are taken".to_owned(),
        BlockFault::NoIds => "ids are used up".to_owned(),
    }
}
