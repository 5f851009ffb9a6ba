//! What the node holds of what the controller sent, object by object, as far as the control channel is concerned:
//! encodings, digests and refusals. The forwarding tables hold what it means.

use std::collections::BTreeMap;

use prost::Message;
use thiserror::Error;
use vrouter_objects::Version;
use vrouter_proto::{Digest, object_digest, v1};

use crate::control::{Base, Update, WireKey};

/// What is held, at a version.
#[derive(Debug, Default)]
pub struct Held {
    version: Version,
    records: BTreeMap<WireKey, Record>,
    /// Those of them that are not in the tables, and why.
    refusals: BTreeMap<WireKey, String>,
    /// Over all records: what the controller must count too.
    offered: Digest,
    /// Over the records that are not refused.
    held: Digest,
}

#[derive(Debug)]
struct Record {
    encoded: Vec<u8>,
    hash: u128,
}

/// An update would not lead to what the controller holds: the two have drifted apart.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("version {version} would have digest {found} here, and {expected} at the controller")]
pub struct Drift {
    /// The update's version.
    pub version: Version,
    found: Digest,
    expected: Digest,
}

/// What an update changes, compared with what is held.
#[derive(Debug, PartialEq)]
pub struct Plan {
    /// The version afterwards.
    pub version: Version,
    /// These go.
    pub remove: Vec<WireKey>,
    /// These come, change, or are tried again since they were refused before.
    pub put: Vec<Put>,
    /// Whether the controller's digest is met when this is done.
    pub meets_digest: bool,
}

impl Plan {
    /// What it changes, as it came.
    pub fn changes(&self) -> v1::Changes {
        v1::Changes {
            put: self.put.iter().map(|put| put.object.clone()).collect(),
            remove: self.remove.iter().map(WireKey::message).collect(),
        }
    }
}

/// One object that is put.
#[derive(Debug, PartialEq)]
pub struct Put {
    /// What names it.
    pub key: WireKey,
    /// The object.
    pub object: v1::Object,
    hash: u128,
}

impl Put {
    fn new(key: WireKey, object: v1::Object) -> Self {
        let hash = object_digest(&object);
        Self { key, object, hash }
    }
}

impl Held {
    /// The version of the tables.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Over everything that is held, refused objects left out.
    pub fn digest(&self) -> Digest {
        self.held
    }

    /// What is refused, and why.
    pub fn refusals(&self) -> Vec<v1::Refusal> {
        let refusals = self.refusals.iter();
        refusals
            .map(|(key, reason)| v1::Refusal { object: Some(key.message()), reason: reason.clone() })
            .collect()
    }

    /// Over everything that was sent, refused objects included.
    pub fn offered(&self) -> Digest {
        self.offered
    }

    /// The encodings of everything that was sent, refused objects included: after a restart too, the next update is
    /// against all of it.
    pub fn encoded(&self) -> impl Iterator<Item = &[u8]> {
        self.records.values().map(|record| record.encoded.as_slice())
    }

    /// What is to be done for this update. A delta that would not lead to its own digest is drift. After a full update
    /// there is nothing better to ask for, so it is done whatever its digest says.
    pub fn plan(&self, update: Update) -> Result<Plan, Drift> {
        let Update { version, base, changes, digest: expected, .. } = update;
        let (remove, mut again) = match base {
            Base::Nothing => (self.absent_from(&changes), Vec::new()),
            Base::Held(_) => (self.removed_by(&changes), self.refused_before(&changes)),
        };
        let changed = changes.into_iter().filter_map(|(key, object)| Some(Put::new(key, object?)));
        let mut put: Vec<_> = changed.filter(|put| self.is_news(put)).collect();
        put.append(&mut again);

        let found = self.offered_after(&remove, &put);
        let meets_digest = found == expected;
        if !meets_digest && base != Base::Nothing {
            return Err(Drift { version, found, expected });
        }
        Ok(Plan { version, remove, put, meets_digest })
    }

    /// The plan was carried out, save for the puts that were refused for these reasons.
    pub fn carry_out(&mut self, plan: Plan, mut refusals: BTreeMap<WireKey, String>) {
        self.version = plan.version;
        for key in &plan.remove {
            self.forget(key);
        }
        for put in plan.put {
            self.forget(&put.key);
            self.offered.add(put.hash);
            match refusals.remove(&put.key) {
                Some(reason) => {
                    self.refusals.insert(put.key.clone(), reason);
                }
                None => self.held.add(put.hash),
            }
            self.records.insert(put.key, Record { encoded: put.object.encode_to_vec(), hash: put.hash });
        }
    }

    fn forget(&mut self, key: &WireKey) {
        let Some(record) = self.records.remove(key) else { return };
        self.offered.remove(record.hash);
        if self.refusals.remove(key).is_none() {
            self.held.remove(record.hash);
        }
    }

    fn absent_from(&self, changes: &Changes) -> Vec<WireKey> {
        let is_put = |key| matches!(changes.get(key), Some(Some(_)));
        self.records.keys().filter(|key| !is_put(*key)).cloned().collect()
    }

    fn removed_by(&self, changes: &Changes) -> Vec<WireKey> {
        let removed =
            changes.iter().filter(|(key, object)| object.is_none() && self.records.contains_key(*key));
        removed.map(|(key, _)| key.clone()).collect()
    }

    /// What stood in the way of a refused object may be gone now, so each is tried again with every update.
    fn refused_before(&self, changes: &Changes) -> Vec<Put> {
        let refused = self.refusals.keys().filter(|key| !changes.contains_key(*key));
        let decoded = refused.filter_map(|key| {
            let object = v1::Object::decode(self.records.get(key)?.encoded.as_slice()).ok()?;
            Some(Put::new(key.clone(), object))
        });
        decoded.collect()
    }

    fn is_news(&self, put: &Put) -> bool {
        let same = self.records.get(&put.key).is_some_and(|before| before.hash == put.hash);
        !same || self.refusals.contains_key(&put.key)
    }

    fn offered_after(&self, remove: &[WireKey], put: &[Put]) -> Digest {
        let mut digest = self.offered;
        for key in remove.iter().chain(put.iter().map(|put| &put.key)) {
            if let Some(record) = self.records.get(key) {
                digest.remove(record.hash);
            }
        }
        put.iter().for_each(|put| digest.add(put.hash));
        digest
    }
}

type Changes = BTreeMap<WireKey, Option<v1::Object>>;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: u32) -> WireKey {
        WireKey::new(&v1::ObjectKey { kind: Some(v1::object_key::Kind::VirtualRouter(id)) })
    }

    fn router(id: u32, name: &str) -> v1::Object {
        let router = v1::VirtualRouter { id, name: name.to_owned(), ..Default::default() };
        v1::Object { kind: Some(v1::object::Kind::VirtualRouter(router)) }
    }

    fn digest(objects: &[v1::Object]) -> Digest {
        let mut digest = Digest::default();
        objects.iter().for_each(|object| digest.add(object_digest(object)));
        digest
    }

    fn update(base: Base, changes: &[(u32, Option<v1::Object>)], after: &[v1::Object]) -> Update {
        let changes = changes.iter().map(|(id, object)| (key(*id), object.clone())).collect();
        Update { version: Version(9), base, changes, unknown: 0, digest: digest(after) }
    }

    /// Holds 1 and 2, refuses 3.
    fn held() -> Held {
        let all = [router(1, "a"), router(2, "b"), router(3, "c")];
        let changes: Vec<_> = (1..).zip(all.iter().cloned().map(Some)).collect();
        let mut held = Held::default();
        let plan = held.plan(update(Base::Nothing, &changes, &all)).unwrap();
        assert!(plan.meets_digest);
        held.carry_out(plan, BTreeMap::from([(key(3), "no".to_owned())]));
        held
    }

    fn puts(plan: &Plan) -> Vec<WireKey> {
        plan.put.iter().map(|put| put.key.clone()).collect()
    }

    #[test]
    fn the_refused_are_left_out_of_the_digest_and_tried_again() {
        let mut held = held();
        assert_eq!(held.digest(), digest(&[router(1, "a"), router(2, "b")]));
        assert_eq!(
            held.refusals(),
            [v1::Refusal { object: Some(key(3).message()), reason: "no".to_owned() }]
        );
        assert_eq!(held.encoded().count(), 3, "what is kept is everything that was sent");

        let after = [router(1, "a"), router(3, "c")];
        let plan = held.plan(update(Base::Held(Version(9)), &[(2, None), (7, None)], &after)).unwrap();
        assert_eq!((plan.remove.as_slice(), puts(&plan)), ([key(2)].as_slice(), vec![key(3)]));
        held.carry_out(plan, BTreeMap::new());
        assert_eq!((held.digest(), held.refusals()), (digest(&after), vec![]));
    }

    #[test]
    fn a_full_update_changes_only_what_differs() {
        let held = held();
        let after = [router(1, "a"), router(2, "new")];
        let changes = [(1, Some(after[0].clone())), (2, Some(after[1].clone()))];
        let plan = held.plan(update(Base::Nothing, &changes, &after)).unwrap();
        assert_eq!((plan.remove.as_slice(), puts(&plan)), ([key(3)].as_slice(), vec![key(2)]));
        assert!(plan.meets_digest);
        assert!(!held.plan(update(Base::Nothing, &changes, &[])).unwrap().meets_digest);
    }

    #[test]
    fn a_delta_that_does_not_lead_to_its_digest_is_drift() {
        let held = held();
        let drift = held.plan(update(Base::Held(Version(9)), &[(2, None)], &[])).unwrap_err();
        assert!(drift.to_string().starts_with("version 9 would have digest "), "{drift}");
    }
}
