//! One look through the folder: which files changed, which objects that adds, changes and removes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use vrouter_control_model::{Kind, KubeObject, ObjectRef, Problem};

use super::file::Contents;
use crate::source::{Event, Origin};

/// A file that was changed this recently when it was read may change again without its time telling.
const CLOCK_GRAIN: Duration = Duration::from_secs(1);

/// What the folder held when it was last looked at.
pub struct Scanner {
    root: PathBuf,
    files: BTreeMap<PathBuf, ReadFile>,
    objects: BTreeMap<ObjectRef, (Arc<KubeObject>, Origin)>,
    problems: Vec<Problem>,
    listed: bool,
}

/// A file that was read.
struct ReadFile {
    stamp: Stamp,
    text_hash: u64,
    contents: Contents,
}

/// By what a file's change is noticed; `None`: it must be read again in any case.
type Stamp = Option<(u64, u64, SystemTime)>;

impl Scanner {
    /// A scanner that has seen nothing yet.
    pub fn new(root: PathBuf) -> Self {
        Self { root, files: BTreeMap::new(), objects: BTreeMap::new(), problems: Vec::new(), listed: false }
    }

    /// Looks, and says what is different. The first time it lists every kind.
    pub fn scan(&mut self) -> Vec<Event> {
        let mut problems = Vec::new();
        let paths = self.paths(&mut problems);
        self.files.retain(|path, _| paths.contains(path));
        for path in paths {
            self.read(path, &mut problems);
        }
        let objects = self.merge(&mut problems);
        let mut events = self.difference(&objects);
        if problems != self.problems {
            for problem in problems.iter().filter(|problem| !self.problems.contains(problem)) {
                tracing::warn!("{problem}");
            }
            events.push(Event::Problems(problems.clone()));
        }
        (self.objects, self.problems, self.listed) = (objects, problems, true);
        events
    }

    /// All YAML files. Where a folder cannot be read, what is known of it stays.
    fn paths(&self, problems: &mut Vec<Problem>) -> BTreeSet<PathBuf> {
        let mut paths = BTreeSet::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(&folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
            match entries {
                Ok(entries) => {
                    for path in entries.into_iter().map(|entry| entry.path()).filter(|path| !is_hidden(path))
                    {
                        if path.is_dir() {
                            folders.push(path);
                        } else if is_yaml(&path) {
                            paths.insert(path);
                        }
                    }
                }
                Err(error) => {
                    problems.push(self.problem(&folder, format!("cannot be read: {error}")));
                    paths.extend(self.files.keys().filter(|path| path.starts_with(&folder)).cloned());
                }
            }
        }
        paths
    }

    fn read(&mut self, path: PathBuf, problems: &mut Vec<Problem>) {
        let stamp = stamp(&path);
        if stamp.is_some() && self.files.get(&path).is_some_and(|known| known.stamp == stamp) {
            return;
        }
        let label = self.label(&path);
        match fs::read_to_string(&path) {
            Ok(text) => {
                let text_hash = hash(&text);
                let contents = match self.files.remove(&path) {
                    Some(known) if known.text_hash == text_hash => known.contents,
                    known => Contents::read(&label, &text, known.as_ref().map(|known| &known.contents)),
                };
                self.files.insert(path, ReadFile { stamp, text_hash, contents });
            }
            Err(error) => problems.push(self.problem(&path, format!("cannot be read: {error}"))),
        }
    }

    /// All objects of all files. Of two with one name the one in the first file, by name, counts.
    fn merge(&self, problems: &mut Vec<Problem>) -> BTreeMap<ObjectRef, (Arc<KubeObject>, Origin)> {
        let mut objects: BTreeMap<ObjectRef, (Arc<KubeObject>, Origin)> = BTreeMap::new();
        for file in self.files.values() {
            problems.extend(file.contents.problems.iter().cloned());
            for (reference, object, origin) in &file.contents.objects {
                if let Some((_, first)) = objects.get(reference) {
                    problems.push(Problem {
                        source: origin.to_string(),
                        object: reference.to_string(),
                        field: "metadata.name".to_owned(),
                        message: format!("is defined in {first} already, which counts"),
                    });
                } else {
                    objects.insert(reference.clone(), (object.clone(), origin.clone()));
                }
            }
        }
        objects
    }

    fn difference(&self, objects: &BTreeMap<ObjectRef, (Arc<KubeObject>, Origin)>) -> Vec<Event> {
        if !self.listed {
            let of_kind = |kind| objects.iter().filter(move |(reference, _)| reference.kind == kind);
            return Kind::ALL
                .into_iter()
                .map(|kind| Event::Reset(kind, of_kind(kind).map(|(_, object)| object.clone()).collect()))
                .collect();
        }
        let gone = self.objects.keys().filter(|reference| !objects.contains_key(reference));
        let new = objects.iter().filter(|(reference, (object, origin))| {
            let known = self.objects.get(reference);
            !known.is_some_and(|(known, from)| {
                (Arc::ptr_eq(known, object) || known == object) && from == origin
            })
        });
        gone.map(|reference| Event::Delete(reference.clone()))
            .chain(new.map(|(_, (object, origin))| Event::Apply(object.clone(), origin.clone())))
            .collect()
    }

    fn problem(&self, path: &Path, message: String) -> Problem {
        Problem { source: self.label(path), object: String::new(), field: String::new(), message }
    }

    /// How a file is called in messages: by its path inside the folder.
    fn label(&self, path: &Path) -> String {
        match path.strip_prefix(&self.root) {
            Ok(inside) if inside != Path::new("") => inside.display().to_string(),
            _ => path.display().to_string(),
        }
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    let modified = metadata.modified().ok()?;
    let settled = modified.elapsed().is_ok_and(|age| age > CLOCK_GRAIN);
    settled.then_some((metadata.ino(), metadata.len(), modified))
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}
