//! How far the leases were used up, as a JSON file. It is written before what was taken is used, so that an interface
//! id is never given twice; and an address that was freed only after the others of its lease.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use vrouter_objects::{LeaseId, ObjectError};

use super::{StateError, file};
use crate::addressing::Used;

/// The file that says how far the leases were used up.
#[derive(Debug, Clone)]
pub struct LeaseFile {
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Contents {
    next_vmi: NextVmi,
    /// By lease.
    last_address: BTreeMap<u32, IpAddr>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum NextVmi {
    OfTheNode(u64),
    /// As it was written when each network had ids of its own.
    ByNetwork(BTreeMap<String, u64>),
}

impl LeaseFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Replaces the file.
    pub fn store(&self, used: &Used) -> Result<(), StateError> {
        let contents = serde_json::to_vec_pretty(&Contents::from(used));
        file::replace(&self.path, &contents.map_err(|error| StateError::corrupt(&self.path, error))?)
    }

    /// What was stored last; empty where nothing was.
    pub fn load(&self) -> Result<Used, StateError> {
        let Some(contents) = file::read(&self.path)? else { return Ok(Used::default()) };
        let contents: Contents =
            serde_json::from_slice(&contents).map_err(|error| StateError::corrupt(&self.path, error))?;
        Used::try_from(contents).map_err(|error| StateError::corrupt(&self.path, error))
    }
}

impl From<&Used> for Contents {
    fn from(used: &Used) -> Self {
        Self {
            next_vmi: NextVmi::OfTheNode(used.next_vmi),
            last_address: used.last_address.iter().map(|(lease, last)| (lease.get(), *last)).collect(),
        }
    }
}

impl TryFrom<Contents> for Used {
    type Error = ObjectError;

    fn try_from(contents: Contents) -> Result<Self, ObjectError> {
        let next_vmi = match contents.next_vmi {
            NextVmi::OfTheNode(next) => next,
            NextVmi::ByNetwork(next) => next.into_values().max().unwrap_or_default(),
        };
        let last_address =
            contents.last_address.into_iter().map(|(lease, last)| Ok((LeaseId::new(lease)?, last)));
        Ok(Self { next_vmi, last_address: last_address.collect::<Result<_, ObjectError>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_and_loaded() {
        let directory = tempfile::tempdir().unwrap();
        let file = LeaseFile::new(directory.path().join("leases.json"));
        assert_eq!(file.load().unwrap(), Used::default());
        let used = Used {
            next_vmi: 1 << 32,
            last_address: BTreeMap::from([(LeaseId::new(3).unwrap(), "10.244.0.7".parse().unwrap())]),
        };
        file.store(&used).unwrap();
        assert_eq!(file.load().unwrap(), used);
        std::fs::write(&file.path, "[{").unwrap();
        assert!(file.load().unwrap_err().to_string().contains("leases.json is corrupt"));
    }

    #[test]
    fn a_file_from_when_each_network_had_ids_of_its_own_is_understood() {
        let directory = tempfile::tempdir().unwrap();
        let file = LeaseFile::new(directory.path().join("leases.json"));
        let before = r#"{"next_vmi": {"1": 1007, "2": 12}, "last_address": {"3": "10.244.0.7"}}"#;
        std::fs::write(&file.path, before).unwrap();
        let used = file.load().unwrap();
        assert_eq!((used.next_vmi, used.last_address.len()), (1007, 1), "no id is given twice");
        std::fs::write(&file.path, r#"{"last_address": {}}"#).unwrap();
        assert!(file.load().is_err(), "which ids were given must be said");
    }
}
