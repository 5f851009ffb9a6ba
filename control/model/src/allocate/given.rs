//! Ids and other domain values in the saved state: as plain numbers and text.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use vrouter_objects::{
    FloatingIpId, LeaseId, ListenerId, MemberId, ObjectError, PeerSetId, PolicyId, RouterId, VmiId, Vni,
    VrfId,
};

/// An id that is a number.
pub trait Numbered: Copy {
    /// Its number.
    fn number(self) -> u32;
    /// The id with this number.
    fn numbered(number: u32) -> Result<Self, ObjectError>;
}

macro_rules! numbered {
    ($($id:ty),*) => {$(
        impl Numbered for $id {
            fn number(self) -> u32 {
                self.get()
            }

            fn numbered(number: u32) -> Result<Self, ObjectError> {
                Self::new(number)
            }
        }
    )*};
}

numbered!(FloatingIpId, LeaseId, ListenerId, MemberId, PeerSetId, PolicyId, RouterId, VmiId, Vni, VrfId);

/// Writes an id.
pub fn serialize<T: Numbered, S: Serializer>(id: &T, serializer: S) -> Result<S::Ok, S::Error> {
    id.number().serialize(serializer)
}

/// Reads an id.
pub fn deserialize<'de, T: Numbered, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::numbered(u32::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Values that are text.
pub mod text {
    use super::{Deserialize, Deserializer, Display, Error, FromStr, Serializer};

    /// Writes the value.
    pub fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    /// Reads the value.
    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
