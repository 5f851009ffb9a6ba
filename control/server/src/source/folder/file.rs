//! One file: its documents, with what is wrong in them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use serde_yaml_ng::Value;
use vrouter_control_model::{Finding, KubeObject, ObjectRef, Origin, Problem};

use super::document::{self, Item};

/// What a file says.
#[derive(Debug, Default)]
pub struct Contents {
    /// Its objects, in order.
    pub objects: Vec<(ObjectRef, Arc<KubeObject>, Origin)>,
    /// What could not be used.
    pub problems: Vec<Problem>,
}

impl Contents {
    /// Reads a file. What was good before, and cannot be read now, stays as it was: a file may be half-written.
    pub fn read(label: &str, text: &str, before: Option<&Self>) -> Self {
        let mut contents = Self::default();
        let mut damaged = false;
        let mut refused: BTreeSet<ObjectRef> = BTreeSet::new();
        let documents = documents(text);
        let several = documents.len() > 1;
        for (i, document) in documents.iter().enumerate() {
            let origin = if several { format!("{label} (document {})", i + 1) } else { label.to_owned() };
            match parse(document) {
                Ok(Value::Null) => {}
                Ok(value) => {
                    for item in document::items(value) {
                        contents.take(item, &origin, &mut refused);
                    }
                }
                Err(error) => {
                    damaged = true;
                    contents.problem(&origin, format!("is not YAML: {error}"));
                }
            }
        }
        let before = before.map(|before| before.objects.as_slice()).unwrap_or_default();
        if text.trim().is_empty() && !before.is_empty() {
            damaged = true;
            contents.problem(label, "is empty; its objects stay until it is removed".to_owned());
        }
        let read: BTreeSet<&ObjectRef> = contents.objects.iter().map(|(reference, ..)| reference).collect();
        let kept = before
            .iter()
            .filter(|(reference, ..)| !read.contains(reference) && (damaged || refused.contains(reference)));
        let kept: Vec<_> = kept.cloned().collect();
        contents.objects.extend(kept);
        contents
    }

    fn take(&mut self, item: Item, origin: &str, refused: &mut BTreeSet<ObjectRef>) {
        match item {
            Item::Object(object) => {
                for Finding { field, message } in object.unserved() {
                    tracing::info!("{origin}: {}: {field}: {message}", object.reference());
                }
                self.objects.push((object.reference(), Arc::new(object), Arc::from(origin)));
            }
            Item::Noted { name, note } => tracing::info!("{origin}: {name}: {note}"),
            Item::Ignored { name } => tracing::debug!("{origin}: {name}: nothing is done with it"),
            Item::Unusable { reference, name, field, message } => {
                refused.extend(reference);
                self.problems.push(Problem { source: origin.to_owned(), object: name, field, message });
            }
        }
    }

    fn problem(&mut self, origin: &str, message: String) {
        let (object, field) = (String::new(), String::new());
        self.problems.push(Problem { source: origin.to_owned(), object, field, message });
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
