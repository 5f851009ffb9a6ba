//! What changed in the tables since they were last written as a whole, version by version. A version is in force, and
//! acknowledged, when it is here: whoever kills the process must not open by that what a policy has closed.
//!
//! Nothing waits for the disk: what the process wrote outlives it, and a power cut ends its pods as well.

use std::collections::BTreeMap;
use std::path::PathBuf;

use prost::Message;
use vrouter_objects::Version;
use vrouter_proto::convert::key_of;
use vrouter_proto::{Digest, object_digest, v1};

use super::{StateError, StoredTables, file};
use crate::control::WireKey;

/// Version and digest.
const HEAD_BYTES: usize = 8 + 16;

/// The file of the changes.
#[derive(Debug, Clone)]
pub(super) struct Journal {
    path: PathBuf,
}

/// A version's changes.
struct Entry {
    version: Version,
    /// Over everything that is held after it.
    digest: Digest,
    changes: v1::Changes,
}

impl Journal {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Adds a version.
    pub(super) fn append(
        &self,
        version: Version,
        digest: Digest,
        changes: &v1::Changes,
    ) -> Result<(), StateError> {
        let mut entry = Vec::with_capacity(HEAD_BYTES + 8 + changes.encoded_len());
        entry.extend_from_slice(&version.0.to_be_bytes());
        entry.extend_from_slice(&digest.to_bytes());
        changes
            .encode_length_delimited(&mut entry)
            .map_err(|error| StateError::corrupt(&self.path, error))?;
        file::append(&self.path, &entry)
    }

    /// How long it is, in bytes.
    pub(super) fn length(&self) -> Result<u64, StateError> {
        file::length(&self.path)
    }

    /// Empties it, if it is as long as this still: all of it stands in the tables' own file.
    pub(super) fn clear(&self, length: u64) -> Result<(), StateError> {
        if self.length()? == length { file::remove(&self.path) } else { Ok(()) }
    }

    /// The tables after every version that is in it, as far as it can be read: its end may have been cut off.
    pub(super) fn replay(&self, tables: Option<StoredTables>) -> Result<Option<StoredTables>, StateError> {
        let Some(contents) = file::read(&self.path)? else { return Ok(tables) };
        let mut state = Replay::new(tables);
        let mut rest = contents.as_slice();
        while let Some(entry) = next(&mut rest) {
            if !state.take(entry) {
                tracing::warn!(
                    "{} does not fit the tables it follows; the rest is left out",
                    self.path.display()
                );
                break;
            }
        }
        Ok(state.finish())
    }
}

fn next(rest: &mut &[u8]) -> Option<Entry> {
    let (head, changes) = rest.split_at_checked(HEAD_BYTES)?;
    let (version, digest) = head.split_at(8);
    *rest = changes;
    Some(Entry {
        version: Version(u64::from_be_bytes(version.try_into().ok()?)),
        digest: Digest::from_bytes(digest)?,
        changes: v1::Changes::decode_length_delimited(rest).ok()?,
    })
}

/// Tables that are being brought up to date.
struct Replay {
    version: Option<Version>,
    objects: BTreeMap<WireKey, v1::Object>,
    digest: Digest,
}

impl Replay {
    fn new(tables: Option<StoredTables>) -> Self {
        let mut replay = Self { version: None, objects: BTreeMap::new(), digest: Digest::default() };
        if let Some(tables) = tables {
            replay.version = Some(tables.version);
            tables.objects.into_iter().for_each(|object| replay.put(object));
        }
        replay
    }

    fn put(&mut self, object: v1::Object) {
        let Some(key) = key_of(&object).map(|key| WireKey::new(&key)) else { return };
        self.remove(&key);
        self.digest.add(object_digest(&object));
        self.objects.insert(key, object);
    }

    fn remove(&mut self, key: &WireKey) {
        if let Some(object) = self.objects.remove(key) {
            self.digest.remove(object_digest(&object));
        }
    }

    /// Makes a version's changes, unless the tables have them already; `false`: they do not lead to its digest.
    fn take(&mut self, entry: Entry) -> bool {
        if self.version.is_some_and(|version| version >= entry.version) {
            return true;
        }
        if self.digest_after(&entry.changes) != entry.digest {
            return false;
        }
        entry.changes.remove.iter().for_each(|key| self.remove(&WireKey::new(key)));
        entry.changes.put.into_iter().for_each(|object| self.put(object));
        self.version = Some(entry.version);
        true
    }

    fn digest_after(&self, changes: &v1::Changes) -> Digest {
        let mut digest = self.digest;
        let put = changes.put.iter().filter_map(key_of);
        for key in changes.remove.iter().cloned().chain(put) {
            if let Some(object) = self.objects.get(&WireKey::new(&key)) {
                digest.remove(object_digest(object));
            }
        }
        changes.put.iter().for_each(|object| digest.add(object_digest(object)));
        digest
    }

    fn finish(self) -> Option<StoredTables> {
        let version = self.version?;
        Some(StoredTables { version, objects: self.objects.into_values().collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router(id: u32, name: &str) -> v1::Object {
        let router = v1::VirtualRouter { id, name: name.to_owned(), ..Default::default() };
        v1::Object { kind: Some(v1::object::Kind::VirtualRouter(router)) }
    }

    fn tables(version: u64, objects: &[v1::Object]) -> StoredTables {
        StoredTables { version: Version(version), objects: objects.to_vec() }
    }

    fn digest(objects: &[v1::Object]) -> Digest {
        let mut digest = Digest::default();
        objects.iter().for_each(|object| digest.add(object_digest(object)));
        digest
    }

    /// Version 2 adds a node to version 1's, and version 3 renames it and takes the first away.
    fn journal(directory: &std::path::Path) -> (Journal, [StoredTables; 3]) {
        let journal = Journal::new(directory.join("tables.journal"));
        let [one, two, renamed] = [router(1, "a"), router(2, "b"), router(2, "c")];
        let all = [
            tables(1, std::slice::from_ref(&one)),
            tables(2, &[one.clone(), two.clone()]),
            tables(3, std::slice::from_ref(&renamed)),
        ];
        let put = |object: v1::Object, remove| v1::Changes { put: vec![object], remove };
        journal.append(Version(2), digest(&all[1].objects), &put(two, Vec::new())).unwrap();
        let gone = key_of(&one).into_iter().collect();
        journal.append(Version(3), digest(&all[2].objects), &put(renamed, gone)).unwrap();
        (journal, all)
    }

    #[test]
    fn versions_follow_the_tables_that_they_were_made_from() {
        let directory = tempfile::tempdir().unwrap();
        let (journal, [first, second, third]) = journal(directory.path());
        for base in [&first, &second, &third] {
            assert_eq!(journal.replay(Some(base.clone())).unwrap().as_ref(), Some(&third));
        }
        // Those that it was not made from stay as they are.
        let other = tables(1, &[router(9, "z")]);
        assert_eq!(journal.replay(Some(other.clone())).unwrap(), Some(other));
        assert_eq!(journal.replay(None).unwrap(), None);
    }

    #[test]
    fn an_end_that_was_cut_off_is_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let (journal, [first, second, third]) = journal(directory.path());
        let whole = std::fs::read(&journal.path).unwrap();
        for length in 0..whole.len() {
            std::fs::write(&journal.path, &whole[..length]).unwrap();
            let found = journal.replay(Some(first.clone())).unwrap().unwrap();
            assert!(found == first || found == second, "cut to {length}");
        }
        std::fs::write(&journal.path, &whole).unwrap();
        assert_eq!(journal.replay(Some(first)).unwrap(), Some(third));
    }

    #[test]
    fn it_is_cleared_only_if_nothing_came_since() {
        let directory = tempfile::tempdir().unwrap();
        let (journal, [first, ..]) = journal(directory.path());
        let length = journal.length().unwrap();
        journal.append(Version(4), Digest::default(), &v1::Changes::default()).unwrap();
        journal.clear(length).unwrap();
        assert!(journal.length().unwrap() > length);
        journal.clear(journal.length().unwrap()).unwrap();
        assert_eq!(journal.length().unwrap(), 0);
        assert_eq!(journal.replay(Some(first.clone())).unwrap(), Some(first));
    }
}
