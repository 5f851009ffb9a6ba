//! What the node keeps on disk, so that it goes on where it was: the tables last applied, the attachments, how far each
//! lease was used up, and what the kernel's settings were.

mod attachments;
mod file;
mod journal;
mod leases;
mod sysctls;
mod tables;

use std::path::{Path, PathBuf};

use thiserror::Error;

pub use attachments::{AttachmentFile, LoadedAttachments};
pub use file::make_private_directory;
pub use leases::LeaseFile;
pub use sysctls::{ChangedSysctl, SysctlFile};
pub use tables::{StoredTables, TableFile};

/// Why something could not be kept or read.
#[derive(Debug, Error)]
pub enum StateError {
    /// The operating system refused.
    #[error("{action} {}: {error}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The file is not what was written.
    #[error("{} is corrupt: {reason}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl StateError {
    fn corrupt(path: &Path, reason: impl ToString) -> Self {
        Self::Corrupt { path: path.to_owned(), reason: reason.to_string() }
    }
}

/// The places of everything that is kept.
#[derive(Debug, Clone)]
pub struct StateFiles {
    /// The tables last applied.
    pub tables: TableFile,
    /// The attachments.
    pub attachments: AttachmentFile,
    /// How far each lease was used up.
    pub leases: LeaseFile,
    /// What the kernel's settings were.
    pub sysctls: SysctlFile,
}

impl StateFiles {
    /// The files in this directory.
    pub fn within(directory: &Path) -> Self {
        Self {
            tables: TableFile::new(directory.join("tables.bin")),
            attachments: AttachmentFile::new(directory.join("attachments.json")),
            leases: LeaseFile::new(directory.join("leases.json")),
            sysctls: SysctlFile::new(directory.join("sysctls.json")),
        }
    }
}
