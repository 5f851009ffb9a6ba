//! Directories that one node has for itself.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::state::{StateError, make_private_directory};

/// A directory, held by this process for as long as this lives. The kernel lets go of it however the process ends.
#[derive(Debug)]
pub struct OwnDirectory {
    path: PathBuf,
    _lock: File,
}

/// Why a directory is not this process's own.
#[derive(Debug, Error)]
pub enum LockError {
    /// Two nodes cannot share their devices, nor their state.
    #[error("another vrouter is running: it holds {}", .0.display())]
    Held(PathBuf),
    /// The operating system refused.
    #[error("{}: {error}", path.display())]
    Io {
        /// The lock's file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The directory could not be made.
    #[error(transparent)]
    Directory(#[from] StateError),
}

impl OwnDirectory {
    /// Takes the directory for this process, and makes it where it is not there.
    pub fn claim(path: &Path) -> Result<Self, LockError> {
        make_private_directory(path)?;
        let lock_path = path.join("vrouter.lock");
        let fail = |error| LockError::Io { path: lock_path.clone(), error };
        let lock = OpenOptions::new().write(true).create(true).truncate(false).open(&lock_path);
        let lock = lock.map_err(fail)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(LockError::Held(lock_path)),
            Err(TryLockError::Error(error)) => Err(fail(error)),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_node_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        let first = OwnDirectory::claim(&path).unwrap();
        let error = OwnDirectory::claim(&path).unwrap_err().to_string();
        assert!(error.starts_with("another vrouter is running: it holds /"), "{error}");
        drop(first);
        assert_eq!(OwnDirectory::claim(&path).unwrap().path(), path);
    }
}
