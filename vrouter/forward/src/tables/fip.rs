//! Floating IPs as the data path reads them.

use vrouter_objects::{
    FloatingIp, FloatingIpId, IpProtocol, Listener, Member, MemberId, MemberState, NoMembers, VrfId,
};

use super::Epoch;
use super::shared_map::fold;
use crate::address::Address;

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
            key: (listener.protocol.into(), listener.port.get()),
            no_members: listener.no_members,
            active: with(MemberState::Active),
            draining: with(MemberState::Draining),
        }
    }

    /// The member for a new flow, by rendezvous hashing: when a member goes, only its flows move; when one
    /// comes, it takes its share from all alike. Nothing but the flow's hash, which depends on this node's
    /// secret, and the members decides.
    pub(crate) fn choose(&self, flow_hash: u64) -> Option<&MemberEntry> {
        self.active.iter().max_by_key(|member| weight(flow_hash, member.id))
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

/// What a member weighs for a flow. Ids follow each other, so they are spread before they meet the flow's
/// hash.
#[inline]
fn weight(flow_hash: u64, member: MemberId) -> u64 {
    fold(flow_hash, u64::from(member.get()).wrapping_mul(0xd6e8_feb8_6659_fd93))
}

impl MemberEntry {
    fn new(member: &Member) -> Self {
        Self { id: member.id, vrf: member.vrf, address: member.address.into(), port: member.port.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_whose_ids_follow_each_other_get_equal_shares() {
        const FLOWS: u64 = 30_000;
        for first in [1, 101, 70_000] {
            let members: Vec<_> = (first..first + 3).map(|number| MemberId::new(number).unwrap()).collect();
            let mut shares = [0_u64; 3];
            for flow in 0..FLOWS {
                let hash = fold(flow, 0);
                let chosen = (0..3).max_by_key(|number| weight(hash, members[*number])).unwrap();
                shares[chosen] += 1;
            }
            let even = FLOWS / 3;
            assert!(shares.iter().all(|share| share.abs_diff(even) < even / 20), "{first}: {shares:?}");
        }
    }
}
