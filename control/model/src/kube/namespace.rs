//! Namespaces: Contrail's projects.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;

/// What the model keeps of a Namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceRecord {
    /// Its UID, empty where the source gives none.
    pub uid: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

impl NamespaceRecord {
    /// Reads a Namespace.
    pub fn read(namespace: &Namespace) -> Self {
        let metadata = &namespace.metadata;
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default(),
        }
    }
}
