//! What settings of the kernel were before the router changed them, as a JSON file. It is there for as long as anything
//! of the host path may be.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{StateError, file};

/// The file that says what the kernel's settings were.
#[derive(Debug, Clone)]
pub struct SysctlFile {
    path: PathBuf,
}

/// A setting that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedSysctl {
    /// Which, as a path below `/proc/sys`.
    pub key: String,
    /// What it was.
    pub before: String,
    /// What it was set to.
    pub after: String,
}

#[derive(Serialize, Deserialize)]
struct Contents {
    /// A boot undoes all of it.
    boot_id: String,
    /// In the order in which they were changed.
    changed: Vec<ChangedSysctl>,
}

impl SysctlFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Replaces the file.
    pub fn store(&self, boot_id: &str, changed: &[ChangedSysctl]) -> Result<(), StateError> {
        let contents = Contents { boot_id: boot_id.to_owned(), changed: changed.to_vec() };
        let contents = serde_json::to_vec_pretty(&contents);
        file::replace(&self.path, &contents.map_err(|error| StateError::corrupt(&self.path, error))?)
    }

    /// What was changed since the machine was booted; `None` where there is no file.
    pub fn load(&self, boot_id: &str) -> Result<Option<Vec<ChangedSysctl>>, StateError> {
        let Some(contents) = file::read(&self.path)? else { return Ok(None) };
        let contents: Contents =
            serde_json::from_slice(&contents).map_err(|error| StateError::corrupt(&self.path, error))?;
        Ok(Some(if contents.boot_id == boot_id { contents.changed } else { Vec::new() }))
    }

    /// Removes the file, if it is there.
    pub fn remove(&self) -> Result<(), StateError> {
        file::remove(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_loaded_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let file = SysctlFile::new(directory.path().join("sysctls.json"));
        assert_eq!(file.load("boot").unwrap(), None);
        let change =
            |key: &str| ChangedSysctl { key: key.to_owned(), before: "0".to_owned(), after: "1".to_owned() };
        let changed = vec![change("net/ipv4/ip_forward"), change("net/ipv4/conf/all/rp_filter")];
        file.store("boot", &changed).unwrap();
        assert_eq!(file.load("boot").unwrap(), Some(changed));
        assert_eq!(file.load("another boot").unwrap(), Some(vec![]));
        file.remove().unwrap();
        file.remove().unwrap();
        assert_eq!(file.load("boot").unwrap(), None);
    }
}
