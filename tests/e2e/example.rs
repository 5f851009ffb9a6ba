//! The manifests that come with the project, and what they say of themselves.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;
use vrouter_tests::attempt::{Attempt, attempts};
use vrouter_tests::lab::Lab;

/// A file of the examples.
pub struct Example {
    pub path: PathBuf,
    pub text: String,
}

impl Example {
    /// Reads one, by its path in the folder of the examples.
    pub fn read(file: &str) -> Result<Self> {
        let path = folder().join(file);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(Self { path, text })
    }

    /// Who reaches whom, as its comments say.
    pub fn attempts(&self) -> Result<Vec<Attempt>> {
        attempts(&self.text).with_context(|| self.path.display().to_string())
    }

    /// Its objects.
    pub fn objects(&self) -> Result<Vec<Value>> {
        let objects = serde_yaml_ng::Deserializer::from_str(&self.text).map(Value::deserialize);
        objects.collect::<Result<_, _>>().with_context(|| self.path.display().to_string())
    }

    /// Its objects of other kinds than these, as a text of their own.
    pub fn without(&self, kinds: &[&str]) -> String {
        let is_other = |document: &&str| {
            !document
                .lines()
                .any(|line| line.strip_prefix("kind: ").is_some_and(|kind| kinds.contains(&kind)))
        };
        self.text.split("---\n").filter(is_other).collect::<Vec<_>>().join("---\n")
    }

    /// Does something with it applied for the time being.
    pub fn while_applied(&self, lab: &Lab, act: impl FnOnce() -> Result<()>) -> Result<()> {
        let outcome = self.apply(lab).and_then(|()| act());
        lab.delete_file(&self.path)?;
        outcome
    }

    /// Applies it.
    pub fn apply(&self, lab: &Lab) -> Result<()> {
        lab.try_apply(&self.path)?.success().map(drop)
    }
}

/// The names of the files in a folder of the examples, without their ending, in their order.
pub fn names(of: &str) -> Result<Vec<String>> {
    let folder = folder().join(of);
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let stem = |path: &PathBuf| Some(path.file_stem()?.to_str()?.to_owned());
    let mut names: Vec<_> = paths
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
        .filter_map(stem)
        .collect();
    names.sort_unstable();
    Ok(names)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
}
