//! What only one process may have at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use crate::ServerError;

/// A lock file, held for as long as this lives. The kernel lets go of it however the process ends.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "it is held, not used")] File);

impl Lock {
    /// Takes the lock, or says that another controller has it.
    pub fn claim(path: &Path) -> Result<Self, ServerError> {
        let fail = |error| ServerError::File { what: "lock", path: path.to_owned(), error };
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path).map_err(fail)?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(ServerError::Running(path.to_owned())),
            Err(TryLockError::Error(error)) => Err(fail(error)),
        }
    }
}
