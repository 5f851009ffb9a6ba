//! What one node is believed to hold, and what it must be sent next. No I/O: the rules of the control channel.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use vrouter_objects::{ObjectKey, Version};
use vrouter_proto::Digest;

use crate::published::{Encoded, View};

/// A node that is away accumulates this many changed keys; beyond, it is sent everything when it comes back.
const MAX_PENDING: usize = 100_000;

/// One version of a node's table, as the difference to what the node holds.
#[derive(Debug)]
pub struct Update {
    /// The version.
    pub version: Version,
    /// The version that the node must hold; `None`: the update is everything.
    pub base: Option<Version>,
    /// Objects that are new or different, in order of their keys.
    pub puts: Vec<Arc<Encoded>>,
    /// Objects that are gone.
    pub removes: Vec<ObjectKey>,
    /// Over all the node is to hold.
    pub digest: Digest,
}

/// An object that the node cannot use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Why, as the node says.
    pub reason: String,
    /// The hash of the object that was refused.
    digest: u128,
}

/// What came of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledged {
    /// The node holds what it was sent, save what it refused.
    AsSent,
    /// The node holds something else; it will be sent everything.
    Drifted,
    /// It acknowledges nothing that is in flight.
    Unexpected,
}

/// A version with the digest of what is held at it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// The version.
    pub version: Version,
    /// The digest that the node reports: refused objects left out.
    pub digest: Digest,
    /// The digest over all that was sent.
    pub expected: Digest,
}

/// What the node has not been sent yet.
#[derive(Debug)]
enum Pending {
    /// The objects of these keys may be different.
    Changes(BTreeSet<ObjectKey>),
    /// What it holds is not known.
    Everything,
    /// It was sent everything and still holds something else: sending the same again would go on for ever.
    EverythingAtNextChange,
}

/// The controller's side of one node's table. It outlives the node's streams.
#[derive(Debug)]
pub struct NodeSync {
    held: Held,
    in_flight: Option<Arc<Update>>,
    pending: Pending,
    refused: BTreeMap<ObjectKey, Refused>,
}

impl Default for NodeSync {
    fn default() -> Self {
        Self {
            held: Held::default(),
            in_flight: None,
            pending: Pending::Everything,
            refused: BTreeMap::new(),
        }
    }
}

impl NodeSync {
    /// What the node is known to hold.
    pub fn held(&self) -> Held {
        self.held
    }

    /// The last version that was sent.
    pub fn sent_version(&self) -> Version {
        self.in_flight.as_ref().map_or(self.held.version, |update| update.version)
    }

    /// What the node refused and why.
    pub fn refused(&self) -> &BTreeMap<ObjectKey, Refused> {
        &self.refused
    }

    /// Whether the node holds everything it is to hold, save what it refused.
    pub fn is_current(&self) -> bool {
        self.has_nothing_to_send() && !self.has_drifted()
    }

    /// Whether the node was sent everything and is known to hold something else.
    pub fn has_drifted(&self) -> bool {
        matches!(self.pending, Pending::EverythingAtNextChange)
    }

    fn has_nothing_to_send(&self) -> bool {
        let nothing_pending = match &self.pending {
            Pending::Changes(keys) => keys.is_empty(),
            Pending::Everything => false,
            Pending::EverythingAtNextChange => true,
        };
        nothing_pending && self.in_flight.is_none()
    }

    /// The node says what it holds. What it lacks is pending after this.
    pub fn hello(&mut self, version: Version, digest: Digest, view: View<'_>) {
        let in_flight = self.in_flight.take();
        let whole = view.digest();
        if digest == whole {
            self.refused.clear();
            self.hold(version, digest, whole);
        } else if digest == self.without_refused(whole) {
            self.hold(version, digest, whole);
        } else if let Some(update) =
            in_flight.as_ref().filter(|update| (update.version, update.digest) == (version, digest))
        {
            // It applied the last update, and the acknowledgement was lost.
            self.refused.clear();
            self.held = Held { version, digest, expected: update.digest };
        } else if (self.held.version, self.held.digest) == (version, digest) && version != Version::default()
        {
            let lost = in_flight.iter().flat_map(|update| keys(update)).cloned().collect::<Vec<_>>();
            lost.iter().for_each(|key| self.changed(key));
        } else {
            self.held = Held { version, digest, expected: digest };
            self.pending = Pending::Everything;
        }
    }

    /// The object of a key changed in the node's table.
    pub fn changed(&mut self, key: &ObjectKey) {
        match &mut self.pending {
            Pending::Changes(keys) if keys.len() < MAX_PENDING => {
                keys.insert(key.clone());
            }
            Pending::Changes(_) | Pending::Everything | Pending::EverythingAtNextChange => {
                self.pending = Pending::Everything;
            }
        }
    }

    /// The next update, unless one is in flight or nothing is pending. `version` must be above all that were sent.
    pub fn next_update(&mut self, version: Version, view: View<'_>) -> Option<Arc<Update>> {
        if self.in_flight.is_some() || self.has_nothing_to_send() {
            return None;
        }
        let (base, puts, removes) =
            match std::mem::replace(&mut self.pending, Pending::Changes(BTreeSet::new())) {
                Pending::Changes(keys) => {
                    let (mut puts, mut removes) = (Vec::new(), Vec::new());
                    for key in keys {
                        match view.get(&key) {
                            Some(object) => puts.push(object.clone()),
                            None => removes.push(key),
                        }
                    }
                    (Some(self.held.version), puts, removes)
                }
                Pending::Everything | Pending::EverythingAtNextChange => (None, view.objects(), Vec::new()),
            };
        let update = Arc::new(Update { version, base, puts, removes, digest: view.digest() });
        self.in_flight = Some(update.clone());
        Some(update)
    }

    /// The node says that it applied a version, and everything it cannot use now: it may have come to use what it
    /// refused before, and the other way round.
    pub fn applied(
        &mut self,
        version: Version,
        digest: Digest,
        refusals: Vec<(ObjectKey, String)>,
        view: View<'_>,
    ) -> Acknowledged {
        let Some(update) = self.in_flight.take_if(|update| update.version == version) else {
            return Acknowledged::Unexpected;
        };
        let before = std::mem::take(&mut self.refused);
        for (key, reason) in refusals {
            let sent = update.puts.binary_search_by(|object| object.key.cmp(&key)).ok();
            let digest = sent
                .map(|place| update.puts[place].digest)
                .or_else(|| before.get(&key).map(|refused| refused.digest))
                .or_else(|| view.get(&key).map(|object| object.digest));
            if let Some(digest) = digest {
                self.refused.insert(key, Refused { reason, digest });
            }
        }
        self.held = Held { version, digest, expected: update.digest };
        if digest == self.without_refused(update.digest) {
            return Acknowledged::AsSent;
        }
        self.pending = match update.base {
            Some(_) => Pending::Everything,
            None => Pending::EverythingAtNextChange,
        };
        Acknowledged::Drifted
    }

    fn hold(&mut self, version: Version, digest: Digest, expected: Digest) {
        self.held = Held { version, digest, expected };
        self.pending = Pending::Changes(BTreeSet::new());
    }

    fn without_refused(&self, mut digest: Digest) -> Digest {
        self.refused.values().for_each(|refused| digest.remove(refused.digest));
        digest
    }
}

fn keys(update: &Update) -> impl Iterator<Item = &ObjectKey> {
    update.puts.iter().map(|object| &object.key).chain(&update.removes)
}

#[cfg(test)]
mod tests;
