//! Putting an update together from its frames: Begin, Changes, End. Nothing is applied before the End.

use std::collections::BTreeMap;

use prost::Message;
use thiserror::Error;
use vrouter_objects::Version;
use vrouter_proto::convert::key_of;
use vrouter_proto::{Digest, v1};

/// What names an object, in the encoding that travels. Even an object that cannot be understood has one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WireKey(Vec<u8>);

impl WireKey {
    /// The key as one can be compared and kept.
    pub fn new(key: &v1::ObjectKey) -> Self {
        Self(key.encode_to_vec())
    }

    /// The key as it is sent.
    pub fn message(&self) -> v1::ObjectKey {
        // These bytes were encoded from such a message.
        v1::ObjectKey::decode(self.0.as_slice()).unwrap_or_default()
    }
}

/// What the changes of an update are against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// Against the tables of this version.
    Held(Version),
    /// Against nothing: what is not put is removed.
    Nothing,
}

/// A complete update.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// The version that the tables are afterwards.
    pub version: Version,
    /// What the changes are against.
    pub base: Base,
    /// For each object that changes, what it becomes; `None`: it goes.
    pub changes: BTreeMap<WireKey, Option<v1::Object>>,
    /// How many objects came that are of no kind known here.
    pub unknown: usize,
    /// Over everything the node is to hold afterwards, before refusals.
    pub digest: Digest,
}

/// Why frames make no update. The channel is of no use after that.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FrameError {
    /// Two Begins without an End between them.
    #[error("Begin of version {begun} inside the update to version {open}")]
    BeginInside {
        /// The update that had begun.
        open: Version,
        /// The one that begins.
        begun: Version,
    },
    /// Changes or an End belong to no update.
    #[error("{frame} without Begin")]
    NoBegin {
        /// Which frame.
        frame: &'static str,
    },
    /// An End that ends another version than was begun.
    #[error("End of version {ended} for the update to version {open}")]
    OtherEnd {
        /// The update that had begun.
        open: Version,
        /// The version that the End names.
        ended: Version,
    },
    /// Begin must say what its changes are against.
    #[error("Begin of version {0} says neither delta nor full")]
    UnknownKind(Version),
    /// Versions never go backwards.
    #[error("version {begun} is lower than version {held}, which is held")]
    Backwards {
        /// The version that begins.
        begun: Version,
        /// The version that is held.
        held: Version,
    },
    /// A delta against something else than what is held.
    #[error("the update to version {begun} is against version {base}, but version {held} is held")]
    OtherBase {
        /// The version that begins.
        begun: Version,
        /// What it is against.
        base: Version,
        /// What is held.
        held: Version,
    },
    /// The digest is not 16 bytes long.
    #[error("End of version {0} has no digest")]
    NoDigest(Version),
}

/// An update on its way. One per channel.
#[derive(Debug, Default)]
pub struct Assembly {
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    version: Version,
    base: Base,
    changes: BTreeMap<WireKey, Option<v1::Object>>,
    unknown: usize,
}

impl Assembly {
    /// An update begins, while this version is held.
    pub fn begin(&mut self, begin: &v1::Begin, held: Version) -> Result<(), FrameError> {
        let begun = Version(begin.version);
        if let Some(open) = &self.open {
            return Err(FrameError::BeginInside { open: open.version, begun });
        }
        if begun < held {
            return Err(FrameError::Backwards { begun, held });
        }
        let base = match begin.kind() {
            v1::UpdateKind::Full => Base::Nothing,
            v1::UpdateKind::Delta if Version(begin.base) == held => Base::Held(held),
            v1::UpdateKind::Delta => {
                return Err(FrameError::OtherBase { begun, base: Version(begin.base), held });
            }
            v1::UpdateKind::Unspecified => return Err(FrameError::UnknownKind(begun)),
        };
        self.open = Some(Open { version: begun, base, changes: BTreeMap::new(), unknown: 0 });
        Ok(())
    }

    /// Some of its changes. What names an object a second time replaces what was said before.
    pub fn changes(&mut self, changes: v1::Changes) -> Result<(), FrameError> {
        let open = self.open.as_mut().ok_or(FrameError::NoBegin { frame: "Changes" })?;
        for key in &changes.remove {
            open.changes.insert(WireKey::new(key), None);
        }
        for object in changes.put {
            match key_of(&object) {
                Some(key) => {
                    open.changes.insert(WireKey::new(&key), Some(object));
                }
                None => open.unknown += 1,
            }
        }
        Ok(())
    }

    /// It is complete.
    pub fn end(&mut self, end: &v1::End) -> Result<Update, FrameError> {
        let open = self.open.take().ok_or(FrameError::NoBegin { frame: "End" })?;
        let ended = Version(end.version);
        if ended != open.version {
            return Err(FrameError::OtherEnd { open: open.version, ended });
        }
        let digest = Digest::from_bytes(&end.digest).ok_or(FrameError::NoDigest(ended))?;
        let Open { version, base, changes, unknown } = open;
        Ok(Update { version, base, changes, unknown, digest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(version: u64, kind: v1::UpdateKind, base: u64) -> v1::Begin {
        v1::Begin { version, kind: kind.into(), base }
    }

    fn end(version: u64) -> v1::End {
        v1::End { version, digest: Digest::default().to_bytes() }
    }

    fn key(id: u32) -> v1::ObjectKey {
        v1::ObjectKey { kind: Some(v1::object_key::Kind::VirtualRouter(id)) }
    }

    fn router(id: u32) -> v1::Object {
        let router = v1::VirtualRouter { id, ..Default::default() };
        v1::Object { kind: Some(v1::object::Kind::VirtualRouter(router)) }
    }

    #[test]
    fn frames_make_an_update_in_which_the_last_word_counts() {
        let mut assembly = Assembly::default();
        assembly.begin(&begin(8, v1::UpdateKind::Delta, 7), Version(7)).unwrap();
        let first = v1::Changes { put: vec![router(1), v1::Object::default()], remove: vec![key(2), key(3)] };
        assembly.changes(first).unwrap();
        assembly.changes(v1::Changes { put: vec![router(2)], remove: vec![key(1)] }).unwrap();
        let update = assembly.end(&end(8)).unwrap();
        assert_eq!((update.version, update.base), (Version(8), Base::Held(Version(7))));
        let changes: Vec<_> = update.changes.into_iter().map(|(key, put)| (key.message(), put)).collect();
        assert_eq!(changes, [(key(1), None), (key(2), Some(router(2))), (key(3), None)]);
        assert_eq!(update.unknown, 1);
    }

    #[test]
    fn broken_sequences_are_told_apart() {
        use v1::UpdateKind::{Delta, Full, Unspecified};
        let begun =
            |begin: v1::Begin| Assembly::default().begin(&begin, Version(7)).map_err(|e| e.to_string());
        assert_eq!(begun(begin(7, Full, 0)), Ok(()));
        assert_eq!(begun(begin(6, Full, 0)).unwrap_err(), "version 6 is lower than version 7, which is held");
        assert_eq!(
            begun(begin(9, Delta, 6)).unwrap_err(),
            "the update to version 9 is against version 6, but version 7 is held"
        );
        assert_eq!(
            begun(begin(9, Unspecified, 7)).unwrap_err(),
            "Begin of version 9 says neither delta nor full"
        );

        let mut assembly = Assembly::default();
        assert_eq!(assembly.end(&end(8)).unwrap_err().to_string(), "End without Begin");
        assert_eq!(
            assembly.changes(v1::Changes::default()).unwrap_err().to_string(),
            "Changes without Begin"
        );
        assembly.begin(&begin(8, Full, 0), Version(7)).unwrap();
        let inside = assembly.begin(&begin(9, Full, 0), Version(7)).unwrap_err();
        assert_eq!(inside.to_string(), "Begin of version 9 inside the update to version 8");
        let other = assembly.end(&end(9)).unwrap_err();
        assert_eq!(other.to_string(), "End of version 9 for the update to version 8");
        assembly.begin(&begin(8, Full, 0), Version(7)).unwrap();
        let no_digest = assembly.end(&v1::End { version: 8, digest: vec![] }).unwrap_err();
        assert_eq!(no_digest.to_string(), "End of version 8 has no digest");
    }
}
