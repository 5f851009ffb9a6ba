//! One lab on disk: its lock, its state, and the manifests its controller reads.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use crate::leftovers;
use crate::name::LabName;
use crate::object::ObjectKey;
use crate::state::State;

/// A lab that this command alone may change.
#[derive(Debug)]
pub struct Lab {
    /// Its name.
    pub name: LabName,
    /// What it remembers.
    pub state: State,
    lock: Lock,
}

impl Lab {
    /// An empty one, with the lock already held.
    pub fn create(name: LabName, lock: Lock) -> Result<Self> {
        let lab = Self { name, state: State::default(), lock };
        fs::create_dir_all(lab.manifests())?;
        lab.save()?;
        Ok(lab)
    }

    /// The lab of this name, which must be up.
    pub fn open(name: LabName) -> Result<Self> {
        let lock = Lock::take(&name)?;
        match load(&name) {
            Ok(state) => Ok(Self { name, state, lock }),
            Err(error) => {
                // Nothing may stay behind of a lab that is not there.
                lock.remove(&name)?;
                Err(error)
            }
        }
    }

    /// Removes it, with everything in it.
    pub fn remove(self) -> Result<()> {
        leftovers::remove(&self.name)?;
        self.lock.remove(&self.name)
    }

    /// Writes the state down, so that it is whole at every instant.
    pub fn save(&self) -> Result<()> {
        write_whole(&self.name.directory().join("state.json"), &serde_json::to_vec_pretty(&self.state)?)
    }

    /// The folder the controller reads.
    pub fn manifests(&self) -> PathBuf {
        manifests(&self.name)
    }

    /// Shows an object to the controller.
    pub fn write_object(&self, key: &ObjectKey, body: &Value) -> Result<()> {
        let text = serde_yaml_ng::to_string(body)?;
        write_whole(&self.manifests().join(key.file_name()), text.as_bytes())
    }

    /// Takes an object away from the controller; false where there was none.
    pub fn remove_object(&mut self, key: &ObjectKey) -> Result<bool> {
        self.state.sources.remove(key);
        match fs::remove_file(self.manifests().join(key.file_name())) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).with_context(|| key.to_string()),
        }
    }
}

/// The folder a lab's controller reads.
pub fn manifests(name: &LabName) -> PathBuf {
    name.directory().join("manifests")
}

/// A lab's state, for commands that only look.
pub fn load(name: &LabName) -> Result<State> {
    let file = name.directory().join("state.json");
    match fs::read(&file) {
        Ok(text) => serde_json::from_slice(&text).with_context(|| file.display().to_string()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("lab {name} is not up: there is no {}", file.display())
        }
        Err(error) => Err(error).with_context(|| file.display().to_string()),
    }
}

/// Held by the one command that changes a lab.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Waits until no other command changes the lab of this name.
    pub fn take(name: &LabName) -> Result<Self> {
        let path = name.lock_file();
        let directory = path.parent().ok_or_else(|| anyhow!("{} has no folder", path.display()))?;
        loop {
            fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
            let Ok(file) = File::create(&path) else {
                // Between the two, another lab's `down` may have removed the emptied folder.
                if directory.is_dir() {
                    bail!("{}: cannot be made; the lab needs root", path.display());
                }
                continue;
            };
            file.lock().with_context(|| path.display().to_string())?;
            if is_still(&file, &path) {
                return Ok(Self(file));
            }
        }
    }

    /// Ends the lock and removes its file. Whoever waits for it finds the file gone and makes a new one.
    pub fn remove(self, name: &LabName) -> Result<()> {
        let path = name.lock_file();
        fs::remove_file(&path).with_context(|| path.display().to_string())?;
        drop(self.0);
        // Fails while there are other labs.
        let _ = path.parent().map(fs::remove_dir);
        Ok(())
    }
}

/// Whether a path still names this open file.
fn is_still(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(held), Ok(named)) => (held.dev(), held.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// Replaces a file such that a reader sees the old text or the new one.
fn write_whole(path: &Path, text: &[u8]) -> Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, text).with_context(|| new.display().to_string())?;
    fs::rename(&new, path).with_context(|| path.display().to_string())
}
