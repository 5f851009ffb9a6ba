//! Reading the user's YAML: files and folders into single objects, with a complaint for everything unusable.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::object::{ObjectKey, is_name};
use crate::report::Complaint;

/// One object of a file.
#[derive(Debug, Clone)]
pub struct Document {
    /// The file, as the user named it.
    pub source: String,
    /// What it is called.
    pub key: ObjectKey,
    /// The object as a whole.
    pub body: Value,
}

impl Document {
    /// A complaint about a field of this object.
    pub fn complaint(&self, field: &str, message: impl Into<String>) -> Complaint {
        Complaint::new(&self.source, &self.key, field, message)
    }

    /// Reads the part of the object at this path as a type. A complaint names the field within it.
    pub fn part<T: DeserializeOwned>(&self, path: &str) -> Result<T, Complaint> {
        let pointer = format!("/{}", path.replace('.', "/"));
        let value = self.body.pointer(&pointer).unwrap_or(&Value::Null);
        serde_path_to_error::deserialize(value).map_err(|error| {
            let inner = error.path().to_string();
            let field = if inner == "." { path.to_owned() } else { format!("{path}.{inner}") };
            self.complaint(&field, error.into_inner().to_string())
        })
    }
}

/// Every object of a file, or of the `*.yaml` and `*.yml` files of a folder in the order of their names.
pub fn read(path: &Path) -> Result<Vec<Result<Document, Complaint>>> {
    let mut documents = Vec::new();
    for file in files(path)? {
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        documents.extend(parse(&file.display().to_string(), &text));
    }
    Ok(documents)
}

fn files(path: &Path) -> Result<Vec<PathBuf>> {
    let about = fs::metadata(path).with_context(|| path.display().to_string())?;
    if !about.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let is_yaml = |file: &PathBuf| file.extension().is_some_and(|end| end == "yaml" || end == "yml");
    let mut files: Vec<_> = fs::read_dir(path)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .filter(is_yaml)
        .collect();
    files.sort();
    if files.is_empty() {
        bail!("{}: no *.yaml and no *.yml in this folder", path.display());
    }
    Ok(files)
}

/// The objects of one file. Documents are parsed one by one, so that a broken one does not take the others along.
pub fn parse(source: &str, text: &str) -> Vec<Result<Document, Complaint>> {
    documents(text)
        .into_iter()
        .flat_map(|(line, text)| match serde_yaml_ng::from_str::<Value>(text) {
            Ok(Value::Null) => Vec::new(),
            Ok(body) => objects(source, line, body),
            Err(error) => {
                vec![Err(nameless(source, line, "", "", &format!("malformed YAML: {error}")))]
            }
        })
        .collect()
}

/// The documents of a YAML stream, each with the line it starts at.
fn documents(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let (mut first_line, mut start, mut at) = (1, 0, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if line.trim_end() == "---" || line.starts_with("--- ") {
            found.push((first_line, &text[start..at]));
            (first_line, start) = (number + 2, at + line.len());
        }
        at += line.len();
    }
    found.push((first_line, &text[start..]));
    found
}

/// One object, or those of a list.
fn objects(source: &str, line: usize, body: Value) -> Vec<Result<Document, Complaint>> {
    match body {
        Value::Object(mut fields) if fields.get("kind").is_some_and(|kind| kind == "List") => {
            match fields.remove("items") {
                Some(Value::Array(items)) => {
                    items.into_iter().map(|item| object(source, line, item)).collect()
                }
                _ => vec![Err(nameless(source, line, "List", "items", "required: a list of objects"))],
            }
        }
        body => vec![object(source, line, body)],
    }
}

fn object(source: &str, line: usize, body: Value) -> Result<Document, Complaint> {
    let text = |path: &str| body.pointer(path).and_then(Value::as_str);
    if !body.is_object() {
        return Err(nameless(source, line, "", "", "not an object"));
    }
    let Some(kind) = text("/kind").filter(|kind| kind.chars().all(char::is_alphanumeric) && !kind.is_empty())
    else {
        return Err(nameless(source, line, "", "kind", "required: the object's kind"));
    };
    if text("/apiVersion").is_none() {
        return Err(nameless(source, line, kind, "apiVersion", "required, such as v1"));
    }
    let Some(name) = text("/metadata/name").filter(|name| is_name(name)) else {
        let message = "required: lower-case letters, digits, hyphens and dots";
        return Err(nameless(source, line, kind, "metadata.name", message));
    };
    let namespace = text("/metadata/namespace");
    if namespace.is_some_and(|namespace| !is_name(namespace)) {
        let message = "wanted lower-case letters, digits and hyphens";
        return Err(nameless(source, line, kind, "metadata.namespace", message));
    }
    let key = ObjectKey::new(kind, namespace, name);
    Ok(Document { source: source.to_owned(), key, body })
}

fn nameless(source: &str, line: usize, kind: &str, field: &str, message: &str) -> Complaint {
    let object = match kind {
        "" => format!("document from line {line}"),
        kind => format!("{kind} from line {line}"),
    };
    Complaint::new(source, &object, field, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<String> {
        parse("f.yaml", text)
            .into_iter()
            .map(|document| match document {
                Ok(document) => document.key.to_string(),
                Err(complaint) => format!("! {complaint}"),
            })
            .collect()
    }

    #[test]
    fn every_document_stands_alone() {
        let text = "# a comment\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\nkind: [\n---\n\
                    apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n";
        let found = keys(text);
        assert_eq!((found[0].as_str(), found[2].as_str()), ("Pod default/a", "Node n1"));
        assert!(found[1].starts_with("! f.yaml: document from line 7: malformed YAML: "), "{}", found[1]);
    }

    #[test]
    fn lists_are_taken_apart() {
        let text = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Service, metadata: {name: s, namespace: x}}\n";
        assert_eq!(keys(text), ["Service x/s"]);
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(keys("a: 1"), ["! f.yaml: document from line 1: kind: required: the object's kind"]);
        assert_eq!(keys("kind: Pod"), ["! f.yaml: Pod from line 1: apiVersion: required, such as v1"]);
        assert!(keys("apiVersion: v1\nkind: Pod\nmetadata: {name: ../x}")[0].contains("metadata.name"));
        assert_eq!(keys("- 1"), ["! f.yaml: document from line 1: not an object"]);
    }
}
