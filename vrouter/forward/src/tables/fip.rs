//! Floating IPs as the data path reads them.

use vrouter_objects::{
    FloatingIp, FloatingIpId, IpProtocol, Listener, ListenerId, Member, MemberId, MemberState, NoMembers,
    VrfId,
};

use super::Epoch;
use crate::address::Address;
use crate::flow::KeyHasher;

/// A floating IP's port mappings.
#[derive(Debug)]
pub(crate) struct FipEntry {
    pub(crate) id: FloatingIpId,
    /// When it last changed.
    pub(crate) generation: Epoch,
    /// In order of protocol and port.
    listeners: Box<[ListenerEntry]>,
}

/// One port mapping with its pool.
#[derive(Debug)]
pub(crate) struct ListenerEntry {
    id: ListenerId,
    key: (IpProtocol, u16),
    pub(crate) no_members: NoMembers,
    /// Members that take new flows, in order of id.
    active: Box<[MemberEntry]>,
    /// Members that only keep what they have, in order of id.
    draining: Box<[MemberEntry]>,
}

/// One member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemberEntry {
    pub(crate) id: MemberId,
    pub(crate) vrf: VrfId,
    pub(crate) address: Address,
    pub(crate) port: u16,
}

/// What a pool says of one of its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PoolState {
    /// Takes new flows.
    Active,
    /// Keeps what it has.
    Draining,
    /// Not in the pool.
    Gone,
}

impl FipEntry {
    pub(super) fn new(fip: &FloatingIp, generation: Epoch) -> Self {
        let mut listeners: Vec<_> = fip.listeners.iter().map(ListenerEntry::new).collect();
        listeners.sort_by_key(|listener| listener.key);
        Self { id: fip.id, generation, listeners: listeners.into() }
    }

    /// The port mapping of a protocol and port.
    pub(crate) fn listener(&self, protocol: IpProtocol, port: u16) -> Option<&ListenerEntry> {
        let position =
            self.listeners.binary_search_by_key(&(protocol, port), |listener| listener.key).ok()?;
        Some(&self.listeners[position])
    }
}

impl ListenerEntry {
    fn new(listener: &Listener) -> Self {
        let with = |state| {
            let members = listener.members.iter().filter(move |member| member.state == state);
            members.map(MemberEntry::new).collect()
        };
        Self {
            id: listener.id,
            key: (listener.protocol.into(), listener.port.get()),
            no_members: listener.no_members,
            active: with(MemberState::Active),
            draining: with(MemberState::Draining),
        }
    }

    /// The member for a new flow, by rendezvous hashing: when a member goes, only its flows move; when one comes, it
    /// takes its share from all alike. Nothing but the flow's key, the members and this node's secret decides.
    pub(crate) fn choose(&self, hasher: &KeyHasher, flow_hash: u64) -> Option<&MemberEntry> {
        let flow = hasher.mix(flow_hash, u64::from(self.id.get()));
        match &*self.active {
            [] => None,
            [only] => Some(only),
            members => members.iter().max_by_key(|member| hasher.mix(flow, u64::from(member.id.get()))),
        }
    }

    /// Whether the pool still has this member.
    pub(crate) fn state_of(&self, member: MemberId) -> PoolState {
        let has = |members: &[MemberEntry]| members.binary_search_by_key(&member, |entry| entry.id).is_ok();
        if has(&self.active) {
            PoolState::Active
        } else if has(&self.draining) {
            PoolState::Draining
        } else {
            PoolState::Gone
        }
    }

    /// Whether any member takes new flows.
    pub(crate) fn has_active(&self) -> bool {
        !self.active.is_empty()
    }
}

impl MemberEntry {
    fn new(member: &Member) -> Self {
        Self { id: member.id, vrf: member.vrf, address: member.address.into(), port: member.port.get() }
    }
}
