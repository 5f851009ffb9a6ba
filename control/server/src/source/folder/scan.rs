//! One look through the folder: which files changed, which objects that adds, changes and removes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use vrouter_control_model::{Kind, KubeObject, ObjectRef, Origin, Problem};

use super::file::Contents;
use crate::source::Event;

/// A file that was changed this recently when it was read may change again without its time telling.
const CLOCK_GRAIN: Duration = Duration::from_secs(1);

/// Objects with where they are defined.
type Objects = BTreeMap<ObjectRef, (Arc<KubeObject>, Origin)>;

/// What the folder held when it was last looked at.
pub struct Scanner {
    root: PathBuf,
    files: BTreeMap<PathBuf, ReadFile>,
    objects: Objects,
    problems: Vec<Problem>,
    /// Whether everything could be read once. Before, what is not seen may be there all the same.
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

    /// Looks, and says what is different. The first time that everything can be read it lists every kind.
    pub fn scan(&mut self) -> Vec<Event> {
        let mut unread = Vec::new();
        let mut problems = Vec::new();
        let paths = self.paths(&mut unread);
        self.files.retain(|path, _| paths.contains(path));
        for path in paths {
            let Err(error) = self.read(&path) else { continue };
            let problem = self.problem(&path, format!("cannot be read: {error}"));
            match error.kind() {
                // There is no object in it, which a second look would not change.
                io::ErrorKind::InvalidData | io::ErrorKind::NotFound => problems.push(problem),
                _ => unread.push(problem),
            }
        }
        let everything_read = unread.is_empty();
        problems.append(&mut unread);
        let objects = self.merge(&mut problems);
        let mut events = Vec::new();
        if self.listed {
            events.extend(self.difference(&objects));
        } else if everything_read {
            events.extend(list(&objects));
        }
        if problems != self.problems {
            let known: BTreeSet<&Problem> = self.problems.iter().collect();
            for problem in problems.iter().filter(|problem| !known.contains(problem)) {
                tracing::warn!("{problem}");
            }
            events.push(Event::Problems(problems.clone()));
        }
        (self.objects, self.problems) = (objects, problems);
        self.listed |= everything_read;
        events
    }

    /// All YAML files. Where a folder cannot be read, what is known of it stays.
    fn paths(&self, unread: &mut Vec<Problem>) -> BTreeSet<PathBuf> {
        let mut paths = BTreeSet::new();
        let mut folders = BTreeSet::from([self.root.clone()]);
        let mut seen = BTreeSet::new();
        while let Some(folder) = folders.pop_first() {
            // Links may lead to where one has been already, and round in circles.
            if fs::metadata(&folder).is_ok_and(|metadata| !seen.insert((metadata.dev(), metadata.ino()))) {
                continue;
            }
            match look_into(&folder) {
                Ok(Inside { folders: inner, files }) => {
                    folders.extend(inner);
                    paths.extend(files);
                }
                Err(error) => {
                    unread.push(self.problem(&folder, format!("cannot be read: {error}")));
                    paths.extend(self.files.keys().filter(|path| path.starts_with(&folder)).cloned());
                }
            }
        }
        paths
    }

    fn read(&mut self, path: &Path) -> io::Result<()> {
        let stamp = stamp(path);
        if stamp.is_some() && self.files.get(path).is_some_and(|known| known.stamp == stamp) {
            return Ok(());
        }
        let text = fs::read_to_string(path)?;
        let text_hash = hash(&text);
        let contents = match self.files.remove(path) {
            Some(known) if known.text_hash == text_hash => known.contents,
            known => Contents::read(&self.label(path), &text, known.as_ref().map(|known| &known.contents)),
        };
        self.files.insert(path.to_owned(), ReadFile { stamp, text_hash, contents });
        Ok(())
    }

    /// All objects of all files. Of two with one name the one in the first file, by name, counts.
    fn merge(&self, problems: &mut Vec<Problem>) -> Objects {
        let mut objects = Objects::new();
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

    fn difference(&self, objects: &Objects) -> Option<Event> {
        let is_known = |reference: &ObjectRef, (object, origin): &(Arc<KubeObject>, Origin)| {
            self.objects.get(reference).is_some_and(|(known, from)| {
                (Arc::ptr_eq(known, object) || known == object) && from == origin
            })
        };
        let put: Vec<_> = objects
            .iter()
            .filter(|(reference, object)| !is_known(reference, object))
            .map(|(_, object)| object.clone())
            .collect();
        let removed: Vec<_> =
            self.objects.keys().filter(|reference| !objects.contains_key(reference)).cloned().collect();
        (!put.is_empty() || !removed.is_empty()).then_some(Event::Changes { put, removed })
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

/// Every kind with all its objects.
fn list(objects: &Objects) -> impl Iterator<Item = Event> {
    let of_kind = |kind| objects.iter().filter(move |(reference, _)| reference.kind == kind);
    Kind::ALL
        .into_iter()
        .map(move |kind| Event::Reset(kind, of_kind(kind).map(|(_, object)| object.clone()).collect()))
}

/// What is in a folder and is looked at.
#[derive(Default)]
struct Inside {
    folders: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

fn look_into(folder: &Path) -> io::Result<Inside> {
    let mut inside = Inside::default();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if is_hidden(&path) {
            continue;
        }
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => inside.folders.push(path),
            _ if is_yaml(&path) => inside.files.push(path),
            // It may be a folder: looking into it will say what is wrong.
            Err(error) if error.kind() != io::ErrorKind::NotFound => inside.folders.push(path),
            _ => {}
        }
    }
    Ok(inside)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str) -> String {
        format!("---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\n")
    }

    fn problems(events: &[Event]) -> Option<usize> {
        events.iter().find_map(|event| match event {
            Event::Problems(problems) => Some(problems.len()),
            _ => None,
        })
    }

    fn is_listed(events: &[Event]) -> bool {
        events.iter().filter(|event| matches!(event, Event::Reset(..))).count() == Kind::ALL.len()
    }

    #[test]
    fn what_cannot_be_read_is_not_taken_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("manifests");
        let mut scanner = Scanner::new(root.clone());
        let events = scanner.scan();
        assert_eq!((events.len(), problems(&events)), (1, Some(1)), "only that it is missing: {events:?}");
        assert!(scanner.scan().is_empty(), "which is said once");
        // A loop of links cannot be read by anybody.
        fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink(root.join("inner"), root.join("inner")).unwrap();
        fs::write(root.join("web.yaml"), service("web")).unwrap();
        let events = scanner.scan();
        assert_eq!((events.len(), problems(&events)), (1, Some(1)), "{events:?}");
        fs::remove_file(root.join("inner")).unwrap();
        let events = scanner.scan();
        assert!(is_listed(&events) && problems(&events) == Some(0), "{events:?}");
        // Once listed, what is known stays.
        fs::rename(&root, folder.path().join("away")).unwrap();
        let events = scanner.scan();
        assert_eq!((events.len(), problems(&events)), (1, Some(2)), "{events:?}");
    }

    #[test]
    fn links_that_lead_in_circles_lead_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("shop")).unwrap();
        fs::write(root.join("shop/web.yaml"), service("web")).unwrap();
        for (link, target) in
            [("again", root.to_owned()), ("shop/up", root.to_owned()), ("shop/here", root.join("shop"))]
        {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        let events = Scanner::new(root.to_owned()).scan();
        assert!(is_listed(&events) && problems(&events).is_none(), "{events:?}");
    }

    #[test]
    fn a_file_without_objects_does_not_hold_up_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("binary.yaml"), [0xff, 0xfe]).unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join("gone.yaml")).unwrap();
        let events = Scanner::new(folder.path().to_owned()).scan();
        assert!(is_listed(&events) && problems(&events) == Some(2), "{events:?}");
    }

    #[test]
    fn what_comes_and_goes_at_one_time_is_one_event() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.yaml");
        fs::write(&path, service("old")).unwrap();
        let mut scanner = Scanner::new(folder.path().to_owned());
        assert!(is_listed(&scanner.scan()));
        fs::write(&path, service("new")).unwrap();
        match scanner.scan().as_slice() {
            [Event::Changes { put, removed }] => {
                assert_eq!(put[0].0.reference().name, "new");
                assert_eq!(removed[0].name, "old");
            }
            other => panic!("{other:?}"),
        }
        assert!(scanner.scan().is_empty());
    }
}
