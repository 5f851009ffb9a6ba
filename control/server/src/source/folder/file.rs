//! One file: its documents, with what is wrong in them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_yaml_ng::Value;
use vrouter_control_model::{Finding, KubeObject, ObjectRef, Origin, Problem};

use super::document::{self, Identity, Item};

/// An object, and where it is written.
pub type Placed = (ObjectRef, Arc<KubeObject>, Origin);

/// What a file says.
#[derive(Debug, Default)]
pub struct Contents {
    /// Its objects, in order.
    pub objects: Vec<Placed>,
    /// What could not be used.
    pub problems: Vec<Problem>,
}

/// A file while it is read.
#[derive(Default)]
struct Reading {
    contents: Contents,
    /// Whether there may be objects in it that nobody can tell.
    is_damaged: bool,
    /// Objects that cannot be used, each with the place of its problem.
    refused: BTreeMap<ObjectRef, usize>,
}

impl Contents {
    /// Reads a file. What was good before, and cannot be read now, stays as it was: a file may be half-written.
    pub fn read(label: &str, text: &str, before: Option<&Self>) -> Self {
        let mut reading = Reading::default();
        let documents = documents(text);
        let several = documents.len() > 1;
        for (i, document) in documents.iter().enumerate() {
            let origin = if several { format!("{label} (document {})", i + 1) } else { label.to_owned() };
            match parse(document) {
                Ok(Value::Null) => {}
                Ok(value) => document::items(value).into_iter().for_each(|item| reading.take(item, &origin)),
                Err(error) => reading.damaged(&origin, format!("is not YAML: {error}")),
            }
        }
        let before = before.map(|before| before.objects.as_slice()).unwrap_or_default();
        if text.trim().is_empty() && !before.is_empty() {
            reading.damaged(label, "is empty; its objects stay until it is removed".to_owned());
        }
        reading.complete(before)
    }
}

impl Reading {
    fn take(&mut self, item: Item, origin: &str) {
        match item {
            Item::Object(object) => {
                for Finding { field, message } in object.unserved() {
                    tracing::info!("{origin}: {}: {field}: {message}", object.reference());
                }
                self.contents.objects.push((object.reference(), Arc::new(object), Arc::from(origin)));
            }
            Item::Noted { name, note } => tracing::info!("{origin}: {name}: {note}"),
            Item::Ignored { name } => tracing::debug!("{origin}: {name}: nothing is done with it"),
            Item::Unusable { identity, name, field, message } => {
                match identity {
                    Identity::Known(reference) => {
                        self.refused.insert(reference, self.contents.problems.len());
                    }
                    Identity::Hidden => self.is_damaged = true,
                    Identity::Foreign => {}
                }
                let problem = Problem { source: origin.to_owned(), object: name, field, message };
                self.contents.problems.push(problem);
            }
        }
    }

    fn damaged(&mut self, origin: &str, message: String) {
        self.is_damaged = true;
        let (object, field) = (String::new(), String::new());
        self.contents.problems.push(Problem { source: origin.to_owned(), object, field, message });
    }

    /// Puts what was there before, or what stands in for it, where something cannot be read now.
    fn complete(self, before: &[Placed]) -> Contents {
        let Self { mut contents, is_damaged, refused } = self;
        let mut read: BTreeSet<ObjectRef> =
            contents.objects.iter().map(|(reference, ..)| reference.clone()).collect();
        for (reference, problem) in refused {
            let Problem { source, message, .. } = &mut contents.problems[problem];
            let known = before.iter().find(|(known, ..)| *known == reference);
            let stand_in = document::stand_in(&reference);
            let is_real = |(_, object, _): &&Placed| Some(&**object) != stand_in.as_ref();
            let (placed, consequence) = match (known.filter(is_real), &stand_in) {
                _ if read.contains(&reference) => continue,
                (Some(known), _) => (known.clone(), "it stays as it was"),
                (None, Some(stand_in)) => (
                    (reference.clone(), Arc::new(stand_in.clone()), Arc::from(source.as_str())),
                    "until it can be read, all pods of its namespace are isolated",
                ),
                (None, None) => continue,
            };
            message.push_str("; ");
            message.push_str(consequence);
            read.insert(reference);
            contents.objects.push(placed);
        }
        if is_damaged {
            let kept = before.iter().filter(|(reference, ..)| !read.contains(reference));
            contents.objects.extend(kept.cloned());
        }
        contents
    }
}

/// The documents of a file, each led by as many empty lines as stand before it, so that messages name the right line.
/// They are separated here and not by the parser, as it gives up at the first error.
fn documents(text: &str) -> Vec<String> {
    let mut documents: Vec<String> = Vec::new();
    let mut current = String::new();
    for (line, content) in text.lines().enumerate() {
        let marker = content.strip_prefix("---").or_else(|| content.strip_prefix("..."));
        match marker.filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t'])) {
            Some(rest) => {
                documents.push(std::mem::replace(&mut current, "\n".repeat(line)));
                current.push_str(rest);
            }
            None => current.push_str(content),
        }
        current.push('\n');
    }
    documents.push(current);
    documents.retain(|document| document.lines().any(is_content));
    documents
}

/// Whether a line says anything: directives and comments do not.
fn is_content(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#') && !line.starts_with("%YAML")
}

fn parse(document: &str) -> Result<Value, serde_yaml_ng::Error> {
    let mut value = Value::deserialize(serde_yaml_ng::Deserializer::from_str(document))?;
    value.apply_merge()?;
    Ok(value)
}

#[cfg(test)]
mod tests;
