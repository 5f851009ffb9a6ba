//! A listener's members, and which of them take new flows where this node is.

use vrouter_objects::{Member, MemberId, MemberState, TrafficPolicy, Vantage, VrfId};

use super::hits::Hits;
use super::shared_map::fold;
use crate::address::Address;

/// One member.
#[derive(Debug, Clone)]
pub(crate) struct MemberEntry {
    pub(crate) id: MemberId,
    pub(crate) vrf: VrfId,
    pub(crate) address: Address,
    pub(crate) port: u16,
    hits: Hits,
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

/// The members of one listener.
#[derive(Debug)]
pub(crate) struct Pool {
    /// All of them, in order of id.
    ids: Box<[MemberId]>,
    /// Those that take new flows out of the whole cluster, in order of id.
    cluster: Box<[MemberEntry]>,
    /// The same out of those on this node.
    local: Box<[MemberEntry]>,
    /// Whether anybody anywhere could take a flow, if policy let it.
    has_usable: bool,
}

impl MemberEntry {
    /// Counts a new flow that it got.
    pub(crate) fn hit(&self) {
        self.hits.count();
    }
}

impl Pool {
    /// The pool of these members, in order of id. `hits` knows what each one counts by.
    pub(super) fn new(
        members: &[Member],
        vantage: Vantage<'_>,
        mut hits: impl FnMut(MemberId) -> Hits,
    ) -> Self {
        let mut entries = |chosen: Vec<&Member>| {
            chosen.into_iter().map(|member| MemberEntry::new(member, hits(member.id))).collect()
        };
        Self {
            ids: members.iter().map(|member| member.id).collect(),
            cluster: entries(vantage.taking(TrafficPolicy::Cluster, members)),
            local: entries(vantage.taking(TrafficPolicy::Local, members)),
            has_usable: members.iter().any(|member| member.state != MemberState::Leaving),
        }
    }

    /// Those that take new flows, in order of id.
    #[inline]
    pub(crate) fn active(&self, policy: TrafficPolicy) -> &[MemberEntry] {
        match policy {
            TrafficPolicy::Cluster => &self.cluster,
            TrafficPolicy::Local => &self.local,
        }
    }

    /// The member for a new flow, by rendezvous hashing: when a member goes, only its flows move; when one
    /// comes, it takes its share from all alike. Nothing but the flow's hash, which depends on this node's
    /// secret, and the members decides.
    #[inline]
    pub(crate) fn choose(&self, policy: TrafficPolicy, flow_hash: u64) -> Option<&MemberEntry> {
        self.active(policy).iter().max_by_key(|member| weight(flow_hash, member.id))
    }

    /// The member with this id, if it takes new flows.
    pub(crate) fn taking(&self, policy: TrafficPolicy, member: MemberId) -> Option<&MemberEntry> {
        let active = self.active(policy);
        active.binary_search_by_key(&member, |entry| entry.id).ok().map(|position| &active[position])
    }

    /// Whether the pool still has this member.
    pub(crate) fn state_of(&self, policy: TrafficPolicy, member: MemberId) -> PoolState {
        if self.taking(policy, member).is_some() {
            PoolState::Active
        } else if self.ids.binary_search(&member).is_ok() {
            PoolState::Draining
        } else {
            PoolState::Gone
        }
    }

    /// Whether anybody anywhere could take a flow, if policy let it.
    pub(crate) fn has_usable(&self) -> bool {
        self.has_usable
    }
}

/// What a member weighs for a flow. Ids follow each other, so they are spread before they meet the flow's
/// hash.
#[inline]
fn weight(flow_hash: u64, member: MemberId) -> u64 {
    fold(flow_hash, u64::from(member.get()).wrapping_mul(0xd6e8_feb8_6659_fd93))
}

impl MemberEntry {
    fn new(member: &Member, hits: Hits) -> Self {
        let (id, vrf, address, port) = (member.id, member.vrf, member.address.into(), member.port.get());
        Self { id, vrf, address, port, hits }
    }

    /// One of which only the number matters.
    #[cfg(test)]
    pub(crate) fn numbered(number: u32) -> Self {
        let (id, vrf) = (MemberId::new(number).expect("not 0"), VrfId::new(1).expect("not 0"));
        Self { id, vrf, address: Address::V4_UNSPECIFIED, port: 1, hits: Hits::default() }
    }
}

#[cfg(test)]
mod tests {
    use vrouter_objects::{Port, RouterId, TopologyHints};

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

    fn router(number: u32) -> RouterId {
        RouterId::new(number).unwrap()
    }

    /// Number, node, state, zones and nodes it is meant for.
    type Given<'a> = (u32, u32, MemberState, &'a [&'a str], &'a [u32]);

    fn pool(members: &[Given<'_>], zone: &str) -> Pool {
        let member = |(number, node, state, zones, routers): &Given<'_>| {
            let hints = TopologyHints {
                zones: zones.iter().map(|zone| (*zone).to_owned()).collect(),
                routers: routers.iter().map(|number| router(*number)).collect(),
            };
            let (id, vrf) = (MemberId::new(*number).unwrap(), VrfId::new(1).unwrap());
            let plain = Member::new(id, vrf, [10, 0, 0, *number as u8].into(), Port::new(80).unwrap());
            Member { router: Some(router(*node)), state: *state, hints, ..plain }
        };
        let members: Vec<_> = members.iter().map(member).collect();
        Pool::new(&members, Vantage { router: Some(router(1)), zone }, |_| Hits::default())
    }

    fn numbers(pool: &Pool, policy: TrafficPolicy) -> Vec<u32> {
        pool.active(policy).iter().map(|member| member.id.get()).collect()
    }

    /// This node is 1, in zone a.
    #[test]
    fn svc_17_who_takes_new_flows_in_each_scope() {
        use MemberState::{Leaving, Ready, Serving};
        let cases: &[(&[Given<'_>], &[u32], &[u32])] = &[
            (&[], &[], &[]),
            (&[(1, 1, Ready, &[], &[]), (2, 2, Ready, &[], &[])], &[1, 2], &[1]),
            (&[(1, 1, Serving, &[], &[]), (2, 2, Ready, &[], &[])], &[2], &[1]),
            (&[(1, 1, Leaving, &[], &[]), (2, 2, Ready, &[], &[])], &[2], &[]),
            (&[(1, 1, Serving, &[], &[]), (2, 2, Serving, &[], &[])], &[1, 2], &[1]),
            (&[(1, 1, Serving, &[], &[]), (2, 1, Ready, &[], &[])], &[2], &[2]),
            (&[(1, 1, Leaving, &[], &[]), (2, 2, Leaving, &[], &[])], &[], &[]),
        ];
        for (members, cluster, local) in cases {
            let pool = pool(members, "a");
            assert_eq!(numbers(&pool, TrafficPolicy::Cluster), *cluster, "{members:?}");
            assert_eq!(numbers(&pool, TrafficPolicy::Local), *local, "{members:?}");
        }
    }

    #[test]
    fn hints_count_where_all_have_them_and_one_is_for_us() {
        use MemberState::{Ready, Serving};
        let cases: &[(&[Given<'_>], &[u32])] = &[
            (&[(1, 2, Ready, &["a"], &[]), (2, 3, Ready, &["b"], &[])], &[1]),
            (&[(1, 2, Ready, &["a"], &[]), (2, 3, Ready, &[], &[])], &[1, 2]),
            (&[(1, 2, Ready, &["b"], &[]), (2, 3, Ready, &["c"], &[])], &[1, 2]),
            (&[(1, 2, Ready, &["a"], &[1]), (2, 3, Ready, &["a"], &[3])], &[1]),
            (&[(1, 2, Ready, &["a"], &[2]), (2, 3, Ready, &["b"], &[3])], &[1]),
            (&[(1, 2, Ready, &["a"], &[]), (2, 3, Serving, &[], &[])], &[1]),
            (&[(1, 2, Serving, &["a"], &[]), (2, 3, Serving, &["b"], &[])], &[1, 2]),
        ];
        for (members, taking) in cases {
            assert_eq!(numbers(&pool(members, "a"), TrafficPolicy::Cluster), *taking, "{members:?}");
        }
        let zoned = [(1, 2, Ready, &["a"][..], &[][..]), (2, 3, Ready, &["b"], &[])];
        assert_eq!(numbers(&pool(&zoned, ""), TrafficPolicy::Cluster), [1, 2], "in no zone");
    }

    #[test]
    fn members_outside_the_scope_keep_what_they_have() {
        use MemberState::Ready;
        let pool = pool(&[(1, 1, Ready, &[], &[]), (2, 2, Ready, &[], &[])], "");
        let member = |number| MemberId::new(number).unwrap();
        assert_eq!(pool.state_of(TrafficPolicy::Local, member(1)), PoolState::Active);
        assert_eq!(pool.state_of(TrafficPolicy::Local, member(2)), PoolState::Draining);
        assert_eq!(pool.state_of(TrafficPolicy::Cluster, member(2)), PoolState::Active);
        assert_eq!(pool.state_of(TrafficPolicy::Cluster, member(3)), PoolState::Gone);
    }
}
