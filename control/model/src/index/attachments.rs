//! What the nodes report to be attached.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;

use serde::{Deserialize, Serialize};
use vrouter_objects::{MacAddress, VmiId, VrfId};

use super::Index;
use crate::NamespacedName;
use crate::allocate::given;
use crate::multimap::Multimap;

/// An interface that is up on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// The interface.
    #[serde(with = "given")]
    pub vmi: VmiId,
    /// The pod it belongs to.
    pub pod: NamespacedName,
    /// The pod's UID, empty where the runtime gives none.
    pub uid: String,
    /// The runtime's id of the sandbox.
    pub container_id: String,
    /// The interface's name inside the pod.
    pub interface: String,
    /// The network it is in.
    #[serde(with = "given")]
    pub vrf: VrfId,
    /// Its MAC.
    #[serde(with = "given::text")]
    pub mac: MacAddress,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The addresses by which its own node reaches it. To everybody else they mean nothing.
    #[serde(default)]
    pub link_local: Vec<IpAddr>,
}

/// An attachment with where and when it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// The node that reported it.
    pub node: String,
    /// Counts up with every attachment of the cluster: of two with one address the later one is right.
    pub sequence: u64,
    /// What was reported.
    pub attachment: Attachment,
}

/// All attachments, kept over restarts, so that a restart changes no table.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Attached>", into = "Vec<Attached>")]
pub struct Attachments {
    by_vmi: BTreeMap<(String, VmiId), Attached>,
    by_pod: Multimap<NamespacedName, (String, VmiId)>,
    by_address: Multimap<IpAddr, (String, VmiId)>,
    by_network: Multimap<VrfId, (String, VmiId)>,
    last_sequence: u64,
    /// What changed since changes were last taken.
    changed: BTreeSet<(String, VmiId)>,
}

/// An attachment that is new, different or gone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AttachmentChange {
    node: String,
    #[serde(with = "given")]
    vmi: VmiId,
    /// `None`: it is gone.
    attached: Option<Attached>,
}

impl Attachment {
    /// Whether another report says the same but for the link-local addresses, on which nothing depends.
    fn differs_by_link_local(&self, other: &Self) -> bool {
        Self { link_local: other.link_local.clone(), ..self.clone() } == *other
    }
}

impl AttachmentChange {
    /// The node, and its interface.
    pub fn interface(&self) -> (&str, VmiId) {
        (&self.node, self.vmi)
    }

    /// The network that the interface is in; `None`: it is gone.
    pub fn network(&self) -> Option<VrfId> {
        self.attached.as_ref().map(|attached| attached.attachment.vrf)
    }
}

impl From<Vec<Attached>> for Attachments {
    fn from(list: Vec<Attached>) -> Self {
        let mut attachments = Self::default();
        for attached in list {
            attachments.put(attached);
        }
        attachments.changed.clear();
        attachments
    }
}

impl From<Attachments> for Vec<Attached> {
    fn from(attachments: Attachments) -> Self {
        attachments.by_vmi.into_values().collect()
    }
}

impl Attachments {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Attached> {
        self.by_vmi.values()
    }

    /// The nodes that have some, each once.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        let first = self.by_vmi.keys().next();
        let following = |(node, _): &&(String, VmiId)| {
            let last = (node.clone(), VmiId::new(u32::MAX).ok()?);
            self.by_vmi.range((Bound::Excluded(last), Bound::Unbounded)).next().map(|(key, _)| key)
        };
        std::iter::successors(first, following).map(|(node, _)| node.as_str())
    }

    /// Those of one node.
    pub fn on_node(&self, node: &str) -> impl Iterator<Item = &Attached> {
        let first = VmiId::new(1).ok().map(|vmi| (node.to_owned(), vmi));
        let from = first.into_iter().flat_map(|first| self.by_vmi.range(first..));
        from.map(|(_, attached)| attached).take_while(move |attached| attached.node == node)
    }

    /// Those of one pod, the latest first.
    pub fn of_pod(&self, pod: &NamespacedName) -> Vec<&Attached> {
        self.latest_first(self.by_pod.get(pod))
    }

    /// Those that hold an address, of whatever network it is, the latest first.
    pub fn holding(&self, address: IpAddr) -> Vec<&Attached> {
        self.latest_first(self.by_address.get(&address))
    }

    /// Those of a network.
    pub fn in_network(&self, vrf: VrfId) -> impl Iterator<Item = &Attached> {
        self.by_network.get(&vrf).filter_map(|key| self.by_vmi.get(key))
    }

    /// What changed since this was last asked.
    pub fn take_changes(&mut self) -> Vec<AttachmentChange> {
        let changed = std::mem::take(&mut self.changed).into_iter();
        changed
            .map(|key| {
                let attached = self.by_vmi.get(&key).cloned();
                AttachmentChange { node: key.0, vmi: key.1, attached }
            })
            .collect()
    }

    /// Whether something changed since changes were last taken.
    pub fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Makes changes that were taken from the state after this one.
    pub fn replay(&mut self, changes: Vec<AttachmentChange>) {
        for AttachmentChange { node, vmi, attached } in changes {
            self.remove(&(node, vmi));
            attached.into_iter().for_each(|attached| self.put(attached));
        }
        self.changed.clear();
    }

    fn latest_first<'a>(&'a self, keys: impl Iterator<Item = &'a (String, VmiId)>) -> Vec<&'a Attached> {
        let mut list: Vec<&Attached> = keys.filter_map(|key| self.by_vmi.get(key)).collect();
        list.sort_by_key(|attached| std::cmp::Reverse(attached.sequence));
        list
    }

    fn put(&mut self, attached: Attached) {
        let key = (attached.node.clone(), attached.attachment.vmi);
        self.remove(&key);
        self.last_sequence = self.last_sequence.max(attached.sequence);
        self.by_pod.insert(attached.attachment.pod.clone(), key.clone());
        for &address in &attached.attachment.addresses {
            self.by_address.insert(address, key.clone());
        }
        self.by_network.insert(attached.attachment.vrf, key.clone());
        self.changed.insert(key.clone());
        self.by_vmi.insert(key, attached);
    }

    fn remove(&mut self, key: &(String, VmiId)) -> Option<Attached> {
        let attached = self.by_vmi.remove(key)?;
        self.changed.insert(key.clone());
        self.by_pod.remove(&attached.attachment.pod, key);
        for &address in &attached.attachment.addresses {
            self.by_address.remove(&address, key);
        }
        self.by_network.remove(&attached.attachment.vrf, key);
        Some(attached)
    }
}

impl Index {
    /// A node reports an interface that is up.
    pub fn attach(&mut self, node: &str, attachment: Attachment) {
        let key = (node.to_owned(), attachment.vmi);
        if let Some(known) = self.attachments.by_vmi.get(&key) {
            if known.attachment == attachment {
                return;
            }
            if known.attachment.differs_by_link_local(&attachment) {
                let sequence = known.sequence;
                self.attachments.put(Attached { node: key.0, sequence, attachment });
                return;
            }
        }
        self.detach(node, attachment.vmi);
        let sequence = self.attachments.last_sequence + 1;
        self.touch_attachment(&attachment);
        self.attachments.put(Attached { node: node.to_owned(), sequence, attachment });
    }

    /// A node reports that an interface is gone.
    pub fn detach(&mut self, node: &str, vmi: VmiId) {
        if let Some(attached) = self.attachments.remove(&(node.to_owned(), vmi)) {
            self.touch_attachment(&attached.attachment);
        }
    }

    pub(super) fn touch_attachment(&mut self, attachment: &Attachment) {
        self.dirty.addresses.extend(&attachment.addresses);
        self.touch_pod(&attachment.pod);
        for &address in &attachment.addresses {
            self.dirty.pods.extend(self.wished.get(&address).cloned());
            self.dirty.pods.extend(self.picked.holders(address).cloned());
        }
    }
}
