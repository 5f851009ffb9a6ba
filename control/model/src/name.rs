//! Names of namespaced objects.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use vrouter_objects::PodName;

/// A namespaced object's `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct NamespacedName {
    /// The namespace.
    pub namespace: String,
    /// The name in it.
    pub name: String,
}

impl NamespacedName {
    /// The name `namespace/name`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for NamespacedName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((namespace, name)) => Ok(Self::new(namespace, name)),
            None => Err(format!("\"{text}\" is not namespace/name")),
        }
    }
}

impl From<NamespacedName> for String {
    fn from(name: NamespacedName) -> Self {
        name.to_string()
    }
}

impl TryFrom<String> for NamespacedName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<&NamespacedName> for PodName {
    fn from(name: &NamespacedName) -> Self {
        Self { namespace: name.namespace.clone(), name: name.name.clone() }
    }
}

impl From<PodName> for NamespacedName {
    fn from(pod: PodName) -> Self {
        Self { namespace: pod.namespace, name: pod.name }
    }
}
