//! What Kubernetes objects are called.

use std::fmt;
use std::str::FromStr;

use anyhow::{Error, bail};
use serde::{Deserialize, Serialize};

/// An object's `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Name {
    /// The namespace.
    pub namespace: String,
    /// The name in it.
    pub name: String,
}

impl Name {
    /// The name of something in this namespace.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for Name {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.split_once('/') {
            Some((namespace, name)) if is_name(namespace) && is_name(name) => Ok(Self::new(namespace, name)),
            _ => bail!("{text:?} is not NAMESPACE/NAME"),
        }
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.to_string()
    }
}

impl TryFrom<String> for Name {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

/// What names an object among all objects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectKey {
    /// The kind, as manifests write it.
    pub kind: String,
    /// `None` for kinds that stand outside namespaces.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl ObjectKey {
    /// The key of an object of this kind; the namespace is left out where the kind has none, and `default` where it is
    /// not given.
    pub fn new(kind: &str, namespace: Option<&str>, name: &str) -> Self {
        let namespace = (!CLUSTER_KINDS.contains(&kind)).then(|| namespace.unwrap_or("default").to_owned());
        Self { kind: kind.to_owned(), namespace, name: name.to_owned() }
    }

    /// From a command line: the kind as `kubectl` takes it (`svc`, `services`, `Service`), and NAMESPACE/NAME, or NAME.
    pub fn from_words(kind: &str, name: &str) -> Result<Self, Error> {
        let kind = full_kind(kind)?;
        if CLUSTER_KINDS.contains(&kind) && is_name(name) {
            return Ok(Self::new(kind, None, name));
        }
        let Name { namespace, name } = name.parse()?;
        Ok(Self::new(kind, Some(&namespace), &name))
    }

    /// The namespace and name of a namespaced object.
    pub fn name(&self) -> Option<Name> {
        self.namespace.as_deref().map(|namespace| Name::new(namespace, &self.name))
    }

    /// The name of the file it is kept in.
    pub fn file_name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{}_{namespace}_{}.yaml", self.kind, self.name),
            None => format!("{}_{}.yaml", self.kind, self.name),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// Whether this can name an object, and so also a file.
pub fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.' | ':');
    !text.is_empty() && text.len() <= 253 && text.chars().all(allowed) && !text.starts_with('.')
}

/// Kinds whose objects stand outside namespaces.
const CLUSTER_KINDS: [&str; 9] = [
    "Namespace",
    "Node",
    "ClusterNetworkPolicy",
    "IngressClass",
    "ClusterRole",
    "ClusterRoleBinding",
    "PersistentVolume",
    "PriorityClass",
    "CustomResourceDefinition",
];

/// Kinds with the other names `kubectl` knows them by.
const KINDS: [(&str, &[&str]); 17] = [
    ("Namespace", &["ns", "namespaces"]),
    ("Node", &["no", "nodes"]),
    ("Pod", &["po", "pods"]),
    ("Service", &["svc", "services"]),
    ("Endpoints", &["ep"]),
    ("EndpointSlice", &["endpointslices"]),
    ("Deployment", &["deploy", "deployments"]),
    ("ReplicaSet", &["rs", "replicasets"]),
    ("ReplicationController", &["rc", "replicationcontrollers"]),
    ("StatefulSet", &["sts", "statefulsets"]),
    ("DaemonSet", &["ds", "daemonsets"]),
    ("NetworkPolicy", &["netpol", "networkpolicies"]),
    ("ClusterNetworkPolicy", &["cnp", "clusternetworkpolicies"]),
    ("VirtualNetwork", &["vn", "virtualnetworks"]),
    ("Subnet", &["sn", "subnets"]),
    ("VirtualNetworkRouter", &["vnr", "virtualnetworkrouters"]),
    ("Ingress", &["ing", "ingresses"]),
];

fn full_kind(word: &str) -> Result<&str, Error> {
    let lower = word.to_ascii_lowercase();
    let known = KINDS
        .iter()
        .find(|(kind, others)| kind.eq_ignore_ascii_case(word) || others.contains(&lower.as_str()));
    match known {
        Some((kind, _)) => Ok(kind),
        // Custom kinds are taken as they are written.
        None if word.starts_with(|c: char| c.is_ascii_uppercase()) => Ok(word),
        None => bail!("{word:?} is no kind of object"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_all_their_names() {
        let service = ObjectKey::new("Service", Some("web"), "nginx");
        for word in ["Service", "service", "svc", "services", "SVC"] {
            assert_eq!(ObjectKey::from_words(word, "web/nginx").unwrap(), service, "{word}");
        }
        assert_eq!(ObjectKey::from_words("node", "n1").unwrap().file_name(), "Node_n1.yaml");
        let policy = ObjectKey::from_words("cnp", "first").unwrap();
        assert_eq!(policy.file_name(), "ClusterNetworkPolicy_first.yaml");
        assert_eq!(ObjectKey::from_words("vn", "red/red").unwrap().to_string(), "VirtualNetwork red/red");
        assert!(ObjectKey::from_words("svc", "nginx").is_err());
        assert!(ObjectKey::from_words("gadget", "a/b").is_err());
    }

    #[test]
    fn a_name_never_leaves_its_folder() {
        for text in ["..", "../x", "a/b", "", "A", "a b", ".hidden"] {
            assert!(!is_name(text), "{text:?}");
        }
        assert_eq!("web/nginx-1.0".parse::<Name>().unwrap(), Name::new("web", "nginx-1.0"));
    }
}
