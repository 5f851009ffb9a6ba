//! Router ids, and the blocks of pod addresses leased to nodes.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use vrouter_objects::{LeaseId, RouterId, VmiId};

use super::given;
use super::ids::Counter;
use crate::family::{self, Family};
use crate::network::{VirtualNetwork, overlap};

/// How many interface ids go with a block at a time.
const VMIS_PER_LEASE: u32 = 1 << 16;
/// How many nodes that are gone are remembered, so that one that comes back finds its block and its ids.
const REMEMBERED_NODES: usize = 1024;

/// What was given to nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nodes {
    routers: Counter,
    leases: Counter,
    vmis: Counter,
    present: BTreeMap<String, NodeAllocation>,
    /// Nodes that are gone, the longest gone first. Their blocks may still be in use by pods nobody told to stop.
    gone: Vec<(String, NodeAllocation)>,
    /// Blocks taken from nodes while pods had addresses in them: nobody else gets these before they are unused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    retired: Vec<(String, IpNet)>,
}

/// What was given to one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAllocation {
    /// Its id.
    #[serde(with = "given")]
    pub router: RouterId,
    /// Its blocks, at most one per family.
    pub blocks: Vec<Block>,
}

/// A block of pod addresses that belongs to one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// The lease.
    #[serde(with = "given")]
    pub lease: LeaseId,
    /// The addresses.
    pub prefix: IpNet,
    /// The first of the interface ids that go with it.
    pub first_vmi: u32,
    /// How many there are.
    pub vmi_count: u32,
    /// Whether the node ever reported an interface with one of them.
    #[serde(default)]
    pub vmis_used: bool,
}

/// What a report of an interface changes in its node's leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseChange {
    /// Nothing.
    None,
    /// The first of a range of interface ids is used.
    FirstUse,
    /// There is a fresh range.
    Renewed,
}

/// Why a node cannot have a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockFault {
    /// The block that the Node object gives overlaps another node's.
    Taken(String, IpNet),
    /// It overlaps one that another node had, where pods still have addresses.
    InUse(String, IpNet),
    /// The block that the Node object gives is no part of the pod network.
    Outside,
    /// No block of the pod network is free.
    Exhausted,
    /// Ids are used up.
    NoIds,
}

impl Nodes {
    /// What a node that exists was given.
    pub fn get(&self, node: &str) -> Option<&NodeAllocation> {
        self.present.get(node)
    }

    /// The nodes that exist, as far as allocation goes.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.present.keys()
    }

    /// The nodes that exist by their ids.
    pub fn names_by_router(&self) -> BTreeMap<RouterId, &str> {
        self.present.iter().map(|(name, given)| (given.router, name.as_str())).collect()
    }

    /// Makes sure the node has a router id. A node that comes back gets its former one.
    pub fn admit(&mut self, node: &str) -> Result<(), BlockFault> {
        if self.present.contains_key(node) {
            return Ok(());
        }
        let allocation = match self.gone.iter().position(|(name, _)| name == node) {
            Some(position) => self.gone.remove(position).1,
            None => {
                let router = self.routers.next().ok_or(BlockFault::NoIds)?;
                NodeAllocation { router, blocks: Vec::new() }
            }
        };
        self.present.insert(node.to_owned(), allocation);
        Ok(())
    }

    /// The node is gone. `in_use` says whether an address of a block is still somebody's.
    pub fn retire(&mut self, node: &str, in_use: impl Fn(IpNet) -> bool) {
        if let Some(allocation) = self.present.remove(node) {
            self.gone.push((node.to_owned(), allocation));
        }
        let unused =
            |(_, node): &(String, NodeAllocation)| !node.blocks.iter().any(|block| in_use(block.prefix));
        if self.gone.len() > REMEMBERED_NODES
            && let Some(position) = self.gone.iter().position(unused)
        {
            self.gone.remove(position);
        }
    }

    /// Takes away the node's block of a family. While an address of it is somebody's, nobody else gets it.
    pub fn release(&mut self, node: &str, family: Family, in_use: impl Fn(IpNet) -> bool) {
        let Some(allocation) = self.present.get_mut(node) else { return };
        let released = allocation.blocks.extract_if(.., |block| Family::from(block.prefix) == family);
        let used = released.map(|block| block.prefix).filter(|prefix| in_use(*prefix));
        self.retired.extend(used.map(|prefix| (node.to_owned(), prefix)));
    }

    /// Blocks that were taken away while in use, and are not any more, are free.
    pub fn free_unused(&mut self, in_use: impl Fn(IpNet) -> bool) {
        self.retired.retain(|(_, block)| in_use(*block));
    }

    /// Gives the node the block that its object names.
    pub fn give(
        &mut self,
        node: &str,
        prefix: IpNet,
        network: &VirtualNetwork,
        in_use: impl Fn(IpNet) -> bool,
    ) -> Result<(), BlockFault> {
        if self.block(node, prefix.into()).is_some_and(|block| block.prefix == prefix) {
            return Ok(());
        }
        let inside = network.prefixes().any(|whole| whole.contains(&prefix));
        if !inside {
            return Err(BlockFault::Outside);
        }
        let others = self.present.iter().filter(|(name, _)| *name != node);
        let mut blocks =
            others.flat_map(|(name, other)| other.blocks.iter().map(move |block| (name, block.prefix)));
        if let Some((other, taken)) = blocks.find(|(_, other)| overlap(*other, prefix)) {
            return Err(BlockFault::Taken(other.clone(), taken));
        }
        let is_another = |(name, block): &(&str, IpNet)| *name != node && overlap(*block, prefix);
        let used = self.left_behind().filter(is_another).find(|(_, block)| in_use(*block));
        if let Some((other, used)) = used {
            return Err(BlockFault::InUse(other.to_owned(), used));
        }
        self.forget_left_behind(prefix);
        self.release(node, prefix.into(), in_use);
        self.insert(node, prefix)
    }

    /// Makes sure the node has a block of this family, taking a free one if it has none.
    pub fn take(
        &mut self,
        node: &str,
        network: &VirtualNetwork,
        whole: IpNet,
        length: u8,
        in_use: impl Fn(IpNet) -> bool,
    ) -> Result<(), BlockFault> {
        if self.block(node, whole.into()).is_some() {
            return Ok(());
        }
        let prefix = self.fresh(network, whole, length);
        let prefix = prefix.or_else(|| self.abandoned(whole, length, in_use)).ok_or(BlockFault::Exhausted)?;
        self.forget_left_behind(prefix);
        self.insert(node, prefix)
    }

    /// A node reports that it uses an interface id: once half of a lease's ids are used it gets fresh ones.
    pub fn note_vmi(&mut self, node: &str, vmi: VmiId) -> LeaseChange {
        let blocks = self.present.get_mut(node).map(|node| node.blocks.as_mut_slice()).unwrap_or_default();
        let place = |block: &Block| vmi.get().checked_sub(block.first_vmi).filter(|n| *n < block.vmi_count);
        for block in blocks {
            let Some(used) = place(block) else { continue };
            if used >= block.vmi_count / 2
                && let Some(first) = self.vmis.range(VMIS_PER_LEASE)
            {
                block.renew_vmis(first);
                return LeaseChange::Renewed;
            }
            if !std::mem::replace(&mut block.vmis_used, true) {
                return LeaseChange::FirstUse;
            }
        }
        LeaseChange::None
    }

    /// A node has forgotten which interface ids it used: it gets others, so that none is given twice. Returns whether
    /// it had used any.
    pub fn renew_vmis(&mut self, node: &str) -> bool {
        let gone = self.gone.iter_mut().filter(|(name, _)| name == node).map(|(_, gone)| gone);
        let allocations = self.present.get_mut(node).into_iter().chain(gone);
        let used = allocations.flat_map(|allocation| &mut allocation.blocks).filter(|block| block.vmis_used);
        let mut renewed = false;
        for block in used {
            if let Some(first) = self.vmis.range(VMIS_PER_LEASE) {
                block.renew_vmis(first);
                renewed = true;
            }
        }
        renewed
    }

    /// Whether the state agrees with itself.
    pub(super) fn check(&self) -> Result<(), String> {
        let all = || self.present.iter().chain(self.gone.iter().map(|(name, node)| (name, node)));
        for (name, node) in all() {
            if !self.routers.has_given(node.router.get()) {
                return Err(format!("node {name}: router id {} was never given", node.router));
            }
            for block in &node.blocks {
                let last_vmi = block.first_vmi.checked_add(block.vmi_count.saturating_sub(1));
                let vmis_given = self.vmis.has_given(block.first_vmi)
                    && last_vmi.is_some_and(|last| self.vmis.has_given(last));
                if !self.leases.has_given(block.lease.get()) || !vmis_given {
                    return Err(format!("node {name}: lease {} was never given", block.lease));
                }
                let clash = all()
                    .filter(|(other, _)| *other != name)
                    .find(|(_, other)| other.blocks.iter().any(|other| overlap(other.prefix, block.prefix)));
                if let Some((other, _)) = clash {
                    return Err(format!("nodes {name} and {other} both have {}", block.prefix));
                }
            }
        }
        Ok(())
    }

    fn block(&self, node: &str, family: Family) -> Option<&Block> {
        self.present.get(node)?.blocks.iter().find(|block| Family::from(block.prefix) == family)
    }

    fn insert(&mut self, node: &str, prefix: IpNet) -> Result<(), BlockFault> {
        let allocation = self.present.get_mut(node).ok_or(BlockFault::NoIds)?;
        let lease = self.leases.next().ok_or(BlockFault::NoIds)?;
        let first_vmi = self.vmis.range(VMIS_PER_LEASE).ok_or(BlockFault::NoIds)?;
        let (vmi_count, vmis_used) = (VMIS_PER_LEASE, false);
        allocation.blocks.push(Block { lease, prefix, first_vmi, vmi_count, vmis_used });
        allocation.blocks.sort_by_key(|block| block.prefix);
        Ok(())
    }

    /// A block that no node has had, as far as is remembered, and that does not hold the gateway.
    fn fresh(&self, network: &VirtualNetwork, whole: IpNet, length: u8) -> Option<IpNet> {
        let gateway = network.gateway(whole);
        let present = self.present.values().flat_map(|node| node.blocks.iter().map(|block| block.prefix));
        let used = present.chain(self.left_behind().map(|(_, block)| block));
        // Nearly all are of one length, where being equal is all that overlapping can mean.
        let (used, odd): (Vec<IpNet>, Vec<IpNet>) = used.partition(|block| block.prefix_len() == length);
        let used: BTreeSet<IpNet> = used.into_iter().collect();
        let bits = u32::from(Family::from(whole).bits());
        let count = 1_u128.checked_shl(u32::from(length.checked_sub(whole.prefix_len())?))?;
        let size = bits - u32::from(length);
        let first = family::number(whole.network());
        let blocks = (0..count).filter_map(|i| {
            let address = family::address(whole.into(), first + (i << size));
            IpNet::new(address, length).ok()
        });
        let mut free = blocks
            .filter(|block| gateway.is_none_or(|gateway| !block.contains(&gateway)))
            .filter(|block| !used.contains(block) && !odd.iter().any(|odd| overlap(*odd, *block)));
        free.next()
    }

    /// The block of the node that has been gone longest and left nothing behind.
    fn abandoned(&self, whole: IpNet, length: u8, in_use: impl Fn(IpNet) -> bool) -> Option<IpNet> {
        let blocks = self.gone.iter().flat_map(|(_, node)| node.blocks.iter().map(|block| block.prefix));
        let mut fitting = blocks.filter(|block| whole.contains(block) && block.prefix_len() == length);
        fitting.find(|&block| !in_use(block))
    }

    /// Blocks that nodes had, with whose they were: of nodes that are gone, and taken from nodes that are not.
    fn left_behind(&self) -> impl Iterator<Item = (&str, IpNet)> {
        let gone = self
            .gone
            .iter()
            .flat_map(|(name, node)| node.blocks.iter().map(move |block| (name.as_str(), block.prefix)));
        gone.chain(self.retired.iter().map(|(name, block)| (name.as_str(), *block)))
    }

    /// A block is somebody else's now: a node that comes back gets another.
    fn forget_left_behind(&mut self, prefix: IpNet) {
        for (_, node) in &mut self.gone {
            node.blocks.retain(|block| !overlap(block.prefix, prefix));
        }
        self.retired.retain(|(_, block)| !overlap(*block, prefix));
    }
}

impl Block {
    fn renew_vmis(&mut self, first: u32) {
        (self.first_vmi, self.vmi_count, self.vmis_used) = (first, VMIS_PER_LEASE, false);
    }
}
