//! The unix socket for tools.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

use crate::ServerError;
use crate::lock::Lock;

/// The place of a socket, which is this process's for as long as this lives.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    _lock: Lock,
}

impl Socket {
    /// Opens a socket that only its owner can use, from the first moment. One that nobody listens at any more is
    /// replaced.
    pub fn open(path: &Path) -> Result<(Self, UnixListener), ServerError> {
        let fail = |error| ServerError::File { what: "socket", path: path.to_owned(), error };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(fail)?;
        }
        let lock = Lock::claim(&beside(path, "lock"))?;
        check_place(path).map_err(fail)?;
        let listener = listen(path).map_err(fail)?;
        Ok((Self { path: path.to_owned(), _lock: lock }, listener))
    }

    /// Removes the socket: whoever tries it now is told at once that nobody is there.
    pub fn close(self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(socket = %self.path.display(), %error, "the socket is gone already");
        }
    }
}

/// What is there already must be a socket that was left behind.
fn check_place(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "is there and is no socket"))
        }
        Ok(_) if UnixStream::connect(path).is_ok() => {
            Err(io::Error::new(io::ErrorKind::AddrInUse, "somebody listens there already"))
        }
        Ok(_) => Ok(()),
    }
}

/// Binds where nobody else can reach, and moves the socket to its place once it is its owner's alone.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let private = beside(path, "new");
    match fs::remove_dir_all(&private) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    DirBuilder::new().mode(0o700).create(&private)?;
    let new = private.join("s");
    let listener = UnixListener::bind(&new)?;
    fs::set_permissions(&new, Permissions::from_mode(0o600))?;
    fs::rename(&new, path)?;
    fs::remove_dir(&private)?;
    Ok(listener)
}

fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_was_left_behind_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let (first, listener) = Socket::open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let error = Socket::open(&path).unwrap_err().to_string();
        assert!(error.starts_with("another controller is running"), "{error}");
        // As after a crash.
        drop((first, listener));
        let (second, listener) = Socket::open(&path).unwrap();
        second.close();
        assert!(!path.exists());
        drop(listener);

        let _stranger = UnixListener::bind(&path).unwrap();
        assert!(Socket::open(&path).unwrap_err().to_string().contains("somebody listens there already"));
        assert!(UnixStream::connect(&path).is_ok(), "it is left alone");
        let file = folder.path().join("file");
        fs::write(&file, "precious").unwrap();
        assert!(Socket::open(&file).unwrap_err().to_string().contains("is no socket"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    }
}
