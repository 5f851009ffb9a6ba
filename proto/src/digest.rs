//! The digest by which controller and node notice that what the node holds is not what was sent.

use std::hash::Hasher;

use prost::Message;
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::v1;

/// A sum of per-object hashes. The order of objects does not matter, and adding or removing one object costs one
/// addition, so both ends keep it up to date with every change. The empty table's digest is zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digest(u128);

impl Digest {
    /// With this object added.
    pub fn add(&mut self, object: u128) {
        self.0 = self.0.wrapping_add(object);
    }

    /// With this object removed.
    pub fn remove(&mut self, object: u128) {
        self.0 = self.0.wrapping_sub(object);
    }

    /// The digest as it travels: 16 bytes, big-endian.
    pub fn to_bytes(self) -> Vec<u8> {
        self.0.to_be_bytes().to_vec()
    }

    /// A digest that travelled; `None` where it is not 16 bytes long.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|bytes| Self(u128::from_be_bytes(bytes)))
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The hash of one object: SipHash-1-3-128 with an all-zero key over its canonical encoding (fields in order of their
/// numbers, no unknown fields, no maps, as prost writes it). It guards against drift, not against malice.
pub fn object_digest(object: &v1::Object) -> u128 {
    let mut hasher = SipHasher13::new();
    hasher.write(&object.encode_to_vec());
    hasher.finish128().as_u128()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(id: u32) -> v1::Object {
        let route = v1::VirtualRouter { id, name: format!("n{id}"), ..Default::default() };
        v1::Object { kind: Some(v1::object::Kind::VirtualRouter(route)) }
    }

    #[test]
    fn order_does_not_matter_and_removal_undoes() {
        let (a, b) = (object_digest(&object(1)), object_digest(&object(2)));
        let mut one = Digest::default();
        one.add(a);
        one.add(b);
        let mut other = Digest::default();
        other.add(b);
        other.add(a);
        assert_eq!(one, other);
        other.remove(a);
        other.remove(b);
        assert_eq!(other, Digest::default());
        assert_eq!(Digest::from_bytes(&one.to_bytes()), Some(one));
    }
}
