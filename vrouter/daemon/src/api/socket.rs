//! The run directory, and the socket in it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tokio::net::UnixListener;

use crate::lock::{LockError, OwnDirectory};

/// The run directory, held by this process for as long as this lives.
#[derive(Debug)]
pub struct RunDirectory(OwnDirectory);

/// Why there is no local API.
#[derive(Debug, Error)]
pub enum SocketError {
    /// The directory is not this process's own.
    #[error(transparent)]
    Directory(#[from] LockError),
    /// The operating system refused.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

impl RunDirectory {
    /// Takes the directory for this process.
    pub fn claim(path: &Path) -> Result<Self, SocketError> {
        Ok(Self(OwnDirectory::claim(path)?))
    }

    /// Where the local API is.
    pub fn socket(&self) -> PathBuf {
        self.0.path().join("node.sock")
    }

    /// Opens the local API's socket, for root alone from the first moment, in place of one that a crash left.
    pub fn listen(&self) -> Result<UnixListener, SocketError> {
        let (socket, new) = (self.socket(), self.0.path().join("node.sock.new"));
        let fail = |error| SocketError::Io { path: socket.clone(), error };
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
            _ => {}
        }
        let listener = UnixListener::bind(&new).map_err(fail)?;
        fs::set_permissions(&new, Permissions::from_mode(0o600)).map_err(fail)?;
        fs::rename(&new, &socket).map_err(fail)?;
        Ok(listener)
    }

    /// Removes the socket: whoever tries it now is told at once that nobody is there.
    pub fn close(self) {
        if let Err(error) = fs::remove_file(self.socket()) {
            tracing::warn!("{}: {error}", self.socket().display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_live_node_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        let first = RunDirectory::claim(&path).unwrap();
        let listener = first.listen().unwrap();
        assert_eq!(fs::metadata(first.socket()).unwrap().permissions().mode() & 0o777, 0o600);
        let error = RunDirectory::claim(&path).unwrap_err().to_string();
        assert!(error.starts_with("another vrouter is running"), "{error}");

        // As after a crash: the socket is still there, and nobody listens.
        drop((listener, first));
        let second = RunDirectory::claim(&path).unwrap();
        let _listener = second.listen().unwrap();
        assert!(tokio::net::UnixStream::connect(second.socket()).await.is_ok());
        let socket = second.socket();
        second.close();
        assert!(!socket.exists());
    }
}
