//! What is wrong with the input, said so that its author can mend it.

use std::collections::BTreeMap;
use std::fmt::Display;

/// Something in the sources that could not be used. Everything else is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Problem {
    /// The file, or the API object's address.
    pub source: String,
    /// Kind and name, such as `Service default/web`.
    pub object: String,
    /// Path of the field, such as `spec.ports[0].port`. Empty: the object as a whole.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for part in [&self.source, &self.object, &self.field] {
            if !part.is_empty() {
                write!(f, "{part}: ")?;
            }
        }
        f.write_str(&self.message)
    }
}

/// A problem inside one object, before it is known where the object came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Path of the field.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

/// Collects the findings of one object while it is read.
#[derive(Debug, Default)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// Notes that this field is wrong.
    pub fn add(&mut self, field: impl Into<String>, message: impl Display) {
        self.0.push(Finding { field: field.into(), message: message.to_string() });
    }

    /// Notes that this field is wrong, unless that was noted already.
    pub fn add_once(&mut self, field: impl Into<String>, message: impl Display) {
        let finding = Finding { field: field.into(), message: message.to_string() };
        if !self.0.contains(&finding) {
            self.0.push(finding);
        }
    }

    /// The value, or a note of why there is none.
    pub fn check<T, E: Display>(&mut self, field: impl Into<String>, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.add(field, error)).ok()
    }

    /// What was found.
    pub fn into_vec(self) -> Vec<Finding> {
        self.0
    }
}

/// Findings by what they are about. Replacing a subject's findings is all there is to keeping them current.
#[derive(Debug)]
pub struct FindingsBook<K> {
    findings: BTreeMap<K, Vec<Finding>>,
}

impl<K> Default for FindingsBook<K> {
    fn default() -> Self {
        Self { findings: BTreeMap::new() }
    }
}

impl<K: Ord> FindingsBook<K> {
    /// From now on these, and only these, are the subject's findings.
    pub fn replace(&mut self, subject: K, findings: Findings) {
        if findings.0.is_empty() {
            self.findings.remove(&subject);
        } else {
            self.findings.insert(subject, findings.0);
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &Finding)> {
        self.findings.iter().flat_map(|(subject, list)| list.iter().map(move |finding| (subject, finding)))
    }
}
