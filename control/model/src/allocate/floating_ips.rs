//! Cluster addresses, and the ids of what hangs on them. Custom networks have address spaces of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use vrouter_objects::{FloatingIpId, ListenerId, MemberId, Port, ServiceProtocol, VmiId};

use super::given;
use super::ids::Counter;
use super::spaced::SpacedAddress;
use crate::NamespacedName;
use crate::multimap::Multimap;

/// What was given to services.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Saved", into = "Saved")]
pub struct FloatingIps {
    pub(super) given: Given,
    pub(super) by_address: BTreeMap<SpacedAddress, FloatingIpAllocation>,
    pub(super) by_service: Multimap<NamespacedName, SpacedAddress>,
    /// Addresses whose allocation changed since changes were last taken.
    pub(super) changed: BTreeSet<SpacedAddress>,
}

/// How far numbers and addresses have been given.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Given {
    pub(super) ids: Counter,
    pub(super) listeners: Counter,
    pub(super) members: Counter,
    /// Where the search for a free address goes on, per address space and family: the last one that was picked.
    pub(super) last_picked: Vec<SpacedAddress>,
}

/// The part of it that is saved; the rest follows from it.
#[derive(Serialize, Deserialize)]
struct Saved {
    given: Given,
    by_address: BTreeMap<SpacedAddress, FloatingIpAllocation>,
}

/// What of it changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FloatingIpChanges {
    given: Given,
    /// Each address with its allocation, or without one.
    addresses: Vec<(SpacedAddress, Option<FloatingIpAllocation>)>,
}

/// One cluster address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloatingIpAllocation {
    /// Its floating IP.
    #[serde(with = "given")]
    pub id: FloatingIpId,
    /// Whose it is.
    pub service: NamespacedName,
    /// Its listeners.
    pub listeners: BTreeMap<ListenerKey, ListenerAllocation>,
}

/// What identifies a listener of a floating IP. The port's name is no part of it: renaming a port moves no flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ListenerKey {
    /// Its protocol.
    pub protocol: ServiceProtocol,
    /// Its port.
    pub port: Port,
}

/// One listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerAllocation {
    /// Its id.
    #[serde(with = "given")]
    pub id: ListenerId,
    /// Its members, those included that left it and keep the flows they have.
    pub members: BTreeMap<SocketAddr, MemberAllocation>,
}

/// One member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberAllocation {
    /// Its id.
    #[serde(with = "given")]
    pub id: MemberId,
    /// The number of the last interface it was known to have; 0: none was ever known.
    pub vmi: u32,
}

impl MemberAllocation {
    /// A new member with the interface it has.
    pub fn new(id: MemberId, vmi: Option<VmiId>) -> Self {
        Self { id, vmi: vmi.map_or(0, VmiId::get) }
    }

    /// The same member with the interface it has now. `None`: that is another one, which got the same address, and no
    /// flow may go over to it.
    pub fn seen_with(self, vmi: Option<VmiId>) -> Option<Self> {
        match vmi {
            None => Some(self),
            Some(vmi) if self.vmi == 0 || self.vmi == vmi.get() => Some(Self::new(self.id, Some(vmi))),
            Some(_) => None,
        }
    }
}

impl FloatingIps {
    /// The services that have addresses.
    pub fn services(&self) -> impl Iterator<Item = &NamespacedName> {
        self.by_address.values().map(|floating_ip| &floating_ip.service)
    }

    /// The addresses of a service, in order of their numbers.
    pub fn addresses(&self, service: &NamespacedName) -> Vec<SpacedAddress> {
        self.by_service.get(service).copied().collect()
    }

    /// Whose an address is.
    pub fn holder(&self, address: SpacedAddress) -> Option<&NamespacedName> {
        self.by_address.get(&address).map(|floating_ip| &floating_ip.service)
    }

    /// The floating IP at an address.
    pub fn floating_ip(&self, address: SpacedAddress) -> Option<FloatingIpId> {
        self.by_address.get(&address).map(|floating_ip| floating_ip.id)
    }

    /// Forgets the listeners of an address that are not among these; their ids are never given again.
    pub fn retain_listeners(&mut self, address: SpacedAddress, keep: &[ListenerKey]) {
        if let Some(floating_ip) = self.by_address.get_mut(&address) {
            floating_ip.listeners.retain(|key, _| keep.contains(key));
        }
    }

    /// Takes the listener of an address out, to be put back with its new members; a new one if there is none. `None`
    /// once ids are used up or the address is nobody's.
    pub fn take_listener(&mut self, address: SpacedAddress, key: ListenerKey) -> Option<ListenerAllocation> {
        match self.by_address.get_mut(&address)?.listeners.remove(&key) {
            Some(listener) => Some(listener),
            None => Some(ListenerAllocation { id: self.given.listeners.next()?, members: BTreeMap::new() }),
        }
    }

    /// Puts a listener back.
    pub fn put_listener(&mut self, address: SpacedAddress, key: ListenerKey, listener: ListenerAllocation) {
        if let Some(floating_ip) = self.by_address.get_mut(&address) {
            floating_ip.listeners.insert(key, listener);
        }
    }

    /// An id for a new member.
    pub fn next_member(&mut self) -> Option<MemberId> {
        self.given.members.next()
    }

    /// What hangs on these addresses now, for [`Self::note_changes`].
    pub fn snapshot(
        &self,
        addresses: &[SpacedAddress],
    ) -> Vec<(SpacedAddress, Option<FloatingIpAllocation>)> {
        addresses.iter().map(|&address| (address, self.by_address.get(&address).cloned())).collect()
    }

    /// Notes where something else hangs on an address than before.
    pub fn note_changes(&mut self, before: Vec<(SpacedAddress, Option<FloatingIpAllocation>)>) {
        for (address, before) in before {
            if self.by_address.get(&address) != before.as_ref() {
                self.changed.insert(address);
            }
        }
    }

    /// What changed since this was last asked; `None`: nothing did.
    pub fn take_changes(&mut self) -> Option<FloatingIpChanges> {
        if self.changed.is_empty() {
            return None;
        }
        let changed = std::mem::take(&mut self.changed).into_iter();
        let addresses = changed.map(|address| (address, self.by_address.get(&address).cloned())).collect();
        Some(FloatingIpChanges { given: self.given.clone(), addresses })
    }

    /// Makes a change that was taken from the state after this one.
    pub(super) fn replay(&mut self, changes: FloatingIpChanges) {
        self.given = changes.given;
        for (address, allocation) in changes.addresses {
            if let Some(old) = self.by_address.remove(&address) {
                self.by_service.remove(&old.service, &address);
            }
            if let Some(new) = allocation {
                self.by_service.insert(new.service.clone(), address);
                self.by_address.insert(address, new);
            }
        }
    }

    /// Whether the state agrees with itself.
    pub(super) fn check(&self) -> Result<(), String> {
        for (address, floating_ip) in &self.by_address {
            let listeners = floating_ip.listeners.values();
            let mut members = listeners.clone().flat_map(|listener| listener.members.values());
            let given = self.given.ids.has_given(floating_ip.id.get())
                && listeners.clone().all(|listener| self.given.listeners.has_given(listener.id.get()))
                && members.all(|member| self.given.members.has_given(member.id.get()));
            if !given {
                return Err(format!(
                    "address {address} of {} has ids that were never given",
                    floating_ip.service
                ));
            }
        }
        Ok(())
    }
}

impl From<Saved> for FloatingIps {
    fn from(saved: Saved) -> Self {
        let mut by_service = Multimap::default();
        for (&address, floating_ip) in &saved.by_address {
            by_service.insert(floating_ip.service.clone(), address);
        }
        let Saved { given, by_address } = saved;
        Self { given, by_address, by_service, changed: BTreeSet::new() }
    }
}

impl From<FloatingIps> for Saved {
    fn from(state: FloatingIps) -> Self {
        Self { given: state.given, by_address: state.by_address }
    }
}

impl fmt::Display for ListenerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.protocol, self.port)
    }
}

impl From<ListenerKey> for String {
    fn from(key: ListenerKey) -> Self {
        key.to_string()
    }
}

impl FromStr for ListenerKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("\"{text}\" is not protocol/port");
        let (protocol, port) = text.split_once('/').ok_or_else(bad)?;
        Ok(Self {
            protocol: protocol.parse().map_err(|_| bad())?,
            port: Port::new(port.parse().map_err(|_| bad())?).map_err(|_| bad())?,
        })
    }
}

impl TryFrom<String> for ListenerKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}
