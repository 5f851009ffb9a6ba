//! Which member a client of a service had last, for services that keep clients with their members
//! (`sessionAffinity: ClientIP`).

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::quality::FixedState;
use vrouter_objects::{AffinityTimeout, ListenerId, MemberId, VrfId};

use crate::address::Address;
use crate::frame::Time;
use crate::tables::MemberEntry;

const SHARDS: usize = 64;
/// Clients that one shard remembers; all of them together 262,144.
const PER_SHARD: usize = 4096;
/// How often a full shard is searched for whom nobody has to remember, in milliseconds: whoever comes while it is full
/// must not cost a search each.
const SEARCH_INTERVAL: u64 = 1_000;

/// A service port, by whatever frontend, and a client of it, in the network where it has its address: elsewhere the same may be
/// another's.
type Client = (ListenerId, VrfId, Address);

/// What a client had.
#[derive(Debug, Clone, Copy)]
struct Kept {
    member: MemberId,
    /// After this, it is free.
    until: Time,
}

/// Some of the clients.
#[derive(Debug)]
struct Shard {
    kept: HashMap<Client, Kept, FixedState>,
    /// When it may be searched again.
    next_search: Time,
}

/// The clients of a node's services. Looked at where a flow begins, so workers share it by locks.
#[derive(Debug)]
pub(super) struct Affinities {
    shards: Box<[Mutex<Shard>]>,
    hasher: FixedState,
}

impl Affinities {
    /// `seed` is secret: addresses are chosen by whoever sends.
    pub(super) fn new(seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        let shard = |_| {
            let kept = HashMap::with_hasher(hasher.clone());
            Mutex::new(Shard { kept, next_search: Time::default() })
        };
        Self { shards: (0..SHARDS).map(shard).collect(), hasher: hasher.clone() }
    }

    /// The member of a client's new flow: the one it had, if it is not too long ago and `taking` says that the member
    /// takes new flows; else `choose` has the choice. The time counts from the last new flow.
    pub(super) fn member_of<'a>(
        &self,
        client: Client,
        (now, timeout): (Time, AffinityTimeout),
        taking: impl FnOnce(MemberId) -> Option<&'a MemberEntry>,
        choose: impl FnOnce() -> Option<&'a MemberEntry>,
    ) -> Option<&'a MemberEntry> {
        let mut shard = self.shard(&client);
        let kept = shard.kept.get(&client).filter(|kept| now <= kept.until);
        let member = kept.and_then(|kept| taking(kept.member)).or_else(choose)?;
        let until = now.plus_millis(u64::from(timeout.seconds()) * 1000);
        shard.make_room(&client, now);
        shard.kept.insert(client, Kept { member: member.id, until });
        Some(member)
    }

    fn shard(&self, client: &Client) -> MutexGuard<'_, Shard> {
        // By the upper bits: maps go by the lower ones.
        let number = (self.hasher.hash_one(client) >> 58) as usize % SHARDS;
        // Each entry is whole by itself.
        self.shards[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    /// Forgets whom nobody has to remember, or else whoever comes first: no client can fill it for all.
    fn make_room(&mut self, client: &Client, now: Time) {
        if self.kept.len() < PER_SHARD || self.kept.contains_key(client) {
            return;
        }
        if now >= self.next_search {
            self.next_search = now.plus_millis(SEARCH_INTERVAL);
            self.kept.retain(|_, kept| now <= kept.until);
        }
        let first = self.kept.keys().next().copied();
        if self.kept.len() >= PER_SHARD
            && let Some(first) = first
        {
            self.kept.remove(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remembered(affinities: &Affinities) -> usize {
        affinities.shards.iter().map(|shard| shard.lock().unwrap().kept.len()).sum()
    }

    #[test]
    fn however_many_clients_there_are_no_more_are_remembered_and_the_newest_is() {
        let affinities = Affinities::new(7);
        let (listener, network) = (ListenerId::new(1).unwrap(), VrfId::new(1).unwrap());
        let [one, other] = [1, 2].map(MemberEntry::numbered);
        let timeout = AffinityTimeout::new(10).unwrap();
        let ask = |number: u32, at: Time, choice| {
            let client = (listener, network, Address::v4(number.to_be_bytes()));
            let taking = |kept| [&one, &other].into_iter().find(|member| member.id == kept);
            affinities.member_of(client, (at, timeout), taking, || Some(choice)).map(|member| member.id)
        };
        let now = Time::from_millis(1_000_000);
        let most = SHARDS * PER_SHARD;
        for number in 0..most as u32 * 5 / 4 {
            assert_eq!(ask(number, now, &one), Some(one.id));
            assert_eq!(ask(number, now, &other), Some(one.id), "client {number} has its member");
        }
        assert!(remembered(&affinities) <= most);
        // Once they are over, whoever comes to a full shard finds it nearly empty.
        let later = now.plus_millis(20_000);
        for number in 0..10_000 {
            assert_eq!(ask(u32::MAX - number, later, &other), Some(other.id));
        }
        assert!(remembered(&affinities) < most / 2);
    }
}
