//! Who is in which peer set: one map over all sets, so that an address that comes or goes is one entry of it.

use vrouter_objects::{PeerAddress, PeerAddressKey, PeerSetId, Port, VrfId};

use super::Epoch;
use super::sharded::Sharded;
use super::shared_map::SharedMap;
use crate::address::Address;

/// An address of a set, with the network whose address it is.
type PeerKey = (PeerSetId, VrfId, Address);

/// All sets.
#[derive(Debug, Clone)]
pub(crate) struct PeerTable {
    /// The port that an address bears, where its set is about a named one.
    addresses: Sharded<PeerKey, Option<Port>>,
    /// The sets that are held, whoever is in them.
    held: SharedMap<PeerSetId, ()>,
    /// When sets last changed.
    changed: SharedMap<PeerSetId, Epoch>,
}

/// What a set says of an address in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Membership {
    /// The port that it is about, if it is about one.
    pub(crate) port: Option<Port>,
}

impl PeerTable {
    pub(super) fn new() -> Self {
        Self { addresses: Sharded::new(), held: SharedMap::default(), changed: SharedMap::default() }
    }

    /// What a set says of an address; `None`: it is not in it.
    pub(crate) fn membership(&self, set: PeerSetId, space: VrfId, address: Address) -> Option<Membership> {
        self.addresses.get((set, space, address)).map(|port| Membership { port: *port })
    }

    /// Whether a set is held, with anybody in it or without.
    pub(crate) fn is_held(&self, set: PeerSetId) -> bool {
        self.held.get(set).is_some()
    }

    /// Whether a set has changed since an epoch.
    pub(crate) fn has_changed(&self, set: PeerSetId, since: Epoch) -> bool {
        self.changed.get(set).is_some_and(|changed| *changed > since)
    }

    /// Holds a set from now on.
    pub(super) fn hold(&mut self, set: PeerSetId, coming: Epoch) {
        if self.held.insert(set, ()).is_none() {
            self.changed.insert(set, coming);
        }
    }

    pub(super) fn put(&mut self, peer: &PeerAddress, coming: Epoch) {
        self.addresses.insert(table_key(&peer.key), peer.port);
        self.changed.insert(peer.key.set, coming);
    }

    pub(super) fn remove(&mut self, key: &PeerAddressKey, coming: Epoch) {
        self.addresses.remove(table_key(key));
        self.changed.insert(key.set, coming);
    }

    /// Forgets a set that is gone, and when it changed: what it decided stays as it was decided.
    pub(super) fn forget(&mut self, set: PeerSetId) {
        self.held.remove(set);
        self.changed.remove(set);
    }
}

fn table_key(key: &PeerAddressKey) -> PeerKey {
    (key.set, key.space, key.address.into())
}
