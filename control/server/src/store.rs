//! The saved state: a snapshot, and a journal of what changed since.
//!
//! A change costs one line at the end of the journal, however much state there is. When the journal has grown large,
//! or cannot be trusted, the state is written whole: next to the old snapshot, and renamed into its place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vrouter_control_model::{State, StateChange};

use crate::ServerError;
use crate::lock::Lock;

/// The layout of the files.
const FORMAT: u32 = 1;
/// A journal of this many bytes is replaced by a snapshot.
const LARGE_JOURNAL: u64 = 4 << 20;
/// No controller counts up to here, and counting on from here never comes to an end.
const VERSION_LIMIT: u64 = 1 << 63;

/// What every save tells besides the state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Counts the saves.
    pub sequence: u64,
    /// Versions up to this one may have been given out: the next controller goes on above it.
    pub version_ceiling: u64,
}

/// The snapshot file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Snapshot {
    format: u32,
    stamp: Stamp,
    state: State,
}

/// One line of the journal.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    stamp: Stamp,
    change: StateChange,
}

/// Whether the next save may be a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Journal {
    /// It may.
    Open,
    /// The journal is large: the next save should be a snapshot.
    Large,
}

/// Where the state is kept. The folder is this process's for as long as one of these lives.
#[derive(Debug, Clone)]
pub struct Store {
    snapshot: PathBuf,
    journal: PathBuf,
    _lock: Arc<Lock>,
}

impl Store {
    /// A store in a folder, which is made if there is none.
    pub fn open(folder: &Path) -> Result<Self, ServerError> {
        let file_error = |error| ServerError::File { what: "state folder", path: folder.to_owned(), error };
        fs::create_dir_all(folder).map_err(file_error)?;
        let lock = Arc::new(Lock::claim(&folder.join("state.lock"))?);
        let (snapshot, journal) = (folder.join("state.json"), folder.join("state.journal"));
        Ok(Self { snapshot, journal, _lock: lock })
    }

    /// What was saved; a first start has nothing.
    pub fn load(&self) -> Result<(Stamp, State), ServerError> {
        let Some(text) = read(&self.snapshot)? else {
            return match read(&self.journal)? {
                Some(journal) if !journal.is_empty() => {
                    Err(wrong(&self.journal, "is there without its snapshot state.json"))
                }
                _ => Ok((Stamp::default(), State::default())),
            };
        };
        let snapshot: Snapshot =
            serde_json::from_slice(&text).map_err(|error| wrong(&self.snapshot, error))?;
        if snapshot.format != FORMAT {
            let message = format!("it has format {}, this controller reads {FORMAT}", snapshot.format);
            return Err(wrong(&self.snapshot, message));
        }
        let (mut stamp, mut state) = (snapshot.stamp, snapshot.state);
        for line in self.journal_lines()? {
            let entry: Entry = serde_json::from_slice(&line).map_err(|error| wrong(&self.journal, error))?;
            // The snapshot has taken these in, and the controller was stopped before it could empty the journal.
            if entry.stamp.sequence > stamp.sequence {
                stamp = entry.stamp;
                state.replay(entry.change);
            }
        }
        if stamp.version_ceiling > VERSION_LIMIT {
            let message = format!("version {} cannot have been given out", stamp.version_ceiling);
            return Err(wrong(&self.snapshot, message));
        }
        Ok((stamp, state))
    }

    /// Saves the state as a whole: when this returns, it outlives a power cut.
    pub fn save(&self, stamp: Stamp, state: State) -> io::Result<()> {
        let new = self.snapshot.with_extension("json.new");
        let text = serde_json::to_vec(&Snapshot { format: FORMAT, stamp, state })?;
        let mut file = File::create(&new)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&new, &self.snapshot)?;
        File::create(&self.journal)?.sync_all()?;
        // The rename itself is durable once the folder is.
        File::open(self.snapshot.parent().unwrap_or(Path::new(".")))?.sync_all()
    }

    /// Saves what changed since the last save: when this returns, it outlives a power cut. After a failure the journal
    /// may end in half a line, so the next save must be of the whole state.
    pub fn append(&self, stamp: Stamp, change: StateChange) -> io::Result<Journal> {
        let mut line = serde_json::to_vec(&Entry { stamp, change })?;
        line.push(b'\n');
        let mut file = OpenOptions::new().append(true).open(&self.journal)?;
        file.write_all(&line)?;
        file.sync_data()?;
        Ok(if file.metadata()?.len() > LARGE_JOURNAL { Journal::Large } else { Journal::Open })
    }

    /// The whole lines of the journal. What was being written when the power was cut was never published.
    fn journal_lines(&self) -> Result<Vec<Vec<u8>>, ServerError> {
        let text = read(&self.journal)?.unwrap_or_default();
        let mut lines: Vec<_> = text.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
        lines.pop();
        Ok(lines)
    }
}

/// A file's content; `None`: there is no such file.
fn read(path: &Path) -> Result<Option<Vec<u8>>, ServerError> {
    match fs::read(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ServerError::File { what: "state file", path: path.to_owned(), error }),
    }
}

fn wrong(path: &Path, message: impl ToString) -> ServerError {
    ServerError::State { path: path.to_owned(), message: message.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(sequence: u64) -> Stamp {
        Stamp { sequence, version_ceiling: sequence * 10 }
    }

    /// A snapshot that leaves no version to go on with.
    const UNCOUNTABLE: &str = r#"{"format":1,"stamp":{"sequence":1,"version_ceiling":18446744073709551615},"state":{"nodes":{"routers":0,"leases":0,"vmis":0,"present":{},"gone":[]},"floating_ips":{"given":{"ids":0,"listeners":0,"members":0,"last_picked":[]},"by_address":{}},"attachments":[]}}"#;

    /// What was saved before there were node ports: a snapshot, and a line of its journal.
    const WITHOUT_NODE_PORTS: [&str; 2] = [
        r#"{"format":1,"stamp":{"sequence":1,"version_ceiling":1024},"state":{"nodes":{"routers":0,"leases":0,"vmis":0,"present":{},"gone":[]},"floating_ips":{"given":{"ids":1,"listeners":0,"members":0,"last_picked":[]},"by_address":{"10.96.0.10":{"id":1,"service":"default/a","listeners":{}}}},"attachments":[]}}"#,
        "{\"stamp\":{\"sequence\":2,\"version_ceiling\":1024},\"change\":{\"nodes\":null,\"floating_ips\":{\"given\":{\"ids\":2,\"listeners\":0,\"members\":0,\"last_picked\":[]},\"addresses\":[[\"10.96.0.11\",{\"id\":2,\"service\":\"default/b\",\"listeners\":{}}]]},\"attachments\":[]}}\n",
    ];

    #[test]
    fn what_an_older_controller_saved_is_gone_on_from() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        fs::write(folder.path().join("state.json"), WITHOUT_NODE_PORTS[0]).unwrap();
        fs::write(folder.path().join("state.journal"), WITHOUT_NODE_PORTS[1]).unwrap();
        let (loaded, state) = store.load().unwrap();
        assert_eq!(loaded, Stamp { sequence: 2, version_ceiling: 1024 });
        let state = serde_json::to_value(state).unwrap();
        assert_eq!(state["floating_ips"]["by_address"]["2/10.96.0.11"]["service"], "default/b");
        assert_eq!(state["exposures"]["by_service"], serde_json::json!({}));
    }

    #[test]
    fn two_controllers_cannot_share_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let first = Store::open(folder.path()).unwrap();
        let error = Store::open(folder.path()).unwrap_err().to_string();
        assert!(
            error.starts_with("another controller is running") && error.contains("state.lock"),
            "{error}"
        );
        drop(first);
        Store::open(folder.path()).unwrap();
    }

    #[test]
    fn the_journal_goes_on_from_the_snapshot() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(store.load().unwrap().0, Stamp::default());
        store.save(stamp(1), State::default()).unwrap();
        store.append(stamp(2), StateChange::default()).unwrap();
        assert_eq!(store.load().unwrap().0, stamp(2));
        // Half a line at the end was never published.
        let journal = folder.path().join("state.journal");
        let mut file = OpenOptions::new().append(true).open(&journal).unwrap();
        file.write_all(b"{\"stamp\":{\"sequence\":3").unwrap();
        assert_eq!(store.load().unwrap().0, stamp(2));
        // A journal that is older than the snapshot is not gone back to.
        let old = fs::read(&journal).unwrap();
        store.save(stamp(5), State::default()).unwrap();
        fs::write(&journal, old).unwrap();
        assert_eq!(store.load().unwrap().0, stamp(5));
    }

    #[test]
    fn damaged_files_are_errors_and_stay() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        for (file, damage) in [
            ("state.json", ""),
            ("state.json", "{\"format\":1"),
            ("state.json", "{\"format\":9}"),
            ("state.json", UNCOUNTABLE),
            ("state.journal", "{}\n"),
        ] {
            store.save(stamp(7), State::default()).unwrap();
            let path = folder.path().join(file);
            fs::write(&path, damage).unwrap();
            let error = store.load().unwrap_err().to_string();
            assert!(error.contains(file), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), damage);
        }
        store.save(stamp(7), State::default()).unwrap();
        store.append(stamp(8), StateChange::default()).unwrap();
        fs::remove_file(folder.path().join("state.json")).unwrap();
        assert!(store.load().unwrap_err().to_string().contains("without its snapshot"));
    }
}
