//! How far the leases were used up, as a JSON file. It is written before what was taken is used, so that an interface
//! id is never given twice; and an address that was freed only after the others of its lease.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use vrouter_objects::{LeaseId, ObjectError, VrfId};

use super::{StateError, file};
use crate::addressing::Used;

/// The file that says how far the leases were used up.
#[derive(Debug, Clone)]
pub struct LeaseFile {
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Contents {
    /// By network.
    next_vmi: BTreeMap<u32, u64>,
    /// By lease.
    last_address: BTreeMap<u32, IpAddr>,
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
            next_vmi: used.next_vmi.iter().map(|(vrf, next)| (vrf.get(), *next)).collect(),
            last_address: used.last_address.iter().map(|(lease, last)| (lease.get(), *last)).collect(),
        }
    }
}

impl TryFrom<Contents> for Used {
    type Error = ObjectError;

    fn try_from(contents: Contents) -> Result<Self, ObjectError> {
        let next_vmi = contents.next_vmi.into_iter().map(|(vrf, next)| Ok((VrfId::new(vrf)?, next)));
        let last_address =
            contents.last_address.into_iter().map(|(lease, last)| Ok((LeaseId::new(lease)?, last)));
        Ok(Self {
            next_vmi: next_vmi.collect::<Result<_, ObjectError>>()?,
            last_address: last_address.collect::<Result<_, ObjectError>>()?,
        })
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
            next_vmi: BTreeMap::from([(VrfId::new(1).unwrap(), 1 << 32)]),
            last_address: BTreeMap::from([(LeaseId::new(3).unwrap(), "10.244.0.7".parse().unwrap())]),
        };
        file.store(&used).unwrap();
        assert_eq!(file.load().unwrap(), used);
        std::fs::write(&file.path, "[{").unwrap();
        assert!(file.load().unwrap_err().to_string().contains("leases.json is corrupt"));
    }
}
