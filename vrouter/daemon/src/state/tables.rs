//! The tables last applied, as a file: a header, then one length-delimited `v1.Object` after the other. What came since
//! stands in a journal beside it.

use std::path::PathBuf;

use prost::Message;
use vrouter_objects::Version;
use vrouter_proto::{Digest, object_digest, v1};

use super::journal::Journal;
use super::{StateError, file};

/// Says what the file is and in which layout.
const MAGIC: &[u8; 8] = b"VRTABLE1";
/// Magic, version, digest.
const HEADER_BYTES: usize = 8 + 8 + 16;

/// The file of the tables last applied.
#[derive(Debug, Clone)]
pub struct TableFile {
    path: PathBuf,
    journal: Journal,
}

/// What the file holds.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredTables {
    /// The version they were.
    pub version: Version,
    /// Everything that was held.
    pub objects: Vec<v1::Object>,
}

impl TableFile {
    pub(super) fn new(path: PathBuf) -> Self {
        let journal = Journal::new(path.with_extension("journal"));
        Self { path, journal }
    }

    /// Notes what a version changed, and the digest of everything that is held after it.
    pub fn append(&self, version: Version, digest: Digest, changes: &v1::Changes) -> Result<(), StateError> {
        self.journal.append(version, digest, changes)
    }

    /// How much was noted, in bytes, since the tables were last written as a whole.
    pub fn noted(&self) -> Result<u64, StateError> {
        self.journal.length()
    }

    /// Forgets what was noted, if it is no more than this: the tables were written with it.
    pub fn forget_noted(&self, noted: u64) -> Result<(), StateError> {
        self.journal.clear(noted)
    }

    /// Replaces the file with these objects, each already encoded.
    pub fn store<'a>(
        &self,
        version: Version,
        digest: Digest,
        objects: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), StateError> {
        let mut contents = Vec::with_capacity(64 << 10);
        contents.extend_from_slice(MAGIC);
        contents.extend_from_slice(&version.0.to_be_bytes());
        contents.extend_from_slice(&digest.to_bytes());
        for object in objects {
            prost::encode_length_delimiter(object.len(), &mut contents)
                .map_err(|error| StateError::corrupt(&self.path, error))?;
            contents.extend_from_slice(object);
        }
        file::replace(&self.path, &contents)
    }

    /// What was stored last, with what was noted since; `None` where nothing was. The digest says whether it is what was
    /// written.
    pub fn load(&self) -> Result<Option<StoredTables>, StateError> {
        self.journal.replay(self.load_whole()?)
    }

    fn load_whole(&self) -> Result<Option<StoredTables>, StateError> {
        let corrupt = |reason: &dyn ToString| StateError::corrupt(&self.path, reason.to_string());
        let Some(contents) = file::read(&self.path)? else { return Ok(None) };
        let (header, mut records) =
            contents.split_at_checked(HEADER_BYTES).ok_or_else(|| corrupt(&"it is too short"))?;
        if !header.starts_with(MAGIC) {
            return Err(corrupt(&"it does not begin as a table file does"));
        }
        let (version, written) = header[MAGIC.len()..].split_at(8);
        let version = version.try_into().map(u64::from_be_bytes).map_err(|error| corrupt(&error))?;

        let mut digest = Digest::default();
        let mut objects = Vec::new();
        while !records.is_empty() {
            let object =
                v1::Object::decode_length_delimited(&mut records).map_err(|error| corrupt(&error))?;
            digest.add(object_digest(&object));
            objects.push(object);
        }
        if Digest::from_bytes(written) != Some(digest) {
            return Err(corrupt(&"its digest is not that of its contents"));
        }
        Ok(Some(StoredTables { version: Version(version), objects }))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn router(id: u32) -> v1::Object {
        let router = v1::VirtualRouter { id, name: format!("n{id}"), ..Default::default() };
        v1::Object { kind: Some(v1::object::Kind::VirtualRouter(router)) }
    }

    fn stored(file: &TableFile) {
        let objects = [router(1), router(2)];
        let mut digest = Digest::default();
        objects.iter().for_each(|object| digest.add(object_digest(object)));
        let encoded: Vec<_> = objects.iter().map(Message::encode_to_vec).collect();
        file.store(Version(7), digest, encoded.iter().map(Vec::as_slice)).unwrap();
    }

    #[test]
    fn stored_and_loaded() {
        let directory = tempfile::tempdir().unwrap();
        let file = TableFile::new(directory.path().join("tables.bin"));
        assert_eq!(file.load().unwrap(), None);
        stored(&file);
        let tables = file.load().unwrap().unwrap();
        assert_eq!(tables, StoredTables { version: Version(7), objects: vec![router(1), router(2)] });
    }

    #[test]
    fn any_changed_byte_of_digest_or_records_and_any_cut_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let file = TableFile::new(directory.path().join("tables.bin"));
        stored(&file);
        let good = fs::read(&file.path).unwrap();
        for at in (0..MAGIC.len()).chain(MAGIC.len() + 8..good.len()) {
            let mut bad = good.clone();
            bad[at] ^= 0x20;
            fs::write(&file.path, bad).unwrap();
            assert!(file.load().is_err(), "byte {at}");
        }
        for length in 0..good.len() {
            fs::write(&file.path, &good[..length]).unwrap();
            assert!(file.load().is_err(), "cut to {length}");
        }
    }
}
