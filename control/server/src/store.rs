//! The state file: written whole, next to the old one, and renamed into its place.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use vrouter_control_model::State;

use crate::ServerError;

/// The layout of the file.
const FORMAT: u32 = 1;

/// What is in the state file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Saved {
    format: u32,
    /// Versions up to this one may have been given out: the next controller goes on above it.
    pub version_ceiling: u64,
    /// What the model gave out.
    pub state: State,
}

/// Where the state is kept.
#[derive(Debug, Clone)]
pub struct Store {
    path: PathBuf,
}

impl Store {
    /// A store in a folder, which is made if there is none.
    pub fn open(folder: &Path) -> Result<Self, ServerError> {
        let file_error = |error| ServerError::File { what: "state folder", path: folder.to_owned(), error };
        fs::create_dir_all(folder).map_err(file_error)?;
        Ok(Self { path: folder.join("state.json") })
    }

    /// What was saved; a first start has the default.
    pub fn load(&self) -> Result<Saved, ServerError> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Saved::default()),
            Err(error) => {
                return Err(ServerError::File { what: "state file", path: self.path.clone(), error });
            }
        };
        let wrong = |message| ServerError::State { path: self.path.clone(), message };
        let saved: Saved = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        if saved.format != FORMAT {
            return Err(wrong(format!("it has format {}, this controller reads {FORMAT}", saved.format)));
        }
        Ok(saved)
    }

    /// Saves: when this returns, the state outlives a power cut.
    pub fn save(&self, version_ceiling: u64, state: State) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let new = self.path.with_extension("json.new");
        let text = serde_json::to_vec(&Saved { format: FORMAT, version_ceiling, state })?;
        let mut file = File::create(&new)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        // The rename itself is durable once the folder is.
        File::open(folder)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_an_error_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(store.load().unwrap().version_ceiling, 0);
        store.save(7, State::default()).unwrap();
        assert_eq!(store.load().unwrap().version_ceiling, 7);
        for damage in ["", "{\"format\":1", "{\"format\":9,\"version_ceiling\":7,\"state\":null}"] {
            fs::write(folder.path().join("state.json"), damage).unwrap();
            let error = store.load().unwrap_err().to_string();
            assert!(error.contains("state.json"), "{error}");
            assert_eq!(fs::read_to_string(folder.path().join("state.json")).unwrap(), damage);
        }
    }
}
