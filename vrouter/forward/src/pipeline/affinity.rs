//! Which member a client of a service had last, for services that keep clients with their members
//! (`sessionAffinity: ClientIP`).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::quality::FixedState;
use vrouter_objects::{AffinityTimeout, ListenerId, MemberId};

use crate::address::Address;
use crate::frame::Time;
use crate::tables::MemberEntry;

const SHARDS: usize = 64;
/// Clients that one shard remembers; all of them together 262,144.
const PER_SHARD: usize = 4096;

/// A service port, by whatever frontend, and a client of it.
type Client = (ListenerId, Address);

/// What a client had.
#[derive(Debug, Clone, Copy)]
struct Kept {
    member: MemberId,
    /// After this, it is free.
    until: Time,
}

/// The clients of a node's services. Looked at where a flow begins, so workers share it by locks.
#[derive(Debug)]
pub(super) struct Affinities {
    shards: Box<[Mutex<HashMap<Client, Kept, FixedState>>]>,
    hasher: FixedState,
}

impl Affinities {
    /// `seed` is secret: addresses are chosen by whoever sends.
    pub(super) fn new(seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        let shard = |_| Mutex::new(HashMap::with_hasher(hasher.clone()));
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
        let kept = shard.get(&client).filter(|kept| now <= kept.until);
        let member = kept.and_then(|kept| taking(kept.member)).or_else(choose)?;
        let until = now.plus_millis(u64::from(timeout.seconds()) * 1000);
        make_room(&mut shard, &client, now);
        shard.insert(client, Kept { member: member.id, until });
        Some(member)
    }

    fn shard(&self, client: &Client) -> MutexGuard<'_, HashMap<Client, Kept, FixedState>> {
        // By the upper bits: maps go by the lower ones.
        let number = (self.hasher.hash_one(client) >> 58) as usize % SHARDS;
        // Each entry is whole by itself.
        self.shards[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets whom nobody has to remember, or else whoever comes first: no client can fill it for all.
fn make_room(shard: &mut HashMap<Client, Kept, FixedState>, client: &Client, now: Time) {
    if shard.len() < PER_SHARD || shard.contains_key(client) {
        return;
    }
    shard.retain(|_, kept| now <= kept.until);
    let first = shard.keys().next().copied();
    if shard.len() >= PER_SHARD
        && let Some(Entry::Occupied(entry)) = first.map(|first| shard.entry(first))
    {
        entry.remove();
    }
}
