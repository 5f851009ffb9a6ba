//! Files that are there as a whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use super::StateError;

/// Makes a directory, with its parents, that only its owner may enter.
pub fn make_private_directory(path: &Path) -> Result<(), StateError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io_error("making", path))
}

/// The file's contents; `None` where there is no such file.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, StateError> {
    match fs::read(path) {
        Ok(contents) => Ok(Some(contents)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error("reading", path)(error)),
    }
}

/// Replaces the file's contents. Whoever reads finds the old ones or the new ones, also after a power cut.
pub(super) fn replace(path: &Path, contents: &[u8]) -> Result<(), StateError> {
    let temporary = path.with_extension("new");
    write_through(&temporary, contents).map_err(io_error("writing", &temporary))?;
    fs::rename(&temporary, path).map_err(io_error("replacing", path))?;
    let directory = path.parent().unwrap_or(Path::new("."));
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(io_error("syncing", directory))
}

/// Adds to the file's end, all of it or nothing. Nothing waits for the disk.
pub(super) fn append(path: &Path, contents: &[u8]) -> Result<(), StateError> {
    let append = || {
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let end = file.metadata()?.len();
        // What follows half of an entry could not be read.
        file.write_all(contents).inspect_err(|_| drop(file.set_len(end)))
    };
    append().map_err(io_error("writing", path))
}

/// The file's length in bytes, 0 where there is none.
pub(super) fn length(path: &Path) -> Result<u64, StateError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(io_error("reading", path)(error)),
    }
}

/// Removes the file, if it is there.
pub(super) fn remove(path: &Path) -> Result<(), StateError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("removing", path)(error)),
        _ => Ok(()),
    }
}

fn write_through(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(contents)?;
    file.sync_all()
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StateError {
    let path = path.to_owned();
    move |error| StateError::Io { action, path, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_as_a_whole_and_absent_is_no_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        assert_eq!(read(&path).unwrap(), None);
        replace(&path, b"long contents").unwrap();
        replace(&path, b"short").unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), b"short");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "no temporary file is left");
    }
}
