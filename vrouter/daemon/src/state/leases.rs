//! How far each lease was used up, as a JSON file. It is written before what was taken is used, so that an interface id
//! is never given twice, and a freed address not at once.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use vrouter_objects::LeaseId;

use super::{StateError, file};
use crate::addressing::LeaseUse;

/// The file that says how far each lease was used up.
#[derive(Debug, Clone)]
pub struct LeaseFile {
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Record {
    lease: u32,
    first_vmi: u32,
    next_vmi: u64,
    last_address: Option<IpAddr>,
}

impl LeaseFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Replaces the file.
    pub fn store(&self, uses: &BTreeMap<LeaseId, LeaseUse>) -> Result<(), StateError> {
        let records: Vec<_> = uses
            .iter()
            .map(|(lease, used)| Record {
                lease: lease.get(),
                first_vmi: used.first_vmi,
                next_vmi: used.next_vmi,
                last_address: used.last_address,
            })
            .collect();
        let contents = serde_json::to_vec_pretty(&records).map_err(|e| StateError::corrupt(&self.path, e))?;
        file::replace(&self.path, &contents)
    }

    /// What was stored last; empty where nothing was.
    pub fn load(&self) -> Result<BTreeMap<LeaseId, LeaseUse>, StateError> {
        let Some(contents) = file::read(&self.path)? else { return Ok(BTreeMap::new()) };
        let records: Vec<Record> =
            serde_json::from_slice(&contents).map_err(|error| StateError::corrupt(&self.path, error))?;
        records
            .into_iter()
            .map(|record| {
                let lease =
                    LeaseId::new(record.lease).map_err(|error| StateError::corrupt(&self.path, error))?;
                let used = LeaseUse {
                    first_vmi: record.first_vmi,
                    next_vmi: record.next_vmi,
                    last_address: record.last_address,
                };
                Ok((lease, used))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_and_loaded() {
        let directory = tempfile::tempdir().unwrap();
        let file = LeaseFile::new(directory.path().join("leases.json"));
        assert!(file.load().unwrap().is_empty());
        let used =
            LeaseUse { first_vmi: 1, next_vmi: 1 << 32, last_address: Some("10.244.0.7".parse().unwrap()) };
        let uses = BTreeMap::from([(LeaseId::new(3).unwrap(), used)]);
        file.store(&uses).unwrap();
        assert_eq!(file.load().unwrap(), uses);
        std::fs::write(&file.path, "[{").unwrap();
        assert!(file.load().unwrap_err().to_string().contains("leases.json is corrupt"));
    }
}
